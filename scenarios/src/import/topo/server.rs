//! What a file says of a server, whatever its kind; `write` and `summary` tell it.

use models::host::{HcaFilter, NicMode, PathType};
use sim_core::Rate;

use super::gpus::{Model, PcieLink};

/// A server.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// `topo.xml`, without its folder.
    pub(super) file: String,
    /// By number.
    pub(super) gpus: Vec<Gpu>,
    pub(super) nics: Vec<Nic>,
    /// What the GPUs are, and how that is known.
    pub(super) model: Option<Told<&'static Model>>,
    /// `host.architecture`.
    pub(super) architecture: Option<Told<&'static str>>,
    /// What has the keys that the file does not say.
    pub(super) preset: Option<&'static str>,
    /// What joins the GPUs.
    pub(super) joined: Joined,
    /// Whether NICs and GPUs can do GPUDirect RDMA.
    pub(super) gdr: Option<Told<bool>>,
    /// GPUs reach NICs through a Grace CPU, which NCCL counts as near.
    pub(super) grace: Option<String>,
    /// For people: number of NUMA nodes, CPUs.
    pub(super) cpus: String,
    /// With their place.
    pub(super) warnings: Vec<String>,
    /// What has no meaning here, and how often it was there.
    pub(super) ignored: Vec<(String, usize)>,
}

/// A value, and where it is from.
#[derive(Clone, Debug)]
pub(super) struct Told<T> {
    pub(super) value: T,
    pub(super) from: String,
}

impl<T> Told<T> {
    pub(super) fn new(value: T, from: impl Into<String>) -> Self {
        Told { value, from: from.into() }
    }
}

/// A GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    /// Its PCI address, or `GPU3`.
    pub(super) label: String,
    pub(super) line: usize,
    pub(super) numa: Option<String>,
    pub(super) link: Option<PcieLink>,
}

/// A NIC.
#[derive(Debug)]
pub(super) struct Nic {
    /// Its PCI address, or `NIC3`.
    pub(super) label: String,
    pub(super) line: usize,
    /// Names of its devices; none where the file has none.
    pub(super) names: Vec<String>,
    pub(super) ports: u32,
    /// Nobody says how many ports there are.
    pub(super) ports_assumed: bool,
    pub(super) mode: NicMode,
    /// The narrowest link on its way to the nearest GPU.
    pub(super) link: Option<PcieLink>,
    /// To the GPUs, by number.
    pub(super) paths: Vec<PathType>,
    /// Mb/s of a port, as NCCL has read it.
    pub(super) speed: Option<u64>,
    pub(super) numa: Option<String>,
}

/// What joins the GPUs of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Joined {
    /// The file does not say.
    #[default]
    Unknown,
    /// Each has so many links to switches.
    Switch { links: u32, rate: Rate, from: String },
    /// Each has at least so many links to others, and all are joined by them.
    Mesh { links: u32, rate: Rate, from: String },
    /// Nothing but PCIe joins all of them.
    Pcie { rate: Rate, from: String },
    /// There is one GPU.
    Alone,
}

impl Joined {
    /// `host.nvlink.rate`.
    pub(super) fn rate(&self) -> Option<(Rate, &str)> {
        match self {
            Joined::Unknown | Joined::Alone => None,
            Joined::Switch { rate, from, .. }
            | Joined::Mesh { rate, from, .. }
            | Joined::Pcie { rate, from } => Some((*rate, from)),
        }
    }
}

/// Links between GPUs as one of them has them.
pub(super) struct Links {
    /// To switches.
    pub(super) to_switch: u32,
    /// To other GPUs, by number.
    pub(super) to_gpus: Vec<u32>,
}

/// What links make of the GPUs; `None` where not all are joined by them.
pub(super) fn join(all: &[Links], link_mbps: u64, what: &str, from: &str) -> Option<Joined> {
    let rate = |links: u32| Rate::from_mbps(u64::from(links) * link_mbps);
    let gbytes = link_mbps as f64 / 8000.0;
    let each = |links: u32| format!("{from}: {links} {what} of {gbytes} GB/s each way");
    let switched = all.iter().map(|links| links.to_switch).min().unwrap_or(0);
    if switched > 0 {
        let from = format!("{}, to switches", each(switched));
        return Some(Joined::Switch { links: switched, rate: rate(switched), from });
    }
    let mut reached = vec![false; all.len()];
    let mut stack = vec![0];
    while let Some(gpu) = stack.pop() {
        if !std::mem::replace(&mut reached[gpu], true) {
            let joined = |other: &usize| all[gpu].to_gpus[*other] > 0;
            stack.extend((0..all.len()).filter(joined));
        }
    }
    let links = all.iter().map(|links| links.to_gpus.iter().sum()).min().unwrap_or(0);
    let whole = reached.iter().all(|reached| *reached) && links > 0;
    whole.then(|| {
        let from = format!("{}, straight to other GPUs", each(links));
        Joined::Mesh { links, rate: rate(links), from }
    })
}

impl Server {
    /// What has the keys that the file does not say.
    pub(super) fn preset(&self) -> &'static str {
        let of_model = self.model.as_ref().map(|model| model.value.preset);
        of_model.or(self.preset).unwrap_or("generic")
    }

    /// Ports of all NICs together: what the topology has to cable.
    pub(super) fn ports(&self) -> u32 {
        self.nics.iter().map(|nic| nic.ports).sum()
    }

    /// Leaves the NICs whose devices pass `NCCL_IB_HCA`.
    pub(super) fn keep(&mut self, filter: &HcaFilter) {
        let names = self.device_names();
        for (nic, names) in self.nics.iter_mut().zip(names) {
            nic.names = names;
            let before = nic.names.len();
            nic.names.retain(|name| filter.takes(name));
            if nic.mode != NicMode::Bond || nic.names.is_empty() {
                nic.ports -= (before - nic.names.len()).min(nic.ports as usize) as u32;
            }
        }
        self.nics.retain(|nic| !nic.names.is_empty());
    }

    /// Names of the devices of each NIC; where the file has none, as `[[host.nics]]` would have them.
    pub(super) fn device_names(&self) -> Vec<Vec<String>> {
        let mut next = 0;
        let mut of = |nic: &Nic| {
            let first = next;
            next += nic.ports;
            match nic.names.is_empty() {
                true => (first..next).map(|port| format!("mlx5_{port}")).collect(),
                false => nic.names.clone(),
            }
        };
        self.nics.iter().map(&mut of).collect()
    }

    /// NICs that NCCL uses for nothing while the others are there: the host bridge, or more, lies
    /// between them and each GPU, and not between other NICs and theirs. By number.
    pub(super) fn far_nics(&self) -> Vec<usize> {
        let near = |nic: &Nic| nic.paths.iter().any(|path| *path <= PathType::Pxb);
        let far: Vec<usize> = (0..self.nics.len()).filter(|nic| !near(&self.nics[*nic])).collect();
        if far.len() == self.nics.len() { Vec::new() } else { far }
    }
}

/// How a device of this name stands in a topology: `a+b` are ports that NCCL has merged.
pub(super) fn mode_of(name: &str) -> NicMode {
    match name {
        name if name.contains('+') => NicMode::Merged,
        name if name.contains("bond") => NicMode::Bond,
        _ => NicMode::Rails,
    }
}
