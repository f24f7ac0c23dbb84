//! The file: its header, flows and triggers.

use std::collections::BTreeMap;

use crate::import::ImportError;
use crate::import::text::{Decimal, Line, TextFile, counted, quoted};
use crate::load::{near_miss, suggestion};

/// All that a file says.
pub(super) struct Matrix {
    pub(super) nodes: u32,
    /// The line that says how many.
    pub(super) nodes_line: usize,
    /// In the order of the file.
    pub(super) flows: Vec<Flow>,
    pub(super) triggers: BTreeMap<u32, Trigger>,
}

pub(super) struct Flow {
    pub(super) line: usize,
    pub(super) source: u32,
    pub(super) target: u32,
    /// Picoseconds; 0 for a flow that waits.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// It starts when this trigger fires.
    pub(super) trigger: Option<u32>,
    /// These fire when it is acknowledged, or received.
    pub(super) send_done: Option<u32>,
    pub(super) recv_done: Option<u32>,
    pub(super) has_priority: bool,
}

pub(super) struct Trigger {
    pub(super) line: usize,
    pub(super) kind: TriggerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TriggerKind {
    /// Fires once, and starts all that wait.
    OneShot,
    /// Starts one flow each time.
    MultiShot,
    /// Starts all that wait after so many times.
    Barrier(u32),
}

/// More flows or triggers are refused.
const ROWS_MAX: u32 = 10_000_000;
/// No start is later: 1000000 s.
const START_MAX: u64 = 1_000_000_000_000_000_000;

/// Numbers of the header, each with its line.
#[derive(Default)]
struct Header {
    nodes: Option<(u32, usize)>,
    connections: Option<(u32, usize)>,
    triggers: Option<(u32, usize)>,
}

const FIRST_WORDS: [&str; 4] = ["Nodes", "Connections", "Triggers", "trigger"];
const FLOW_WORDS: [&str; 7] =
    ["id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger", "prio"];
const TRIGGER_WORDS: [&str; 5] = ["id", "oneshot", "multishot", "barrier", "count"];

impl Matrix {
    /// Reads the file.
    pub(super) fn read(file: &TextFile) -> Result<Self, ImportError> {
        let mut header = Header::default();
        let (mut flows, mut triggers) = (Vec::new(), BTreeMap::new());
        let mut ids = BTreeMap::new();
        for line in file.lines() {
            match line.words[0] {
                "Nodes" | "Connections" | "Triggers" | "Failures" => {
                    if !flows.is_empty() || !triggers.is_empty() {
                        let message = format!(
                            "{} stands below flows or triggers; the header is expected above them",
                            line.words[0]
                        );
                        return Err(line.error(message));
                    }
                    header.read(&line)?;
                }
                "trigger" => {
                    let (id, trigger) = read_trigger(&line)?;
                    let earlier = triggers.insert(id, trigger).map(|trigger| trigger.line);
                    unique(&line, "trigger", id, earlier)?;
                }
                "failure" => return Err(line.error(NO_FAILURES)),
                word if word.contains("->") => {
                    let Some((nodes, _)) = header.nodes else {
                        let message =
                            "a flow before the header; a line `Nodes N` is expected first";
                        return Err(line.error(message));
                    };
                    let (id, flow) = read_flow(&line, word, nodes)?;
                    if let Some(id) = id {
                        unique(&line, "flow", id, ids.insert(id, line.number))?;
                    }
                    flows.push(flow);
                }
                word => {
                    let expected = match near_miss(word, FIRST_WORDS) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("{} or 14->46 is expected", FIRST_WORDS.join(", ")),
                    };
                    let message = format!("a line begins with {}; {expected}", quoted(word));
                    return Err(line.error(message));
                }
            }
        }
        let (nodes, nodes_line) = header.check(file, flows.len(), triggers.len())?;
        Ok(Matrix { nodes, nodes_line, flows, triggers })
    }
}

const NO_FAILURES: &str = "failed links and switches are not modelled; a matrix without `failure` \
                           lines is expected";

fn unique(line: &Line<'_>, what: &str, id: u32, earlier: Option<usize>) -> Result<(), ImportError> {
    let Some(earlier) = earlier else { return Ok(()) };
    let message = format!("{what} {id} is there already, in line {earlier}; once is expected");
    Err(line.error(message))
}

impl Header {
    fn read(&mut self, line: &Line<'_>) -> Result<(), ImportError> {
        let name = line.words[0];
        let [_, word] = line.columns(&format!("{name} number"))?;
        let count = line.count(&name.to_lowercase(), word, ROWS_MAX)?;
        let field = match name {
            "Nodes" => &mut self.nodes,
            "Connections" => &mut self.connections,
            "Triggers" => &mut self.triggers,
            _ if count > 0 => return Err(line.error(NO_FAILURES)),
            _ => return Ok(()),
        };
        match field.replace((count, line.number)) {
            None => Ok(()),
            Some((_, earlier)) => {
                let message =
                    format!("{name} is there already, in line {earlier}; once is expected");
                Err(line.error(message))
            }
        }
    }

    /// The number of nodes and its line, if flows and triggers are as many as announced.
    fn check(
        self,
        file: &TextFile,
        flows: usize,
        triggers: usize,
    ) -> Result<(u32, usize), ImportError> {
        let missing = |name: &str| {
            file.error_at_end(format!("there is no line `{name} N`; one is expected at the top"))
        };
        let (nodes, line) = self.nodes.ok_or_else(|| missing("Nodes"))?;
        if nodes < 2 {
            return Err(file.error_at(line, format!("{nodes} nodes; at least 2 are expected")));
        }
        let connections = self.connections.ok_or_else(|| missing("Connections"))?;
        if connections.0 == 0 {
            return Err(file.error_at(connections.1, "no flows; at least 1 is expected"));
        }
        let of = |name, what, found, announced: (u32, usize)| {
            if found == announced.0 as usize {
                return Ok(());
            }
            let found = match found {
                0 => format!("no {what} follows"),
                1 => format!("1 {what} follows"),
                _ => format!("{} follow", counted(found, what)),
            };
            let message = format!("{name} announces {}, but {found}", announced.0);
            Err(file.error_at(announced.1, format!("{message}; as many are expected")))
        };
        of("Connections", "flow", flows, connections)?;
        match self.triggers {
            Some(announced) => of("Triggers", "trigger", triggers, announced)?,
            None if triggers == 0 => {}
            None => {
                let lines = counted(triggers, "line");
                let message =
                    format!("{lines} `trigger id`, but no `Triggers {triggers}` at the top");
                return Err(file.error_at_end(format!("{message}; it is expected")));
            }
        }
        Ok((nodes, line))
    }
}

/// The value of a word that needs one.
fn value<'t>(
    line: &Line<'t>,
    key: &str,
    next: Option<&&'t str>,
    what: &str,
) -> Result<&'t str, ImportError> {
    next.copied().ok_or_else(|| line.error(format!("`{key}` has no value; {what} is expected")))
}

/// Fills a field once.
fn once<T>(line: &Line<'_>, key: &str, field: &mut Option<T>, value: T) -> Result<(), ImportError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(line.error(format!("`{key}` is there twice; once is expected"))),
    }
}

/// An id, which is never 0.
fn id(line: &Line<'_>, what: &str, word: &str) -> Result<u32, ImportError> {
    match line.number(what, word)? {
        0 => Err(line.error(format!("0 is no {what}; at least 1 is expected"))),
        id => Ok(id),
    }
}

fn read_flow(line: &Line<'_>, ends: &str, nodes: u32) -> Result<(Option<u32>, Flow), ImportError> {
    let [source, target] = read_ends(line, ends, nodes)?;
    let (mut flow_id, mut start, mut trigger, mut bytes) = (None, None, None, None);
    let (mut send_done, mut recv_done, mut priority) = (None, None, None);
    let mut words = line.words[1..].iter();
    while let Some(&key) = words.next() {
        if !FLOW_WORDS.contains(&key) {
            let near = match key {
                "addon" => "; htsim's `addon` is not understood".to_owned(),
                _ => suggestion(key, &FLOW_WORDS),
            };
            return Err(line.error(format!("{} is unknown{near}", quoted(key))));
        }
        let word = value(line, key, words.next(), "a number")?;
        match key {
            "id" => once(line, key, &mut flow_id, id(line, "flow id", word)?)?,
            "start" => once(line, key, &mut start, picoseconds(line, word)?)?,
            "size" => once(line, key, &mut bytes, line.size(word)?)?,
            "trigger" => once(line, key, &mut trigger, id(line, "trigger id", word)?)?,
            "send_done_trigger" => once(line, key, &mut send_done, id(line, "trigger id", word)?)?,
            "recv_done_trigger" => once(line, key, &mut recv_done, id(line, "trigger id", word)?)?,
            _ => once(line, key, &mut priority, line.number::<i32>("priority", word)?)?,
        }
    }
    let bytes = bytes.ok_or_else(|| line.error("there is no `size`; bytes are expected"))?;
    let start = match (start, trigger) {
        (Some(_), Some(_)) => {
            return Err(line.error("both `start` and `trigger`; one of them is expected"));
        }
        (None, None) => {
            return Err(line.error("neither `start` nor `trigger`; one of them is expected"));
        }
        (None, Some(_)) if flow_id.is_none() => {
            return Err(line.error("a flow that a trigger starts has no `id`; one is expected"));
        }
        (start, _) => start.unwrap_or(0),
    };
    let has_priority = priority.is_some();
    let line = line.number;
    let flow =
        Flow { line, source, target, start, bytes, trigger, send_done, recv_done, has_priority };
    Ok((flow_id, flow))
}

/// `14->46`
fn read_ends(line: &Line<'_>, ends: &str, nodes: u32) -> Result<[u32; 2], ImportError> {
    let (source, target) = ends.split_once("->").unwrap_or((ends, ""));
    let host = |word: &str| match word.parse::<u32>() {
        Ok(host) if host < nodes => Ok(host),
        Ok(host) => {
            let message = format!("there is no host {host}; 0 to {} are announced", nodes - 1);
            Err(line.error(message))
        }
        Err(_) => {
            let message = format!("{} are no ends of a flow", quoted(ends));
            Err(line.error(format!("{message}; two hosts such as 14->46 are expected")))
        }
    };
    if nodes == 0 {
        return Err(line.error("a flow, but Nodes announces 0; at least 2 are expected"));
    }
    let [source, target] = [host(source)?, host(target)?];
    if source == target {
        let message = format!("host {source} sends to itself; two hosts are expected");
        return Err(line.error(message));
    }
    Ok([source, target])
}

/// htsim reads a float; whole picoseconds count.
fn picoseconds(line: &Line<'_>, word: &str) -> Result<u64, ImportError> {
    let ps = Decimal::parse(word).and_then(|ps| ps.nearest(0));
    ps.and_then(|ps| u64::try_from(ps).ok()).filter(|ps| *ps <= START_MAX).ok_or_else(|| {
        let message = format!("{} is no start", quoted(word));
        line.error(format!("{message}; picoseconds are expected, 0 to 10^18"))
    })
}

/// `trigger id 7 oneshot`
fn read_trigger(line: &Line<'_>) -> Result<(u32, Trigger), ImportError> {
    let (mut trigger_id, mut kind, mut count) = (None, None, None);
    let mut words = line.words[1..].iter().peekable();
    while let Some(&key) = words.next() {
        match key {
            "id" => {
                let word = value(line, key, words.next(), "a number")?;
                once(line, key, &mut trigger_id, id(line, "trigger id", word)?)?;
            }
            "count" => {
                let word = value(line, key, words.next(), "a number")?;
                once(line, key, &mut count, id(line, "count", word)?)?;
            }
            "oneshot" | "multishot" | "barrier" => {
                if let Some(earlier) = kind.replace(key) {
                    let message = format!("both `{earlier}` and `{key}`; one kind is expected");
                    return Err(line.error(message));
                }
                let is_number = |word: &&&str| word.parse::<u64>().is_ok();
                if let ("barrier", Some(word)) = (key, words.next_if(|word| is_number(word))) {
                    once(line, "count", &mut count, id(line, "count", word)?)?;
                }
            }
            _ => {
                let near = suggestion(key, &TRIGGER_WORDS);
                return Err(line.error(format!("{} is unknown{near}", quoted(key))));
            }
        }
    }
    let trigger_id = trigger_id
        .ok_or_else(|| line.error("a trigger without `id`; `trigger id 1 oneshot` is expected"))?;
    let kind = match (kind, count) {
        (Some("oneshot"), None) => TriggerKind::OneShot,
        (Some("multishot"), None) => TriggerKind::MultiShot,
        (Some("barrier"), Some(count)) => TriggerKind::Barrier(count),
        (Some("barrier"), None) => {
            return Err(line.error("a barrier without `count`; `barrier count 4` is expected"));
        }
        (Some(kind), _) => {
            return Err(line.error(format!("`{kind}` has no count; only a barrier counts")));
        }
        (None, _) => {
            let message = "a trigger without kind; oneshot, multishot or barrier is expected";
            return Err(line.error(message));
        }
    };
    Ok((trigger_id, Trigger { line: line.number, kind }))
}
