//! Listings of `/sys/class/net/DEV/ecn/roce_rp` and `roce_np`, or of debugfs `cc_params`: what holds
//! now. A line is a path (or a bare name) and a value, as `grep .` prints them.

use std::collections::BTreeMap;

use super::super::text::{Line, quoted};
use super::params::{Param, find, list, number};
use super::{Found, ImportError, Lines, Place, Rank};

/// Settings of these folders that are no key: the PCP of CNPs, and what chooses it.
const WITHOUT_KEY: [&str; 3] = ["cnp_802p_prio", "np_cnp_prio", "np_cnp_prio_mode"];

/// A line: the file's path, and its value.
struct Item<'t> {
    /// The parts of the path.
    parts: Vec<&'t str>,
    value: &'t str,
}

impl<'t> Item<'t> {
    fn of(line: &Line<'t>) -> Option<Self> {
        let (path, value) = match line.words.as_slice() {
            // an address of PCI in the path has colons too
            [word] => word.rsplit_once(':').or_else(|| word.rsplit_once('='))?,
            [path, "=" | ":", value] | [path, value] => (path.trim_end_matches([':', '=']), *value),
            _ => return None,
        };
        (!path.is_empty() && !value.is_empty())
            .then(|| Item { parts: path.split('/').collect(), value })
    }

    fn name(&self) -> &'t str {
        self.parts.last().copied().unwrap_or_default()
    }

    /// `roce_rp`, `3` of `.../roce_rp/enable/3`.
    fn enable(&self) -> Option<(&'t str, &'t str)> {
        match self.parts.as_slice() {
            [.., point @ ("roce_rp" | "roce_np"), "enable", priority] => Some((point, priority)),
            _ => None,
        }
    }

    /// `eth2` of `/sys/class/net/eth2/ecn/..`, `0000:3b:00.0` of `mlx5/0000:3b:00.0/cc_params/..`.
    fn port(&self) -> Option<&'t str> {
        let before = |name: &str| {
            let at = self.parts.iter().position(|part| *part == name)?;
            self.parts.get(at.checked_sub(1)?).copied()
        };
        before("ecn").or_else(|| before("cc_params"))
    }

    fn is_known(&self) -> bool {
        self.enable().is_some() || find(self.name()).is_some() || WITHOUT_KEY.contains(&self.name())
    }
}

pub(super) fn is(lines: &Lines<'_>) -> bool {
    lines.iter().filter_map(Item::of).any(|item| item.is_known())
}

/// Priorities of one port that were said to be on or off, and where the first was.
type Enabled<'t> = BTreeMap<(&'t str, Option<&'t str>), (Place, BTreeMap<u8, bool>)>;

pub(super) fn read(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    let mut enabled = Enabled::new();
    for line in lines {
        let Some(item) = Item::of(line).filter(Item::is_known) else {
            found.other.push(line.words[0].rsplit('/').next().unwrap_or_default().to_owned());
            continue;
        };
        let bad = |expected: &str| {
            let (name, value) = (quoted(item.name()), quoted(item.value));
            line.error(format!("{name} is {value}; {expected} is expected"))
        };
        if let Some((point, priority)) = item.enable() {
            let priority = priority.parse().ok().filter(|priority| *priority < 8);
            let priority = priority.ok_or_else(|| {
                line.error(format!("{} is no priority; 0 to 7 is expected", quoted(item.name())))
            })?;
            let on = match number(item.value) {
                Some(0) => false,
                Some(1) => true,
                _ => return Err(bad("0 or 1")),
            };
            let entry = enabled.entry((point, item.port()));
            let (_, known) = entry.or_insert_with(|| (Place::of(line), BTreeMap::new()));
            if known.insert(priority, on).is_some_and(|before| before != on) {
                return Err(line.error(format!("priority {priority} is both on and off here")));
            }
            continue;
        }
        let number = number(item.value).ok_or_else(|| bad("a number"))?;
        match find(item.name()) {
            Some(param) => {
                take(param, number, item.name(), item.port(), Rank::Running, line, &mut found);
            }
            None => found.other.push(item.name().to_owned()),
        }
    }
    for ((point, port), (place, known)) in enabled {
        let key = match point {
            "roce_rp" => "nic.congestion.priorities",
            _ => "nic.np.priorities",
        };
        // a priority that is not listed is on, as the firmware has it
        let on = (0..8).filter(|priority| known.get(priority) != Some(&false));
        let name = format!("{point}/enable");
        if known.len() < 8 {
            let given = list(known.keys().copied());
            let message =
                format!("{name} is listed for {given} only: other priorities count as on");
            found.warnings.push(place.error(message).to_string());
        }
        found.push(key, list(on), name, port, Rank::Running, place);
    }
    Ok(found)
}

/// Takes a parameter, or says why it cannot be a key.
pub(super) fn take(
    param: &Param,
    number: u64,
    name: &str,
    port: Option<&str>,
    rank: Rank,
    line: &Line<'_>,
    found: &mut Found,
) {
    match param.toml(number) {
        Ok(_) if param.key.is_empty() => {}
        Ok(value) => found.push(param.key, value, name, port, rank, Place::of(line)),
        Err(known) => {
            let message =
                format!("{name} is {number}, but the model knows {known}: this value is left out");
            found.warnings.push(line.note(message));
        }
    }
}
