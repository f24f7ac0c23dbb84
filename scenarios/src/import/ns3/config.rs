//! `config.txt`: keys and values of HPCC's driver program `third.cc`. What the file leaves out has
//! the value that the program has then.

mod control;

use std::collections::BTreeMap;

use sim_core::{Bytes, Delta, Rate};

use crate::import::ImportError;
use crate::import::text::{Decimal, Line, TextFile, counted, quoted};
use crate::load::near_miss;

pub(super) use control::{Control, Conweave, Dcqcn, Hpcc};

/// What the file says.
pub(super) struct Config<'t> {
    file: &'t TextFile,
    /// Each key with the line that holds it; of two, the last.
    lines: BTreeMap<&'t str, Line<'t>>,
}

/// Keys whose values are read.
const KEYS: [&str; 46] = [
    "ACK_HIGH_PRIO",
    "ALPHA_RESUME_INTERVAL",
    "BUFFER_SIZE",
    "CC_MODE",
    "CLAMP_TARGET_RATE",
    "DCTCP_RATE_AI",
    "ECMPDUMP",
    "ENABLE_IRN",
    "ENABLE_PFC",
    "ENABLE_QCN",
    "ERROR_RATE_PER_LINK",
    "EWMA_GAIN",
    "FAST_REACT",
    "FAST_RECOVERY_TIMES",
    "FLOW_FILE",
    "GLOBAL_T",
    "HAS_WIN",
    "INT_MULTI",
    "KMAX_MAP",
    "KMIN_MAP",
    "L2_ACK_INTERVAL",
    "L2_BACK_TO_ZERO",
    "LB_MODE",
    "LINK_DOWN",
    "MIN_RATE",
    "MI_THRESH",
    "MULTI_RATE",
    "NIC_TOTAL_PAUSE_TIME",
    "PACKET_PAYLOAD_SIZE",
    "PINT_LOG_BASE",
    "PINT_PROB",
    "PMAX_MAP",
    "QSER",
    "RATESER",
    "RATE_AI",
    "RATE_BOUND",
    "RATE_DECREASE_INTERVAL",
    "RATE_HAI",
    "RING",
    "RNG_RUN",
    "RP_TIMER",
    "SAMPLE_FEEDBACK",
    "SIMULATOR_STOP_TIME",
    "TOPOLOGY_FILE",
    "U_TARGET",
    "VAR_WIN",
];

/// Keys without effect on the network: output, and what the program reads but does not use. So are `TRACE_*`, `QLEN_MON_*`, `CONWEAVE_*`,
/// `*_MON_INTERVAL` and `*_FILE`.
const IGNORED: [&str; 13] = [
    "DATA_RATE",
    "ENABLE_TRACE",
    "FLOWGEN_START_TIME",
    "FLOWGEN_STOP_TIME",
    "L2_CHUNK_SIZE",
    "LINK_DELAY",
    "LOAD",
    "MON_END",
    "MON_START",
    "PAUSE_TIME",
    "RANDOM_SEED",
    "SW_MONITORING_INTERVAL",
    "USE_DYNAMIC_PFC_THRESHOLD",
];

fn is_ignored(key: &str) -> bool {
    let (starts, ends) = (["TRACE_", "QLEN_MON_", "CONWEAVE_"], ["_FILE", "_MON_INTERVAL"]);
    IGNORED.contains(&key)
        || starts.iter().any(|start| key.starts_with(start))
        || ends.iter().any(|end| key.ends_with(end))
}

/// What the keys mean.
pub(super) struct Settings {
    pub(super) mtu: u16,
    /// The end of the run, in picoseconds of ns-3's clock.
    pub(super) stop: u64,
    pub(super) buffer_mib: u32,
    pub(super) control_waits: bool,
    /// A frame in so many asks for an ACK.
    pub(super) ack_every: u32,
    pub(super) window: Option<Window>,
    /// Switches mark.
    pub(super) marks: bool,
    pub(super) control: Control,
    /// ConWeave's switches and NICs, where they differ from HPCC's.
    pub(super) conweave: Conweave,
    pub(super) seed: u32,
    /// Time between samples of queues and rates.
    pub(super) sample: Option<Delta>,
}

/// Flows have a window.
pub(super) struct Window {
    pub(super) follows_rate: bool,
    /// That of the longest path for all, or each that of its own path.
    pub(super) is_global: bool,
}

/// A ring AllReduce: `RING hosts bytes host host ...`.
pub(super) struct Ring<'t> {
    pub(super) line: Line<'t>,
    pub(super) bytes: u64,
    /// Hosts as they are written.
    pub(super) hosts: Vec<&'t str>,
}

/// Marking of the ports of one rate; sizes are whole KB.
pub(super) struct Marking {
    pub(super) kmin: Bytes,
    pub(super) kmax: Bytes,
    pub(super) pmax: f64,
}

impl<'t> Config<'t> {
    /// Reads the file; a key that is not known is left out with a warning.
    pub(super) fn read(
        file: &'t TextFile,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        let mut lines = BTreeMap::new();
        let is_known = |line: &Line<'_>| KEYS.contains(&line.words[0]) || is_ignored(line.words[0]);
        if !file.lines().any(|line| is_known(&line)) {
            let message = "no line begins with a key of an ns-3 config; lines such as `CC_MODE 1` \
                           are expected";
            return Err(file.error(message));
        }
        for line in file.lines() {
            let key = line.words[0];
            let is_read = KEYS.contains(&key);
            if !is_read && !is_ignored(key) {
                warnings.push(unknown(&line, key));
                continue;
            }
            if is_read && line.words.len() < 2 {
                return Err(line.error(format!("{key} has no value; one is expected")));
            }
            if is_read && lines.contains_key(key) {
                warnings.push(line.note(format!("of two lines {key}, the last holds")));
            }
            lines.insert(key, line);
        }
        Ok(Config { file, lines })
    }

    /// The path that a key gives.
    pub(super) fn file(&self, key: &str) -> Option<&'t str> {
        self.lines.get(key)?.words.get(1).copied()
    }

    /// The line of a key and its only value, if the key is there.
    fn value(&self, key: &str) -> Result<Option<(&Line<'t>, &'t str)>, ImportError> {
        let Some(line) = self.lines.get(key) else { return Ok(None) };
        match line.words.as_slice() {
            [_, value] => Ok(Some((line, value))),
            words => {
                let count = counted(words.len() - 1, "value");
                Err(line.error(format!("{key} has {count}; 1 is expected")))
            }
        }
    }

    fn whole(&self, key: &str, default: u32) -> Result<u32, ImportError> {
        let value = self.value(key)?;
        value.map_or(Ok(default), |(line, word)| line.number(key, word))
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, ImportError> {
        match self.value(key)? {
            None => Ok(default),
            Some((_, "0")) => Ok(false),
            Some((_, "1")) => Ok(true),
            Some((line, word)) => {
                Err(line.error(format!("{} is no {key}; 0 or 1 is expected", quoted(word))))
            }
        }
    }

    /// Refuses all values but those in `known`.
    fn only(&self, key: &str, known: &[u32], why: &str) -> Result<(), ImportError> {
        let Some((line, word)) = self.value(key)? else { return Ok(()) };
        let value: u32 = line.number(key, word)?;
        match known.contains(&value) {
            true => Ok(()),
            false => {
                let message =
                    format!("{key} {value} is not understood ({why}); {} is expected", known[0]);
                Err(line.error(message))
            }
        }
    }

    /// A value that the program needs.
    fn required(&self, key: &str, example: &str) -> Result<(&Line<'t>, &'t str), ImportError> {
        self.value(key)?.ok_or_else(|| self.missing(key, example))
    }

    /// An error at the line of a key, or at the end if there is none.
    pub(super) fn error(&self, key: &str, message: impl Into<String>) -> ImportError {
        match self.lines.get(key) {
            Some(line) => line.error(message),
            None => self.file.error_at_end(message),
        }
    }

    fn missing(&self, key: &str, example: &str) -> ImportError {
        let message = format!("{key} is missing; a line `{key} {example}` is expected");
        self.file.error_at_end(message)
    }

    /// Probability that a frame is lost on a link that does not say.
    pub(super) fn loss(&self) -> Result<f64, ImportError> {
        let key = "ERROR_RATE_PER_LINK";
        self.value(key)?.map_or(Ok(0.0), |(line, word)| line.fraction(key, word))
    }

    /// The values of all keys but those that the topology is needed for.
    pub(super) fn settings(&self, warnings: &mut Vec<String>) -> Result<Settings, ImportError> {
        self.refuse_others()?;
        let conweave = self.conweave(warnings)?;
        let mtu = self.ranged("PACKET_PAYLOAD_SIZE", 1000, 256..=9216)?;
        let key = "SIMULATOR_STOP_TIME";
        let stop = self.value(key)?.map(|(line, word)| line.end(key, word)).transpose()?;
        let window = self.flag("HAS_WIN", true)?;
        let [follows_rate, is_global] =
            [self.flag("VAR_WIN", false)?, self.flag("GLOBAL_T", true)?];
        let marks = self.flag("ENABLE_QCN", true)?;
        let control = self.control(marks, window, warnings)?;
        Ok(Settings {
            mtu: mtu as u16,
            stop: stop.unwrap_or(3_010_000_000_000),
            buffer_mib: self.ranged("BUFFER_SIZE", 16, 1..=2047)?,
            control_waits: !self.flag("ACK_HIGH_PRIO", false)?,
            ack_every: self.ack_every(mtu, warnings)?,
            window: window.then_some(Window { follows_rate, is_global }),
            marks,
            control,
            conweave,
            seed: self.whole("RNG_RUN", 1)?,
            sample: self.sample()?,
        })
    }

    /// Frames of an ACK: so many as the bytes of `L2_ACK_INTERVAL` take.
    fn ack_every(&self, mtu: u32, warnings: &mut Vec<String>) -> Result<u32, ImportError> {
        let interval = self.whole("L2_ACK_INTERVAL", 0)?;
        let frames = interval.div_ceil(mtu).max(1);
        if frames > 1 {
            let message = format!(
                "L2_ACK_INTERVAL {interval}: every {frames} packets ask for an ACK (all where \
                 VAR_WIN is 1); forks of ns-3 differ in what they do after the first"
            );
            warnings.push(self.error("L2_ACK_INTERVAL", message).to_string());
        }
        Ok(frames)
    }

    /// The shorter of the times between samples of queues and of rates: files, and times in ns.
    fn sample(&self) -> Result<Option<Delta>, ImportError> {
        let mut shortest = None;
        for key in ["QSER", "RATESER"] {
            let Some(line) = self.lines.get(key) else { continue };
            let [_, _, ns] = line.words.as_slice() else {
                let count = counted(line.words.len() - 1, "value");
                let message = format!("{key} has {count}; a file and nanoseconds are expected");
                return Err(line.error(message));
            };
            let ns: u32 = line.number(key, ns)?;
            let span = (ns > 0).then(|| Delta::from_ns(ns.into()));
            shortest = shortest.into_iter().chain(span).min();
        }
        Ok(shortest)
    }

    /// The collective beside the flows.
    pub(super) fn ring(&self) -> Result<Option<Ring<'t>>, ImportError> {
        let Some(line) = self.lines.get("RING") else { return Ok(None) };
        let [_, count, bytes, hosts @ ..] = line.words.as_slice() else {
            return Err(
                line.error("RING has 1 value; `RING hosts bytes host host ...` is expected")
            );
        };
        let count: u32 = line.number("number of hosts", count)?;
        if hosts.len() != count as usize || count < 2 {
            let found = counted(hosts.len(), "host");
            return Err(line.error(format!(
                "RING announces {count} hosts and names {found}; as many are expected, at least 2"
            )));
        }
        let bytes = line.size(bytes)?;
        if bytes < u64::from(count) {
            return Err(line.error(format!(
                "a ring of {count} hosts over {bytes} bytes; at least a byte each is expected"
            )));
        }
        Ok(Some(Ring { line: line.clone(), bytes, hosts: hosts.to_vec() }))
    }

    /// The settings that ask for what is not modelled.
    fn refuse_others(&self) -> Result<(), ImportError> {
        self.only("RATE_BOUND", &[1], "rates that are not kept")?;
        self.only("L2_BACK_TO_ZERO", &[0], "messages that are sent again from their start")?;
        self.only("NIC_TOTAL_PAUSE_TIME", &[0], "NICs that send PFC frames")?;
        if let Some(line) = self.lines.get("LINK_DOWN")
            && line.words[1] != "0"
        {
            let message = "a link that goes down is not understood; `LINK_DOWN 0 0 0` is expected";
            return Err(line.error(message));
        }
        Ok(())
    }

    fn fraction(&self, key: &str, default: f64) -> Result<f64, ImportError> {
        self.value(key)?.map_or(Ok(default), |(line, word)| line.fraction(key, word))
    }

    fn required_rate(&self, key: &str, example: &str) -> Result<Rate, ImportError> {
        let (line, word) = self.required(key, example)?;
        line.rate(key, word)
    }

    fn min_rate(&self) -> Result<Rate, ImportError> {
        match self.value("MIN_RATE")? {
            Some((line, word)) => match line.rate("MIN_RATE", word)? {
                Rate::ZERO => Err(line.error("MIN_RATE is 0; at least 1bps is expected")),
                rate => Ok(rate),
            },
            None => Ok(Rate::from_mbps(100)),
        }
    }

    fn ranged(
        &self,
        key: &str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> Result<u32, ImportError> {
        let Some((line, word)) = self.value(key)? else { return Ok(default) };
        let value = line.number(key, word)?;
        match range.contains(&value) {
            true => Ok(value),
            false => {
                let (from, to) = range.into_inner();
                let message = format!("{key} {value} is out of range; {from} to {to} is expected");
                Err(line.error(message))
            }
        }
    }

    fn micros(&self, key: &str, default: u64) -> Result<Delta, ImportError> {
        self.value(key)?.map_or(Ok(Delta::from_us(default)), |value| micros(key, value))
    }

    /// Marking at ports of each of `rates`.
    pub(super) fn marking(&self, rates: &[Rate]) -> Result<Vec<Marking>, ImportError> {
        let size = |line: &Line<'_>, key: &str, word: &str| {
            let thousands: u32 = line.number(key, word)?;
            Ok(Bytes::new(1000 * u64::from(thousands)))
        };
        let kmin = self.map("KMIN_MAP", rates, size)?;
        let kmax = self.map("KMAX_MAP", rates, size)?;
        let pmax = self.map("PMAX_MAP", rates, Line::fraction)?;
        let all = kmin.into_iter().zip(kmax).zip(pmax);
        // above kmax every frame is marked, even where kmin is higher
        Ok(all.map(|((kmin, kmax), pmax)| Marking { kmin: kmin.min(kmax), kmax, pmax }).collect())
    }

    /// The entries of a `_MAP` for `rates`.
    fn map<T: Copy>(
        &self,
        key: &str,
        rates: &[Rate],
        read: impl Fn(&Line<'t>, &str, &str) -> Result<T, ImportError>,
    ) -> Result<Vec<T>, ImportError> {
        if rates.is_empty() {
            return Ok(Vec::new());
        }
        let Some(line) = self.lines.get(key) else {
            return Err(self.missing(key, "1 100000000000 400"));
        };
        let count: u32 = line.number("number of rates", line.words[1])?;
        let pairs = &line.words[2..];
        if pairs.len() as u64 != 2 * u64::from(count) {
            let found = counted(pairs.len(), "value");
            let message = format!(
                "{key} announces {count} rates and has {found}; a rate and a value of each are \
                 expected"
            );
            return Err(line.error(message));
        }
        let mut map = BTreeMap::new();
        for pair in pairs.chunks_exact(2) {
            let bps: u64 = line.number("rate in bits per second", pair[0])?;
            if map.insert(Rate::from_bps(bps), read(line, key, pair[1])?).is_some() {
                return Err(line.error(format!("{key} has {bps} twice; once is expected")));
            }
        }
        let entry = |rate: &Rate| {
            map.get(rate).copied().ok_or_else(|| {
                let bps = rate.bps();
                line.error(format!(
                    "{key} has no entry for {rate} ({bps}), the rate of a switch port; one for \
                     each rate in topology.txt is expected"
                ))
            })
        };
        rates.iter().map(entry).collect()
    }
}

/// Microseconds, down to whole ones, as ns-3 reads them.
fn micros(key: &str, (line, word): (&Line<'_>, &str)) -> Result<Delta, ImportError> {
    let whole = Decimal::parse(word).and_then(|us| us.floor(0));
    match whole.filter(|us| (1..=1_000_000_000_000).contains(us)) {
        Some(us) => Ok(Delta::from_us(us as u64)),
        None => Err(line
            .error(format!("{} is no {key}; microseconds are expected, at least 1", quoted(word)))),
    }
}

fn unknown(line: &Line<'_>, key: &str) -> String {
    let near = near_miss(key, KEYS.into_iter().chain(IGNORED));
    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let message = format!("the key {} is unknown and was left out{near}", quoted(key));
    line.note(message)
}
