//! Flow completion times as ns-3's RDMA model writes them.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{ReadError, read_text};

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
const NATIVE: &str = "sip dip sport dport size start_ns fct_ns standalone_ns";

/// Address of node 0. Each node has its own /24.
const FIRST_ADDRESS: u32 = 0x0b00_0001;

/// Reads the flow completion times of an ns-3 run: ns-3's own `fct.txt`, a `fct.csv` with node
/// numbers, or a folder that has one of them (`fct.csv` comes first). The content, not the name,
/// tells which it is.
pub fn read_fct(path: &Path) -> Result<Vec<Ns3Flow>, ReadError> {
    let file = find(path)?;
    let text = read_text(&file)?;
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match first.contains(',') {
        true => parse_csv(&text, &file),
        false => parse_native(&text, &file),
    }
}

fn find(path: &Path) -> Result<PathBuf, ReadError> {
    if !path.is_dir() {
        let compressed = PathBuf::from(format!("{}.gz", path.display()));
        return match !path.exists() && compressed.exists() {
            true => Err(ReadError::Compressed { path: compressed }),
            false => Ok(path.to_owned()),
        };
    }
    let present = |name: &str| Some(path.join(name)).filter(|file| file.is_file());
    if let Some(file) = present("fct.csv").or_else(|| present("fct.txt")) {
        return Ok(file);
    }
    match present("fct.csv.gz").or_else(|| present("fct.txt.gz")) {
        Some(path) => Err(ReadError::Compressed { path }),
        None => Err(ReadError::Missing { folder: path.to_owned(), expected: "fct.csv or fct.txt" }),
    }
}

fn parse_csv(text: &str, path: &Path) -> Result<Vec<Ns3Flow>, ReadError> {
    let failed =
        |line: u64, message: String| ReadError::Line { path: path.to_owned(), line, message };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let broken = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        failed(line, format!("{} columns as in the first line were expected", COLUMNS.len()))
    };
    let header = reader.headers().map_err(broken)?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header.iter().position(|name| name == column).ok_or_else(|| {
            let expected = COLUMNS.join(",");
            failed(1, format!("there is no column `{column}`: `{expected}` was expected"))
        })?;
    }
    let mut flows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(broken)?;
        let line = record.position().map_or(0, csv::Position::line);
        let fields = places.map(|place| &record[place]);
        let source = number(fields[0], COLUMNS[0]);
        let target = number(fields[1], COLUMNS[1]);
        let nodes = source.and_then(|source| Ok((source, target?)));
        let flow = nodes.and_then(|nodes| flow(nodes, [2, 3, 4, 5, 6, 7].map(|i| fields[i])));
        flows.push(flow.map_err(|message| failed(line, message))?);
    }
    Ok(flows)
}

fn parse_native(text: &str, path: &Path) -> Result<Vec<Ns3Flow>, ReadError> {
    let mut flows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let flow = match fields.as_slice() {
            [] => continue,
            [source, target, rest @ ..] if rest.len() == 6 => node(source)
                .and_then(|source| Ok((source, node(target)?)))
                .and_then(|nodes| flow(nodes, std::array::from_fn(|i| rest[i]))),
            _ => Err(format!(
                "{} columns, but 8 were expected: `{NATIVE}` (ns-3's fct.txt), or a first line `{}`",
                fields.len(),
                COLUMNS.join(","),
            )),
        };
        flows.push(flow.map_err(|message| ReadError::Line {
            path: path.to_owned(),
            line: index as u64 + 1,
            message,
        })?);
    }
    Ok(flows)
}

/// From the columns after the nodes.
fn flow((source, target): (u32, u32), fields: [&str; 6]) -> Result<Ns3Flow, String> {
    let flow = Ns3Flow {
        source,
        target,
        source_port: number(fields[0], COLUMNS[2])?,
        target_port: number(fields[1], COLUMNS[3])?,
        bytes: number(fields[2], COLUMNS[4])?,
        start_ns: number(fields[3], COLUMNS[5])?,
        fct_ns: number(fields[4], COLUMNS[6])?,
        standalone_ns: number(fields[5], COLUMNS[7])?,
    };
    for (value, column) in [(flow.fct_ns, COLUMNS[6]), (flow.standalone_ns, COLUMNS[7])] {
        if value == 0 {
            return Err(format!("{column} is 0: a time above 0 was expected"));
        }
    }
    Ok(flow)
}

fn number<T: FromStr>(text: &str, column: &str) -> Result<T, String> {
    let bits = 8 * size_of::<T>();
    let expected =
        || format!("{column} is `{text}`: a whole number of at most {bits} bits was expected");
    text.parse().map_err(|_| expected())
}

/// The number of the node with this address, written as 8 hexadecimal digits.
fn node(text: &str) -> Result<u32, String> {
    let expected = || {
        format!(
            "`{text}` is no address of a node: 8 hexadecimal digits were expected, \
             0b000001 for node 0, 0b000101 for node 1, 0b010001 for node 256"
        )
    };
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let address = u32::from_str_radix(text, 16).ok().filter(|_| digits).ok_or_else(expected)?;
    let offset = address.checked_sub(FIRST_ADDRESS).ok_or_else(expected)?;
    match offset & 0xff {
        0 => Ok(offset >> 8),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            [("0b000001", 0), ("0b00ff01", 255), ("0b010001", 256), ("0B013F01", 319)]
        {
            assert_eq!(node(text), Ok(number));
        }
        for text in ["0a000001", "0b000002", "0b0001", "0b00000001", "+b000001", "", "n7"] {
            assert!(node(text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_line_and_expectation() {
        let text = error(&CSV.replace("88094", "88.094"));
        assert_eq!(
            text,
            "line 2: fct_ns is `88.094`: a whole number of at most 64 bits was expected"
        );
        let text = error(&CSV.replace("10001", "70000"));
        assert_eq!(
            text,
            "line 3: sport is `70000`: a whole number of at most 16 bits was expected"
        );
        assert!(
            error(&CSV.replace("size_B", "size"))
                .starts_with("line 1: there is no column `size_B`")
        );
        assert!(error(&CSV.replace(",9,7", ",9")).starts_with("line 3: 8 columns"));
        assert!(error(&CSV.replace("9,7", "0,7")).starts_with("line 3: fct_ns is 0"));
        assert!(error(&TXT.replace("0b010101", "11.1.1.1")).starts_with("line 2: `11.1.1.1`"));
        assert!(error(&TXT.replace(" 9 7", " 9")).starts_with("line 2: 7 columns, but 8 were"));
        assert!(error("nothing of the kind").starts_with("line 1: 4 columns, but 8 were"));
    }

    #[test]
    fn only_a_compressed_file() {
        let folder = tempfile::tempdir().unwrap();
        let text = read_fct(folder.path()).unwrap_err().to_string();
        assert!(text.ends_with("has no fct.csv or fct.txt"), "{text}");
        std::fs::write(folder.path().join("fct.txt.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
        for name in ["", "fct.txt", "fct.txt.gz"] {
            let text = read_fct(&folder.path().join(name)).unwrap_err().to_string();
            assert!(text.contains("fct.txt.gz is compressed: unpack it first"), "{text}");
        }
        let text = read_fct(&folder.path().join("other")).unwrap_err().to_string();
        assert!(text.contains("cannot read") && text.contains("other"), "{text}");
    }
}
