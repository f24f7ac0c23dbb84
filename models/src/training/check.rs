//! Ranges of the keys of a training job.

use sim_core::{Bytes, Delta};

use super::config::{JitterKind, TrainingConfig};
use super::plan::Shape;
use crate::error::BuildError;

/// More tasks of all ranks together than this are refused before they take memory.
const TASKS_MAX: u64 = 20_000_000;

/// Refuses what makes no training job.
pub(super) fn check(
    config: &TrainingConfig,
    shape: &Shape,
    key: &impl Fn(&str) -> String,
) -> Result<(), BuildError> {
    let refuse = |field: &str, message: String| Err(BuildError::new(key(field), message));
    for (field, number, least, most) in [
        ("steps", config.steps, 1, 100_000),
        ("warmup", config.warmup, 0, 100_000),
        ("microbatches", config.microbatches, 1, 65_536),
        ("layers", config.layers, 1, 65_536),
        ("tp_collectives", config.tp_collectives, 0, 64),
        ("zero", u32::from(config.zero), 0, 3),
    ] {
        if number < least || number > most {
            let message = format!("{number} is out of range: {least} to {most} is expected");
            return refuse(field, message);
        }
    }
    let hour = Delta::from_ms(3_600_000);
    let backward = config.backward.unwrap_or(Delta::ZERO);
    for (field, span) in
        [("forward", config.forward), ("backward", backward), ("optimizer", config.optimizer)]
    {
        if span > hour {
            return refuse(field, format!("{span} is out of range: at most {hour} is expected"));
        }
    }
    for (field, size) in [("bucket", config.bucket), ("first_bucket", config.first_bucket)] {
        if size < Bytes::new(1024) {
            return refuse(field, format!("{size} is out of range: at least 1KiB is expected"));
        }
    }
    for (field, size, ranks, dimension, what) in [
        ("tp_bytes", config.tp_bytes, shape.tp, "tp", "AllReduces after each layer"),
        ("activations", config.activations, shape.pp, "pp", "activations between stages"),
        ("gradients", config.gradients, shape.dp, "dp", "gradients of a GPU"),
    ] {
        let needed = ranks > 1 && !(field == "tp_bytes" && config.tp_collectives == 0);
        match size {
            None if needed => {
                let message = format!("{dimension} is {ranks}: the size of the {what} is expected");
                return refuse(field, message);
            }
            Some(Bytes::ZERO) if needed => {
                return refuse(field, "a size above 0 is expected".to_owned());
            }
            _ => {}
        }
    }
    let gradients = config.gradients.unwrap_or(Bytes::ZERO).get();
    let buckets = gradients / config.bucket.get() + 2;
    let layers = u64::from(config.layers) * u64::from(config.tp_collectives.max(1) + 2);
    let tasks = u64::from(config.microbatches) * 2 * (layers + 4) + buckets * 2;
    if tasks.saturating_mul(u64::from(shape.ranks())) > TASKS_MAX {
        let message = format!(
            "a step of {tasks} tasks on each of {} ranks is too much: at most {TASKS_MAX} in all are \
             expected (fewer layers or micro-batches, larger buckets)",
            shape.ranks()
        );
        return refuse("microbatches", message);
    }
    paces(config, shape, key)
}

fn paces(
    config: &TrainingConfig,
    shape: &Shape,
    key: &impl Fn(&str) -> String,
) -> Result<(), BuildError> {
    let refuse = |field: &str, message: String| Err(BuildError::new(key(field), message));
    if let Some(jitter) = config.jitter {
        let most = if jitter.kind == JitterKind::Normal { 0.5 } else { 10.0 };
        // not so for NaN either
        if !(0.0..=most).contains(&jitter.relative) {
            let message = format!("{} is out of range: 0 to {most} is expected", jitter.relative);
            return refuse("jitter.relative", message);
        }
    }
    for (number, straggler) in config.stragglers.iter().enumerate() {
        let field = |name: &str| format!("stragglers[{number}].{name}");
        if !(0.01..=1000.0).contains(&straggler.factor) {
            let message = format!("{} is out of range: 0.01 to 1000 is expected", straggler.factor);
            return refuse(&field("factor"), message);
        }
        if let Some(rank) = straggler.ranks.iter().find(|rank| **rank >= shape.ranks()) {
            let last = shape.ranks() - 1;
            let message = format!("there is no rank {rank}: ranks 0 to {last} are there");
            return refuse(&field("ranks"), message);
        }
        if straggler.ranks.is_empty() && straggler.hosts.is_none() {
            let message = "who is slow? `ranks` or `hosts` is expected".to_owned();
            return refuse(&format!("stragglers[{number}]"), message);
        }
        if let Some(to) = straggler.to.filter(|to| *to <= straggler.from) {
            let message = format!("{to} is out of range: more than `from` is expected");
            return refuse(&field("to"), message);
        }
    }
    Ok(())
}
