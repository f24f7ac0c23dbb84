//! Triggers become lists of flows, and flows an order in which each follows those it waits for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::matrix::{Matrix, Trigger, TriggerKind};
use crate::import::ImportError;
use crate::import::text::{TextFile, counted};

/// All lists together have at most so many entries: barriers multiply.
const WAITS_MAX: usize = 20_000_000;

/// By flow: the flows that must be done before it starts, in ascending order.
pub(super) type Waits = Vec<Vec<u32>>;

/// Who fires a trigger and who waits for it, in the order of the file. A flow that fires it twice
/// is there twice.
#[derive(Default)]
struct Uses {
    firers: Vec<u32>,
    waiting: Vec<u32>,
}

/// What each flow waits for.
pub(super) fn waits(
    file: &TextFile,
    matrix: &Matrix,
    warnings: &mut Vec<String>,
) -> Result<Waits, ImportError> {
    let uses = uses(file, matrix)?;
    let mut waits: Waits = vec![Vec::new(); matrix.flows.len()];
    let (mut idle, mut turns, mut total) = (Vec::new(), Vec::new(), 0);
    for (id, trigger) in &matrix.triggers {
        let Some(uses) = uses.get(id).filter(|uses| !uses.waiting.is_empty()) else {
            idle.push(*id);
            continue;
        };
        let refuse = |why: String| file.error_at(trigger.line, why);
        check_shots(*id, trigger, uses).map_err(refuse)?;
        let shots = shots(&uses.firers, &uses.waiting);
        let in_turn = trigger.kind == TriggerKind::MultiShot;
        let each = if in_turn { 1 } else { uses.firers.len() };
        total += each * uses.waiting.len();
        if total > WAITS_MAX {
            return Err(refuse(format!(
                "up to trigger {id}, flows wait for {total} others in all; at most {WAITS_MAX} can \
                 be"
            )));
        }
        if in_turn && !shots.is_certain {
            turns.push(*id);
        }
        for (place, flow) in uses.waiting.iter().enumerate() {
            let others = match (in_turn, shots.in_turn.get(place)) {
                (false, _) => uses.firers.as_slice(),
                (true, Some(other)) => std::slice::from_ref(other),
                (true, None) => &[],
            };
            if others.is_empty() {
                let message = never_starts(*id, uses);
                return Err(file.error_at(matrix.flows[*flow as usize].line, message));
            }
            waits[*flow as usize].extend(others);
        }
    }
    for flows in &mut waits {
        flows.sort_unstable();
        flows.dedup();
    }
    let mut say = |ids: &[u32], message: &str| {
        let Some(first) = ids.first() else { return };
        let others = match ids.len() {
            1 => String::new(),
            count => format!(" (and {} more)", counted(count - 1, "trigger")),
        };
        let message = format!("trigger {first}{others} {message}");
        warnings.push(file.error_at(matrix.triggers[first].line, message).to_string());
    };
    say(&idle, "starts no flow");
    say(
        &turns,
        "is a multishot that several flows fire: htsim starts the next flow when any of them is \
         done, the scenario when the next one in the order of the file is",
    );
    Ok(waits)
}

/// A trigger that fires as often as its kind allows.
fn check_shots(id: u32, trigger: &Trigger, uses: &Uses) -> Result<(), String> {
    let times = uses.firers.len();
    let fired = counted(times, "time");
    match trigger.kind {
        TriggerKind::OneShot if times > 1 => Err(format!(
            "oneshot trigger {id} is fired {fired}; once is expected (`barrier count {times}` \
             waits for all)"
        )),
        TriggerKind::Barrier(count) if count as usize != times => {
            Err(format!("barrier {id} counts {count}, but is fired {fired}; as many are expected"))
        }
        _ => Ok(()),
    }
}

/// Why a flow that waits for trigger `id` never starts.
fn never_starts(id: u32, uses: &Uses) -> String {
    match uses.firers.len() {
        0 => format!(
            "nobody fires trigger {id}, so this flow never starts; a flow with \
             `send_done_trigger {id}` is expected"
        ),
        times => format!(
            "multishot trigger {id} starts one flow each time, but is fired {} for {}, so this \
             one never starts; as many are expected",
            counted(times, "time"),
            counted(uses.waiting.len(), "flow")
        ),
    }
}

/// Checks that every trigger that is named is defined.
fn uses(file: &TextFile, matrix: &Matrix) -> Result<BTreeMap<u32, Uses>, ImportError> {
    let mut uses = BTreeMap::<u32, Uses>::new();
    for (number, flow) in matrix.flows.iter().enumerate() {
        let fires = [flow.send_done, flow.recv_done];
        for id in fires.iter().chain([&flow.trigger]).flatten() {
            if !matrix.triggers.contains_key(id) {
                let message = format!("there is no trigger {id}");
                let expected = format!("a line `trigger id {id} oneshot` is expected");
                return Err(file.error_at(flow.line, format!("{message}; {expected}")));
            }
        }
        for id in fires.into_iter().flatten() {
            uses.entry(id).or_default().firers.push(number as u32);
        }
        if let Some(id) = flow.trigger {
            uses.entry(id).or_default().waiting.push(number as u32);
        }
    }
    Ok(uses)
}

/// Which flow starts the n-th that waits for a multishot trigger.
struct Shots {
    in_turn: Vec<u32>,
    /// There is no other order in which they can be done.
    is_certain: bool,
}

/// The flows that fire without being started by the trigger itself come first, then those that it
/// starts, in their turn. Both lists are ascending.
fn shots(firers: &[u32], waiting: &[u32]) -> Shots {
    let mut in_turn: Vec<u32> =
        firers.iter().filter(|flow| waiting.binary_search(flow).is_err()).copied().collect();
    let fires_once = firers.windows(2).all(|pair| pair[0] < pair[1]);
    let is_certain = in_turn.len() == 1 && fires_once;
    for (number, flow) in waiting.iter().enumerate() {
        // a flow fires only after it has been started itself
        if number >= in_turn.len() {
            break;
        }
        let first = firers.partition_point(|firer| firer < flow);
        let times = firers[first..].iter().take_while(|firer| *firer == flow);
        in_turn.extend(times);
    }
    Shots { in_turn, is_certain }
}

/// All flows, each after those that it waits for; as in the file where that allows it.
pub(super) fn sorted(
    file: &TextFile,
    matrix: &Matrix,
    waits: &Waits,
) -> Result<Vec<u32>, ImportError> {
    let mut followers: Vec<Vec<u32>> = vec![Vec::new(); waits.len()];
    let mut left: Vec<usize> = waits.iter().map(Vec::len).collect();
    for (flow, others) in waits.iter().enumerate() {
        for other in others {
            followers[*other as usize].push(flow as u32);
        }
    }
    let none_left = |flow: &u32| left[*flow as usize] == 0;
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..waits.len() as u32).filter(none_left).map(Reverse).collect();
    let mut order = Vec::with_capacity(waits.len());
    while let Some(Reverse(flow)) = ready.pop() {
        order.push(flow);
        for follower in &followers[flow as usize] {
            left[*follower as usize] -= 1;
            if left[*follower as usize] == 0 {
                ready.push(Reverse(*follower));
            }
        }
    }
    if order.len() == waits.len() { Ok(order) } else { Err(cycle(file, matrix, waits, &left)) }
}

/// Flows that wait for each other: from any that never starts, back to one that was seen before.
fn cycle(file: &TextFile, matrix: &Matrix, waits: &Waits, left: &[usize]) -> ImportError {
    let is_stuck = |flow: u32| left[flow as usize] > 0;
    let cause = |flow: u32| waits[flow as usize].iter().copied().find(|other| is_stuck(*other));
    let mut place = vec![None; left.len()];
    let mut way = Vec::new();
    let mut flow = (0..left.len() as u32).find(|flow| is_stuck(*flow));
    while let Some(next) = flow.filter(|flow| place[*flow as usize].is_none()) {
        place[next as usize] = Some(way.len());
        way.push(next);
        flow = cause(next);
    }
    let from = flow.and_then(|flow| place[flow as usize]).unwrap_or(0);
    let mut lines: Vec<usize> =
        way[from..].iter().map(|flow| matrix.flows[*flow as usize].line).collect();
    lines.sort_unstable();
    let first = lines.first().copied().unwrap_or(1);
    let message = match lines.as_slice() {
        [_] => "this flow waits for itself, so it never starts".to_owned(),
        [_, others @ ..] => {
            let names: Vec<String> = others.iter().take(3).map(usize::to_string).collect();
            let more = if others.len() > 3 { " ..." } else { "" };
            let (names, plural) = (names.join(", "), if others.len() > 1 { "s" } else { "" });
            format!(
                "this flow and the one{plural} in line{plural} {names}{more} wait for each other, \
                 so none ever starts"
            )
        }
        [] => "flows wait for each other".to_owned(),
    };
    let expected = "a chain of triggers that begins with a `start` is expected";
    file.error_at(first, format!("{message}; {expected}"))
}
