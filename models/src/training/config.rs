//! `kind = "training"` of `[[traffic]]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta};

use crate::collective::{CollectiveAlgorithm, DataType};
use crate::placement::{PlacementConfig, Ranks};
use crate::traffic::Hosts;

/// `kind = "training"`: steps of data-, tensor- and pipeline-parallel training. A step is the
/// forward and backward passes of its micro-batches, the reduction of gradients, and the optimizer.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainingConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// The hosts that take part, in the order of their ranks; all if absent.
    pub hosts: Option<Hosts>,
    /// GPUs of each host that take part: the first so many; all if absent.
    pub gpus: Option<u32>,
    /// The GPUs one by one, or a rank file; instead of `hosts` and `gpus`.
    pub ranks: Option<Ranks>,
    /// Hosts as a scheduler would give them, among `hosts`.
    pub placement: Option<PlacementConfig>,
    /// When the first step begins.
    #[serde(default)]
    pub start: Delta,
    /// GPUs that share each layer (tensor parallelism).
    #[serde(default = "one")]
    pub tp: u32,
    /// Stages of the pipeline.
    #[serde(default = "one")]
    pub pp: u32,
    /// Copies of the model (data parallelism); as many as there are ranks for if absent.
    pub dp: Option<u32>,
    /// How ranks count: the first dimension is the fastest.
    #[serde(default = "megatron")]
    pub order: Vec<Dimension>,
    /// Steps that count.
    pub steps: u32,
    /// Steps before these.
    #[serde(default)]
    pub warmup: u32,
    /// Micro-batches of a step.
    #[serde(default = "one")]
    pub microbatches: u32,
    /// In which order a stage works on them.
    #[serde(default)]
    pub schedule: Schedule,
    /// Time that a GPU computes for the forward pass of one micro-batch through its stage.
    pub forward: Delta,
    /// The same of the backward pass; twice `forward` if absent.
    pub backward: Option<Delta>,
    /// Layers of a stage: each takes an equal part of a pass, with operations among `tp` after it.
    #[serde(default = "one")]
    pub layers: u32,
    /// AllReduces among `tp` for each layer and pass: Megatron has two.
    #[serde(default = "two")]
    pub tp_collectives: u32,
    /// Size of each of these: micro-batch x sequence x hidden x bytes of an element.
    pub tp_bytes: Option<Bytes>,
    /// What a stage sends to the next for each micro-batch, and gets back as gradients: of each GPU.
    pub activations: Option<Bytes>,
    /// Stages send and receive while they compute; Megatron-LM's plain schedule waits for both
    /// between two passes.
    #[serde(default)]
    pub overlap_p2p: bool,
    /// Gradients of a GPU's part of the model; none are reduced where `dp` is 1.
    pub gradients: Option<Bytes>,
    /// Parameters of a GPU's part, which `zero` gathers; as large as `gradients` if absent.
    pub parameters: Option<Bytes>,
    /// How AllReduces are done, as in `kind = "collective"`; NCCL's rings if absent.
    pub algorithm: Option<CollectiveAlgorithm>,
    /// Type of gradients.
    #[serde(default)]
    pub dtype: DataType,
    /// Gradients are reduced in parts of this size, as soon as all of a part are there.
    #[serde(default = "bucket")]
    pub bucket: Bytes,
    /// Size of the first part: PyTorch's is smaller, so that the reduction begins sooner.
    #[serde(default = "first_bucket")]
    pub first_bucket: Bytes,
    /// Gradients are reduced while the last backward pass goes on, and not after it.
    #[serde(default = "yes")]
    pub overlap: bool,
    /// How much of the state each copy holds a share of only: 0 nothing, 1 and 2 optimizer state and
    /// gradients (gradients are reduced by ReduceScatter, and parameters gathered after the
    /// optimizer), 3 parameters too (gathered for each layer of each pass, one layer ahead).
    #[serde(default)]
    pub zero: u8,
    /// Time of the optimizer.
    #[serde(default)]
    pub optimizer: Delta,
    /// Random differences of compute times, for each rank and step.
    pub jitter: Option<JitterConfig>,
    /// Ranks that are slower than others.
    #[serde(default)]
    pub stragglers: Vec<StragglerConfig>,
}

/// A dimension of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dimension {
    /// Tensors.
    Tp,
    /// Data.
    Dp,
    /// The pipeline.
    Pp,
}

/// In which order a stage works on the micro-batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// After a start-up, one forward and one backward pass in turn (PipeDream-Flush).
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// All forward passes, then all backward passes.
    #[serde(rename = "gpipe")]
    Gpipe,
}

/// `jitter`: all compute times of a rank's step are multiplied by one random number.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JitterConfig {
    /// Its distribution.
    pub kind: JitterKind,
    /// How wide it is, as a share of the compute time.
    pub relative: f64,
}

/// Distributions of compute times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JitterKind {
    /// 1 + `relative` x normal; never below 0.
    Normal,
    /// 1 + an exponential number with mean `relative`: only ever slower.
    Exponential,
}

/// `stragglers`: compute times of some ranks are longer in some steps.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StragglerConfig {
    /// Ranks of the job, by number,
    #[serde(default)]
    pub ranks: Vec<u32>,
    /// and all ranks of these hosts.
    pub hosts: Option<Hosts>,
    /// What compute times are multiplied by.
    pub factor: f64,
    /// The first step in which they are slow, warm-up included; from 0.
    #[serde(default)]
    pub from: u32,
    /// The first one in which they are not any more; none if absent.
    pub to: Option<u32>,
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}

fn yes() -> bool {
    true
}

/// Megatron-LM's default.
fn megatron() -> Vec<Dimension> {
    vec![Dimension::Tp, Dimension::Dp, Dimension::Pp]
}

/// `bucket_cap_mb` of PyTorch's DistributedDataParallel.
fn bucket() -> Bytes {
    Bytes::new(25 << 20)
}

/// `kDefaultFirstBucketBytes` of PyTorch (c10d/reducer.hpp).
fn first_bucket() -> Bytes {
    Bytes::new(1 << 20)
}
