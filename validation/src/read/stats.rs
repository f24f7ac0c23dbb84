//! `stats.txt`: one line of `name=value` words.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::line_error;
use crate::error::ReadError;
use crate::run::Totals;

/// The counters of a run and its end.
pub(super) struct Stats {
    /// End of the run.
    pub(super) end_ns: Option<u64>,
    pub(super) totals: Totals,
}

/// Counters that are not there are absent. Other words, such as what `time` prints, may stand
/// around them.
pub(super) fn parse(path: &Path, text: &str) -> Result<Stats, ReadError> {
    let mut values = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        for (column, word) in line.split_whitespace().enumerate() {
            if let Some((name, value)) = word.split_once('=') {
                values.insert(name, (index as u64 + 1, column + 1, value));
            }
        }
    }
    let count = |name: &str| -> Result<Option<u64>, ReadError> {
        let Some((line, column, value)) = values.get(name) else { return Ok(None) };
        let message =
            || format!("column {column}: {name} is `{value}`: a whole number was expected");
        value.parse().map(Some).map_err(|_| line_error(path, *line, message()))
    };
    let total = |name: &str| Ok::<_, ReadError>(count(name)?.map(|value| value as f64));
    Ok(Stats {
        end_ns: count("end_ns")?,
        totals: Totals {
            packet_hops: total("tx_pkts")?,
            ce_marks: total("ce_marks")?,
            cnps: total("cnp_rx")?,
            pfc_frames: total("pfc_sent")?,
            drops: total("drops")?,
            naks: total("nack_rx")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let text =
            "STATS end_ns=2000677094 tx_pkts=32384 ce_marks=7 drops=0 wall=1 User time: 0.1\n";
        let found = parse(Path::new("s"), text).unwrap();
        assert_eq!(found.end_ns, Some(2_000_677_094));
        let expected = Totals {
            packet_hops: Some(32384.0),
            ce_marks: Some(7.0),
            drops: Some(0.0),
            ..Totals::default()
        };
        assert_eq!(found.totals, expected);
        let error = |text| parse(Path::new("s"), text).err().unwrap().to_string();
        assert_eq!(
            error("STATS drops=x\n"),
            "s, line 1: column 2: drops is `x`: a whole number was expected"
        );
    }
}
