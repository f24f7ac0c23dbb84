//! What either side of a comparison says, in the terms of both.

use std::collections::BTreeMap;

use serde::Serialize;

/// Who wrote one side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// rocesim.
    Rocesim,
    /// The RDMA model of ns-3: nodes are numbers, ports count from 1.
    Ns3,
    /// Not known: a bare `fct.csv`. Nodes are numbers.
    Unknown,
}

/// One finished run. What was not found is absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Who wrote it.
    pub writer: Writer,
    /// Its flows; of ns-3 those that finished.
    pub flows: Option<Vec<Flow>>,
    /// When its first flow starts, finished or not.
    pub first_start_s: Option<f64>,
    /// Its collectives.
    pub collectives: Vec<Collective>,
    /// Its counters.
    pub totals: Totals,
    /// Pauses of its ports; one that is not listed was never paused.
    pub ports: Option<Vec<Port>>,
    /// Bytes in the egress queues, by port.
    pub queues: Option<Series>,
    /// Rate in bits per second that congestion control allows, by flow.
    pub rates: Option<Series>,
    /// What the reader of a comparison should know about it.
    pub notes: Vec<String>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Sending node.
    pub source: String,
    /// Receiving node.
    pub target: String,
    /// UDP source port.
    pub source_port: u16,
    /// Payload; absent if it is unlimited.
    pub bytes: Option<u64>,
    /// When it started; never is infinity.
    pub start_s: f64,
    /// From start to the last ACK back at the sender; absent if it did not finish.
    pub fct_s: Option<f64>,
    /// What that would be were the flow alone.
    pub standalone_s: Option<f64>,
}

/// A collective of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Its name.
    pub name: String,
    /// Size of the buffer.
    pub bytes: u64,
    /// Time of one repetition; absent if it did not end.
    pub time_s: Option<f64>,
}

/// Counters of a whole run; means over runs, where there are several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Frames put on any link: data, ACKs, PFC.
    pub packet_hops: Option<f64>,
    /// Marks set, once for each hop that marks, ACKs included.
    pub ce_marks: Option<f64>,
    /// CNPs (or echoes) that reached a sender.
    pub cnps: Option<f64>,
    /// XOFF and XON frames sent.
    pub pfc_frames: Option<f64>,
    /// Frames dropped.
    pub drops: Option<f64>,
    /// NAKs that reached a sender.
    pub naks: Option<f64>,
}

/// A port that was paused.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// `n8:0`
    pub name: String,
    /// XOFF frames received.
    pub pauses: f64,
    /// Time paused, in seconds.
    pub paused_s: f64,
}

/// Samples of one quantity at many places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Time between two samples, in seconds.
    pub interval_s: f64,
    /// The instants of samples, ascending, where a place without a value has 0; empty if such a
    /// place has no value then.
    pub instants_s: Vec<f64>,
    /// By place: (time in seconds, value), ascending.
    pub places: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Run {
    /// A run of which nothing is known yet.
    pub fn empty(writer: Writer) -> Self {
        Run {
            writer,
            flows: None,
            first_start_s: None,
            collectives: Vec::new(),
            totals: Totals::default(),
            ports: None,
            queues: None,
            rates: None,
            notes: Vec::new(),
        }
    }
}
