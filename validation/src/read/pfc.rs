//! `pfc.txt` and `pfc_summary.csv`: pauses by port.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::{Layout, rows};
use crate::error::ReadError;
use crate::run::Port;

/// A port of ns-3, under the name that it would have here: ports count from 1 there, from 0 here.
pub(super) fn port_name(node: u32, port: u32) -> String {
    format!("n{node}:{}", port.saturating_sub(1))
}

/// `pfc_summary.csv`.
pub(super) fn parse_summary(path: &Path, text: &str) -> Result<Vec<Port>, ReadError> {
    let mut ports = Vec::new();
    let names = &["node", "port", "pause_rx", "paused_ns"];
    rows(path, text, Layout::Header, names, |row| {
        let name = port_name(row.whole(0)?, row.whole(1)?);
        ports.push(Port { name, pauses: row.number(2)?, paused_s: row.number(3)? / 1e9 });
        Ok(())
    })?;
    Ok(ports)
}

/// What a list of PFC frames says.
pub(super) struct PfcFrames {
    /// XOFF and XON frames received.
    pub(super) frames: u64,
    /// By port.
    pub(super) ports: Vec<Port>,
}

/// `pfc.txt`: one line for each PFC frame, at the node that receives it. A pause lasts until the
/// resume of its port, or until `end_ns` (by default the last line).
pub(super) fn parse_frames(
    path: &Path,
    text: &str,
    end_ns: Option<u64>,
) -> Result<PfcFrames, ReadError> {
    #[derive(Default)]
    struct State {
        pauses: u64,
        paused_ns: u64,
        since_ns: Option<u64>,
    }
    let mut ports = BTreeMap::<(u32, u32), State>::new();
    let (mut frames, mut last_ns) = (0, 0);
    let names = &["time_ns", "node", "node_type", "port", "kind"];
    rows(path, text, Layout::Words, names, |row| {
        let time: u64 = row.whole(0)?;
        if time < last_ns {
            return Err(row.error(0, "a time not before that of the line above"));
        }
        last_ns = time;
        frames += 1;
        let state = ports.entry((row.whole(1)?, row.whole(3)?)).or_default();
        match row.whole::<u8>(4)? {
            0 => state.paused_ns += state.since_ns.take().map_or(0, |since| time - since),
            1 => {
                state.pauses += 1;
                state.since_ns.get_or_insert(time);
            }
            _ => return Err(row.error(4, "0 (resume) or 1 (pause)")),
        }
        Ok(())
    })?;
    let end_ns = end_ns.unwrap_or(last_ns);
    let port = |((node, port), state): ((u32, u32), State)| {
        let open_ns = state.since_ns.map_or(0, |since| end_ns.saturating_sub(since));
        Port {
            name: port_name(node, port),
            pauses: state.pauses as f64,
            paused_s: (state.paused_ns + open_ns) as f64 / 1e9,
        }
    };
    Ok(PfcFrames { frames, ports: ports.into_iter().map(port).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, pauses: f64, paused_s: f64) -> Port {
        Port { name: name.to_owned(), pauses, paused_s }
    }

    #[test]
    fn summary() {
        let text = "node,node_type,port,pause_rx,resume_rx,paused_ns\n3,0,1,24,24,2500\n";
        let found = parse_summary(Path::new("p"), text).unwrap();
        assert_eq!(found, [port("n3:0", 24.0, 2.5e-6)]);
        let error = parse_summary(Path::new("p"), "node,port\n").unwrap_err().to_string();
        assert!(error.starts_with("p, line 1: there is no column `pause_rx`"), "{error}");
    }

    #[test]
    fn frames() {
        // n3: paused 100 to 300, again at 200, which extends it; n9 port 2: from 400 on
        let text = "100 3 0 1 1\n200 3 0 1 1\n300 3 0 1 0\n400 9 1 2 1\n500 3 0 1 0\n";
        let found = parse_frames(Path::new("p"), text, Some(1000)).unwrap();
        assert_eq!(found.frames, 5);
        assert_eq!(found.ports, [port("n3:0", 2.0, 200e-9), port("n9:1", 1.0, 600e-9)]);
        let open = parse_frames(Path::new("p"), text, None).unwrap();
        assert_eq!(open.ports[1], port("n9:1", 1.0, 100e-9));
        let error = |text| parse_frames(Path::new("p"), text, None).err().unwrap().to_string();
        assert_eq!(
            error("1 3 0 1 2\n"),
            "p, line 1: column 5: kind is `2`: 0 (resume) or 1 (pause) was expected"
        );
        assert!(error("2 3 0 1 1\n1 3 0 1 0\n").contains("line 2: column 1: time_ns is `1`"));
    }
}
