//! Where nodes and cables of a picture lie.

use std::collections::{BTreeMap, BTreeSet};

use super::{Map, WIDTH};

/// Space at both sides; at the left stands the name of a tier.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 14.0;
/// Space above the highest tier, and below the names of hosts.
const TOP: f64 = 64.0;
const BELOW: f64 = 18.0;
/// About the width of a letter.
const LETTER: f64 = 7.2;
/// From one tier to the next.
const TIER: f64 = 150.0;

pub(super) fn lay_out(map: &mut Map) {
    let highest = map.spots.iter().map(|spot| spot.tier).max().unwrap_or(0);
    map.height = TOP + highest as f64 * TIER + BELOW + names(map, 0).0;
    let base = TOP + highest as f64 * TIER;
    let mut places: Vec<f64> = vec![0.0; map.spots.len()];
    for tier in 0..=highest {
        let mut members: Vec<usize> =
            (0..map.spots.len()).filter(|spot| map.spots[*spot].tier == tier).collect();
        members.sort_by_key(|spot| natural(&map.spots[*spot].name));
        let standing = names(map, tier);
        let y = base - tier as f64 * TIER;
        let step = (WIDTH - LEFT - RIGHT) / members.len().max(1) as f64;
        for (place, spot) in members.iter().enumerate() {
            let x = LEFT + (place as f64 + 0.5) * step;
            places[*spot] = x;
            let spot = &mut map.spots[*spot];
            spot.at = (x, y);
            let (length, turn) = standing;
            let (width, height) = match (tier, turn) {
                (0, _) => (46.0, 20.0),
                (_, Turn::Flat) => (92.0, 26.0),
                // the name stands in the box
                (_, Turn::Up) => (92.0, (length + 10.0).min(90.0)),
            };
            let width = if spot.hosts > 1 { 84.0 } else { width };
            spot.size = ((step * 0.82).min(width).max(2.5), height);
        }
        let names: BTreeSet<String> = members
            .iter()
            .map(|spot| {
                map.spots[*spot].name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned()
            })
            .collect();
        let name = match (tier, names.len()) {
            (0, _) => "hosts".to_owned(),
            (_, 1) => names.into_iter().next().map_or(String::new(), |name| plural(&name)),
            _ => "switches".to_owned(),
        };
        map.tiers.push((name, y));
    }
    lines(map);
}

/// About how much height the names of a tier take, and whether they stand.
fn names(map: &Map, tier: usize) -> (f64, Turn) {
    let members = || map.spots.iter().filter(|spot| spot.tier == tier);
    let longest = members().map(|spot| spot.name.chars().count()).max().unwrap_or(0);
    let length = longest as f64 * LETTER;
    match length + 6.0 <= (WIDTH - LEFT - RIGHT) / members().count().max(1) as f64 {
        true => (30.0, Turn::Flat),
        false => (length, Turn::Up),
    }
}

/// `leaves`, `spines`; `sw` is no word.
fn plural(name: &str) -> String {
    match name {
        "leaf" => "leaves".to_owned(),
        name if name.len() < 3 => "switches".to_owned(),
        "agg" => "aggregation".to_owned(),
        name if name.ends_with(|c: char| c.is_ascii_alphabetic()) => format!("{name}s"),
        name => name.to_owned(),
    }
}

/// The lines of cables: straight between tiers, curved above a tier.
fn lines(map: &mut Map) {
    let at: Vec<((f64, f64), usize)> = map.spots.iter().map(|spot| (spot.at, spot.tier)).collect();
    for half in &mut map.halves {
        let [(from, tier), (to, other)] = half.ends.map(|end| at[end]);
        let middle = |a: (f64, f64), b: (f64, f64)| ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0);
        if tier != other {
            let end = middle(from, to);
            half.line = [from, middle(from, end), end];
            continue;
        }
        let far = (to.0 - from.0).abs();
        let top = ((from.0 + to.0) / 2.0, from.1 - (24.0 + far * 0.22).min(88.0));
        // the first half of a curve of three points
        let control = middle(from, top);
        half.line = [from, control, middle(control, middle(top, to))];
    }
}

/// Names in the order in which a person counts: `leaf2` before `leaf10`.
fn natural(name: &str) -> (String, u64, String) {
    let head: String = name.chars().take_while(|c| !c.is_ascii_digit()).collect();
    let digits: String = name[head.len()..].chars().take_while(char::is_ascii_digit).collect();
    (head.clone(), digits.parse().unwrap_or(0), name[head.len()..].to_owned())
}

/// Which labels of a tier are written: every one that finds room, flat or turned.
pub(super) fn labels(map: &Map) -> BTreeMap<usize, Turn> {
    let mut labels = BTreeMap::new();
    for tier in 0..map.tiers.len() {
        let members: Vec<usize> =
            (0..map.spots.len()).filter(|spot| map.spots[*spot].tier == tier).collect();
        let step = (WIDTH - LEFT - RIGHT) / members.len().max(1) as f64;
        let (_, turn) = names(map, tier);
        let (turn, every) = match step {
            step if turn == Turn::Flat || step >= 13.0 => (turn, 1),
            // every second, fifth ... one, turned
            step => (
                Turn::Up,
                [2, 4, 8, 16, 32, 64]
                    .into_iter()
                    .find(|n| step * f64::from(*n) >= 13.0)
                    .unwrap_or(128),
            ),
        };
        let mut members = members;
        members.sort_by(|a, b| map.spots[*a].at.0.total_cmp(&map.spots[*b].at.0));
        let shown = members.into_iter().step_by(every as usize);
        labels.extend(shown.map(|spot| (spot, turn)));
    }
    labels
}

/// How a label stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// As one reads.
    Flat,
    /// From top to bottom, or bottom to top.
    Up,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted() {
        let mut names = ["leaf10", "leaf2", "leaf1", "core"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["core", "leaf1", "leaf2", "leaf10"]);
    }
}
