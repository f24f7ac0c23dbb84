//! `[nccl]`: NCCL's environment variables, by their own names without `NCCL_`, with its defaults.
//!
//! Names, defaults and rules are those of NCCL 2.30 (its public source and its documentation of
//! environment variables).

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta};

use crate::error::BuildError;
use crate::host::{HcaFilter, PathType};
use crate::nic::local_ack_timeout;

/// NCCL's variables. Values are in NCCL's own units, so that an environment can be pasted.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NcclConfig {
    /// Algorithm: `Ring`.
    #[serde(rename = "ALGO", alias = "NCCL_ALGO")]
    pub algo: Algorithm,
    /// Protocol: `Simple`.
    #[serde(rename = "PROTO", alias = "NCCL_PROTO")]
    pub proto: Protocol,
    /// At least so many channels.
    #[serde(
        rename = "MIN_NCHANNELS",
        alias = "NCCL_MIN_NCHANNELS",
        alias = "MIN_CTAS",
        alias = "NCCL_MIN_CTAS"
    )]
    pub min_nchannels: Option<u32>,
    /// At most so many channels.
    #[serde(
        rename = "MAX_NCHANNELS",
        alias = "NCCL_MAX_NCHANNELS",
        alias = "MAX_CTAS",
        alias = "NCCL_MAX_CTAS"
    )]
    pub max_nchannels: Option<u32>,
    /// Buffer of one channel and direction, in bytes; a chunk is half of it, a slice a quarter.
    #[serde(rename = "BUFFSIZE", alias = "NCCL_BUFFSIZE", deserialize_with = "bytes")]
    pub buffsize: Bytes,
    /// QPs of each connection and port.
    #[serde(rename = "IB_QPS_PER_CONNECTION", alias = "NCCL_IB_QPS_PER_CONNECTION")]
    pub ib_qps_per_connection: u32,
    /// 0: each message goes by the next QP; 1: each message is split over all QPs.
    #[serde(rename = "IB_SPLIT_DATA_ON_QPS", alias = "NCCL_IB_SPLIT_DATA_ON_QPS")]
    pub ib_split_data_on_qps: u8,
    /// Traffic class; the DSCP is its upper six bits. 0 if absent, as in NCCL.
    #[serde(rename = "IB_TC", alias = "NCCL_IB_TC")]
    pub ib_tc: Option<u32>,
    /// Traffic class of CTS messages; `IB_TC` if absent.
    #[serde(rename = "IB_FIFO_TC", alias = "NCCL_IB_FIFO_TC")]
    pub ib_fifo_tc: Option<u32>,
    /// Local ACK timeout of the QPs: 4.096 us x 2^timeout; 0 for none.
    #[serde(rename = "IB_TIMEOUT", alias = "NCCL_IB_TIMEOUT")]
    pub ib_timeout: u32,
    /// Retransmissions without progress before a QP fails: 0 to 7.
    #[serde(rename = "IB_RETRY_CNT", alias = "NCCL_IB_RETRY_CNT")]
    pub ib_retry_cnt: u32,
    /// Devices to use: `"mlx5_0,mlx5_1"` (prefixes), `"=mlx5_0:1"` (exact), `"^mlx5_2"` (all but).
    #[serde(rename = "IB_HCA", alias = "NCCL_IB_HCA")]
    pub ib_hca: Option<String>,
    /// 1: the ports of a NIC with `mode = "merged"` are one device.
    #[serde(rename = "IB_MERGE_NICS", alias = "NCCL_IB_MERGE_NICS")]
    pub ib_merge_nics: u8,
    /// Farthest path between NIC and GPU over which GPUDirect is used: LOC, PIX, PXB, PHB or SYS.
    #[serde(rename = "NET_GDR_LEVEL", alias = "NCCL_NET_GDR_LEVEL")]
    pub net_gdr_level: GdrLevel,
    /// 0: rings enter and leave a host by the same NIC; 1, 2: they may use two.
    #[serde(rename = "CROSS_NIC", alias = "NCCL_CROSS_NIC")]
    pub cross_nic: u8,
    /// Channels between two ranks on different hosts that send to each other (AllToAll); as many
    /// as the NICs need if absent.
    #[serde(rename = "NCHANNELS_PER_NET_PEER", alias = "NCCL_NCHANNELS_PER_NET_PEER")]
    pub nchannels_per_net_peer: Option<u32>,
    /// 1: a rank sends by its own NIC, also where the other rank is next to another rail.
    #[serde(rename = "PXN_DISABLE", alias = "NCCL_PXN_DISABLE")]
    pub pxn_disable: u8,
}

impl Default for NcclConfig {
    fn default() -> Self {
        NcclConfig {
            algo: Algorithm::Ring,
            proto: Protocol::Simple,
            min_nchannels: None,
            max_nchannels: None,
            buffsize: Bytes::new(4 << 20),
            ib_qps_per_connection: 1,
            ib_split_data_on_qps: 0,
            ib_tc: None,
            ib_fifo_tc: None,
            ib_timeout: 20,
            ib_retry_cnt: 7,
            ib_hca: None,
            ib_merge_nics: 1,
            net_gdr_level: GdrLevel(PathType::Pxb),
            cross_nic: 2,
            nchannels_per_net_peer: None,
            pxn_disable: 0,
        }
    }
}

/// MAXCHANNELS.
pub(super) const CHANNELS_MAX: u32 = 64;

impl NcclConfig {
    /// Most that one chunk of a ring holds: 4 of a buffer's 8 steps.
    pub fn chunk(&self) -> u64 {
        self.buffsize.get() / 2
    }

    /// Size of a slot of a ring's buffer: the 2 steps of a slice.
    pub fn slot(&self) -> u64 {
        self.buffsize.get() / 4
    }

    /// DSCP of data and of CTS messages.
    pub fn dscps(&self) -> [u8; 2] {
        let data = self.ib_tc.unwrap_or(0);
        [data, self.ib_fifo_tc.unwrap_or(data)].map(|tc| (tc >> 2) as u8)
    }

    /// Local ACK timeout; [`Delta::MAX`] for none.
    pub fn ack_timeout(&self) -> Delta {
        local_ack_timeout(self.ib_timeout)
    }

    /// The filter of devices.
    pub fn hca_filter(&self) -> Result<Option<HcaFilter>, BuildError> {
        let filter = self.ib_hca.as_deref().map(HcaFilter::parse).transpose();
        filter.map_err(|message| BuildError::new("nccl.IB_HCA", message))
    }

    /// Refuses what NCCL or the NIC would not take, or would take for something else.
    pub fn check(&self) -> Result<(), BuildError> {
        let refuse =
            |key: &str, message: String| Err(BuildError::new(format!("nccl.{key}"), message));
        let range = |key: &str, value: u32, max: u32, what: &str| match value > max {
            true => refuse(key, format!("{value} is out of range: 0 to {max} is expected; {what}")),
            false => Ok(()),
        };
        let retry = self.ib_retry_cnt;
        range(
            "IB_RETRY_CNT",
            retry,
            7,
            &format!(
                "the field of a QP has 3 bits: NCCL would hand {retry} on, and the NIC would see {} or \
             refuse the QP",
                retry % 8
            ),
        )?;
        let timeout = self.ib_timeout;
        range(
            "IB_TIMEOUT",
            timeout,
            31,
            &format!(
                "it is an exponent of 5 bits (4.096 us x 2^n; 20 is 4.3 s): NCCL would hand {timeout} \
             on, and the NIC would see {} or refuse the QP",
                timeout % 32
            ),
        )?;
        let tc = "it is a byte, of which the upper six bits are the DSCP (106 is DSCP 26)";
        range("IB_TC", self.ib_tc.unwrap_or(0), 255, tc)?;
        range("IB_FIFO_TC", self.ib_fifo_tc.unwrap_or(0), 255, tc)?;
        range(
            "CROSS_NIC",
            u32::from(self.cross_nic),
            2,
            "0 never, 1 allowed, 2 as NCCL finds best",
        )?;
        let flag = "it is a switch";
        range("IB_SPLIT_DATA_ON_QPS", u32::from(self.ib_split_data_on_qps), 1, flag)?;
        range("IB_MERGE_NICS", u32::from(self.ib_merge_nics), 1, flag)?;
        range("PXN_DISABLE", u32::from(self.pxn_disable), 1, flag)?;
        if !(1..=128).contains(&self.ib_qps_per_connection) {
            let message = format!(
                "{} is out of range: 1 to 128 is expected; NCCL has room for 128 QPs a connection",
                self.ib_qps_per_connection
            );
            return refuse("IB_QPS_PER_CONNECTION", message);
        }
        for (key, value) in [
            ("MIN_NCHANNELS", self.min_nchannels),
            ("MAX_NCHANNELS", self.max_nchannels),
            ("NCHANNELS_PER_NET_PEER", self.nchannels_per_net_peer),
        ] {
            let Some(value) = value.filter(|value| !(1..=CHANNELS_MAX).contains(value)) else {
                continue;
            };
            let message = format!(
                "{value} is out of range: 1 to {CHANNELS_MAX} is expected; NCCL has at most \
                 {CHANNELS_MAX} channels"
            );
            return refuse(key, message);
        }
        if let (Some(min), Some(max)) = (self.min_nchannels, self.max_nchannels)
            && min > max
        {
            return refuse("MIN_NCHANNELS", format!("{min} is more than MAX_NCHANNELS, {max}"));
        }
        let buffer = self.buffsize.get();
        if !(128..=1 << 30).contains(&buffer) || !buffer.is_multiple_of(128) {
            let message = format!(
                "{} is out of range: a multiple of 128 B up to 1 GiB is expected (4194304 is \
                 NCCL's own)",
                self.buffsize
            );
            return refuse("BUFFSIZE", message);
        }
        self.hca_filter().map(|_| ())
    }
}

/// A size with a unit, or the bare number of bytes that NCCL takes.
fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    struct Form;
    impl Visitor<'_> for Form {
        type Value = Bytes;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of bytes, or a size such as \"4MiB\"")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
            text.parse().map_err(E::custom)
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bytes, E> {
            let unexpected = de::Unexpected::Signed(number);
            let number = u64::try_from(number);
            number.map(Bytes::new).map_err(|_| E::invalid_value(unexpected, &self))
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bytes, E> {
            Ok(Bytes::new(number))
        }
    }
    deserializer.deserialize_any(Form)
}

/// A word of NCCL's that this program knows one value of.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $only:ident, $text:literal, $others:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name {
            #[doc = concat!("`", $text, "`.")]
            $only,
        }

        impl $name {
            /// Its name.
            pub const fn name(self) -> &'static str {
                $text
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                if text.eq_ignore_ascii_case($text) {
                    return Ok($name::$only);
                }
                let known = $others.split(' ').any(|other| other.eq_ignore_ascii_case(&text));
                let message = match known {
                    true => format!(concat!("{:?} is not simulated yet: ", $text, " is"), text),
                    false => format!(
                        concat!("{:?} is no ", $what, " of NCCL's: ", $text, " is expected"),
                        text
                    ),
                };
                Err(de::Error::custom(message))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": [$text] })
            }
        }
    };
}

word!(
    /// NCCL_ALGO.
    Algorithm, Ring, "Ring", "Tree CollNet CollNetDirect CollNetChain NVLS NVLSTree PAT",
    "algorithm"
);
word!(
    /// NCCL_PROTO.
    Protocol, Simple, "Simple", "LL LL128", "protocol"
);

/// NCCL_NET_GDR_LEVEL: a path, or one of the integers that older versions took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct GdrLevel(pub PathType);

impl<'de> Deserialize<'de> for GdrLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = GdrLevel;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("LOC, PIX, PXB, PHB or SYS")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<GdrLevel, E> {
                use PathType::{Loc, Phb, Pix, Pxb, Sys};
                let found = [Loc, Pix, Pxb, Phb, Sys].into_iter().find(|path| path.name() == text);
                found
                    .map(GdrLevel)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<GdrLevel, E> {
                use PathType::{Loc, Phb, Pix, Pxb, Sys};
                let old = [Loc, Pix, Pxb, Phb, Sys];
                let found = usize::try_from(number).ok().and_then(|index| old.get(index));
                found.map(|path| GdrLevel(*path)).ok_or_else(|| {
                    E::custom(format!(
                        "{number} is no level: LOC, PIX, PXB, PHB or SYS is expected (0 to 4 in old \
                         versions); NCCL takes a number above 4 for 4, which is SYS"
                    ))
                })
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<GdrLevel, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for GdrLevel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GdrLevel".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "string", "enum": ["LOC", "PIX", "PXB", "PHB", "SYS"] },
            { "type": "integer", "minimum": 0, "maximum": 4 }
        ] })
    }
}

/// What is true of a variable that `[nccl]` does not have: it was removed, or it exists and changes
/// nothing here.
pub fn explain_variable(name: &str) -> Option<String> {
    let name = name.strip_prefix("NCCL_").unwrap_or(name);
    let removed = [
        ("IB_CUDA_SUPPORT", "2.4", "NET_GDR_LEVEL"),
        ("TREE_THRESHOLD", "2.5", "ALGO"),
        ("LL_THRESHOLD", "2.5", "PROTO"),
        ("SINGLE_RING_THRESHOLD", "2.3", "MIN_NCHANNELS"),
        ("RINGS", "2.5", "MIN_NCHANNELS"),
    ];
    if let Some((_, version, instead)) = removed.iter().find(|(removed, ..)| *removed == name) {
        return Some(format!(
            "NCCL removed {name} in {version} and would ignore it without a word; {instead} decides \
             this now"
        ));
    }
    let without_effect = [
        ("SOCKET_IFNAME", "it names the interface of the bootstrap, not the RDMA device (IB_HCA)"),
        ("IB_GID_INDEX", "it picks an address of the NIC; RoCEv2 over IPv4 is simulated"),
        ("IB_SL", "on RoCE it is at most the PCP of tagged frames; IB_TC gives the DSCP"),
        (
            "IB_ADAPTIVE_ROUTING",
            "it configures no switch and no NIC; switch.load_balance and \
             nic.transport.ooo_data_placement do",
        ),
        ("IB_PCI_RELAXED_ORDERING", "PCIe ordering is not simulated; see host.nic.pcie.rate"),
        ("DEBUG", "it changes messages only"),
        ("DEBUG_SUBSYS", "it changes messages only"),
        ("IB_DISABLE", "sockets are not simulated yet"),
        ("P2P_DISABLE", "GPUs of a host use host.nvlink here"),
        ("SHM_DISABLE", "GPUs of a host use host.nvlink here"),
        ("NTHREADS", "a channel's speed is host.channel_rate here"),
        ("IB_ECE_ENABLE", "enhanced connection establishment is not simulated"),
    ];
    let (_, why) = without_effect.iter().find(|(known, _)| *known == name)?;
    Some(format!("NCCL knows {name}, but nothing here depends on it: {why}; leave it out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dscp_is_the_upper_six_bits() {
        let with = |tc| NcclConfig { ib_tc: tc, ..NcclConfig::default() }.dscps();
        // 106 = 0b01101010: 0b011010 = 26; 3 is no priority: DSCP 0; unset is 0
        assert_eq!((with(Some(106)), with(Some(3)), with(None)), ([26, 26], [0, 0], [0, 0]));
    }

    #[test]
    fn timeouts_are_powers_of_two() {
        // 4.096 us x 2^20 = 4.29 s
        let default = NcclConfig::default().ack_timeout();
        assert_eq!(default, Delta::from_ns(4_294_967_296));
    }

    #[test]
    fn wrong_values_say_what_would_happen() {
        let message = |config: NcclConfig| config.check().unwrap_err().to_string();
        let retry = message(NcclConfig { ib_retry_cnt: 9, ..NcclConfig::default() });
        assert!(retry.starts_with("nccl.IB_RETRY_CNT: 9 is out of range: 0 to 7"), "{retry}");
        assert!(retry.contains("the NIC would see 1"), "{retry}");
        let timeout = message(NcclConfig { ib_timeout: 40, ..NcclConfig::default() });
        assert!(timeout.contains("nccl.IB_TIMEOUT") && timeout.contains("see 8"), "{timeout}");
        assert!(explain_variable("NCCL_IB_CUDA_SUPPORT").unwrap().contains("removed"));
        assert!(explain_variable("IB_TIMEOUTS").is_none());
    }
}
