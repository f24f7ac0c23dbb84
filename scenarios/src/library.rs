//! Built-in scenarios and presets, compiled in: they work from any folder.

/// A file of the library.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'static str,
}

/// What a file of the library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A scenario, for `run` and `check`.
    Scenario,
    /// A scenario too: an experiment of a paper.
    Paper,
    /// A scenario too: a case of the clinic, with `[clinic]`.
    Clinic,
    /// A study, for `study`; its scenario can be run, too.
    Study,
    /// For `preset` at the top of a scenario.
    ScenarioPreset,
    /// For `switch.preset`.
    SwitchPreset,
    /// For `nic.preset`.
    NicPreset,
    /// For `nic.congestion.preset`.
    CongestionPreset,
    /// For `host.preset`.
    HostPreset,
}

impl Kind {
    /// Whether it can be run.
    pub fn is_scenario(self) -> bool {
        matches!(self, Kind::Scenario | Kind::Paper | Kind::Clinic)
    }

    /// Whether `run` takes it.
    pub fn is_runnable(self) -> bool {
        self.is_scenario() || self == Kind::Study
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Scenario | Kind::Paper | Kind::Clinic => "scenario",
            Kind::Study => "study",
            Kind::ScenarioPreset => "preset",
            Kind::SwitchPreset => "switch.preset",
            Kind::NicPreset => "nic.preset",
            Kind::CongestionPreset => "nic.congestion.preset",
            Kind::HostPreset => "host.preset",
        }
    }
}

macro_rules! library {
    ($($kind:ident $folder:literal: $($name:literal),+;)+) => {
        /// Everything in the library.
        pub const LIBRARY: &[Entry] = &[$($(Entry {
            name: $name,
            kind: Kind::$kind,
            text: include_str!(concat!("../", $folder, "/", $name, ".toml")),
        }),+),+];
    };
}

library! {
    Scenario "library": "incast", "incast-pfc-only", "permutation-fat-tree", "dcqcn-2-to-1",
        "dumbbell-victim", "incast-storage", "allreduce-4x8-a100", "allreduce-4x8-a100-congested",
        "allreduce-16x8-h100-rail", "replay-ring", "replay-tcp", "pause-storm", "pause-storm-watchdog",
        "training-dp-ddp", "training-3d", "training-two-tenants", "program-msccl-ring", "program-goal-reduce";
    Paper "papers": "pfc-unfairness", "pfc-unfairness-ecmp", "dcqcn-fairness", "dcqcn-incast",
        "dcqcn-fixed-point", "dcqcn-delay", "ns3-rdma-2-to-1", "hpcc-320", "wire-overhead",
        "deadlock-loop", "deadlock-ring", "tagger-bounce", "ecmp-collisions", "nic-storm-cascade",
        "pfcwd-default", "pfcwd-cycle", "livelock", "timely-unfair", "swift-target",
        "irn-fat-tree", "spray-recovery", "balance-60";
    Clinic "clinic": "nic-priority-map-missing", "nic-ignores-pfc", "headroom-too-small",
        "ecn-alone", "pfc-alone", "ecn-too-high", "ecn-too-low", "pfc-all-priorities",
        "dcqcn-every-priority", "storage-in-training-class", "ecmp-constant-port",
        "qps-one-or-four", "gdr-off", "slow-receiver", "last-packet-lost", "nic-pause-storm",
        "buffer-cycle", "traffic-class-unset", "switch-dscp-map-wrong", "incast-in-lossy-class",
        "lossy-incast-unfair", "qp-timeout-too-short", "watchdog-slower-than-retries",
        "watchdog-misses-slow-receiver", "port-flap-kills-qps", "slow-host-slows-its-rack",
        "nic-buffer-too-small", "ecn-on-wrong-queue", "dcqcn-on-another-priority",
        "dcqcn-without-window", "dcqcn-too-many-flows", "innocent-flow-throttled",
        "mixed-congestion-control", "qps-help-across-racks-only", "ecmp-lottery", "hash-polarised",
        "hash-without-ports", "ring-order-crosses-racks", "rails-crossed", "one-nic-of-four",
        "flows-on-half-of-the-nics", "bond-one-port-idle", "one-slow-node", "acs-halves-pcie",
        "too-few-channels", "chunk-too-small", "buffsize-deepens-queues", "mtu-1024",
        "long-distance-window", "long-distance-loss", "average-hides-bandwidth",
        "alltoall-plateau", "pair-falls-with-size",
        "tcp-in-the-lossless-class", "switch-packet-rate", "seed-4x8-a100", "nccl-socket-fallback",
        "ring-or-tree";
    Study "studies": "ecn-threshold", "ecn-cells", "headroom-vs-cable", "qps-per-connection",
        "alpha-vs-incast", "deadlock-after-failure", "dcqcn-timers", "oversubscription", "cc-comparison",
        "sonic-ccl", "sonic-ccl-incast", "sonic-ccl-spine";
    ScenarioPreset "presets/scenario": "hpcc-ns3", "htsim";
    SwitchPreset "presets/switch": "generic", "generic-32mb", "trident3", "tomahawk3", "tomahawk4",
        "tomahawk5", "spectrum-2", "spectrum-3", "spectrum-4";
    NicPreset "presets/nic": "generic", "connectx-5", "connectx-6-dx", "connectx-7", "bluefield-3",
        "thor2";
    CongestionPreset "presets/congestion": "dcqcn-paper", "mlx5-default", "hpcc-ns3", "dcqcn-plus",
        "dctcp-paper", "hpcc-paper", "swift", "timely-paper", "ns3-dctcp", "ns3-hpcc",
        "ns3-hpcc-pint", "ns3-timely";
    HostPreset "presets/host": "generic", "dgx-1", "dgx-a100", "hgx-h100", "hgx-h200", "hgx-b200",
        "hgx-b300", "mi300x", "mi355x", "oci-bm-gpu-h100-8", "oci-bm-gpu4-8", "oci-bm-gpu-b4-8",
        "azure-nd-a100-v4", "aws-p4d", "gcp-a3-ultra", "gcp-a4", "h100-dual-port-nic";
}

/// Programs that scenarios of the library name, by file.
const PROGRAMS: [(&str, &str); 2] = [
    ("ring-4.xml", include_str!("../../tests/program/ring-4.xml")),
    ("reduce-8.goal", include_str!("../../tests/program/reduce-8.goal")),
];

/// The text of a program of the library.
pub fn program(file: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|(name, _)| *name == file).map(|(_, text)| *text)
}

/// The entry of this kind and name.
pub fn find(kind: Kind, name: &str) -> Option<&'static Entry> {
    LIBRARY.iter().find(|entry| entry.kind == kind && entry.name == name)
}

/// The scenario of this name.
pub fn scenario(name: &str) -> Option<&'static Entry> {
    LIBRARY.iter().find(|entry| entry.kind.is_scenario() && entry.name == name)
}

/// The scenario or study of this name.
pub fn runnable(name: &str) -> Option<&'static Entry> {
    LIBRARY.iter().find(|entry| entry.kind.is_runnable() && entry.name == name)
}

/// The names of all entries of this kind.
pub fn names(kind: Kind) -> Vec<&'static str> {
    LIBRARY.iter().filter(|entry| entry.kind == kind).map(|entry| entry.name).collect()
}

impl Entry {
    /// Its title: the text of `title =`, or the first comment line.
    pub fn title(&self) -> &'static str {
        let mut lines = self.text.lines();
        let title = |line: &'static str| line.strip_prefix("title = \"")?.strip_suffix('"');
        let comment = self.text.lines().find_map(|line| line.strip_prefix("# "));
        lines.find_map(title).or(comment).unwrap_or("")
    }
}
