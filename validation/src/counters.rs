//! Counters of an operator's devices, under the names that reports of runs have.
//!
//! A [`Counter`] is a name and, where it counts one priority (or the queue or priority group of
//! that number), the priority. What [`models::report::PriorityReport`] counts has its name here:
//! `rx_pause_frames`, `tx_pause_frames`, `max_queue_bytes`, `ecn_marked_packets`, `drops`. Counters
//! of NICs have mlx5's names, as in [`models::report::NicReport`].

use std::collections::BTreeMap;

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counter {
    /// `rx_pause_frames`, `np_cnp_sent`.
    pub name: String,
    /// The priority, queue or priority group, if it is of one.
    pub priority: Option<u8>,
}

impl Counter {
    /// Of a priority.
    pub fn of(name: &str, priority: u8) -> Self {
        Counter { name: name.to_owned(), priority: Some(priority) }
    }

    /// Of a whole port or device.
    pub fn whole(name: &str) -> Self {
        Counter { name: name.to_owned(), priority: None }
    }
}

/// What has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Tables of SONiC: a port of a switch.
    Switch,
    /// `ethtool -S`: a port of a NIC.
    Ethtool,
    /// `rdma statistic` or `hw_counters`: a device of verbs.
    Rdma,
}

/// The counters of one port or device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// `Ethernet8`, `mlx5_0/1`; the name of the file where that says none.
    pub place: String,
    /// Whether the file said so.
    pub named: bool,
    /// What has counted.
    pub source: Source,
    /// The file.
    pub file: String,
    /// The values.
    pub values: BTreeMap<Counter, u64>,
}

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// By port and device.
    pub places: Vec<Counters>,
    /// Of each file: what it was taken for.
    pub files: Vec<String>,
}

/// Values that are a state or a maximum: no difference of two snapshots is made of them.
const STATES: [&str; 6] = [
    "max_queue_bytes",
    "headroom_watermark_bytes",
    "shared_watermark_bytes",
    "pfcwd_stormed",
    "outbound_pci_stalled_rd",
    "outbound_pci_stalled_wr",
];

impl Measured {
    /// Adds what another file says. Tables of one switch in several files become one; where two
    /// files count the same of one name, they are two devices.
    pub fn add(&mut self, counters: Counters) {
        let same = self.places.iter_mut().find(|known| {
            known.named
                && counters.named
                && (&known.place, known.source) == (&counters.place, counters.source)
                && counters.values.keys().all(|key| !known.values.contains_key(key))
        });
        match same {
            Some(known) => known.values.extend(counters.values),
            None => {
                let taken = self.places.iter().any(|known| known.place == counters.place);
                let place = match taken {
                    true => format!("{} ({})", counters.place, counters.file),
                    false => counters.place.clone(),
                };
                self.places.push(Counters { place, ..counters });
            }
        }
    }

    /// Adds all that was read of another file.
    pub fn merge(&mut self, other: Measured) {
        other.places.into_iter().for_each(|counters| self.add(counters));
        self.files.extend(other.files);
    }

    /// What was counted since `before`, and what could not be told. Places are matched by name, those
    /// without one in their order.
    pub fn since(mut self, before: &Measured) -> (Measured, Vec<String>) {
        let mut notes = Vec::new();
        let mut unnamed = BTreeMap::<Source, usize>::new();
        for after in &mut self.places {
            let candidates = before.places.iter().filter(|known| known.source == after.source);
            let earlier = match after.named {
                true => candidates.clone().find(|known| known.named && known.place == after.place),
                false => {
                    let turn = unnamed.entry(after.source).or_default();
                    *turn += 1;
                    candidates.clone().filter(|known| !known.named).nth(*turn - 1)
                }
            };
            let Some(earlier) = earlier else {
                notes.push(format!("{} is not in what was read before: left out", after.place));
                after.values.retain(|key, _| STATES.contains(&key.name.as_str()));
                continue;
            };
            for (key, value) in &mut after.values {
                let past = earlier.values.get(key).copied().unwrap_or(0);
                match value.checked_sub(past) {
                    _ if STATES.contains(&key.name.as_str()) => {}
                    Some(difference) => *value = difference,
                    None => notes.push(format!(
                        "{} {} went from {past} down to {value}: it was cleared in between, and counts \
                         from there",
                        after.place, key.name
                    )),
                }
            }
        }
        (self, notes)
    }

    /// All values of this name: place, priority, value.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Value<'a>> {
        self.places.iter().flat_map(move |counters| {
            let of_name = counters.values.iter().filter(move |(key, _)| key.name == name);
            of_name.map(move |(key, value)| Value {
                counters,
                priority: key.priority,
                value: *value,
            })
        })
    }

    /// Whether anything of this name was read.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The sum of all values of this name.
    pub fn sum(&self, name: &str) -> u64 {
        self.all(name).map(|value| value.value).sum()
    }
}

impl Counters {
    /// The sum of this place's values of this name, over priorities.
    pub fn sum(&self, name: &str) -> u64 {
        self.values.iter().filter(|(key, _)| key.name == name).map(|(_, value)| value).sum()
    }

    /// One value, 0 if it was not read.
    pub fn get(&self, name: &str, priority: u8) -> u64 {
        self.values.get(&Counter::of(name, priority)).copied().unwrap_or(0)
    }

    /// Whether anything of this name was read.
    pub fn has(&self, name: &str) -> bool {
        self.values.keys().any(|key| key.name == name)
    }
}

/// A value and its place.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    /// Its place.
    pub counters: &'a Counters,
    /// Its priority, if it is of one.
    pub priority: Option<u8>,
    /// The value.
    pub value: u64,
}
