//! Which channels there are, by which NIC each enters and leaves a host, and in which order it
//! passes the GPUs.
//!
//! NCCL searches the graph of each host (graph/search.cc): it tries speeds from a table, the
//! fastest first, and fits as many channels as the NICs carry at that speed; the result is doubled
//! once or more (see `duplicated`). Here the NICs are the only limit that the search sees, and GPUs
//! within a host are fully connected.

use sim_core::Rate;

use super::nccl::{CHANNELS_MAX, NcclConfig};
use crate::host::{Architecture, Device, HostConfig, NicPlan, PathType};

/// A channel within one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Device by which data enters; `None` on a single host.
    pub enters: Option<u32>,
    /// Device by which it leaves.
    pub leaves: Option<u32>,
    /// The GPUs in order.
    pub gpus: Vec<u32>,
}

/// The channels of one host.
pub type ChannelPlan = Vec<Route>;

/// What the search sees of a host.
#[derive(Clone, Debug)]
pub struct HostView<'a> {
    /// Its keys.
    pub config: &'a HostConfig,
    /// Its NICs.
    pub nics: &'a [NicPlan],
    /// The devices that NCCL uses.
    pub devices: &'a [Device],
    /// Rate of each device.
    pub rates: &'a [Rate],
    /// GPUs that take part.
    pub gpus: u32,
}

/// Channel speeds that are tried between hosts, in GB/s.
const SPEEDS: [f64; 19] = [
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2,
    0.24, 0.12,
];
const SPEEDS_SM90: [f64; 17] = [
    48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24,
    0.12,
];
const SPEEDS_SM100: [f64; 21] = [
    96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0,
    2.4, 1.2, 0.24, 0.12, 0.06,
];

fn speeds(architecture: Architecture) -> &'static [f64] {
    match architecture {
        Architecture::Hopper => &SPEEDS_SM90,
        Architecture::Blackwell => &SPEEDS_SM100,
        _ => &SPEEDS,
    }
}

fn gbytes(rate: Rate) -> f64 {
    rate.bps() as f64 / 8e9
}

/// Channels that the search finds on each device. A slower speed replaces the one at hand if all
/// channels together then carry more, and if it is not below 0.49 of it.
fn search(host: &HostView<'_>, speeds: &[f64]) -> (f64, Vec<u32>) {
    let usable = usable(host);
    let fit = |speed: f64| -> Vec<u32> {
        let rates = host.rates.iter().zip(&usable);
        rates.map(|(rate, usable)| u32::from(*usable) * (gbytes(*rate) / speed) as u32).collect()
    };
    let within =
        |channels: u32, speed: f64| host.gpus == 1 || f64::from(channels) * speed <= nvlink(host);
    let mut best: Option<(f64, f64, Vec<u32>)> = None;
    for speed in speeds {
        if best.as_ref().is_some_and(|(found, ..)| speed / found <= 0.49) {
            break;
        }
        let channels = fit(*speed);
        let count: u32 = channels.iter().sum();
        let total = f64::from(count) * speed;
        let better = best.as_ref().is_none_or(|(_, most, _)| total > *most + 1e-9);
        if (1..=CHANNELS_MAX / 2).contains(&count) && within(count, *speed) && better {
            best = Some((*speed, total, channels));
        }
    }
    let one = || (0.0, usable.iter().map(|usable| u32::from(*usable)).collect());
    best.map_or_else(one, |(speed, _, channels)| (speed, channels))
}

/// Which devices are near a GPU that takes part; all if none is. NCCL searches with the nearest
/// type of path first, and goes farther only while it finds nothing.
fn usable(host: &HostView<'_>) -> Vec<bool> {
    let near = |device: &Device| {
        let nic = &host.nics[device.nic as usize];
        nic.affinity.iter().any(|gpu| *gpu < host.gpus)
    };
    let usable: Vec<bool> = host.devices.iter().map(near).collect();
    if usable.contains(&true) { usable } else { vec![true; usable.len()] }
}

/// What NCCL takes NVLink of a GPU for, in GB/s.
pub(super) fn nvlink(host: &HostView<'_>) -> f64 {
    gbytes(host.config.nvlink.rate)
}

/// Speed of a channel on a single host, in GB/s (SM80_NVLINK_BW).
const LOCAL_SPEED: f64 = 20.0;

/// Number of channels on a single host: one for every 20 GB/s of NVLink.
fn local_channels(host: &HostView<'_>) -> u32 {
    ((gbytes(host.config.nvlink.rate) / LOCAL_SPEED) as u32).clamp(1, 16)
}

/// What the search finds on all hosts together.
#[derive(Clone, Debug)]
pub struct Found {
    /// By host: the device of each channel of the search.
    devices: Vec<Vec<u32>>,
    /// Channels of the search.
    base: u32,
    /// Speed of one of them, in GB/s: that of the slowest host.
    pub speed: f64,
    /// Channels before those of trees are doubled.
    half: u32,
    /// Channels that a large collective uses.
    pub count: u32,
    /// There are several hosts.
    pub across: bool,
    /// The oldest generation of the hosts' GPUs.
    pub architecture: Architecture,
}

impl Found {
    /// Searches on all of `hosts`, each of which has a device and a GPU.
    pub fn new(hosts: &[HostView<'_>], nccl: &NcclConfig) -> Self {
        let oldest = hosts.iter().map(|host| host.config.architecture).min();
        let architecture = oldest.unwrap_or(Architecture::Ampere);
        let across = hosts.len() > 1;
        let searched: Vec<(f64, Vec<u32>)> = match across {
            true => hosts.iter().map(|host| sequence(host, speeds(architecture))).collect(),
            false => {
                let local = |host| (LOCAL_SPEED, vec![0; local_channels(host) as usize]);
                hosts.iter().map(local).collect()
            }
        };
        let base = searched.iter().map(|(_, found)| found.len()).min().unwrap_or(1).max(1) as u32;
        let speed = searched.iter().map(|(speed, _)| *speed).min_by(f64::total_cmp).unwrap_or(0.0);
        let devices = searched.into_iter().map(|(_, found)| found).collect();
        let (half, mut count) = duplicated(base, speed, architecture, across);
        count =
            count.max(nccl.min_nchannels.unwrap_or(1)).min(nccl.max_nchannels.unwrap_or(u32::MAX));
        Found {
            devices,
            base,
            speed,
            half,
            count: count.clamp(1, CHANNELS_MAX),
            across,
            architecture,
        }
    }

    /// Channels of the search itself.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Channels for a collective of `bytes`: fewer if each would have less than `least`
    /// (enqueue.cc).
    pub fn count_for(&self, bytes: u64, least: u64) -> u32 {
        let mut count = self.count;
        while count > 1 && bytes < u64::from(count) * least {
            count -= 1;
        }
        count
    }

    /// By host: the ways of the first `count` channels of rings.
    pub fn rings(&self, hosts: &[HostView<'_>], nccl: &NcclConfig, count: u32) -> Vec<ChannelPlan> {
        let plan = |(parity, (host, found)): (usize, (&HostView<'_>, &Vec<u32>))| {
            let route =
                |channel| route(host, found, channel % self.base, parity, nccl, self.across);
            (0..count).map(route).collect()
        };
        hosts.iter().zip(&self.devices).enumerate().map(plan).collect()
    }

    /// By host: the ways of the first `count` channels of trees. One of them enters and leaves a
    /// host by the same NIC, next to the GPU at the head of the chain within.
    pub fn trees(&self, hosts: &[HostView<'_>], count: u32) -> Vec<ChannelPlan> {
        let plan = |(host, found): (&HostView<'_>, &Vec<u32>)| {
            let route = |channel: u32| {
                if !self.across {
                    return Route { enters: None, leaves: None, gpus: (0..host.gpus).collect() };
                }
                let channel = (channel % self.base) as usize;
                let device = found[channel % found.len()];
                let own = near(host, device);
                let first = own[channel / host.devices.len() % own.len()];
                let gpus = order(host.gpus, first, first);
                Route { enters: Some(device), leaves: Some(device), gpus }
            };
            (0..count).map(route).collect()
        };
        hosts.iter().zip(&self.devices).map(plan).collect()
    }

    /// Which tree of a pair a channel belongs to: the first half of the channels to the first one
    /// (`connectTrees`, `copyChannels`).
    pub fn tree(&self, channel: u32) -> u32 {
        channel % (2 * self.half) / self.half
    }
}

/// How many channels `base` found ones of this speed become: those of one tree, and all.
fn duplicated(base: u32, speed: f64, architecture: Architecture, across: bool) -> (u32, u32) {
    let (mut half, mut speed) = (base, speed);
    // ncclTopoDupChannels (graph/search.cc)
    let many = architecture > Architecture::Ampere && speed < 50.0 && half > 4;
    if speed >= 25.0 && !many {
        (half, speed) = (half * 2, speed / 2.0);
    }
    // connectRings, and two thread blocks for each fast channel (graph/connect.cc)
    let mut count = half * 2;
    if architecture >= Architecture::Hopper && across && speed > 45.0 && count < 16 {
        count *= 2;
    }
    (half, count.min(CHANNELS_MAX))
}

/// The device of each channel, round robin over the devices that have room; and their speed.
fn sequence(host: &HostView<'_>, speeds: &[f64]) -> (f64, Vec<u32>) {
    let (speed, mut left) = search(host, speeds);
    let mut order = Vec::new();
    while left.iter().any(|channels| *channels > 0) {
        for (device, channels) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            *channels -= 1;
            order.push(device as u32);
        }
    }
    (speed, order)
}

/// The way of a channel through a host. `found` holds the device of each channel of the search.
fn route(
    host: &HostView<'_>,
    found: &[u32],
    channel: u32,
    parity: usize,
    nccl: &NcclConfig,
    across: bool,
) -> Route {
    let all = 0..host.gpus;
    if !across {
        return Route { enters: None, leaves: None, gpus: all.collect() };
    }
    let device = found[channel as usize % found.len()];
    let own = near(host, device);
    let turn = channel as usize / host.devices.len();
    let first = own[turn % own.len()];
    let partner = partner(host, device, first);
    if let ([_], Some((partner, other)), true) = (&own[..], partner, nccl.cross_nic > 0) {
        // in by one rail and out by its partner; every other host the other way round, so that
        // each flow stays on its rail (graph/connect.cc); with NCCL_CROSS_NIC=1 it need not
        let (ends, devices) = ([first, other], [device, partner]);
        let swap = !parity.is_multiple_of(2) && nccl.cross_nic == 2;
        let [a, b] = if swap { [1, 0] } else { [0, 1] };
        return Route {
            enters: Some(devices[a]),
            leaves: Some(devices[b]),
            gpus: order(host.gpus, ends[a], ends[b]),
        };
    }
    let last = match own.len() {
        1 => nearest_other(host, device, first),
        count => own[(turn + 1) % count],
    };
    let gpus = order(host.gpus, first, last);
    Route { enters: Some(device), leaves: Some(device), gpus }
}

/// The GPUs that take part and are near a device; all if none is.
fn near(host: &HostView<'_>, device: u32) -> Vec<u32> {
    let nic = &host.nics[host.devices[device as usize].nic as usize];
    let near: Vec<u32> = nic.affinity.iter().copied().filter(|g| *g < host.gpus).collect();
    if near.is_empty() { (0..host.gpus).collect() } else { near }
}

/// The device that shares channels with `device`, whose only GPU is `gpu`, where NICs are crossed;
/// and its GPU: of GPUs 0 and 1, 2 and 3 ... the other one, and of its devices the one of the same
/// number.
fn partner(host: &HostView<'_>, device: u32, gpu: u32) -> Option<(u32, u32)> {
    let other = gpu ^ 1;
    let of = |gpu: u32| {
        let all = 0..host.devices.len() as u32;
        all.filter(move |device| near(host, *device) == [gpu])
    };
    let number = of(gpu).position(|own| own == device)?;
    of(other).nth(number).map(|partner| (partner, other))
}

/// The GPU other than `gpu` that is nearest to a device.
fn nearest_other(host: &HostView<'_>, device: u32, gpu: u32) -> u32 {
    let nic = &host.nics[host.devices[device as usize].nic as usize];
    let others = (0..host.gpus).filter(|other| *other != gpu);
    // of equals the next one, so that rings of different NICs end at different GPUs
    let after = |other: u32| (other + host.gpus - gpu) % host.gpus;
    others.min_by_key(|other| (nic.path(*other), after(*other))).unwrap_or(gpu)
}

/// All GPUs, from `first` to `last`.
fn order(gpus: u32, first: u32, last: u32) -> Vec<u32> {
    let inner = (0..gpus).filter(|gpu| *gpu != first && *gpu != last);
    let end = (last != first).then_some(last);
    std::iter::once(first).chain(inner).chain(end).collect()
}

/// How far a device is from a GPU.
pub(super) fn distance(nics: &[NicPlan], device: &Device, gpu: u32) -> PathType {
    nics[device.nic as usize].path(gpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{NicMode, devices, nics};

    /// Routes of `count` equal hosts.
    fn plan(
        count: usize,
        config: &HostConfig,
        ports: u32,
        gbps: u64,
        nccl: &NcclConfig,
    ) -> Vec<ChannelPlan> {
        let nics = nics(config, ports).unwrap();
        let devices = devices(&nics, true, None);
        let rate = |device: &Device| Rate::from_gbps(gbps * device.links.concat().len() as u64);
        let rates: Vec<Rate> = devices.iter().map(rate).collect();
        let view =
            HostView { config, nics: &nics, devices: &devices, rates: &rates, gpus: config.gpus };
        rings(&vec![view; count], nccl)
    }

    fn rings(hosts: &[HostView<'_>], nccl: &NcclConfig) -> Vec<ChannelPlan> {
        let found = Found::new(hosts, nccl);
        found.rings(hosts, nccl, found.count)
    }

    fn host(architecture: Architecture, gpus: u32, ports: u32, mode: NicMode) -> HostConfig {
        let mut config = HostConfig { architecture, gpus, ..HostConfig::default() };
        (config.nic.ports, config.nic.mode) = (ports, mode);
        if architecture == Architecture::Hopper {
            config.nvlink.rate = Rate::from_gbps(2966);
        }
        config
    }

    #[test]
    fn channel_counts_are_those_that_are_seen() {
        let nccl = NcclConfig::default();
        let count = |config: &HostConfig, ports, gbps| plan(2, config, ports, gbps, &nccl)[0].len();
        use Architecture::{Ampere, Hopper, Volta};
        // 25 GB/s: one channel of 24, doubled
        assert_eq!(count(&host(Ampere, 8, 2, NicMode::Merged), 2, 100), 2);
        // two NICs of 12.5 GB/s: two of 12, doubled
        assert_eq!(count(&host(Volta, 8, 1, NicMode::Rails), 2, 100), 4);
        // DGX A100: eight NICs of 25 GB/s: 16
        assert_eq!(count(&host(Ampere, 8, 1, NicMode::Rails), 8, 200), 16);
        // one NIC of 50 GB/s on A100: 48 is cut in two of 24, doubled
        assert_eq!(count(&host(Ampere, 8, 1, NicMode::Rails), 1, 400), 4);
        // H100 with four NICs of 25 GB/s: 8
        assert_eq!(count(&host(Hopper, 8, 1, NicMode::Rails), 4, 200), 8);
        // HGX H100: eight NICs of 50 GB/s: 16; one GPU with one NIC: 1 x 2 x 2
        assert_eq!(count(&host(Hopper, 8, 1, NicMode::Rails), 8, 400), 16);
        assert_eq!(count(&host(Hopper, 1, 1, NicMode::Rails), 1, 400), 4);
    }

    #[test]
    fn only_nics_next_to_gpus_that_take_part_are_used() {
        let nccl = NcclConfig::default();
        // HGX H100, one and two GPUs of eight: as many NICs
        let devices = |gpus: u32| {
            let config = host(Architecture::Hopper, 8, 1, NicMode::Rails);
            let nics = nics(&config, 8).unwrap();
            let devices = devices(&nics, true, None);
            let rates = vec![Rate::from_gbps(400); 8];
            let view =
                HostView { config: &config, nics: &nics, devices: &devices, rates: &rates, gpus };
            let plan = rings(&[view.clone(), view], &nccl);
            let mut used: Vec<u32> = plan[0].iter().filter_map(|route| route.enters).collect();
            used.sort_unstable();
            used.dedup();
            used
        };
        assert_eq!((devices(1), devices(2)), (vec![0], vec![0, 1]));
        // two NICs for each of eight GPUs: rings still end at another GPU, next to its NIC
        let plan = plan(2, &host(Architecture::Ampere, 8, 1, NicMode::Rails), 16, 100, &nccl);
        let route = &plan[0][0];
        assert_eq!((route.enters, route.leaves), (Some(0), Some(2)));
        assert_eq!((route.gpus[0], route.gpus[7]), (0, 1));
    }

    #[test]
    fn channel_variables_rule() {
        let config = host(Architecture::Ampere, 8, 2, NicMode::Merged);
        let count = |min, max| {
            let nccl = NcclConfig { min_nchannels: min, max_nchannels: max, ..Default::default() };
            plan(2, &config, 2, 100, &nccl)[0].len()
        };
        assert_eq!((count(Some(8), None), count(None, Some(1)), count(Some(1), None)), (8, 1, 2));
    }

    #[test]
    fn rings_start_and_end_next_to_their_nics() {
        let nccl = NcclConfig::default();
        let one = plan(2, &host(Architecture::Ampere, 8, 2, NicMode::Merged), 2, 100, &nccl);
        // one NIC: all GPUs are split to it, so 0 first and 1 last
        assert_eq!(one[0][0].gpus, [0, 2, 3, 4, 5, 6, 7, 1]);
        assert_eq!((one[0][0].enters, one[0][0].leaves), (Some(0), Some(0)));
        // one GPU a NIC: even hosts in by rail 0 and out by rail 1, odd hosts the other way
        let rails = plan(2, &host(Architecture::Hopper, 8, 1, NicMode::Rails), 8, 400, &nccl);
        let ends = |host: usize, channel: usize| {
            let route = &rails[host][channel];
            (route.enters, route.leaves, route.gpus[0], route.gpus[7])
        };
        assert_eq!(ends(0, 0), (Some(0), Some(1), 0, 1));
        assert_eq!(ends(1, 0), (Some(1), Some(0), 1, 0));
        assert_eq!(ends(0, 3), (Some(3), Some(2), 3, 2));
        // NCCL_CROSS_NIC=0: in and out by one NIC, the last GPU far from it
        let strict = NcclConfig { cross_nic: 0, ..NcclConfig::default() };
        let rails = plan(2, &host(Architecture::Hopper, 8, 1, NicMode::Rails), 8, 400, &strict);
        assert_eq!((rails[0][3].enters, rails[0][3].leaves), (Some(3), Some(3)));
        assert_eq!((rails[0][3].gpus[0], rails[0][3].gpus[7]), (3, 4));
    }

    #[test]
    fn small_messages_use_fewer_channels() {
        let config = host(Architecture::Ampere, 8, 1, NicMode::Rails);
        let nics = nics(&config, 8).unwrap();
        let devices = devices(&nics, true, None);
        let rates = vec![Rate::from_gbps(200); 8];
        let view =
            HostView { config: &config, nics: &nics, devices: &devices, rates: &rates, gpus: 8 };
        let found = Found::new(&[view.clone(), view], &NcclConfig::default());
        // 512 threads x 64 B = 32 KiB a channel
        let counts = [100 << 10, 512 << 10, 1].map(|bytes| found.count_for(bytes, 512 * 64));
        assert_eq!(counts, [3, 16, 1]);
        // eight channels of each tree
        assert_eq!([0, 7, 8, 15].map(|channel| found.tree(channel)), [0, 0, 1, 1]);
    }
}
