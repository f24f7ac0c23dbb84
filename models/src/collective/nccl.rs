//! `[nccl]`: NCCL's environment variables, by their own names without `NCCL_`, with its defaults.
//!
//! Names, defaults and rules are those of NCCL 2.30 (its public source and its documentation of
//! environment variables).

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use sim_core::{Bytes, Delta};

use super::allowed::Allowed;
use super::config::Op;
use super::protocol::Protocol;
use super::tuning::Algorithm;
use crate::error::BuildError;
use crate::host::{HcaFilter, PathType};
use crate::nic::local_ack_timeout;

/// NCCL's variables. Values are in NCCL's own units, so that an environment can be pasted.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NcclConfig {
    /// Algorithms that NCCL may take: `"Ring,Tree"`, `"^Tree"` (all but), by operation
    /// `"allreduce:tree;allgather:ring"`; all if absent. See `traffic.algorithm`.
    #[serde(rename = "ALGO", alias = "NCCL_ALGO")]
    pub algo: Option<Allowed<Algorithm>>,
    /// Protocols that NCCL may take, in the same form: `"Simple"`, `"^LL128"`.
    #[serde(rename = "PROTO", alias = "NCCL_PROTO")]
    pub proto: Option<Allowed<Protocol>>,
    /// What a tuner plug-in would say (NCCL_TUNER_PLUGIN): the first rule for an operation and a
    /// size decides, where the tuning model would. A rule that asks for what ALGO and PROTO do not
    /// leave, or what is not to be had, is passed over.
    pub tuner: Vec<TunerRule>,
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
    /// Buffer of one channel and direction under Simple, in bytes; a chunk of a ring is half of
    /// it, a slice a quarter, a chunk of a tree an eighth.
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
    /// `IB` for RDMA, `Socket` for TCP.
    #[serde(rename = "NET", alias = "NCCL_NET")]
    pub net: Option<Net>,
    /// 1: TCP sockets instead of RDMA.
    #[serde(rename = "IB_DISABLE", alias = "NCCL_IB_DISABLE")]
    pub ib_disable: u8,
    /// CPU threads for the sockets of each connection; NCCL's own where absent: none beside the
    /// proxy, which counts as one.
    #[serde(rename = "SOCKET_NTHREADS", alias = "NCCL_SOCKET_NTHREADS")]
    pub socket_nthreads: Option<u32>,
    /// Sockets of each of these threads.
    #[serde(rename = "NSOCKS_PERTHREAD", alias = "NCCL_NSOCKS_PERTHREAD")]
    pub nsocks_perthread: Option<u32>,
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
    /// Variables that were given and change nothing: name, and what is true of it.
    #[serde(skip)]
    pub ignored: Vec<(String, String)>,
    /// 1: a rank sends by its own NIC, also where the other rank is next to another rail.
    #[serde(rename = "PXN_DISABLE", alias = "NCCL_PXN_DISABLE")]
    pub pxn_disable: u8,
}

impl Default for NcclConfig {
    fn default() -> Self {
        NcclConfig {
            algo: None,
            proto: None,
            tuner: Vec::new(),
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
            net: None,
            ib_disable: 0,
            socket_nthreads: None,
            nsocks_perthread: None,
            net_gdr_level: GdrLevel(PathType::Pxb),
            cross_nic: 2,
            nchannels_per_net_peer: None,
            pxn_disable: 0,
            ignored: Vec::new(),
        }
    }
}

/// A rule of `nccl.tuner`: a line of the table of NCCL's example of a tuner plug-in
/// (plugins/tuner/example).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TunerRule {
    /// For this operation; for all if absent.
    pub op: Option<Op>,
    /// For sizes up to this one; for all if absent.
    pub max_bytes: Option<Bytes>,
    /// `Ring`, `Tree`, `NVLS` or `NVLSTree`; NCCL's own if absent.
    pub algorithm: Option<Algorithm>,
    /// `LL`, `LL128` or `Simple`; NCCL's own if absent.
    pub protocol: Option<Protocol>,
}

/// MAXCHANNELS.
pub(super) const CHANNELS_MAX: u32 = 64;

impl NcclConfig {
    /// Sockets of each connection, if data goes by TCP.
    pub fn sockets(&self) -> Option<u32> {
        let tcp = self.net == Some(Net::Socket) || (self.ib_disable != 0 && self.net.is_none());
        let count = self.socket_nthreads.unwrap_or(1) * self.nsocks_perthread.unwrap_or(1);
        tcp.then_some(count)
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
        range("IB_DISABLE", u32::from(self.ib_disable), 1, flag)?;
        if self.ib_disable != 0 && self.net == Some(Net::Ib) {
            let message = "NET = \"IB\" asks for what IB_DISABLE = 1 takes away: NCCL would find no \
                           network; one of the two is expected";
            return refuse("IB_DISABLE", message.to_owned());
        }
        for (key, value) in
            [("SOCKET_NTHREADS", self.socket_nthreads), ("NSOCKS_PERTHREAD", self.nsocks_perthread)]
        {
            // NCCL: MAX_THREADS 16, MAX_SOCKETS 64
            if let Some(value) = value.filter(|value| !(1..=16).contains(value)) {
                return refuse(key, format!("{value} is out of range: 1 to 16 is expected"));
            }
        }
        if self.sockets().is_some_and(|count| count > 64) {
            let message = "a connection has at most 64 sockets in NCCL: fewer threads, or sockets of \
                           each, are expected";
            return refuse("NSOCKS_PERTHREAD", message.to_owned());
        }
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

/// NCCL_NET.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Net {
    /// RDMA.
    #[serde(rename = "IB", alias = "ib")]
    Ib,
    /// TCP.
    #[serde(rename = "Socket", alias = "socket")]
    Socket,
}

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
/// nothing here. It is ignored, as NCCL would ignore it, and a note says so.
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
            "NCCL removed {name} in {version} and ignores it without a word; {instead} decides this \
             now"
        ));
    }
    let without_effect = [
        ("SOCKET_IFNAME", "it names the interface of the bootstrap, not the RDMA device (IB_HCA)"),
        (
            "IB_GID_INDEX",
            "it picks an address of the NIC, and switches no header off: RoCEv2 always has an IP \
             header; since 2.21 NCCL finds the IPv4 address by itself; RoCEv2 over IPv4 is simulated",
        ),
        ("IB_ROCE_VERSION_NUM", "RoCEv2 is simulated"),
        ("IB_ADDR_FAMILY", "RoCEv2 over IPv4 is simulated"),
        (
            "IB_SL",
            "on RoCE it is at most the PCP of tagged frames and selects no priority where DSCP is \
             trusted; IB_TC gives the DSCP",
        ),
        (
            "IB_ADAPTIVE_ROUTING",
            "it tells NCCL that writes may arrive out of order and configures no switch and no NIC; \
             switch.load_balance and nic.transport.ooo_data_placement do; on RoCE it is 0 by default",
        ),
        ("IB_AR_THRESHOLD", "see IB_ADAPTIVE_ROUTING"),
        ("IB_OOO_RQ", "nic.transport.ooo_data_placement says what a NIC does"),
        ("IB_PCI_RELAXED_ORDERING", "PCIe ordering is not simulated; see host.nic.pcie.rate"),
        ("NET_GDR_READ", "GPUDirect is the same both ways here; see NET_GDR_LEVEL and host.gdr"),
        ("NET_OVERHEAD", "the tuning model takes it from host.cpu"),
        ("P2P_LEVEL", "GPUs of a host use host.nvlink here"),
        ("P2P_PXN_LEVEL", "2, NCCL's default, is simulated; PXN_DISABLE switches PXN off"),
        ("P2P_PER_CHANNEL_NET_BW", "14 GB/s, NCCL's default, is simulated"),
        ("NVLS_ENABLE", "ALGO says whether NVLS may be taken"),
        ("TOPO_FILE", "`rocesim import nccl-topo` reads such a file"),
        ("GRAPH_FILE", "channels are searched for here"),
        ("CUMEM_ENABLE", "memory is not simulated"),
        ("LAUNCH_MODE", "it changes how kernels are launched; see host.launch_latency"),
        ("COMM_BLOCKING", "a simulation does not block"),
        ("ASYNC_ERROR_HANDLING", "it is PyTorch's"),
        ("DEBUG", "it changes messages only"),
        ("DEBUG_SUBSYS", "it changes messages only"),
        ("DEBUG_FILE", "it changes messages only"),
        ("P2P_DISABLE", "GPUs of a host use host.nvlink here"),
        ("SHM_DISABLE", "GPUs of a host use host.nvlink here"),
        ("NTHREADS", "a channel's speed is host.channel_rate here"),
        ("IB_ECE_ENABLE", "enhanced connection establishment is not simulated"),
    ];
    let (_, why) = without_effect.iter().find(|(known, _)| *known == name)?;
    Some(format!("NCCL knows {name}, but nothing here depends on it: {why}"))
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
