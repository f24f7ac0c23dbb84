//! From `kind = "training"` to communicators and the scripts of ranks.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim_core::rng::{Domain, Stream};
use sim_core::{Bytes, Time};

use super::check::check;
use super::config::{Dimension, JitterKind, TrainingConfig};
use super::passes::buckets;
use super::step::Step;
use crate::collective::{Op, Rank};
use crate::error::BuildError;
use crate::ids::NodeId;
use crate::script::{Comm, Script, Work, Workload};
use crate::topology::Topology;
use crate::traffic::Directory;

/// A training job as asked for.
#[derive(Clone, Debug)]
pub struct Training {
    /// Its keys.
    pub config: Arc<TrainingConfig>,
    /// Its place among the traffic sections.
    pub section: u32,
}

/// A training job, planned.
#[derive(Clone, Debug)]
pub struct TrainingPlan {
    /// Its keys.
    pub config: Arc<TrainingConfig>,
    /// Sizes of its dimensions.
    pub shape: Shape,
    /// Index of its workload.
    pub workload: u32,
}

/// What tasks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Computing.
    Compute = 0,
    /// Operations that tensor parallelism waits for.
    Tensor = 1,
    /// Activations and gradients between stages.
    Pipeline = 2,
    /// Gradients, and parameters, of data parallelism.
    Data = 3,
}

/// Names of the classes.
pub const CLASS_NAMES: [&str; 4] = ["compute", "tp", "pp", "dp"];

/// Sizes of the dimensions, and how ranks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// GPUs that share a layer.
    pub tp: u32,
    /// Copies of the model.
    pub dp: u32,
    /// Stages.
    pub pp: u32,
    order: [Dimension; 3],
}

/// A rank by its place in each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Among the GPUs that share a layer.
    pub tp: u32,
    /// Number of its copy.
    pub dp: u32,
    /// Number of its stage.
    pub pp: u32,
}

impl Shape {
    fn new(
        config: &TrainingConfig,
        ranks: u32,
        key: &impl Fn(&str) -> String,
    ) -> Result<Self, BuildError> {
        let refuse = |field: &str, message: String| Err(BuildError::new(key(field), message));
        let known = config.order.iter().copied();
        let mut order = [Dimension::Tp, Dimension::Dp, Dimension::Pp];
        let is_in = |dimension: &Dimension| known.clone().any(|other| other == *dimension);
        if config.order.len() != 3 || !order.iter().all(is_in) {
            let message = "each of \"tp\", \"dp\" and \"pp\" is expected once, the fastest first";
            return refuse("order", message.to_owned());
        }
        order.copy_from_slice(&config.order);
        let (tp, pp) = (config.tp, config.pp);
        for (field, size) in [("tp", tp), ("pp", pp), ("dp", config.dp.unwrap_or(1))] {
            if size == 0 || size > ranks {
                let message = format!("{size} is out of range: the job has {ranks} ranks");
                return refuse(field, message);
            }
        }
        let copy = u64::from(tp) * u64::from(pp);
        let dp = match config.dp {
            Some(dp) if copy * u64::from(dp) == u64::from(ranks) => dp,
            Some(dp) => {
                let all = copy * u64::from(dp);
                let message =
                    format!("tp {tp} x pp {pp} x dp {dp} are {all} GPUs, and the job has {ranks}");
                return refuse("dp", message);
            }
            None if u64::from(ranks).is_multiple_of(copy) => ranks / copy as u32,
            None => {
                let message = format!(
                    "tp {tp} x pp {pp} are {copy} GPUs for each copy of the model, and the job's \
                     {ranks} do not divide by that"
                );
                return refuse(if pp > 1 { "pp" } else { "tp" }, message);
            }
        };
        Ok(Shape { tp, dp, pp, order })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.tp * self.dp * self.pp
    }

    fn size(&self, dimension: Dimension) -> u32 {
        match dimension {
            Dimension::Tp => self.tp,
            Dimension::Dp => self.dp,
            Dimension::Pp => self.pp,
        }
    }

    /// The rank at a place.
    pub fn rank(&self, place: Place) -> u32 {
        let of = |dimension| match dimension {
            Dimension::Tp => place.tp,
            Dimension::Dp => place.dp,
            Dimension::Pp => place.pp,
        };
        self.order.iter().rev().fold(0, |rank, d| rank * self.size(*d) + of(*d))
    }

    /// The place of a rank.
    pub fn place(&self, rank: u32) -> Place {
        let mut place = Place { tp: 0, dp: 0, pp: 0 };
        let mut left = rank;
        for dimension in self.order {
            let size = self.size(dimension);
            let own = left % size;
            match dimension {
                Dimension::Tp => place.tp = own,
                Dimension::Dp => place.dp = own,
                Dimension::Pp => place.pp = own,
            }
            left /= size;
        }
        place
    }

    /// All ranks that differ from `place` in one dimension at most, in the order of their numbers.
    pub(super) fn along(&self, dimension: Dimension, place: Place) -> Vec<u32> {
        let at = |index| match dimension {
            Dimension::Tp => Place { tp: index, ..place },
            Dimension::Dp => Place { dp: index, ..place },
            Dimension::Pp => Place { pp: index, ..place },
        };
        (0..self.size(dimension)).map(|index| self.rank(at(index))).collect()
    }
}

/// Plans a training job whose ranks have these GPUs; `workload` is the index that it will have.
pub fn plan(
    training: &Training,
    ranks: Vec<Rank>,
    topology: &Topology,
    seed: u64,
    workload: u32,
) -> Result<(TrainingPlan, Workload), BuildError> {
    let Training { config, section } = training;
    let key = |field: &str| format!("traffic[{section}].{field}");
    let shape = Shape::new(config, ranks.len() as u32, &key)?;
    check(config, &shape, &key)?;
    let slow = slow_hosts(config, topology, &key)?;
    let paces = |rank: u32| {
        let host = ranks[rank as usize].host;
        let slow = |number: usize| {
            config.stragglers[number].ranks.contains(&rank) || slow[number].contains(&host)
        };
        let random =
            Stream::new(seed, Domain::Compute, u64::from(*section) << 32 | u64::from(rank));
        pace(config, slow, random)
    };
    let sizes = Sizes::new(config, &shape);
    let mut comms = Comms { shape, all: Vec::new(), known: BTreeMap::new() };
    let scripts = (0..shape.ranks()).map(|rank| {
        let place = shape.place(rank);
        let step = Step::new(config, &sizes, &mut comms, place);
        let repeats = config.warmup + config.steps;
        step.build().finish(Time::ZERO + config.start, repeats, paces(rank))
    });
    let scripts: Vec<Script> = scripts.collect();
    let workload = (
        TrainingPlan { config: config.clone(), shape, workload },
        Workload {
            name: config.name.clone(),
            section: *section,
            ranks,
            scripts,
            comms: comms.all,
            lines: Vec::new(),
            dscp: None,
            classes: CLASS_NAMES.to_vec(),
        },
    );
    Ok(workload)
}

/// By straggler: the hosts that it names.
fn slow_hosts(
    config: &TrainingConfig,
    topology: &Topology,
    key: &impl Fn(&str) -> String,
) -> Result<Vec<Vec<NodeId>>, BuildError> {
    let directory = Directory::new(topology);
    let hosts = config.stragglers.iter().enumerate().map(|(number, straggler)| {
        let key = key(&format!("stragglers[{number}].hosts"));
        let hosts = straggler.hosts.as_ref();
        hosts.map_or(Ok(Vec::new()), |hosts| directory.find_all(hosts, &key))
    });
    hosts.collect()
}

/// By step: what a rank's compute times are multiplied by.
fn pace(config: &TrainingConfig, slow: impl Fn(usize) -> bool, mut random: Stream) -> Vec<f64> {
    if config.jitter.is_none() && config.stragglers.is_empty() {
        return Vec::new();
    }
    let step = |step: u32| {
        let mut pace = match config.jitter {
            None => 1.0,
            Some(jitter) => match jitter.kind {
                JitterKind::Normal => (1.0 + jitter.relative * random.normal()).max(0.0),
                JitterKind::Exponential => 1.0 + jitter.relative * random.exponential(),
            },
        };
        for (number, straggler) in config.stragglers.iter().enumerate() {
            let now = straggler.from <= step && straggler.to.is_none_or(|to| step < to);
            if now && slow(number) {
                pace *= straggler.factor;
            }
        }
        pace
    };
    (0..config.warmup + config.steps).map(step).collect()
}

/// What is sent, in bytes.
pub(super) struct Sizes {
    /// Parts of the gradients, and of the parameters, in their order; none where nothing is sent.
    pub gradients: Vec<u64>,
    pub parameters: Vec<u64>,
    /// Of each operation among `tp`; 0 for none.
    pub tensor: u64,
    pub activations: u64,
}

impl Sizes {
    fn new(config: &TrainingConfig, shape: &Shape) -> Self {
        let bytes = |size: Option<Bytes>| size.map_or(0, Bytes::get);
        let gradients = if shape.dp > 1 { bytes(config.gradients) } else { 0 };
        let parameters =
            if shape.dp > 1 { bytes(config.parameters.or(config.gradients)) } else { 0 };
        let cut = |size: u64| match config.zero {
            // what a layer has, in one piece
            3 => vec![size / u64::from(config.layers)],
            _ => buckets(size, config.first_bucket.get(), config.bucket.get()),
        };
        let some = |parts: Vec<u64>| parts.into_iter().filter(|part| *part > 0).collect();
        Sizes {
            gradients: some(cut(gradients)),
            parameters: if config.zero > 0 { some(cut(parameters)) } else { Vec::new() },
            tensor: if shape.tp > 1 { bytes(config.tp_bytes) } else { 0 },
            activations: bytes(config.activations),
        }
    }
}

/// Communicators as they are asked for.
pub(super) struct Comms {
    pub shape: Shape,
    all: Vec<Comm>,
    /// By operation and ranks.
    known: BTreeMap<(&'static str, Vec<u32>), u32>,
}

impl Comms {
    /// The operation of `ranks` of this size.
    pub(super) fn work(&mut self, config: &TrainingConfig, call: Call) -> Work {
        let Call { op, class, ranks, size } = call;
        let comm = *self.known.entry((op.name(), ranks)).or_insert_with_key(|(_, ranks)| {
            let (ranks, sizes) = (ranks.clone(), Vec::new());
            self.all.push(Comm {
                op,
                algorithm: config.algorithm,
                dtype: config.dtype,
                ranks,
                sizes,
                class: class as u8,
            });
            self.all.len() as u32 - 1
        });
        let sizes = &mut self.all[comm as usize].sizes;
        let index = sizes.iter().position(|known| *known == size).unwrap_or_else(|| {
            sizes.push(size);
            sizes.len() - 1
        });
        Work::Collective { comm, size: index as u32 }
    }
}

/// An operation of some ranks.
pub(super) struct Call {
    pub op: Op,
    pub class: Class,
    pub ranks: Vec<u32>,
    pub size: u64,
}
