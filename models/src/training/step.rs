//! One step of one rank, task by task.

use sim_core::Delta;

use super::config::Dimension;
use super::config::TrainingConfig;
use super::passes::{Cut, Pass, cuts, passes};
use super::plan::{Call, Class, Comms, Place, Sizes};
use crate::collective::Op;
use crate::script::{ScriptBuilder, TaskId, Work};

/// Streams of a rank: what one has runs in order, beside the others. Sends and receives have one
/// for each direction.
const COMPUTE: u32 = 0;
const DATA: u32 = 1;
const SEND: u32 = 2;
const RECEIVE: u32 = 4;

/// One step of one rank, while it is made.
pub(super) struct Step<'a> {
    config: &'a TrainingConfig,
    sizes: &'a Sizes,
    comms: &'a mut Comms,
    place: Place,
    script: ScriptBuilder,
    /// Reductions of gradients.
    reduced: Vec<TaskId>,
    /// The parameters of the next layer, which are being gathered.
    gathered: Option<TaskId>,
}

/// Tasks of a stretch of a pass.
struct Stretch {
    first: TaskId,
    last: TaskId,
}

impl<'a> Step<'a> {
    pub(super) fn new(
        config: &'a TrainingConfig,
        sizes: &'a Sizes,
        comms: &'a mut Comms,
        place: Place,
    ) -> Self {
        let script = ScriptBuilder::default();
        Step { config, sizes, comms, place, script, reduced: Vec::new(), gathered: None }
    }

    pub(super) fn build(mut self) -> ScriptBuilder {
        let (config, sizes) = (self.config, self.sizes);
        let stages = self.comms.shape.pp;
        let passes = passes(config.schedule, self.place.pp, stages, config.microbatches);
        // what the pass before has ended with, and what it has sent
        let (mut before, mut sent) = (Vec::new(), None);
        for (number, pass) in passes.iter().enumerate() {
            let mut after: Vec<TaskId> = self.receive(*pass, &before).into_iter().collect();
            if !config.overlap_p2p {
                after.extend(sent);
            }
            let is_last = number + 1 == passes.len();
            let end = match config.zero {
                3 => self.sharded_pass(*pass, &after, is_last),
                _ => self.pass(*pass, &after, is_last),
            };
            sent = self.send(*pass, end);
            before = vec![end];
        }
        if config.zero < 3 && !config.overlap {
            for size in &sizes.gradients {
                self.reduce(*size, &before);
            }
        }
        let after = std::mem::take(&mut self.reduced);
        let optimized = self.compute(config.optimizer.ps(), &after);
        if config.zero < 3 {
            for size in &sizes.parameters {
                self.data(Op::AllGather, *size, &[optimized]);
            }
        }
        self.script
    }

    /// A pass; in the last one gradients are reduced as they are there.
    fn pass(&mut self, pass: Pass, after: &[TaskId], is_last: bool) -> TaskId {
        let sizes = self.sizes;
        let reduces = is_last && self.config.overlap;
        let buckets: &[u64] = if reduces { &sizes.gradients } else { &[] };
        let tensor = self.tensor_of_layer() * u64::from(self.config.layers);
        self.stretch(self.span(pass), tensor, buckets, after).last
    }

    /// A pass layer by layer, each of which has its parameters gathered while the one before is
    /// computed, and its gradients reduced (ZeRO 3, FullyShardedDataParallel).
    fn sharded_pass(&mut self, pass: Pass, after: &[TaskId], is_last: bool) -> TaskId {
        let (layers, span, sizes) = (u64::from(self.config.layers), self.span(pass), self.sizes);
        let mut after = after.to_vec();
        let mut end = 0;
        for layer in 0..layers {
            let [begin, finish] = [layer, layer + 1]
                .map(|part| (u128::from(span) * u128::from(part) / u128::from(layers)) as u64);
            let parameters = sizes.parameters.first().copied();
            if let (Some(size), None) = (parameters, self.gathered) {
                self.gathered = Some(self.data(Op::AllGather, size, &[]));
            }
            after.extend(self.gathered.take());
            let tensor = self.tensor_of_layer();
            let Stretch { first, last } = self.stretch(finish - begin, tensor, &[], &after);
            after.clear();
            if let Some(size) = parameters.filter(|_| !is_last || layer + 1 < layers) {
                let work = self.work(Op::AllGather, Class::Data, Dimension::Dp, size);
                let ahead = self.script.add_started(DATA, Class::Data as u8, work, &[], &[first]);
                self.gathered = Some(ahead);
            }
            if let (false, Some(size)) = (pass.forward, sizes.gradients.first()) {
                self.reduce(*size, &[last]);
            }
            end = last;
        }
        end
    }

    /// Computes `span` picoseconds with so many operations among `tp` in between, and reduces
    /// `buckets` as they are there.
    fn stretch(&mut self, span: u64, tensor: u64, buckets: &[u64], after: &[TaskId]) -> Stretch {
        let cuts = cuts(span, tensor, buckets);
        let mut at = cuts.first().map_or(span, |(time, _)| *time);
        let first = self.compute(at, after);
        let mut last = first;
        for (time, cut) in cuts {
            if time > at {
                last = self.compute(time - at, &[]);
                at = time;
            }
            match cut {
                Cut::Bucket(number) => self.reduce(buckets[number], &[last]),
                Cut::Tensor => {
                    let size = self.sizes.tensor;
                    let work = self.work(Op::AllReduce, Class::Tensor, Dimension::Tp, size);
                    last = self.script.add(COMPUTE, Class::Tensor as u8, work, &[]);
                }
            }
        }
        if span > at {
            last = self.compute(span - at, &[]);
        }
        Stretch { first, last }
    }

    /// Compute time of a pass, in picoseconds.
    fn span(&self, pass: Pass) -> u64 {
        let forward = self.config.forward;
        let backward = self.config.backward.unwrap_or(forward * 2);
        if pass.forward { forward.ps() } else { backward.ps() }
    }

    fn tensor_of_layer(&self) -> u64 {
        if self.sizes.tensor > 0 { u64::from(self.config.tp_collectives) } else { 0 }
    }

    fn compute(&mut self, ps: u64, after: &[TaskId]) -> TaskId {
        self.script.add(COMPUTE, Class::Compute as u8, Work::Compute(Delta::from_ps(ps)), after)
    }

    /// An operation of the ranks that differ in `dimension` alone.
    fn work(&mut self, op: Op, class: Class, dimension: Dimension, size: u64) -> Work {
        let ranks = self.comms.shape.along(dimension, self.place);
        self.comms.work(self.config, Call { op, class, ranks, size })
    }

    fn data(&mut self, op: Op, size: u64, after: &[TaskId]) -> TaskId {
        let work = self.work(op, Class::Data, Dimension::Dp, size);
        self.script.add(DATA, Class::Data as u8, work, after)
    }

    /// Reduces gradients.
    fn reduce(&mut self, size: u64, after: &[TaskId]) {
        let op = if self.config.zero > 0 { Op::ReduceScatter } else { Op::AllReduce };
        let task = self.data(op, size, after);
        self.reduced.push(task);
    }

    /// What a pass needs of another stage.
    fn receive(&mut self, pass: Pass, before: &[TaskId]) -> Option<TaskId> {
        let Place { pp, .. } = self.place;
        let from = if pass.forward { pp.checked_sub(1)? } else { pp + 1 };
        let after = if self.config.overlap_p2p { &[] } else { before };
        self.between(RECEIVE, pass, from, after)
    }

    /// What a pass has for another stage.
    fn send(&mut self, pass: Pass, end: TaskId) -> Option<TaskId> {
        let Place { pp, .. } = self.place;
        let to = if pass.forward { pp + 1 } else { pp.checked_sub(1)? };
        self.between(SEND, pass, to, &[end])
    }

    fn between(&mut self, stream: u32, pass: Pass, other: u32, after: &[TaskId]) -> Option<TaskId> {
        let shape = self.comms.shape;
        if other >= shape.pp {
            return None;
        }
        let own = shape.rank(self.place);
        let other = shape.rank(Place { pp: other, ..self.place });
        let ranks = if stream == SEND { vec![own, other] } else { vec![other, own] };
        let (op, class, size) = (Op::Send, Class::Pipeline, self.sizes.activations);
        let work = self.comms.work(self.config, Call { op, class, ranks, size });
        let stream = stream + u32::from(pass.forward);
        Some(self.script.add(stream, class as u8, work, after))
    }
}
