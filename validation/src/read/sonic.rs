//! Tables of SONiC's `show`: `pfc counters`, `priority-group watermark` and `drop counters`, `queue
//! counters` and `watermark`, `pfcwd stats`. A line of dashes under the header says how many columns
//! there are.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::line_error;
use crate::counters::Counter;
use crate::error::ReadError;

/// By port: what was counted.
pub(super) type Ports = BTreeMap<String, BTreeMap<Counter, u64>>;

/// Whether there is a table.
pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| dashes(line).is_some())
}

/// The columns of a line of dashes.
fn dashes(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let all = words.iter().all(|word| word.len() >= 2 && word.chars().all(|c| c == '-'));
    (words.len() >= 2 && all).then_some(words.len())
}

/// What a table counts.
enum Table {
    /// One column for each priority.
    ByPriority(&'static str),
    /// A row for each queue; the columns by their names.
    Queues(Vec<Option<&'static str>>),
    Watchdog,
    /// Of queues of multicast, or not known.
    Other,
}

/// Reads all tables that are known; none if no table is.
pub(super) fn parse(path: &Path, text: &str) -> Result<Option<Ports>, ReadError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut ports = Ports::new();
    let mut any = false;
    for (index, line) in lines.iter().enumerate() {
        let (Some(columns), Some(above)) = (dashes(line), index.checked_sub(1)) else { continue };
        let header = cells(lines[above], columns);
        let table = table(path, &lines[..above], &header)?;
        any |= !matches!(table, Table::Other);
        for (row, number) in lines[index + 1..].iter().zip(index as u64 + 2..) {
            let next = lines.get(number as usize).and_then(|line| dashes(line));
            let words: Vec<&str> = row.split_whitespace().collect();
            if words.is_empty() || next.is_some() || dashes(row).is_some() {
                break;
            }
            if matches!(table, Table::Other) {
                continue;
            }
            if words.len() != columns {
                let message =
                    format!("{} columns; {columns} as in the header are expected", words.len());
                return Err(line_error(path, number, message));
            }
            take(&table, &words, &mut ports).map_err(|word| {
                let expected = "a number, such as 12 or 1,234, or N/A";
                line_error(path, number, format!("`{word}`: {expected} was expected"))
            })?;
        }
    }
    Ok(any.then_some(ports))
}

/// The cells of a header: two spaces are between them, or one where each is a word.
fn cells(header: &str, columns: usize) -> Vec<&str> {
    let by_two: Vec<&str> =
        header.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    match by_two.len() == columns {
        true => by_two,
        false => header.split_whitespace().collect(),
    }
}

fn table(path: &Path, above: &[&str], header: &[&str]) -> Result<Table, ReadError> {
    let first = header.first().copied().unwrap_or_default();
    let second = header.get(1).copied().unwrap_or_default();
    Ok(match (first, second) {
        ("Port Rx", _) => Table::ByPriority("rx_pause_frames"),
        ("Port Tx", _) => Table::ByPriority("tx_pause_frames"),
        ("Port", "PG0") => {
            let title = above.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
            let title = title.unwrap_or_default().to_ascii_lowercase();
            if title.contains("headroom") {
                Table::ByPriority("headroom_watermark_bytes")
            } else if title.contains("drop") {
                Table::ByPriority("pg_drops")
            } else if title.contains("shared") {
                Table::ByPriority("shared_watermark_bytes")
            } else {
                let message = "a table of PGs without its title; `Ingress headroom per PG:`, `Ingress \
                               shared pool occupancy per PG:` or `Ingress PG dropped packets:` is \
                               expected above it";
                return Err(line_error(path, above.len() as u64 + 1, message.to_owned()));
            }
        }
        ("Port", "UC0" | "ALL0") => Table::ByPriority("max_queue_bytes"),
        ("Port", "TxQ") => Table::Queues(header.iter().map(|cell| queue_counter(cell)).collect()),
        ("QUEUE", "STATUS") => Table::Watchdog,
        _ => Table::Other,
    })
}

fn queue_counter(cell: &str) -> Option<&'static str> {
    Some(match cell {
        "Counter/pkts" => "tx_packets",
        "Counter/bytes" => "tx_bytes",
        "Drop/pkts" => "drops",
        "WredDrp/pkts" => "wred_drops",
        "EcnMarked/pkts" => "ecn_marked_packets",
        _ => return None,
    })
}

/// Takes a row; an error is the word that is no number.
fn take<'w>(table: &Table, words: &[&'w str], ports: &mut Ports) -> Result<(), &'w str> {
    match table {
        Table::ByPriority(name) => {
            let port = ports.entry(words[0].to_owned()).or_default();
            for (priority, word) in (0..8).zip(&words[1..]) {
                if let Some(value) = number(word)? {
                    port.insert(Counter::of(name, priority), value);
                }
            }
        }
        Table::Queues(names) => {
            let queue = words[1].strip_prefix("UC").or_else(|| words[1].strip_prefix("ALL"));
            let queue = queue.and_then(|queue| queue.parse().ok()).filter(|queue| *queue < 8);
            // queues of multicast and of the CPU have no priority
            let Some(queue) = queue else { return Ok(()) };
            let port = ports.entry(words[0].to_owned()).or_default();
            for (name, word) in names.iter().zip(words) {
                if let (Some(name), Some(value)) = (name, name.map_or(Ok(None), |_| number(word))?)
                {
                    port.insert(Counter::of(name, queue), value);
                }
            }
        }
        Table::Watchdog => {
            let (port, queue) = words[0].split_once(':').ok_or(words[0])?;
            let queue = queue.parse().ok().filter(|queue| *queue < 8).ok_or(words[0])?;
            let port = ports.entry(port.to_owned()).or_default();
            let stormed = u64::from(words[1].eq_ignore_ascii_case("stormed"));
            port.insert(Counter::of("pfcwd_stormed", queue), stormed);
            let pairs = [
                ("pfcwd_storms", "pfcwd_restored", 2),
                ("pfcwd_tx_ok", "pfcwd_tx_drops", 3),
                ("pfcwd_rx_ok", "pfcwd_rx_drops", 4),
            ];
            for (left, right, column) in pairs {
                let Some(cell) = words.get(column) else { continue };
                let Some((one, two)) = cell.split_once('/').filter(|_| *cell != "N/A") else {
                    continue;
                };
                for (name, word) in [(left, one), (right, two)] {
                    if let Some(value) = number(word)? {
                        port.insert(Counter::of(name, queue), value);
                    }
                }
            }
        }
        Table::Other => {}
    }
    Ok(())
}

/// `1,234`; none for `N/A`.
fn number(word: &str) -> Result<Option<u64>, &str> {
    match word {
        "N/A" | "-" => Ok(None),
        _ => word.replace(',', "").parse().map(Some).map_err(|_| word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Ports {
        parse(Path::new("s.txt"), text).unwrap().unwrap()
    }

    #[test]
    fn tables_of_pfc_and_queues() {
        let text = "\
  Port Rx    PFC0    PFC1    PFC2       PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ---------  ------  ------  ------  ------
Ethernet0       0       0       0  1,234,567       0       0       0       0
Ethernet4     N/A     N/A     N/A        N/A     N/A     N/A     N/A     N/A

  Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
---------  ------  ------  ------  ------  ------  ------  ------  ------
Ethernet0       0       0       0      12       0       0       0       0

     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes
---------  -----  --------------  ---------------  -----------  ------------
Ethernet0    UC3           1,000        4,160,000            7        29,120
Ethernet0   MC10               5              500            0           N/A
";
        let ports = read(text);
        let port = &ports["Ethernet0"];
        let expected = [
            ("drops", 7),
            ("rx_pause_frames", 1_234_567),
            ("tx_bytes", 4_160_000),
            ("tx_packets", 1000),
            ("tx_pause_frames", 12),
        ];
        for (name, value) in expected {
            assert_eq!(port.get(&Counter::of(name, 3)), Some(&value), "{name}");
        }
        assert_eq!(port.len(), 8 + 8 + 3, "no queue of multicast");
        assert!(ports["Ethernet4"].is_empty(), "N/A is nothing");
    }

    #[test]
    fn watermarks_by_their_title_and_storms() {
        let text = "\
Ingress headroom per PG:
     Port    PG0    PG1    PG2    PG3    PG4    PG5    PG6    PG7
---------  -----  -----  -----  -----  -----  -----  -----  -----
Ethernet8      0      0      0  18432      0      0      0      0

Ingress shared pool occupancy per PG:
     Port    PG0    PG1    PG2    PG3    PG4    PG5    PG6    PG7
---------  -----  -----  -----  -----  -----  -----  -----  -----
Ethernet8      0      0      0  99999      0      0      0      0

      QUEUE    STATUS    STORM DETECTED/RESTORED    TX OK/DROP    RX OK/DROP
-----------  --------  -------------------------  ------------  ------------
Ethernet8:3   stormed                        5/4     1,000/300         20/10
";
        let port = &read(text)["Ethernet8"];
        let expected = [
            ("headroom_watermark_bytes", 18432),
            ("shared_watermark_bytes", 99999),
            ("pfcwd_stormed", 1),
            ("pfcwd_storms", 5),
            ("pfcwd_restored", 4),
            ("pfcwd_tx_drops", 300),
            ("pfcwd_rx_drops", 10),
        ];
        for (name, value) in expected {
            assert_eq!(port.get(&Counter::of(name, 3)), Some(&value), "{name}");
        }
    }

    #[test]
    fn what_is_no_number_is_named() {
        let table = |row: &str| {
            let text = format!("Port  TxQ  Drop/pkts\n----  ---  ---------\n{row}\n");
            parse(Path::new("s.txt"), &text).err().unwrap().to_string()
        };
        assert_eq!(table("E0 UC3"), "s.txt, line 3: 2 columns; 3 as in the header are expected");
        assert_eq!(
            table("E0 UC3 many"),
            "s.txt, line 3: `many`: a number, such as 12 or 1,234, or N/A was expected"
        );
        let bare = "Port  PG0  PG1\n----  ---  ---\nE0 1 2\n";
        let error = parse(Path::new("s.txt"), bare).err().unwrap().to_string();
        assert!(error.starts_with("s.txt, line 1: a table of PGs without its title"), "{error}");
    }
}
