//! Who paused whom, as a person reads it.

use std::fmt::Write;

use models::report::{PauseEdge, PauseRoot, PauseTree, Pauses};
use sim_core::{Delta, Time};

use crate::text::{span, table_by};

/// Lines of a summary; siblings that paused nobody are listed up to the second.
const LINES_MAX: usize = 12;
const SIBLINGS_MAX: usize = 2;
/// A summary tells of pauses that stopped some port for this share of the time,
const WORTH: f64 = 0.01;
/// and of roots to which that share of what was paused is due.
const ROOT_WORTH: f64 = 0.02;

/// The tree of a run of so many seconds; empty if there is nothing worth telling.
pub fn summary(tree: &PauseTree, seconds: f64) -> String {
    let longest = tree.roots.iter().flat_map(|root| &root.edges).map(|edge| edge.paused_s);
    if longest.fold(0.0, f64::max) < WORTH * seconds {
        return String::new();
    }
    shown(tree, seconds, LINES_MAX)
}

/// The tree between two times of a run, whole.
pub fn window(pauses: &Pauses, from: Time, to: Time, seconds: f64) -> String {
    let end = Time::from_ps((seconds * 1e12).round() as u64);
    if from >= end {
        return format!("no pauses from {} on: the run ended at {}\n\n", at(from), at(end));
    }
    let to = to.min(end);
    let tree = pauses.tree(from, to);
    let mut text = format!("pauses from {} to {}\n", at(from), at(to));
    if tree.roots.is_empty() {
        text.push_str("  there were none\n");
    }
    text + &shown(&tree, to.since(from).as_secs(), usize::MAX) + "\n"
}

fn at(time: Time) -> Delta {
    time.since(Time::ZERO)
}

fn shown(tree: &PauseTree, seconds: f64, most: usize) -> String {
    let mut text = String::new();
    if !tree.roots.is_empty() {
        let header = ["who paused whom", "paused", "share", "pauses"].map(String::from);
        let mut rows = vec![header.to_vec()];
        let all = tree.roots.iter().map(|root| root.paused_s).sum::<f64>() + tree.more_paused_s;
        let worth = |root: &&PauseRoot| most == usize::MAX || root.paused_s >= ROOT_WORTH * all;
        let roots: Vec<&PauseRoot> = tree.roots.iter().filter(worth).collect();
        let mut told = 0;
        for (place, root) in roots.iter().enumerate() {
            // each of those that are left gets its share, and two lines if there are any
            let left = (most.saturating_add(1)).saturating_sub(rows.len());
            let share = left / (roots.len() - place);
            let share = if most == usize::MAX { most } else { share.max(2) };
            if left < 2 {
                break;
            }
            told += 1;
            rows.extend(of_root(root, &Scale { seconds, several: several(tree) }, share));
        }
        // what is named comes first, numbers follow
        text.push_str(&table_by(&rows, |column| column > 0));
        let rest = (tree.roots.len() - told) as u64 + tree.more_roots;
        if rest > 0 {
            let paused = tree.roots.iter().filter(worth).take(told).map(|root| root.paused_s);
            let left = (all - paused.sum::<f64>()).max(0.0);
            let others = match rest {
                1 => "one other place".to_owned(),
                rest => format!("{rest} other places"),
            };
            let _ = writeln!(text, "  {} more began at {others}", span(left));
        }
    }
    if let Some(at) = tree.truncated_at_s {
        let _ = writeln!(text, "  pauses after {} were too many to be noted", span(at));
    }
    text
}

struct Scale {
    seconds: f64,
    /// Several priorities were paused.
    several: bool,
}

fn several(tree: &PauseTree) -> bool {
    let mut priorities = tree.roots.iter().flat_map(|root| &root.edges).map(|edge| edge.priority);
    let first = priorities.next();
    priorities.any(|priority| Some(priority) != first)
}

fn of_root(root: &PauseRoot, scale: &Scale, lines: usize) -> Vec<Vec<String>> {
    let queue = if scale.several { format!(" priority {}", root.priority) } else { String::new() };
    let name = format!("{}{queue} ({})", root.port, root.kind.words());
    let mut rows = vec![vec![name, span(root.paused_s), String::new(), String::new()]];
    let branches = PauseTree::branches(root);
    let cut = lines < usize::MAX;
    let mut listed = 0;
    let mut place = 0;
    while let Some((depth, edge)) = branches.get(place) {
        let rest = branches.len() - place;
        if cut && rows.len() + 1 >= lines && rest > 1 {
            break;
        }
        rows.push(row(edge, *depth, scale));
        (place, listed) = (place + 1, listed + 1);
        // of those that paused nobody, the first few of one parent
        let alike = |at: usize| {
            branches.get(at).is_some_and(|(d, other)| {
                let leaf = branches.get(at + 1).is_none_or(|(next, _)| next <= d);
                leaf && d == depth && other.by == edge.by
            })
        };
        let siblings = (place..).take_while(|at| alike(*at)).count();
        let itself = alike(place - 1);
        if cut && itself && siblings >= SIBLINGS_MAX {
            let (_, next) = branches[place];
            let (share, _) = shares(next, scale);
            let more = format!("{}{siblings} more, up to", "  ".repeat(*depth));
            rows.push(vec![more, span(next.paused_s), share, String::new()]);
            (place, listed) = (place + siblings, listed + siblings);
        }
    }
    let rest = branches.len() - listed + root.more_edges as usize;
    if rest > 0 {
        rows.push(vec![
            format!("    {rest} more ports"),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    rows
}

fn row(edge: &PauseEdge, depth: usize, scale: &Scale) -> Vec<String> {
    let queue = if scale.several { format!(" priority {}", edge.priority) } else { String::new() };
    let (share, pauses) = shares(edge, scale);
    vec![format!("{}{}{queue}", "  ".repeat(depth), edge.port), span(edge.paused_s), share, pauses]
}

fn shares(edge: &PauseEdge, scale: &Scale) -> (String, String) {
    let share = edge.paused_s / scale.seconds.max(1e-12) * 100.0;
    (format!("{share:.1} %"), edge.episodes.to_string())
}
