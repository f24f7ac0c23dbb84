//! From `[host]` to NICs, and to the network devices that NCCL sees.

use sim_core::Rate;

use super::config::{HostConfig, HostNic, LagPortSelectMode, NicMode, PathType, PcieConfig};
use crate::error::BuildError;
use crate::topology::NicLayout;

/// A NIC with all its keys.
#[derive(Clone, Debug)]
pub struct NicPlan {
    /// First of its ports, as index within the host.
    pub first_port: u32,
    /// Number of ports.
    pub ports: u32,
    /// What the ports are to NCCL.
    pub mode: NicMode,
    /// Of a bond.
    pub lag: LagPortSelectMode,
    /// Names of its devices.
    pub names: Vec<String>,
    /// To memory.
    pub pcie: PcieConfig,
    /// The GPUs next to it, by which rings pass; none if it is too far from all for NCCL to use it
    /// beside the other NICs.
    pub affinity: Vec<u32>,
    /// How far each GPU is, by number.
    pub paths: Vec<PathType>,
}

impl NicPlan {
    /// As the topology sees it.
    pub fn layout(&self) -> NicLayout {
        NicLayout { ports: self.ports, bond: self.mode == NicMode::Bond }
    }

    /// How far a GPU is.
    pub fn path(&self, gpu: u32) -> PathType {
        self.paths.get(gpu as usize).copied().unwrap_or(PathType::Sys)
    }
}

/// The NICs of a host with `ports` ports in the topology.
pub fn nics(config: &HostConfig, ports: u32) -> Result<Vec<NicPlan>, BuildError> {
    check(config)?;
    let listed = if config.nics.is_empty() { spread(config, ports) } else { config.nics.clone() };
    let mut plans: Vec<NicPlan> = Vec::new();
    let (mut first_port, mut devices, mut bonds) = (0, 0, 0);
    for (index, nic) in listed.iter().enumerate() {
        let key = |field: &str| format!("host.nics[{index}].{field}");
        let count = nic.ports.unwrap_or(config.nic.ports);
        if count == 0 || count > 8 {
            let message = format!("{count} is out of range: 1 to 8 ports are expected");
            return Err(BuildError::new(key("ports"), message));
        }
        let mode = nic.mode.unwrap_or(config.nic.mode);
        let wanted = if mode == NicMode::Bond { 1 } else { count as usize };
        let mut names = nic.names.clone();
        if names.is_empty() {
            names = match mode {
                NicMode::Bond => vec![format!("mlx5_bond_{bonds}")],
                _ => (0..count).map(|port| format!("mlx5_{}", devices + port)).collect(),
            };
        } else if names.len() != wanted {
            let message = format!(
                "{} names for {wanted} device{}: a NIC has one for each port, a bond has one",
                names.len(),
                if wanted == 1 { "" } else { "s" }
            );
            return Err(BuildError::new(key("names"), message));
        }
        devices += count;
        bonds += u32::from(mode == NicMode::Bond);
        for (position, name) in names.iter().enumerate() {
            let other = plans.iter().position(|plan| plan.names.contains(name));
            if let Some(other) = other.or(names[..position].contains(name).then_some(index)) {
                let message = format!("{name:?} is the name of a device of NIC {other} already");
                return Err(BuildError::new(key("names"), message));
            }
        }
        let (affinity, paths) = affinity(config, nic)
            .map_err(|(field, message)| BuildError::new(key(field), message))?;
        let pcie = nic.pcie.unwrap_or(config.nic.pcie);
        if pcie.rate < Rate::from_mbps(1) {
            let message = format!("{} is out of range: at least 1Mbps is expected", pcie.rate);
            return Err(BuildError::new(key("pcie.rate"), message));
        }
        plans.push(NicPlan {
            first_port,
            ports: count,
            mode,
            lag: nic.lag_port_select_mode.unwrap_or(config.nic.lag_port_select_mode),
            names,
            pcie,
            affinity,
            paths,
        });
        first_port += count;
    }
    if first_port != ports {
        let key = if config.nics.is_empty() { "host.nic.ports" } else { "host.nics" };
        let message = format!(
            "{} NICs have {first_port} ports together, and the topology cables {ports} ports of \
             each host",
            plans.len()
        );
        return Err(BuildError::new(key, message));
    }
    let nearest = plans.iter().flat_map(|plan| &plan.paths).map(|path| path.of_nccl()).min();
    for (plan, nic) in plans.iter_mut().zip(&listed).filter(|(_, nic)| !nic.paths.is_empty()) {
        // the search first tries longer paths up to PXN, the type before PHB, and beyond only if
        // it has found nothing (graph/search.cc, ncclTopoCompute)
        let own = nic.paths.iter().map(|path| path.of_nccl()).min();
        if own > nearest.max(Some(PathType::Pxb)) {
            plan.affinity.clear();
        }
    }
    Ok(plans)
}

/// The GPUs next to a NIC, and its paths to all.
type Nearness = (Vec<u32>, Vec<PathType>);

/// How near a NIC is to the GPUs; or which key is wrong, and why.
fn affinity(config: &HostConfig, nic: &HostNic) -> Result<Nearness, (&'static str, String)> {
    let all = 0..config.gpus;
    if nic.paths.is_empty() {
        if let Some(gpu) = nic.affinity.iter().find(|gpu| **gpu >= config.gpus) {
            let message = format!("there is no GPU {gpu}: GPUs 0 to {} are there", config.gpus - 1);
            return Err(("affinity", message));
        }
        let (near, far) = (nic.near.unwrap_or(config.nic.near), nic.far.unwrap_or(config.nic.far));
        // where nothing is said all are near
        let affinity = match nic.affinity.is_empty() {
            true => all.clone().collect(),
            false => nic.affinity.clone(),
        };
        let paths = all.map(|gpu| if affinity.contains(&gpu) { near } else { far }).collect();
        return Ok((affinity, paths));
    }
    let rivals = [
        ("affinity", !nic.affinity.is_empty()),
        ("near", nic.near.is_some()),
        ("far", nic.far.is_some()),
    ];
    if let Some((rival, _)) = rivals.iter().find(|(_, given)| *given) {
        return Err((
            "paths",
            format!("`paths` and `{rival}` say the same; one of them is expected"),
        ));
    }
    if nic.paths.len() != config.gpus as usize {
        let message = format!(
            "{} paths; one for each of the {} GPUs (host.gpus) is expected",
            nic.paths.len(),
            config.gpus
        );
        return Err(("paths", message));
    }
    let nearest = nic.paths.iter().min();
    let affinity = all.filter(|gpu| nic.paths.get(*gpu as usize) == nearest).collect();
    Ok((affinity, nic.paths.clone()))
}

fn check(config: &HostConfig) -> Result<(), BuildError> {
    if config.gpus == 0 || config.gpus > 64 {
        let message = format!("{} is out of range: 1 to 64 GPUs are expected", config.gpus);
        return Err(BuildError::new("host.gpus", message));
    }
    for (key, rate) in [
        ("host.nvlink.rate", config.nvlink.rate),
        ("host.channel_rate", config.channel_rate),
        ("host.nvls_rate", config.nvls_rate),
        ("host.socket.rate", config.socket.rate),
        ("host.host_memory.rate", config.host_memory.rate),
    ] {
        if rate < Rate::from_mbps(1) {
            let message = format!("{rate} is out of range: at least 1Mbps is expected");
            return Err(BuildError::new(key, message));
        }
    }
    Ok(())
}

/// NICs for all ports, and the GPUs split among them in order.
fn spread(config: &HostConfig, ports: u32) -> Vec<HostNic> {
    let each = config.nic.ports.max(1);
    let count = (ports / each).max(1);
    (0..count)
        .map(|nic| {
            let gpus = config.gpus;
            // with fewer GPUs than NICs some share one
            let (from, to) = (nic * gpus / count, ((nic + 1) * gpus).div_ceil(count));
            HostNic { affinity: (from..to).collect(), ..HostNic::default() }
        })
        .collect()
}

/// A network device as NCCL sees it.
#[derive(Clone, Debug)]
pub struct Device {
    /// `mlx5_0`; `mlx5_0+mlx5_1` where ports are merged.
    pub name: String,
    /// Index of its NIC.
    pub nic: u32,
    /// Groups of ports (indices within the host) with one address each: one for a port or a bond,
    /// several where ports are merged.
    pub links: Vec<Vec<u32>>,
}

/// Which devices `NCCL_IB_HCA` leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaFilter {
    exclude: bool,
    exact: bool,
    /// Name, and port where one is given.
    entries: Vec<(String, Option<u32>)>,
}

impl HcaFilter {
    /// Reads `^mlx5_3`, `=mlx5_0:1,mlx5_1`, `mlx5`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut rest, mut exclude, mut exact) = (text, false, false);
        loop {
            if let Some(after) = rest.strip_prefix('^') {
                (rest, exclude) = (after, true);
            } else if let Some(after) = rest.strip_prefix('=') {
                (rest, exact) = (after, true);
            } else {
                break;
            }
        }
        let mut entries = Vec::new();
        for entry in rest.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let mut parts = entry.split(':');
            let name = parts.next().unwrap_or("").to_owned();
            let port = match parts.next() {
                None => None,
                Some(port) => match port.parse() {
                    Ok(port) => Some(port),
                    Err(_) => return Err(format!("{port:?} is no port number")),
                },
            };
            entries.push((name, port));
        }
        if entries.is_empty() {
            return Err("names of devices are expected, such as \"mlx5_0,mlx5_1\"".to_owned());
        }
        Ok(HcaFilter { exclude, exact, entries })
    }

    /// Whether it leaves a device of this name. mlx5 devices have one port, number 1.
    pub fn takes(&self, name: &str) -> bool {
        let matches = |(entry, port): &(String, Option<u32>)| {
            let named = if self.exact { name == entry } else { name.starts_with(entry.as_str()) };
            named && port.is_none_or(|port| port == 1)
        };
        self.entries.iter().any(matches) != self.exclude
    }
}

/// The devices of these NICs that NCCL uses.
pub fn devices(nics: &[NicPlan], merge: bool, filter: Option<&HcaFilter>) -> Vec<Device> {
    let takes = |name: &String| filter.is_none_or(|filter| filter.takes(name));
    let mut devices = Vec::new();
    for (index, nic) in nics.iter().enumerate() {
        let number = index as u32;
        let ports = nic.first_port..nic.first_port + nic.ports;
        if nic.mode == NicMode::Bond {
            if takes(&nic.names[0]) {
                let (name, links) = (nic.names[0].clone(), vec![ports.collect()]);
                devices.push(Device { name, nic: number, links });
            }
            continue;
        }
        let left: Vec<(&String, u32)> =
            nic.names.iter().zip(ports).filter(|(name, _)| takes(name)).collect();
        let groups: Vec<&[(&String, u32)]> = match nic.mode == NicMode::Merged && merge {
            true if left.is_empty() => Vec::new(),
            true => vec![&left[..]],
            false => left.chunks(1).collect(),
        };
        for group in groups {
            let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
            let links = group.iter().map(|(_, port)| vec![*port]).collect();
            devices.push(Device { name: names.join("+"), nic: number, links });
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(nic_ports: u32, mode: NicMode) -> HostConfig {
        let mut config = HostConfig::default();
        config.nic.ports = nic_ports;
        config.nic.mode = mode;
        config
    }

    #[test]
    fn gpus_are_split_among_nics() {
        // 4 NICs of 2 ports for 8 GPUs: two GPUs each
        let plans = nics(&host(2, NicMode::Merged), 8).unwrap();
        let affinity: Vec<_> = plans.iter().map(|nic| nic.affinity.clone()).collect();
        assert_eq!(affinity, [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(plans[3].names, ["mlx5_6", "mlx5_7"]);
        assert_eq!((plans[3].path(6), plans[3].path(0)), (PathType::Pxb, PathType::Sys));
        assert_eq!(nics(&host(2, NicMode::Merged), 7).unwrap_err().key, "host.nic.ports");
    }

    #[test]
    fn paths_say_how_far_each_gpu_is() {
        use PathType::{Node, Phb, Pix, Pxb, Sys};
        let mut config = host(1, NicMode::Rails);
        config.gpus = 4;
        let nic = |paths: &[PathType]| HostNic { paths: paths.to_vec(), ..HostNic::default() };
        config.nics = vec![
            nic(&[Pix, Pxb, Node, Sys]),
            nic(&[Node, Node, Pxb, Pxb]),
            nic(&[Phb, Sys, Sys, Sys]),
        ];
        let plans = nics(&config, 3).unwrap();
        assert_eq!(plans[0].affinity, [0]);
        assert_eq!([0, 1, 2, 3].map(|gpu| plans[0].path(gpu)), [Pix, Pxb, Node, Sys]);
        // next to two GPUs, behind several switches
        assert_eq!(plans[1].affinity, [2, 3]);
        // beyond the host bridge, where others are not: no ring begins there
        assert_eq!(plans[2].affinity, [0; 0]);
        // to NCCL, NODE is PHB: alone with its like it is used
        config.nics = vec![nic(&[Phb, Sys, Sys, Sys]), nic(&[Sys, Sys, Node, Node])];
        let affinity = nics(&config, 2).unwrap().into_iter().map(|plan| plan.affinity);
        assert_eq!(affinity.collect::<Vec<_>>(), [vec![0], vec![2, 3]]);

        config.nics[1].near = Some(Pix);
        let error = nics(&config, 2).unwrap_err();
        assert_eq!(error.key, "host.nics[1].paths");
        assert!(error.message.contains("`paths` and `near`"), "{error}");
        config.nics[1] = nic(&[Pix; 3]);
        assert_eq!(
            nics(&config, 2).unwrap_err().to_string(),
            "host.nics[1].paths: 3 paths; one for each of the 4 GPUs (host.gpus) is expected"
        );
    }

    #[test]
    fn bad_descriptions_name_their_key() {
        let mut none = host(1, NicMode::Rails);
        none.gpus = 0;
        assert_eq!(nics(&none, 1).unwrap_err().key, "host.gpus");
        let nic = |name: &str, gpu| HostNic {
            names: vec![name.to_owned()],
            affinity: vec![gpu],
            ..HostNic::default()
        };
        let mut twice = host(1, NicMode::Rails);
        twice.nics = vec![nic("mlx5_0", 0), nic("mlx5_0", 1)];
        let error = nics(&twice, 2).unwrap_err();
        assert_eq!(error.key, "host.nics[1].names");
        assert!(error.message.contains("\"mlx5_0\" is the name of a device of NIC 0"), "{error}");
        twice.nics[1] = nic("mlx5_1", 8);
        let error = nics(&twice, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "host.nics[1].affinity: there is no GPU 8: GPUs 0 to 7 are there"
        );
    }

    #[test]
    fn merged_ports_are_one_device_and_filters_take_ports() {
        let plans = nics(&host(2, NicMode::Merged), 4).unwrap();
        let names = |merge, filter: Option<&str>| {
            let filter = filter.map(|text| HcaFilter::parse(text).unwrap());
            let devices = devices(&plans, merge, filter.as_ref());
            devices.into_iter().map(|device| device.name).collect::<Vec<_>>()
        };
        assert_eq!(names(true, None), ["mlx5_0+mlx5_1", "mlx5_2+mlx5_3"]);
        assert_eq!(names(false, None), ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]);
        assert_eq!(names(true, Some("mlx5_0,mlx5_2:1")), ["mlx5_0", "mlx5_2"]);
        assert_eq!(names(true, Some("^mlx5_0")), ["mlx5_1", "mlx5_2+mlx5_3"]);
        assert_eq!(names(true, Some("=mlx5_")), [""; 0]);
        let bond = nics(&host(2, NicMode::Bond), 4).unwrap();
        let devices = devices(&bond, true, None);
        assert_eq!(
            (devices[1].name.as_str(), &devices[1].links),
            ("mlx5_bond_1", &vec![vec![2, 3]])
        );
    }
}
