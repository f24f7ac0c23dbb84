//! `[[fault]]`

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sim_core::{Delta, Rate};

/// `[[fault]]`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultConfig {
    /// A cable carries nothing for a while.
    LinkDown(LinkDownConfig),
    /// A cable loses frames for a while.
    Loss(LossConfig),
    /// A cable runs at a lower rate for a while.
    Rate(RateConfig),
    /// A NIC drains what it receives slowly for a while, or not at all.
    SlowReceiver(SlowReceiverConfig),
    /// Settings of some devices are others for a while.
    Set(SetConfig),
}

impl FaultConfig {
    /// From when to when; to the end of the run without the latter.
    pub fn span(&self) -> (Delta, Option<Delta>) {
        match self {
            FaultConfig::LinkDown(LinkDownConfig { at, until, .. })
            | FaultConfig::Loss(LossConfig { at, until, .. })
            | FaultConfig::Rate(RateConfig { at, until, .. })
            | FaultConfig::SlowReceiver(SlowReceiverConfig { at, until, .. })
            | FaultConfig::Set(SetConfig { at, until, .. }) => (*at, *until),
        }
    }
}

/// `kind = "link-down"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDownConfig {
    /// One end of the cable, such as `leaf0:4`.
    pub link: String,
    /// When it goes down.
    pub at: Delta,
    /// When it is up again; never if absent.
    pub until: Option<Delta>,
    /// It goes down so many times (a flapping link),
    #[serde(default = "once")]
    #[schemars(range(min = 1))]
    pub times: u32,
    /// each so much after the one before.
    pub every: Option<Delta>,
    /// How long after each change all routes have changed too; if absent they never do.
    pub reroute: Option<Delta>,
}

/// `kind = "loss"`: one of `loss`, `ber` and `rule`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossConfig {
    /// One end of the cable, such as `leaf0:4`.
    pub link: String,
    /// From here,
    pub at: Delta,
    /// to here; to the end of the run if absent.
    pub until: Option<Delta>,
    /// Probability that a frame is lost, per direction.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loss: Option<f64>,
    /// Probability that a bit is wrong (after FEC), per direction: a frame with such a bit is lost.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ber: Option<f64>,
    /// Which frames are lost, as an ACL that drops them.
    pub rule: Option<DropRule>,
}

/// `rule`
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropRule {
    /// Data whose IPv4 identification ends in this byte. Each NIC port counts its data packets from
    /// 0 on, and sends that number: one in 256 is lost. The cable is that of a host.
    pub ip_id_low_byte: u8,
}

/// `kind = "rate"`: a link that trained at fewer lanes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateConfig {
    /// One end of the cable, such as `leaf0:4`.
    pub link: String,
    /// From here,
    pub at: Delta,
    /// to here; to the end of the run if absent.
    pub until: Option<Delta>,
    /// Its rate then.
    pub rate: Rate,
    /// Which way.
    #[serde(default)]
    pub direction: Direction,
}

/// A direction of a cable, as the port sees it that is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// What the port sends.
    Tx,
    /// What the port receives.
    Rx,
}

/// `kind = "slow-receiver"`
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowReceiverConfig {
    /// A NIC, such as `host3/nic0`, one of its ports, `host3/nic0:1`, or a host: all its NICs.
    pub nic: String,
    /// From here,
    pub at: Delta,
    /// to here; to the end of the run if absent.
    pub until: Option<Delta>,
    /// Payload that goes to memory in that time; `0bps`: the receive pipeline hangs.
    pub rate: Rate,
}

impl SlowReceiverConfig {
    /// Whether it is about this port of this host.
    pub fn names(&self, host: &str, port: &str) -> bool {
        let rest = port.strip_prefix(self.nic.as_str());
        self.nic == host || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

/// `kind = "set"`: a configuration that is rolled out, and perhaps taken back.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetConfig {
    /// Names of the nodes; all if absent.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Names of switch ports, such as `leaf0:3`; all if absent.
    #[serde(default)]
    pub ports: Vec<String>,
    /// From here,
    pub at: Delta,
    /// to here; to the end of the run if absent.
    pub until: Option<Delta>,
    /// Keys from `switch` or `nic` on, and their values.
    pub set: BTreeMap<String, Anything>,
}

/// A value of any type; it is read when the setting is applied.
#[derive(Clone, Copy, Debug)]
pub struct Anything;

impl Serialize for Anything {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Anything)
    }
}

impl JsonSchema for Anything {
    fn schema_name() -> Cow<'static, str> {
        "Anything".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

fn once() -> u32 {
    1
}
