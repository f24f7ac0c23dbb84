//! Flow completion times as ns-3's RDMA model writes them.

use std::path::Path;

use scenarios::packed;
use serde::{Deserialize, Serialize};

use super::text::{Layout, Row, find, line_error, read_text, rows};
use crate::error::ReadError;

/// A flow that finished in ns-3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ns3Flow {
    /// Number of the sending node.
    pub source: u32,
    /// Number of the receiving node.
    pub target: u32,
    /// UDP source port.
    pub source_port: u16,
    /// UDP target port.
    pub target_port: u16,
    /// Payload.
    pub bytes: u64,
    /// When it started.
    pub start_ns: u64,
    /// From start to the last ACK back at the sender.
    pub fct_ns: u64,
    /// What ns-3's driver takes for `fct_ns` were the flow alone.
    pub standalone_ns: u64,
}

/// Columns of `fct.csv`.
const COLUMNS: [&str; 8] =
    ["src", "dst", "sport", "dport", "size_B", "start_ns", "fct_ns", "standalone_ns"];

/// Columns of ns-3's own `fct.txt`.
const NATIVE: [&str; 8] =
    ["sip", "dip", "sport", "dport", "size", "start_ns", "fct_ns", "standalone_ns"];

/// Address of node 0. Each node has its own /24.
const FIRST_ADDRESS: u32 = 0x0b00_0001;

/// Reads the flow completion times of an ns-3 run: ns-3's own `fct.txt`, a `fct.csv` with node
/// numbers, or a folder that has one of them (`fct.csv` comes first), each perhaps as `.gz`. The
/// content, not the name, tells which it is.
pub fn read_fct(path: &Path) -> Result<Vec<Ns3Flow>, ReadError> {
    let file = match path.is_dir() {
        true => find(path, &FCT_FILES).ok_or_else(|| ReadError::Missing {
            folder: path.to_owned(),
            expected: "fct.csv or fct.txt",
        })?,
        false => packed::find(path),
    };
    parse(&file, &read_text(&file)?)
}

/// The files of flow completion times, the better one first.
pub(crate) const FCT_FILES: [&str; 2] = ["fct.csv", "fct.txt"];

/// Whether this is ns-3's own format.
pub(crate) fn is_native(text: &str) -> bool {
    !first_line(text).contains(',')
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// The flows of a file of either format.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<Ns3Flow>, ReadError> {
    let mut flows = Vec::new();
    if !is_native(text) {
        rows(path, text, Layout::Header, &COLUMNS, |row| {
            flows.push(flow(row, [row.whole(0)?, row.whole(1)?])?);
            Ok(())
        })?;
        return Ok(flows);
    }
    if first_line(text).split_whitespace().count() != NATIVE.len() && !first_line(text).is_empty() {
        let line = 1 + text.lines().take_while(|line| line.trim().is_empty()).count() as u64;
        let message = format!(
            "{} columns, but 8 were expected: `{}` (ns-3's fct.txt), or a first line `{}`",
            first_line(text).split_whitespace().count(),
            NATIVE.join(" "),
            COLUMNS.join(","),
        );
        return Err(line_error(path, line, message));
    }
    rows(path, text, Layout::Words, &NATIVE, |row| {
        flows.push(flow(row, [node(row, 0)?, node(row, 1)?])?);
        Ok(())
    })?;
    Ok(flows)
}

/// From the columns after the nodes.
fn flow(row: &Row<'_>, [source, target]: [u32; 2]) -> Result<Ns3Flow, ReadError> {
    let time = |index| match row.whole(index)? {
        0 => Err(row.error(index, "a time above 0")),
        time => Ok(time),
    };
    Ok(Ns3Flow {
        source,
        target,
        source_port: row.whole(2)?,
        target_port: row.whole(3)?,
        bytes: row.whole(4)?,
        start_ns: row.whole(5)?,
        fct_ns: time(6)?,
        standalone_ns: time(7)?,
    })
}

/// The number of the node whose address is in this column.
fn node(row: &Row<'_>, index: usize) -> Result<u32, ReadError> {
    number_of(row.text(index)).ok_or_else(|| {
        let expected = "the address of a node in 8 hexadecimal digits (0b000001 for node 0, \
                        0b000101 for node 1, 0b010001 for node 256), or the number of a node,";
        row.error(index, expected)
    })
}

/// The number of the node with this address, written as 8 hexadecimal digits. ConWeave writes the
/// number itself, which has fewer.
fn number_of(text: &str) -> Option<u32> {
    if text.len() < 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = u32::from_str_radix(text, 16).ok().filter(|_| digits)?;
    let offset = address.checked_sub(FIRST_ADDRESS)?;
    (offset & 0xff == 0).then_some(offset >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::text::tests::gzip;

    const CSV: &str = "src,dst,sport,dport,size_B,start_ns,fct_ns,standalone_ns\n\
                       0,1,10000,100,1000000,2000000000,88094,88000\n\
                       257,255,10001,101,1,5,9,7\n";
    const TXT: &str = "0b000001 0b000101 10000 100 1000000 2000000000 88094 88000\n\
                       0b010101 0b00ff01 10001 101 1 5 9 7\n";

    fn expected() -> Vec<Ns3Flow> {
        let first = Ns3Flow {
            source: 0,
            target: 1,
            source_port: 10000,
            target_port: 100,
            bytes: 1_000_000,
            start_ns: 2_000_000_000,
            fct_ns: 88094,
            standalone_ns: 88000,
        };
        let second = Ns3Flow {
            source: 257,
            target: 255,
            source_port: 10001,
            target_port: 101,
            bytes: 1,
            start_ns: 5,
            fct_ns: 9,
            standalone_ns: 7,
        };
        vec![first, second]
    }

    /// The error of a file with this content.
    fn error(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, text).unwrap();
        let error = read_fct(&path).unwrap_err().to_string();
        error.split_once("/f, ").expect("the file is named").1.to_owned()
    }

    #[test]
    fn both_formats_whatever_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fct.txt");
        for text in [CSV, TXT, &CSV.replace('\n', "\r\n"), &TXT.replace('\n', "\r\n\r\n")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_fct(&path).unwrap(), expected());
            assert_eq!(read_fct(folder.path()).unwrap(), expected());
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(read_fct(&path).unwrap(), []);
        // columns are found by name, others are left alone
        std::fs::write(
            folder.path().join("fct.csv"),
            "dst,src,sport,note,dport,size_B,\
            start_ns,fct_ns,standalone_ns\n1,0,10000,x,100,1000000,2000000000,88094,88000\n",
        )
        .unwrap();
        assert_eq!(read_fct(folder.path()).unwrap(), expected()[..1]);
    }

    #[test]
    fn addresses() {
        // offset = (i / 256) * 0x10000 + (i % 256) * 0x100 = i * 0x100
        for (text, number) in
            [("0b000001", 0), ("0b00ff01", 255), ("0b010001", 256), ("0B013F01", 319), ("319", 319)]
        {
            assert_eq!(number_of(text), Some(number));
        }
        for text in ["0a000001", "0b000002", "0b0001", "0b00000001", "+b000001", "", "n7"] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }

    #[test]
    fn errors_name_line_and_expectation() {
        let text = error(&CSV.replace("88094", "88.094"));
        assert_eq!(
            text,
            "line 2: column 7: fct_ns is `88.094`: a whole number of at most 64 bits was expected"
        );
        let text = error(&CSV.replace("10001", "70000"));
        assert_eq!(
            text,
            "line 3: column 3: sport is `70000`: a whole number of at most 16 bits was expected"
        );
        assert!(
            error(&CSV.replace("size_B", "size"))
                .starts_with("line 1: there is no column `size_B`")
        );
        assert!(error(&CSV.replace(",9,7", ",9")).starts_with("line 3: 7 columns, but 8 as in"));
        assert!(
            error(&CSV.replace("9,7", "0,7"))
                .starts_with("line 3: column 7: fct_ns is `0`: a time above 0")
        );
        assert!(
            error(&TXT.replace("0b010101", "11.1.1.1"))
                .starts_with("line 2: column 1: sip is `11.1.1.1`: the address of a node")
        );
        assert!(error(&TXT.replace(" 9 7", " 9")).starts_with("line 2: 7 columns, but 8 were"));
        assert!(error("nothing of the kind").starts_with("line 1: 4 columns, but 8 were"));
    }

    #[test]
    fn compressed() {
        let folder = tempfile::tempdir().unwrap();
        let text = read_fct(folder.path()).unwrap_err().to_string();
        assert!(text.ends_with("has no fct.csv or fct.txt"), "{text}");
        std::fs::write(folder.path().join("fct.txt.gz"), gzip(TXT)).unwrap();
        for name in ["", "fct.txt", "fct.txt.gz"] {
            assert_eq!(read_fct(&folder.path().join(name)).unwrap(), expected());
        }
        let text = read_fct(&folder.path().join("other")).unwrap_err().to_string();
        assert!(text.contains("cannot read") && text.contains("other"), "{text}");
    }
}
