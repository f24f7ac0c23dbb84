//! `[nic]`: classes, transport, congestion control, PFC.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sim_core::{Bytes, Delta, Rate};

use crate::congestion::{CongestionConfig, TcpConfig};
use crate::nic::pacer::Pacing;
use crate::nic::selective::SelectiveConfig;
use crate::pfc::PfcTiming;

/// A RoCE NIC. Every key can differ by host through `[[override]]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NicConfig {
    /// Largest payload of a packet, in bytes; an IB path MTU is 256, 512, 1024, 2048 or 4096.
    #[schemars(range(min = 256, max = 9216))]
    pub mtu: u16,
    /// From the last bit of a frame to its handling.
    pub latency: Delta,
    /// How outgoing frames are classified.
    pub qos: NicQosConfig,
    /// Priority flow control.
    pub pfc: NicPfcConfig,
    /// Reliable connection.
    pub transport: TransportConfig,
    /// Notification point: what happens to marked packets.
    pub np: NpConfig,
    /// Reaction point.
    pub congestion: CongestionConfig,
    /// Flows with `transport = "tcp"`.
    pub tcp: TcpConfig,
    /// What a rate change does to a wait that has begun.
    pub pacing: Pacing,
    /// UDP source ports.
    pub entropy: Entropy,
    /// A receiver that drains slower than the link. If absent, it never is the limit.
    pub receive: Option<ReceiveConfig>,
    /// A fault: its receiver hangs, and it repeats XOFF.
    pub pause_storm: Option<PauseStormConfig>,
}

impl Default for NicConfig {
    fn default() -> Self {
        NicConfig {
            mtu: 4096,
            latency: Delta::ZERO,
            qos: NicQosConfig::default(),
            pfc: NicPfcConfig::default(),
            transport: TransportConfig::default(),
            np: NpConfig::default(),
            congestion: CongestionConfig::default(),
            tcp: TcpConfig::default(),
            pacing: Pacing::default(),
            entropy: Entropy::default(),
            receive: None,
            pause_storm: None,
        }
    }
}

/// `[nic.qos]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NicQosConfig {
    /// DSCP of data, unless the traffic says otherwise.
    pub dscp: u8,
    /// DSCP of ACKs and NAKs; if absent, that of their QP.
    pub ack_dscp: Option<u8>,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
    /// DSCP to priority (and PCP); 0 if absent.
    pub dscp_to_priority: BTreeMap<u8, u8>,
}

impl Default for NicQosConfig {
    fn default() -> Self {
        NicQosConfig {
            dscp: 26,
            ack_dscp: None,
            cnp_dscp: 48,
            dscp_to_priority: BTreeMap::from([(26, 3), (48, 6)]),
        }
    }
}

impl NicQosConfig {
    /// The priority of a DSCP.
    pub fn priority(&self, dscp: u8) -> u8 {
        self.dscp_to_priority.get(&dscp).copied().unwrap_or(0)
    }
}

/// `[nic.pfc]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NicPfcConfig {
    /// Priorities whose PFC frames are obeyed, and sent by a slow receiver.
    pub priorities: Vec<u8>,
    /// Pause time of an XOFF frame in quanta of 512 bit times; 0: an XOFF holds until XON.
    pub quanta: u16,
    /// XOFF is repeated after this long while it holds; if absent, after half its pause time.
    pub refresh: Option<Delta>,
    /// From the arrival of a PFC frame to its effect.
    pub response_time: Delta,
    /// ACKs, NAKs and CNPs wait while their priority is paused.
    pub control_waits: bool,
}

impl Default for NicPfcConfig {
    fn default() -> Self {
        NicPfcConfig {
            priorities: vec![3],
            quanta: 65535,
            refresh: None,
            response_time: Delta::ZERO,
            control_waits: true,
        }
    }
}

impl NicPfcConfig {
    /// The keys that PFC of a switch and of a NIC share.
    pub fn timing(&self) -> PfcTiming {
        let NicPfcConfig { quanta, refresh, response_time, .. } = *self;
        PfcTiming { quanta, refresh, response_time }
    }
}

/// `[nic.transport]`: RC (IB specification 9.7); go-back-N, or selective repeat.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TransportConfig {
    /// AckReq on every so many packets, beside the last of each message.
    #[schemars(range(min = 1))]
    pub ack_every: u32,
    /// Local ACK timeout: 4.096 us x 2^timeout; 0 for none.
    #[schemars(range(min = 0, max = 31))]
    pub timeout: u8,
    /// Retransmissions without progress before the QP fails.
    #[schemars(range(min = 0, max = 7))]
    pub retry_cnt: u8,
    /// A NAK is repeated when a further packet beyond the gap arrives after this long; if absent,
    /// there is one NAK a gap.
    pub nak_repeat: Option<Delta>,
    /// Duplicates are acknowledged.
    pub ack_duplicates: bool,
    /// ACKs and NAKs are ECN-capable.
    pub ack_ect: bool,
    /// Payload that may be in flight; unlimited if absent. `"bdp"`: what the line carries in the longest
    /// base RTT of all QPs. An algorithm with a window of its own does not heed it.
    pub window: Option<WindowSize>,
    /// The window shrinks with the rate; every packet then asks for an ACK.
    pub window_follows_rate: bool,
    /// What is sent again after a loss. The receivers of a NIC's QPs do as it has them do.
    pub recovery: Recovery,
    /// Received data is written to its place in any order (mlx5's out-of-order data placement, as
    /// adaptive routing needs it): a gap makes no NAK, and what is lost is found by time-out.
    pub ooo_data_placement: bool,
    /// Selective repeat: its timers, which stand for `timeout` and `retry_cnt`.
    pub selective: SelectiveConfig,
}

impl Default for TransportConfig {
    fn default() -> Self {
        TransportConfig {
            ack_every: 256,
            timeout: 14,
            retry_cnt: 7,
            nak_repeat: None,
            ack_duplicates: true,
            ack_ect: false,
            window: None,
            window_follows_rate: false,
            recovery: Recovery::GoBackN,
            ooo_data_placement: false,
            selective: SelectiveConfig::default(),
        }
    }
}

/// What is sent again after a NAK or a time-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Recovery {
    /// Everything from the gap on.
    #[default]
    #[serde(rename = "go-back-n")]
    GoBackN,
    /// The whole message, from its first packet on: what the receiver has of it is worth nothing.
    #[serde(rename = "go-back-0")]
    GoBack0,
    /// What is missing, and nothing else: the receiver keeps what comes early (IRN). Every packet asks
    /// for an ACK.
    #[serde(rename = "selective-repeat")]
    SelectiveRepeat,
}

/// Payload that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSize {
    /// So much.
    Bytes(Bytes),
    /// A bandwidth-delay product.
    Bdp,
}

impl Serialize for WindowSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            WindowSize::Bdp => serializer.serialize_str("bdp"),
            WindowSize::Bytes(bytes) => bytes.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WindowSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = WindowSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"150KB\", or \"bdp\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WindowSize, E> {
                match text {
                    "bdp" => Ok(WindowSize::Bdp),
                    size => size.parse().map(WindowSize::Bytes).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for WindowSize {
    fn schema_name() -> Cow<'static, str> {
        "WindowSize".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Bytes>();
        json_schema!({ "anyOf": [{ "const": "bdp" }, size] })
    }
}

impl TransportConfig {
    /// The local ACK timeout; [`Delta::MAX`] for none.
    pub fn ack_timeout(&self) -> Delta {
        local_ack_timeout(self.timeout.into())
    }
}

/// IB specification 11.2.4.2: 4.096 us x 2^exponent, of 5 bits; [`Delta::MAX`] for 0, which is none.
pub fn local_ack_timeout(exponent: u32) -> Delta {
    match exponent {
        0 => Delta::MAX,
        exponent => Delta::from_ns(4096) * (1 << exponent.min(31)),
    }
}

/// `[nic.np]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NpConfig {
    /// How the sender learns of a mark.
    pub notify: Notify,
    /// At most one CNP in this time,
    pub min_time_between_cnps: Delta,
    /// for each of these.
    pub cnp_scope: CnpScope,
    /// Priorities whose marked packets cause notifications (`roce_np/enable`, ROCE_CC_PRIO_MASK).
    pub priorities: Vec<u8>,
}

impl Default for NpConfig {
    fn default() -> Self {
        NpConfig {
            notify: Notify::Cnp,
            min_time_between_cnps: Delta::from_us(4),
            cnp_scope: CnpScope::Port,
            priorities: (0..8).collect(),
        }
    }
}

/// How the sender learns of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Notify {
    /// By a CNP frame.
    Cnp,
    /// By a bit in the ACK or NAK of the marked packet.
    Echo,
    /// Not at all.
    Off,
}

/// What shares one CNP timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CnpScope {
    /// Each QP.
    Qp,
    /// Each address that is notified.
    DestinationIp,
    /// The whole port.
    Port,
}

/// How UDP source ports are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Entropy {
    /// From the QP numbers, as the kernel's default flow label does.
    #[default]
    Qpn,
    /// 49152 for every QP, as some drivers do.
    Constant,
    /// Drawn from 49152 to 65535.
    Random,
    /// Counted from 10000 for each pair of hosts, as ns-3's driver does.
    Counted,
}

/// `[nic.receive]`: between the port and memory, over PCIe.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceiveConfig {
    /// Rate at which received payload goes to memory.
    pub rate: Rate,
    /// Receive buffer; data that does not fit is dropped.
    pub buffer: Bytes,
    /// XOFF is sent when this is passed.
    pub xoff: Bytes,
    /// XON is sent at or below this.
    pub xon: Bytes,
}

/// `[nic.pause_storm]`: a NIC whose receiver hangs holds XOFF, which it repeats like any other.
///
/// It still takes in what comes: only PFC shows the fault.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseStormConfig {
    /// XOFF from here,
    pub from: Delta,
    /// XON here.
    pub until: Delta,
    /// Of this priority.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 7))]
    pub priority: u8,
}

fn three() -> u8 {
    3
}

impl ReceiveConfig {
    /// The receive buffer of a port behind PCIe of this rate, where the scenario gives none: 1 MiB,
    /// XOFF at half of it (an assumption; vendors do not publish theirs).
    pub fn behind(rate: Rate) -> Self {
        let kib = |kib: u64| Bytes::new(kib << 10);
        ReceiveConfig { rate, buffer: kib(1024), xoff: kib(512), xon: kib(256) }
    }
}
