//! `mlnx_qos -i DEV`: trust, DSCPs, PFC, receive buffers.

use std::collections::BTreeMap;

use super::super::text::{Line, quoted};
use super::params::list;
use super::{Found, ImportError, Lines, Place, Rank};

pub(super) fn is(lines: &Lines<'_>) -> bool {
    lines.iter().any(|line| {
        matches!(line.words.as_slice(), ["Priority", "trust", "state:", ..])
            || matches!(line.words.as_slice(), ["PFC", "configuration:"])
    })
}

/// A row of numbers, one a priority (or a buffer), and where it stands.
type Row = Option<(Place, [u64; 8])>;

/// What the listing says, before it is understood.
#[derive(Default)]
struct Listing {
    trust: Option<(Place, String)>,
    /// Where the map begins; priority by DSCP.
    dscps: Option<(Place, BTreeMap<u8, u8>)>,
    enabled: Row,
    buffer_of: Row,
    sizes: Row,
}

pub(super) fn read(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    let mut listing = Listing::default();
    for line in lines {
        let place = || Place::of(line);
        match line.words.as_slice() {
            ["Priority", "trust", "state:", trust] => {
                listing.trust = Some((place(), (*trust).to_owned()));
            }
            ["enabled", flags @ ..] => listing.enabled = Some((place(), row(line, flags, 1)?)),
            ["buffer", buffers @ ..] => listing.buffer_of = Some((place(), row(line, buffers, 7)?)),
            ["Receive", "buffer", "size", "(bytes):", rest @ ..] => {
                let sizes = rest.concat();
                let sizes: Vec<&str> = sizes
                    .split(',')
                    .filter(|word| !word.is_empty() && !word.starts_with("max_buffer_size"))
                    .collect();
                listing.sizes = Some((place(), row(line, &sizes, u64::MAX)?));
            }
            [priority, dscps @ ..] if priority.starts_with("prio:") => {
                listing.dscps(line, &priority["prio:".len()..], &dscps.concat())?;
            }
            // what the table of PFC has above it, and how priorities are scheduled: no key
            ["DCBX" | "Cable" | "dscp2prio" | "priority" | "priority:" | "tc:", ..]
            | ["default", "priority:", ..]
            | ["PFC", "configuration:"] => {}
            [word, ..] => found.other.push((*word).to_owned()),
            [] => {}
        }
    }
    listing.finish(&mut found);
    Ok(found)
}

/// Eight numbers up to `most`.
fn row(line: &Line<'_>, words: &[&str], most: u64) -> Result<[u64; 8], ImportError> {
    let number = |word: &&str| {
        let number = word.parse().ok().filter(|number| *number <= most);
        let limit = if most == u64::MAX { String::new() } else { format!(" up to {most}") };
        number.ok_or_else(|| line.error(format!("{}; a number{limit} is expected", quoted(word))))
    };
    let numbers: Vec<u64> = words.iter().map(number).collect::<Result<_, _>>()?;
    let count = numbers.len();
    numbers.try_into().map_err(|_| line.error(format!("{count} numbers; 8 are expected")))
}

impl Listing {
    /// `prio:3 dscp:31,30,29,28,27,26,25,24,`
    fn dscps(&mut self, line: &Line<'_>, priority: &str, dscps: &str) -> Result<(), ImportError> {
        let bad = |word: &str, expected: &str| {
            line.error(format!("{}; {expected} is expected", quoted(word)))
        };
        let priority = priority.parse().ok().filter(|priority: &u8| *priority < 8);
        let priority = priority.ok_or_else(|| bad(line.words[0], "prio:0 to prio:7"))?;
        let (_, map) = self.dscps.get_or_insert_with(|| (Place::of(line), BTreeMap::new()));
        let words = dscps.strip_prefix("dscp:").unwrap_or(dscps).split(',');
        for word in words.filter(|word| !word.is_empty()) {
            let dscp = word.parse().ok().filter(|dscp: &u8| *dscp < 64);
            let dscp = dscp.ok_or_else(|| bad(word, "a DSCP of 0 to 63"))?;
            if map.insert(dscp, priority).is_some_and(|before| before != priority) {
                return Err(line.error(format!("DSCP {dscp} has two priorities here")));
            }
        }
        Ok(())
    }

    fn finish(self, found: &mut Found) {
        let Listing { trust, dscps, enabled, buffer_of, sizes } = self;
        let pcp = trust.as_ref().is_some_and(|(_, trust)| trust == "pcp");
        if let (true, Some((place, _))) = (pcp, &trust) {
            let message = "trust is pcp: VLAN tags choose the priority of what arrives, but the model \
                           goes by DSCP: dscp_to_priority is left as the scenario has it";
            found.warnings.push(place.error(message.to_owned()).to_string());
        }
        if let (false, Some((place, map))) = (pcp, dscps) {
            let entries: Vec<String> =
                map.iter().map(|(dscp, to)| format!("{dscp} = {to}")).collect();
            let key = "nic.qos.dscp_to_priority";
            let value = entries.join("\n");
            found.push(key, value, "dscp2prio mapping", None, Rank::Running, place);
        }
        let Some((place, flags)) = enabled else { return };
        let on = || (0..8u8).filter(|priority| flags[usize::from(*priority)] == 1);
        let key = "nic.pfc.priorities";
        found.push(key, list(on()), "PFC enabled", None, Rank::Running, place);
        let Some((place, buffers)) = buffer_of else { return };
        for priority in on() {
            let buffer = buffers[usize::from(priority)];
            let lossy = (0..8u8)
                .filter(|other| flags[usize::from(*other)] == 0)
                .filter(|other| buffers[usize::from(*other)] == buffer);
            let lossy: Vec<String> = lossy.map(|other| other.to_string()).collect();
            if !lossy.is_empty() {
                let message = format!(
                    "priority {priority} has PFC but shares receive buffer {buffer} with priorities \
                     without ({}): these can fill it",
                    lossy.join(", ")
                );
                found.warnings.push(place.error(message).to_string());
            }
            let Some((place, sizes)) = &sizes else { continue };
            let size = sizes[buffer as usize];
            if size == 0 {
                let message =
                    format!("priority {priority} has receive buffer {buffer}, of 0 bytes");
                found.warnings.push(place.error(message).to_string());
                continue;
            }
            found.remarks.push(format!(
                "Receive buffer of priority {priority}: {size} B ({}). It matters where the host\n\
                 takes data more slowly than the link brings it; then say how slowly (XOFF and XON\n\
                 are guesses):\n\
                 [nic.receive]\nrate = \"80Gbps\"\nbuffer = \"{size}B\"\nxoff = \"{}B\"\nxon = \"{}B\"",
                place.short(),
                size / 2,
                size / 4
            ));
        }
    }
}
