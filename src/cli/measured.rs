//! `rocesim measured`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use scenarios::resolve::Complaint;
use sim_core::{Bytes, Delta};
use validation::pcap::CaptureTable;
use validation::{
    CaptureStats, Diagnosis, Measured, Measurement, Perftest, Reading, Setting, Table, diagnose,
    read_any, read_measured,
};

use super::{CommandResult, UNFINISHED, print};

/// QPs and addresses that are shown of a capture.
const TOP: usize = 3;

#[derive(Args)]
pub(super) struct MeasuredArgs {
    /// Measurements; the content tells which kind each is.
    ///
    /// Curves: logs of nccl-tests and rccl-tests of any version, text or -J; output of perftest
    /// (ib_write_bw, ib_write_lat and the like), text or --out_json; a measurement.json, run
    /// directory or report.json of rocesim. Captures: pcap, pcapng. Counters: SONiC's `show pfc
    /// counters`, `show priority-group watermark headroom` or `shared`, `show priority-group drop
    /// counters`, `show queue counters` or `watermark`, `show pfcwd stats`; `ethtool -S`; `rdma
    /// statistic` (also -j); `grep . .../hw_counters/*`. Files of several switches and hosts may be
    /// given
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Counters as they were earlier; what was counted since is judged. May be repeated; ports are
    /// matched by name, files that name none by their order
    #[arg(long, value_name = "FILE")]
    before: Vec<PathBuf>,
    /// Time in which all this was counted, such as 60s, for rates
    #[arg(long, value_name = "TIME")]
    over: Option<Delta>,
    /// The lossless priorities
    #[arg(long, value_name = "PRIORITIES", value_delimiter = ',', default_values_t = [3, 4],
          value_parser = clap::value_parser!(u8).range(0..8))]
    lossless: Vec<u8>,
    /// Headroom of a lossless priority group, such as 49KB, for its watermark
    #[arg(long, value_name = "SIZE")]
    headroom: Option<Bytes>,
    /// Print JSON, and nothing else: of counters alone the findings
    #[arg(long)]
    json: bool,
}

/// What was read, by kind.
#[derive(Default)]
struct Found {
    tables: Vec<Table>,
    measurements: Vec<Measurement>,
    perftest: Vec<Perftest>,
    captures: Vec<CaptureStats>,
    counters: Option<Measured>,
}

impl MeasuredArgs {
    pub(super) fn run(&self) -> CommandResult {
        if self.over == Some(Delta::ZERO) {
            return Err(Complaint("error: --over 0s: a time above 0 is expected".to_owned()));
        }
        let mut found = self.read()?;
        let setting =
            Setting { lossless: self.lossless.clone(), over: self.over, headroom: self.headroom };
        if !self.before.is_empty() {
            let before = read_measured(&self.before).map_err(fail)?;
            let after = found.counters.take().ok_or_else(|| {
                Complaint("error: --before is for counters, and no FILE has any".to_owned())
            })?;
            let (difference, notes) = after.since(&before);
            notes.iter().for_each(|note| eprintln!("note: {note}"));
            found.counters = Some(difference);
        }
        let diagnosis = found.counters.as_ref().map(|counters| diagnose(counters, &setting));
        match self.json {
            true => print(&(found.json(diagnosis.as_ref()) + "\n")),
            false => found.show(diagnosis.as_ref()),
        }
        let bad = diagnosis.is_some_and(|diagnosis| diagnosis.has_errors());
        Ok(if bad { ExitCode::from(UNFINISHED) } else { ExitCode::SUCCESS })
    }

    fn read(&self) -> Result<Found, Complaint> {
        let mut found = Found::default();
        for file in &self.files {
            match read_any(file).map_err(fail)? {
                Reading::Tables(tables) => found.tables.extend(tables),
                Reading::Measurement(file, measurement) => {
                    found.tables.extend(measurement.tables(&file));
                    found.measurements.push(*measurement);
                }
                Reading::Perftest(runs) => found.perftest.extend(runs),
                Reading::Capture(stats) => found.captures.push(*stats),
                Reading::Counters(counters) => {
                    found.counters.get_or_insert_default().merge(counters);
                }
            }
        }
        Ok(found)
    }
}

fn fail(error: validation::ReadError) -> Complaint {
    Complaint(format!("error: {error}"))
}

impl Found {
    fn json(&self, diagnosis: Option<&Diagnosis>) -> String {
        let Found { tables, measurements, perftest, captures, .. } = self;
        let only_counters = tables.is_empty() && perftest.is_empty() && captures.is_empty();
        let text = match diagnosis.filter(|_| only_counters) {
            Some(diagnosis) => serde_json::to_string_pretty(diagnosis),
            None => serde_json::to_string_pretty(&serde_json::json!({
                "tables": tables,
                "measurements": measurements,
                "perftest": perftest,
                "captures": captures,
                "diagnosis": diagnosis,
            })),
        };
        text.unwrap_or_default()
    }

    fn show(&self, diagnosis: Option<&Diagnosis>) {
        let mut parts: Vec<String> = self.tables.iter().map(Table::to_string).collect();
        parts.extend(self.measurements.iter().map(Measurement::description));
        parts.extend(self.perftest.iter().map(Perftest::to_string));
        parts.extend(self.captures.iter().map(|stats| {
            let (table, file) = (CaptureTable { stats, top: TOP }, &stats.file);
            let warning = |text: &String| format!("  warning: {text}\n");
            let warnings: String = stats.warnings.iter().map(warning).collect();
            format!("{table}{warnings}  more: rocesim pcap-stats {file}\n")
        }));
        if let Some((counters, diagnosis)) = self.counters.as_ref().zip(diagnosis) {
            let files: String =
                counters.files.iter().map(|file| format!("read {file}\n")).collect();
            parts.push(format!("{files}\n{diagnosis}"));
        }
        print(&parts.join("\n"));
    }
}
