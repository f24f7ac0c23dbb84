//! Which keys of a scenario may be fitted, within which bounds, and how their values are written.

use models::collective::Op;
use scenarios::keys::keys;
use scenarios::load::near_miss;
use scenarios::resolve::{Complaint, Loaded};
use sim_core::{Delta, Rate};

/// What a key measures, and so how its value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A time; values are in seconds.
    Time,
    /// A rate; values are in bit/s.
    Rate,
    /// A number without unit.
    Number,
    /// A count.
    Count,
}

/// A key that may be fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its path, as `--set` takes it.
    pub path: String,
    /// What it measures.
    pub unit: Unit,
    /// Its value in the scenario, as it is written there; absent where the model has its own.
    pub given: Option<String>,
    /// Where a fit of it begins: the given value, or one that has an effect where that has none.
    pub start: f64,
    /// No value below this is tried.
    pub low: f64,
    /// No value above this is tried.
    pub high: f64,
}

/// From the start of a fit down to its lower bound, and up to its upper one.
const SPAN: f64 = 100.0;
/// Latencies are not fitted below this, nor above [`LATENCY_MAX_S`].
const LATENCY_MIN_S: f64 = 1e-9;
const LATENCY_MAX_S: f64 = 10e-3;
/// A latency that is zero starts here.
const LATENCY_START_S: f64 = 200e-9;

impl Key {
    fn new(path: &str, unit: Unit, given: Option<String>, value: f64) -> Key {
        let (low, high) = match unit {
            Unit::Time => {
                ((value / SPAN).max(LATENCY_MIN_S), (value * SPAN).clamp(1e-6, LATENCY_MAX_S))
            }
            Unit::Rate => (value / SPAN, value * SPAN),
            Unit::Number => (value / SPAN, value * SPAN),
            Unit::Count => (1.0, value * SPAN),
        };
        Key { path: path.to_owned(), unit, given, start: value, low, high }
    }

    /// A value as a scenario has it: four digits, latencies to 0.1 ns, so that equal text is an equal
    /// simulation.
    pub fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::Time => format!("{}ns", tidy(digits(value * 1e9, 4).max(0.1), 1)),
            Unit::Rate => format!("{}Mbps", tidy(digits(value / 1e6, 4).max(0.001), 3)),
            Unit::Number => tidy(digits(value, 4), 9),
            Unit::Count => format!("{}", value.round().max(1.0) as u64),
        }
    }

    /// The value that [`Key::text`] writes, as `--set` takes it.
    pub fn set(&self, value: f64) -> String {
        format!("{}={}", self.path, self.text(value))
    }
}

/// Rounded to so many significant digits.
fn digits(value: f64, count: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(count - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// At most so many decimals, and no zeros at the end.
fn tidy(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// What decides which keys can matter.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Data goes by TCP.
    pub sockets: bool,
    /// There are several hosts.
    pub across: bool,
    /// Hosts have several GPUs that take part.
    pub within: bool,
    /// GPUDirect is on.
    pub gdr: bool,
    /// The operations.
    pub ops: Vec<Op>,
    /// The rate of a host's slowest port.
    pub port: Rate,
    /// Some size may take NVLS or NVLSTree.
    pub nvls: bool,
}

/// The keys that are tried unless `--free` names others: what hosts take, by the way that data goes.
pub(super) fn usual(loaded: &Loaded, job: &Job) -> Result<Vec<Key>, Complaint> {
    let known = Known::new(loaded)?;
    let mut paths = vec!["host.launch_latency", "host.channel_latency", "host.slice_latency"];
    let reduced = job.ops.iter().any(|op| !op.is_p2p());
    if reduced {
        paths.extend(["host.ll.slice", "host.ll128.slice"]);
    }
    paths.push("host.channel_rate");
    if reduced {
        paths.extend(["host.ll.rate", "host.ll128.rate"]);
    }
    if job.within {
        paths.extend(["host.nvlink.latency", "host.nvlink.rate"]);
        if reduced {
            paths.extend(["host.ll.nvlink", "host.ll128.nvlink"]);
        }
        if job.nvls {
            paths.push("host.nvls_rate");
        }
    }
    if job.across {
        paths.push("host.proxy_latency");
        if reduced {
            paths.extend(["host.ll.proxy", "host.ll128.proxy"]);
        }
        paths.push("host.nic.pcie.latency");
        match job.sockets {
            true => paths.extend(["host.socket.latency", "host.socket.rate"]),
            false => paths.push("host.nic.pcie.rate"),
        }
        if !job.gdr || job.sockets {
            paths.extend(["host.host_memory.latency", "host.host_memory.rate"]);
        } else {
            paths.push("host.gdr_flush");
        }
    }
    paths.into_iter().map(|path| known.key(path, job)).collect()
}

/// The keys that `--free` names.
pub(super) fn named(loaded: &Loaded, job: &Job, paths: &[String]) -> Result<Vec<Key>, Complaint> {
    let known = Known::new(loaded)?;
    paths.iter().map(|path| known.key(path, job)).collect()
}

/// All keys of the scenario with presets laid under.
struct Known(std::collections::BTreeMap<String, String>);

/// Keys that may be absent: what they are then.
const OPTIONAL: [&str; 2] = ["host.ll.rate", "host.ll128.rate"];

impl Known {
    fn new(loaded: &Loaded) -> Result<Known, Complaint> {
        let keys = keys(&loaded.resolved);
        keys.map(Known).map_err(|error| Complaint(format!("error: {error}")))
    }

    fn key(&self, path: &str, job: &Job) -> Result<Key, Complaint> {
        let given = self.0.get(path).cloned();
        let Some(text) = given.as_deref() else {
            if OPTIONAL.contains(&path) {
                let rate = self.0.get("host.channel_rate").and_then(|text| text.parse().ok());
                let rate = rate.unwrap_or(Rate::from_gbps(200));
                return Ok(Key::new(path, Unit::Rate, None, rate.bps() as f64));
            }
            let known = self.0.keys().map(String::as_str).chain(OPTIONAL);
            let hint = match near_miss(path, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`rocesim run --out DIR` writes all keys of a scenario".to_owned(),
            };
            let message = format!("error: --free {path}: the scenario has no such key; {hint}");
            return Err(Complaint(message));
        };
        if let Ok(latency) = text.parse::<Delta>() {
            let seconds = latency.as_secs();
            let start = if seconds == 0.0 { LATENCY_START_S } else { seconds };
            return Ok(Key::new(path, Unit::Time, given, start));
        }
        if let Ok(rate) = text.parse::<Rate>() {
            let mut start = rate.bps() as f64;
            // a NIC that PCIe does not hold back: just where it begins to
            if path == "host.nic.pcie.rate" {
                start = start.min(job.port.bps() as f64 * 0.98);
            }
            return Ok(Key::new(path, Unit::Rate, given, start));
        }
        let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
        match number {
            Some(number) if text.contains(['.', 'e']) => {
                Ok(Key::new(path, Unit::Number, given, number))
            }
            Some(number) => Ok(Key::new(path, Unit::Count, given, number)),
            None => Err(Complaint(format!(
                "error: --free {path}: {text:?} is nothing that can be fitted; a time, a rate or a \
                 number above 0 is expected"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_four_digits() {
        let time = Key::new("a", Unit::Time, None, 1e-6);
        assert_eq!(time.text(8.412_34e-6), "8412ns");
        assert_eq!(time.text(123.456e-6), "123500ns");
        assert_eq!(time.text(45.678e-9), "45.7ns");
        let rate = Key::new("a", Unit::Rate, None, 1e9);
        assert_eq!(rate.text(217_345_678_901.0), "217300Mbps");
        assert_eq!(Key::new("a", Unit::Count, None, 4.0).text(3.6), "4");
        assert_eq!(Key::new("a", Unit::Number, None, 0.5).text(0.123_456), "0.1235");
        // bounds of a latency of 1 us: 10 ns, 100 us
        assert!((time.low - 10e-9).abs() < 1e-15 && (time.high - 100e-6).abs() < 1e-12);
    }
}
