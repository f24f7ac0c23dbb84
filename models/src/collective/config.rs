//! `kind = "collective"` of `[[traffic]]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta};

use crate::error::BuildError;
use crate::placement::{PlacementConfig, Ranks};
use crate::traffic::Hosts;

/// `kind = "collective"`: one collective operation over the GPUs of hosts, by the rules of
/// `[nccl]`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectiveConfig {
    /// A name for `--set` and reports.
    #[serde(default)]
    pub name: String,
    /// The operation.
    pub op: Op,
    /// How it is done. If absent, what `nccl.ALGO` and `nccl.PROTO` leave to NCCL's tuning model, or,
    /// without them, rings under Simple. AllToAll and SendRecv have but one way.
    pub algorithm: Option<CollectiveAlgorithm>,
    /// Rank that a Broadcast comes from, and a Reduce goes to.
    #[serde(default)]
    pub root: u32,
    /// Size of the buffer as nccl-tests counts it; or a sweep of sizes, each a run of its own.
    pub bytes: MessageSizes,
    /// Type of the elements.
    #[serde(default)]
    pub dtype: DataType,
    /// The hosts that take part, in the order of their ranks; all if absent.
    pub hosts: Option<Hosts>,
    /// GPUs of each host that take part: the first so many; all if absent.
    pub gpus: Option<u32>,
    /// The GPUs one by one, or a rank file; instead of `hosts` and `gpus`.
    pub ranks: Option<Ranks>,
    /// Hosts as a scheduler would give them, among `hosts`.
    pub placement: Option<PlacementConfig>,
    /// Repetitions, back to back; times are means over them.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Repetitions before these that are not timed.
    #[serde(default)]
    pub warmup: u32,
    /// When it starts.
    #[serde(default)]
    pub start: Delta,
}

fn one() -> u32 {
    1
}

/// What a collective does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Every rank gets the sum of all ranks' buffers.
    AllReduce,
    /// Every rank gets the part of each rank.
    AllGather,
    /// Every rank gets its part of the sum of all ranks' buffers.
    ReduceScatter,
    /// Every rank gets the buffer of the root.
    Broadcast,
    /// The root gets the sum of all ranks' buffers.
    Reduce,
    /// Every rank gets a part of each rank's buffer.
    #[serde(alias = "alltoall")]
    AllToAll,
    /// Every rank gets the buffer of the one before it.
    #[serde(rename = "sendrecv", alias = "send_recv")]
    SendRecv,
    /// One rank sends its buffer to another one: in workloads only.
    #[serde(skip)]
    Send,
    /// What a program of MSCCL says, and no collective does.
    #[serde(skip)]
    Custom,
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveAlgorithm {
    /// What NCCL's tuning model takes for the size, of what `nccl.ALGO` and `nccl.PROTO` leave.
    Auto,
    /// NCCL's rings.
    Ring,
    /// AllReduce on NCCL's double binary trees between hosts, and chains within.
    Tree,
    /// AllReduce on trees between hosts, and by the NVSwitch within; on one host NCCL's NVLS.
    NvlsTree,
    /// AllReduce on rings within hosts, between them, and within them. NCCL has none.
    HierarchicalRing,
    /// AllReduce on rings within hosts, and trees between them. NCCL has none.
    HierarchicalTree,
    /// AllReduce by recursive halving, then recursive doubling, among a power of two of ranks. NCCL
    /// has none.
    HalvingDoubling,
}

impl CollectiveAlgorithm {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveAlgorithm::Auto => "auto",
            CollectiveAlgorithm::Ring => "ring",
            CollectiveAlgorithm::Tree => "tree",
            CollectiveAlgorithm::NvlsTree => "nvls-tree",
            CollectiveAlgorithm::HierarchicalRing => "hierarchical-ring",
            CollectiveAlgorithm::HierarchicalTree => "hierarchical-tree",
            CollectiveAlgorithm::HalvingDoubling => "halving-doubling",
        }
    }
}

impl Op {
    /// All of them, in nccl-tests' order.
    pub const ALL: [Op; 7] = [
        Op::AllReduce,
        Op::AllGather,
        Op::ReduceScatter,
        Op::Broadcast,
        Op::Reduce,
        Op::AllToAll,
        Op::SendRecv,
    ];

    /// As nccl-tests calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Op::AllReduce => "all_reduce",
            Op::AllGather => "all_gather",
            Op::ReduceScatter => "reduce_scatter",
            Op::Broadcast => "broadcast",
            Op::Reduce => "reduce",
            Op::AllToAll => "alltoall",
            Op::SendRecv => "sendrecv",
            Op::Send => "send",
            Op::Custom => "custom",
        }
    }

    /// Whether elements are added up.
    pub const fn reduces(self) -> bool {
        matches!(self, Op::AllReduce | Op::ReduceScatter | Op::Reduce)
    }

    /// Whether it has a root.
    pub const fn has_root(self) -> bool {
        matches!(self, Op::Broadcast | Op::Reduce)
    }

    /// Whether it is made of SENDs and RECVs, for which there is no algorithm to be chosen.
    pub const fn is_p2p(self) -> bool {
        matches!(self, Op::AllToAll | Op::SendRecv | Op::Send)
    }

    /// `count` as nccl-tests prints it for a buffer of so many elements: those of a rank's part where
    /// the buffer is made of parts. What does not divide is left out.
    pub fn count(self, elements: u64, ranks: u32) -> u64 {
        elements / self.parts(ranks)
    }

    /// Parts that a buffer is made of.
    pub fn parts(self, ranks: u32) -> u64 {
        match self {
            Op::AllGather | Op::ReduceScatter | Op::AllToAll => u64::from(ranks.max(1)),
            Op::AllReduce | Op::Broadcast | Op::Reduce | Op::SendRecv | Op::Send | Op::Custom => 1,
        }
    }

    /// busbw / algbw (nccl-tests, doc/PERFORMANCE.md).
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks.max(1));
        match self {
            Op::AllReduce => 2.0 * (n - 1.0) / n,
            Op::AllGather | Op::ReduceScatter | Op::AllToAll => (n - 1.0) / n,
            Op::Broadcast | Op::Reduce | Op::SendRecv | Op::Send | Op::Custom => 1.0,
        }
    }
}

/// Type of elements, under nccl-tests' names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataType {
    /// 1 B.
    Int8,
    /// 1 B.
    Uint8,
    /// 4 B.
    Int32,
    /// 4 B.
    Uint32,
    /// 8 B.
    Int64,
    /// 8 B.
    Uint64,
    /// 2 B.
    Half,
    /// 4 B.
    #[default]
    Float,
    /// 8 B.
    Double,
    /// 2 B.
    Bfloat16,
    /// 1 B.
    F8e4m3,
    /// 1 B.
    F8e5m2,
}

impl DataType {
    /// All types, in nccl-tests' order.
    pub const ALL: [DataType; 12] = [
        DataType::Int8,
        DataType::Uint8,
        DataType::Int32,
        DataType::Uint32,
        DataType::Int64,
        DataType::Uint64,
        DataType::Half,
        DataType::Float,
        DataType::Double,
        DataType::Bfloat16,
        DataType::F8e4m3,
        DataType::F8e5m2,
    ];

    /// Bytes of an element.
    pub const fn size(self) -> u64 {
        use DataType::{
            Bfloat16, Double, F8e4m3, F8e5m2, Float, Half, Int8, Int32, Int64, Uint8, Uint32,
            Uint64,
        };
        match self {
            Int8 | Uint8 | F8e4m3 | F8e5m2 => 1,
            Half | Bfloat16 => 2,
            Int32 | Uint32 | Float => 4,
            Int64 | Uint64 | Double => 8,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
            DataType::Int32 => "int32",
            DataType::Uint32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Uint64 => "uint64",
            DataType::Half => "half",
            DataType::Float => "float",
            DataType::Double => "double",
            DataType::Bfloat16 => "bfloat16",
            DataType::F8e4m3 => "f8e4m3",
            DataType::F8e5m2 => "f8e5m2",
        }
    }
}

/// `"1GiB"`, or `{ from = "128MiB", to = "8GiB", factor = 2 }`, or with `step = "64MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSizes {
    /// One size.
    One(Bytes),
    /// From, to, and what lies between.
    Sweep(Bytes, Bytes, Step),
}

/// From one size of a sweep to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Times this.
    Factor(u64),
    /// Plus this.
    Bytes(Bytes),
}

/// Sizes that a sweep may have.
const SIZES_MAX: usize = 1000;

impl MessageSizes {
    /// All sizes, in order; `key` is theirs, for messages.
    pub fn list(&self, key: &str) -> Result<Vec<u64>, BuildError> {
        let (from, to, step) = match *self {
            MessageSizes::One(bytes) => return Ok(vec![bytes.get()]),
            MessageSizes::Sweep(from, to, step) => (from.get(), to.get(), step),
        };
        let refuse =
            |field: &str, message: String| Err(BuildError::new(format!("{key}.{field}"), message));
        match step {
            _ if from == 0 || from > to => {
                let expected = "a size between one byte and `to` is expected";
                return refuse("from", format!("{} is out of range: {expected}", Bytes::new(from)));
            }
            Step::Factor(0 | 1) => {
                return refuse("factor", "a factor of at least 2 is expected".to_owned());
            }
            Step::Bytes(Bytes::ZERO) => return refuse("step", "a size is expected".to_owned()),
            _ => {}
        }
        let mut sizes = Vec::new();
        let mut size = Some(from);
        while let Some(now) = size.filter(|now| *now <= to) {
            if sizes.len() == SIZES_MAX {
                let message = format!("a sweep can have at most {SIZES_MAX} sizes");
                return Err(BuildError::new(key, message));
            }
            sizes.push(now);
            size = match step {
                Step::Factor(factor) => now.checked_mul(factor),
                Step::Bytes(step) => now.checked_add(step.get()),
            };
        }
        Ok(sizes)
    }
}

mod text {
    //! Serde of [`MessageSizes`].
    use std::borrow::Cow;
    use std::fmt;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::{self, Deserializer, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Serialize, Serializer};
    use sim_core::Bytes;

    use super::{MessageSizes, Step};

    impl Serialize for MessageSizes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let MessageSizes::Sweep(from, to, step) = self else {
                let MessageSizes::One(bytes) = self else { unreachable!("there are two forms") };
                return bytes.serialize(serializer);
            };
            let mut map = serializer.serialize_map(Some(3))?;
            map.serialize_entry("from", from)?;
            map.serialize_entry("to", to)?;
            match step {
                Step::Factor(factor) => map.serialize_entry("factor", factor)?,
                Step::Bytes(step) => map.serialize_entry("step", step)?,
            }
            map.end()
        }
    }

    const KEYS: [&str; 4] = ["from", "to", "factor", "step"];

    impl<'de> Deserialize<'de> for MessageSizes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Form;
            impl<'de> Visitor<'de> for Form {
                type Value = MessageSizes;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(
                        "a size such as \"1GiB\", or { from = \"128MiB\", to = \"8GiB\", \
                         factor = 2 }",
                    )
                }
                fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageSizes, E> {
                    text.parse().map(MessageSizes::One).map_err(E::custom)
                }
                fn visit_i64<E: de::Error>(self, number: i64) -> Result<MessageSizes, E> {
                    Err(E::custom(format!("{number} has no unit: write \"1GiB\" or \"64MB\"")))
                }
                fn visit_u64<E: de::Error>(self, number: u64) -> Result<MessageSizes, E> {
                    self.visit_i64(number as i64)
                }
                fn visit_map<A: MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<MessageSizes, A::Error> {
                    let (mut from, mut to, mut step) = (None, None, None);
                    while let Some(key) = map.next_key::<String>()? {
                        if step.is_some() && (key == "factor" || key == "step") {
                            return Err(de::Error::custom(
                                "`factor` or `step` is expected, not both",
                            ));
                        }
                        match key.as_str() {
                            "from" => from = Some(map.next_value::<Bytes>()?),
                            "to" => to = Some(map.next_value::<Bytes>()?),
                            "factor" => step = Some(Step::Factor(map.next_value()?)),
                            "step" => step = Some(Step::Bytes(map.next_value()?)),
                            other => return Err(de::Error::unknown_field(other, &KEYS)),
                        }
                    }
                    let from = from.ok_or_else(|| de::Error::missing_field("from"))?;
                    let to = to.ok_or_else(|| de::Error::missing_field("to"))?;
                    Ok(MessageSizes::Sweep(from, to, step.unwrap_or(Step::Factor(2))))
                }
            }
            deserializer.deserialize_any(Form)
        }
    }

    impl JsonSchema for MessageSizes {
        fn schema_name() -> Cow<'static, str> {
            "MessageSizes".into()
        }
        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let bytes = generator.subschema_for::<Bytes>();
            json_schema!({ "anyOf": [
                bytes,
                {
                    "type": "object",
                    "properties": {
                        "from": bytes,
                        "to": bytes,
                        "factor": { "type": "integer", "minimum": 2 },
                        "step": bytes,
                    },
                    "required": ["from", "to"],
                    "additionalProperties": false,
                }
            ] })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_listed() {
        let mib = |n: u64| Bytes::new(n << 20);
        let sweep = |from, to, step| MessageSizes::Sweep(mib(from), mib(to), step);
        let sizes = sweep(128, 8192, Step::Factor(2)).list("b").unwrap();
        assert_eq!((sizes.len(), sizes[6]), (7, 8 << 30));
        assert_eq!(
            sweep(1, 5, Step::Bytes(mib(2))).list("b").unwrap(),
            [1 << 20, 3 << 20, 5 << 20]
        );
        let key = |sizes: MessageSizes| sizes.list("b").unwrap_err().key;
        assert_eq!(key(sweep(2, 1, Step::Factor(2))), "b.from");
        assert_eq!(key(sweep(1, 2, Step::Factor(1))), "b.factor");
        assert_eq!(key(sweep(1, 2, Step::Bytes(Bytes::new(1)))), "b");
    }

    #[test]
    fn bus_factors() {
        // 2 x 31 / 32
        assert!((Op::AllReduce.bus_factor(32) - 1.9375).abs() < 1e-12);
        assert_eq!(Op::AllReduce.bus_factor(1), 0.0);
        // 31 / 32
        assert!((Op::AllToAll.bus_factor(32) - 0.96875).abs() < 1e-12);
        // nccl-tests: 33,554,432 B of float over 6 ranks are 1,398,101 elements a rank
        assert_eq!(Op::AllToAll.count(33_554_432 / 4, 6), 1_398_101);
    }
}
