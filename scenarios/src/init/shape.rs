//! `[topology]` from numbers: how many switches, and how they are cabled.

use super::numbers::{Numbers, tree_for};
use super::write::exact;
use super::{InitOptions, Shape, refuse};
use crate::resolve::Complaint;

/// The fabric as it will be written.
pub(super) struct Fabric {
    /// In words, for the title.
    pub(super) place: String,
    /// Keys of `[topology]`, each with its comment.
    pub(super) keys: Vec<(String, String)>,
    /// Most ports that a switch has.
    pub(super) ports: u64,
    /// Rails without spines: what leaves by one cannot arrive by another.
    pub(super) islands: bool,
}

/// More ports than a switch can have, more cables than a fabric can have.
const PORTS_MAX: u64 = 65_535;
const CABLES_MAX: u64 = 1_000_000;

pub(super) fn fabric(options: &InitOptions, numbers: &Numbers) -> Result<Fabric, Complaint> {
    let mut keys = Vec::new();
    let kind = |comment: &str| key("kind", format!("{:?}", options.shape.name()), comment);
    let (place, ports) = match options.shape {
        Shape::Star => {
            keys.push(kind("all on one switch"));
            star(&mut keys, numbers)
        }
        Shape::LeafSpine => {
            keys.push(kind("each leaf has hosts below it and every spine above it"));
            leaf_spine(&mut keys, options, numbers)?
        }
        Shape::FatTree => {
            keys.push(kind("three tiers of equal switches, as much bandwidth up as down"));
            fat_tree(&mut keys, options, numbers)
        }
        Shape::Rail => {
            keys.push(kind("NIC r of every host goes to leaf r of its group: its rail"));
            rail(&mut keys, options, numbers)?
        }
        Shape::Dumbbell => {
            keys.push(kind("two switches and a trunk between them"));
            dumbbell(&mut keys, numbers)
        }
        Shape::Ring => {
            keys.push(kind("switches in a circle: with PFC it can deadlock"));
            ring(&mut keys, options, numbers)?
        }
    };
    if ports > PORTS_MAX {
        let message = format!("a switch would have {ports} ports: at most {PORTS_MAX} can be");
        return refuse("--hosts", message);
    }
    let islands = options.shape == Shape::Rail && numbers.nics > 1;
    let islands = islands && keys.iter().any(|(line, _)| line == "spines = 0");
    Ok(Fabric { place, keys, ports, islands })
}

fn key(name: &str, value: impl ToString, comment: impl Into<String>) -> (String, String) {
    (format!("{name} = {}", value.to_string()), comment.into())
}

/// What hosts are called.
fn names(numbers: &Numbers) -> String {
    format!("{}, named host0 to host{}", numbers.noun(), numbers.hosts - 1)
}

/// The key `link`: every cable is alike.
fn link(numbers: &Numbers, which: &str) -> (String, String) {
    let (rate, delay) = (exact(numbers.rate), exact(numbers.cable.delay()));
    let value = format!("{{ rate = {rate}, delay = {delay} }}");
    key("link", value, format!("{which}: {} at 5 ns/m", numbers.cable))
}

/// Parallel cables of each host to its switch, if there are any.
fn ports_per_host(keys: &mut Vec<(String, String)>, numbers: &Numbers) {
    if numbers.nics > 1 {
        keys.push(key("ports_per_host", numbers.nics, "NICs of each host, one port each"));
    }
}

fn star(keys: &mut Vec<(String, String)>, numbers: &Numbers) -> (String, u64) {
    let Numbers { hosts, nics, .. } = *numbers;
    keys.push(key("hosts", hosts, names(numbers)));
    ports_per_host(keys, numbers);
    keys.push(link(numbers, "each cable"));
    (format!("a star of {hosts} {}", numbers.noun()), u64::from(hosts) * u64::from(nics))
}

fn leaf_spine(
    keys: &mut Vec<(String, String)>,
    options: &InitOptions,
    numbers: &Numbers,
) -> Result<(String, u64), Complaint> {
    let Numbers { hosts, nics, .. } = *numbers;
    let noun = numbers.noun();
    let leaves = match options.leaves {
        Some(leaves) if hosts.is_multiple_of(leaves) => leaves,
        Some(leaves) => {
            let message = format!("{hosts} {noun} do not divide among {leaves} leaves");
            return refuse("--leaves", format!("{message}: a divisor of {hosts} is expected"));
        }
        None => hosts / below_a_leaf(hosts, nics)?,
    };
    let down = u64::from(hosts / leaves) * u64::from(nics);
    let up = Uplinks::new(options, down, leaves)?;
    keys.push(key("leaves", leaves, "switches with hosts: one a rack, say"));
    keys.push(key("hosts_per_leaf", hosts / leaves, format!("{hosts} {noun} in all")));
    ports_per_host(keys, numbers);
    keys.push(key("spines", up.spines, "each is connected to every leaf"));
    keys.push(key("uplinks_per_spine", up.per_spine, up.words(down, options)));
    keys.push(link(numbers, "each cable, up and down"));
    let ports = (down + up.count()).max(u64::from(leaves) * u64::from(up.per_spine));
    Ok((format!("a leaf-spine fabric of {hosts} {noun}"), ports))
}

/// Most hosts below a leaf that divide all, up to 16 and to 64 ports; two leaves at least.
fn below_a_leaf(hosts: u32, nics: u32) -> Result<u32, Complaint> {
    let most = (64 / nics).clamp(2, 16).min(hosts / 2);
    match (2..=most).rev().find(|below| hosts.is_multiple_of(*below)) {
        Some(below) => Ok(below),
        None => {
            let message = format!("{hosts} hosts do not divide among leaves of 2 hosts or more");
            refuse("--hosts", format!("{message}: give --leaves, or another number of hosts"))
        }
    }
}

fn rail(
    keys: &mut Vec<(String, String)>,
    options: &InitOptions,
    numbers: &Numbers,
) -> Result<(String, u64), Complaint> {
    let Numbers { hosts, nics: rails, .. } = *numbers;
    let noun = numbers.noun();
    let leaves = options.leaves.unwrap_or(rails);
    let groups = leaves / rails;
    if !leaves.is_multiple_of(rails) {
        let message = format!("{leaves} leaves do not divide into groups of {rails} rails");
        return refuse("--leaves", format!("{message}: a multiple of {rails} is expected"));
    }
    if !hosts.is_multiple_of(groups) {
        let message = format!("{hosts} {noun} do not divide into {groups} groups");
        return refuse("--hosts", format!("{message}: a multiple of {groups} is expected"));
    }
    let below = u64::from(hosts / groups);
    keys.push(key("hosts", hosts, names(numbers)));
    keys.push(key("rails", rails, "NICs of each host, and leaves of each group"));
    if groups > 1 {
        keys.push(key("hosts_per_group", below, format!("{groups} groups with their own leaves")));
    }
    let wanted = groups > 1 || options.oversubscription.is_some();
    let ports = match options.spines {
        Some(0) if groups > 1 => {
            return refuse("--spines", format!("{groups} groups need spines between them"));
        }
        Some(0) => below,
        None if !wanted => below,
        _ => {
            let up = Uplinks::new(options, below, leaves)?;
            keys.push(key("spines", up.spines, "each is connected to every leaf: joins the rails"));
            keys.push(key("uplinks_per_spine", up.per_spine, up.words(below, options)));
            (below + up.count()).max(u64::from(leaves) * u64::from(up.per_spine))
        }
    };
    if ports == below {
        keys.push(key("spines", 0, "none: rails meet inside the hosts only"));
    }
    keys.push(link(numbers, "each cable"));
    Ok((format!("{rails} rails of {hosts} {noun}"), ports))
}

fn fat_tree(
    keys: &mut Vec<(String, String)>,
    options: &InitOptions,
    numbers: &Numbers,
) -> (String, u64) {
    let hosts = numbers.hosts;
    let k = tree_for(hosts);
    let asked = match options.hosts {
        Some(asked) if asked != hosts => format!("; for {asked}, k = {} is too small", k - 2),
        _ => String::new(),
    };
    let comment = format!("ports of each switch: k^3 / 4 = {hosts} {}{asked}", numbers.noun());
    keys.push(key("k", k, comment));
    keys.push(link(numbers, "each cable"));
    (format!("a fat tree of {hosts} {}", numbers.noun()), u64::from(k))
}

fn dumbbell(keys: &mut Vec<(String, String)>, numbers: &Numbers) -> (String, u64) {
    let hosts = numbers.hosts;
    let (left, right) = (hosts - hosts / 2, hosts / 2);
    keys.push(key(
        "left",
        left,
        format!("{} on the left switch: 0 to {}", numbers.noun(), left - 1),
    ));
    keys.push(key("right", right, "and on the right switch: the rest"));
    keys.push(key("trunks", 1, "cables between the switches: what both sides share"));
    keys.push(link(numbers, "each cable, the trunk too"));
    (format!("a dumbbell of {hosts} {}", numbers.noun()), u64::from(left) + 1)
}

fn ring(
    keys: &mut Vec<(String, String)>,
    options: &InitOptions,
    numbers: &Numbers,
) -> Result<(String, u64), Complaint> {
    let hosts = numbers.hosts;
    let noun = numbers.noun();
    let switches = options.leaves.unwrap_or(if hosts.is_multiple_of(4) { 4 } else { hosts });
    if switches < 3 {
        let message = format!("{switches} switches make no ring: at least 3 are expected");
        return refuse(if options.leaves.is_some() { "--leaves" } else { "--hosts" }, message);
    }
    if !hosts.is_multiple_of(switches) {
        let message = format!("{hosts} {noun} do not divide among {switches} switches");
        return refuse("--leaves", format!("{message}: a divisor of {hosts} is expected"));
    }
    keys.push(key("switches", switches, "in the circle"));
    let below = hosts / switches;
    keys.push(key("hosts_per_switch", below, format!("{hosts} {noun} in all")));
    keys.push(link(numbers, "each cable"));
    Ok((format!("a ring of {switches} switches and {hosts} {noun}"), u64::from(below) + 2))
}

/// The cables from each leaf to the spines.
struct Uplinks {
    spines: u32,
    per_spine: u32,
}

impl Uplinks {
    /// As few as keep the oversubscription of `down` ports within what was asked for.
    fn new(options: &InitOptions, down: u64, leaves: u32) -> Result<Self, Complaint> {
        let ratio = options.oversubscription.unwrap_or(1.0);
        // a whole quotient stays whole in spite of rounding
        let needed = ((down as f64 / ratio - 1e-6).ceil() as u64).max(1);
        let spines = match options.spines {
            Some(spines) => u64::from(spines),
            // up to 8, with as few cables as possible; more spines rather than parallel cables
            None => (1..=8).min_by_key(|n| (n * needed.div_ceil(*n), 8 - n)).unwrap_or(1),
        };
        let per_spine = needed.div_ceil(spines);
        if u64::from(leaves) * spines * per_spine > CABLES_MAX {
            let message = "this asks for more than a million cables";
            return refuse("--hosts", format!("{message}: give fewer hosts, leaves or spines"));
        }
        Ok(Uplinks { spines: spines as u32, per_spine: per_spine as u32 })
    }

    fn count(&self) -> u64 {
        u64::from(self.spines) * u64::from(self.per_spine)
    }

    /// The ratio that came out, and the one that was asked for if whole cables do not give it.
    fn words(&self, down: u64, options: &InitOptions) -> String {
        let up = self.count();
        let ratio = down as f64 / up as f64;
        let short = |ratio: f64| (ratio * 100.0).round() / 100.0;
        let asked = match options.oversubscription {
            Some(asked) if (asked - ratio).abs() > 1e-6 => format!(", {} asked for", short(asked)),
            _ => String::new(),
        };
        let words = match down.cmp(&up) {
            std::cmp::Ordering::Equal => "not oversubscribed".to_owned(),
            _ => format!("oversubscribed {} to 1", short(ratio)),
        };
        format!("cables from leaf to spine; {down} ports down, {up} up: {words}{asked}")
    }
}
