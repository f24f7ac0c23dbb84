//! `<system>`: NCCL's topology, whole (with `<gpu>` and `<net>`) or in part (only what PCI devices
//! there are; NCCL finds the rest where it runs).

use std::collections::BTreeMap;

use models::host::{NicMode, PathType};

use super::super::ImportError;
use super::super::text::{TextFile, counted, quoted};
use super::super::xml::{Element, nccl_limits};
use super::gpus::{self, Model, PcieLink};
use super::server::{self, Gpu, Joined, Links, Nic, Server, Told};
use super::tree::{Device, Role, Walk, hex, place};

/// The server of a `<system>`; `user` is what the GPUs are, if the user has said it.
pub(super) fn read(
    file: &TextFile,
    root: &Element,
    user: Option<&'static Model>,
) -> Result<Server, ImportError> {
    let walk = Walk::read(file, root)?;
    let gpus = walk.in_order(Role::Gpu, "dev")?;
    let nics = walk.in_order(Role::Nic, "dev")?;
    walk.check(root, &gpus, &nics)?;
    let mut server = Server { warnings: nccl_limits(file, root), ..Server::default() };
    server.cpus = walk.describe_cpus();
    for device in gpus.iter().map(|index| &walk.devices[*index]) {
        server.gpus.push(Gpu {
            label: device.busid.clone(),
            line: device.element.line,
            numa: walk.numa(device),
            link: device.link,
        });
    }
    let link_mbps = walk.what_gpus_are(&mut server, &gpus, user)?;
    walk.what_joins_gpus(&mut server, &gpus, link_mbps)?;
    for nic in &nics {
        let nic = walk.nic(*nic, &gpus)?;
        server.nics.push(nic);
    }
    join_functions(&mut server.nics);
    names_differ(file, &server.nics)?;
    walk.gdr(&mut server, &gpus, &nics)?;
    walk.rest(&mut server);
    Ok(server)
}

impl Walk<'_> {
    /// Says what the GPUs are; returns the rate of a link between them in Mb/s.
    fn what_gpus_are(
        &self,
        server: &mut Server,
        gpus: &[usize],
        user: Option<&'static Model>,
    ) -> Result<u64, ImportError> {
        let first = &self.devices[gpus[0]];
        let place = |element: &Element| place(self.file, element);
        let ids = |device: &Device<'_>| {
            let id = |key| device.element.get(key).and_then(hex).map(|id| id as u16);
            gpus::of_ids(id("vendor")?, id("device")?)
        };
        if let Some(model) = user {
            server.model = Some(Told::new(model, format!("--gpu {}", model.name)));
            server.architecture = Some(Told::new(model.architecture, "follows from the GPU"));
            return Ok(model.link_mbps);
        }
        if let Some(model) = ids(first) {
            let id = |key| first.element.get(key).unwrap_or("").trim_start_matches("0x");
            let from =
                format!("{}: device {}:{}", place(first.element), id("vendor"), id("device"));
            server.model = Some(Told::new(model, from));
            server.architecture = Some(Told::new(model.architecture, "follows from the GPU"));
            if let Some(other) =
                gpus.iter().map(|gpu| &self.devices[*gpu]).find(|d| ids(d) != Some(model))
            {
                let message = "another GPU than the first; all are taken for that one";
                server.warnings.push(other.element.note(self.file, message));
            }
            return Ok(model.link_mbps);
        }
        let Some(leaf) = first.gpu else { return Ok(200_000) };
        // sm is the number of compute units on AMD's
        let known = match leaf.number(self.file, "gcn")? {
            Some(gcn) => gpus::of_gcn(gcn).map(|known| (known, format!("gcn=\"{gcn}\""))),
            None => match leaf.number(self.file, "sm")? {
                Some(sm) => gpus::of_sm(sm).map(|known| (known, format!("sm=\"{sm}\""))),
                None => None,
            },
        };
        let Some(((architecture, link_mbps, preset), said)) = known else {
            if let Some(said) = leaf.get("gcn").or(leaf.get("sm")) {
                let message = format!("a GPU of generation {} is not known", quoted(said));
                server.warnings.push(leaf.note(self.file, message));
            }
            return Ok(200_000);
        };
        server.preset = Some(preset);
        server.architecture = Some(Told::new(architecture, format!("{}: {said}", place(leaf))));
        Ok(link_mbps)
    }

    fn what_joins_gpus(
        &self,
        server: &mut Server,
        gpus: &[usize],
        link_mbps: u64,
    ) -> Result<(), ImportError> {
        if gpus.len() == 1 {
            server.joined = Joined::Alone;
            return Ok(());
        }
        if gpus.iter().any(|gpu| self.devices[*gpu].gpu.is_none()) {
            if let Some(told) = server.model.as_ref().filter(|told| told.value.links == 0) {
                let name = told.value.name;
                server.joined = self.pcie(gpus, format!("{name} have PCIe only"), server);
            }
            return Ok(());
        }
        let (mut all, mut odd, mut lone) = (Vec::new(), Vec::new(), None);
        for (number, gpu) in gpus.iter().enumerate() {
            let device = &self.devices[*gpu];
            let mut links = Links { to_switch: 0, to_gpus: vec![0; gpus.len()] };
            for link in device.gpu.iter().flat_map(|gpu| &gpu.children) {
                if !matches!(link.name.as_str(), "nvlink" | "xgmi") {
                    continue;
                }
                lone.get_or_insert(link);
                let count: u32 = link.number(self.file, "count")?.unwrap_or(1);
                let target = link.need(self.file, "target")?.to_ascii_lowercase();
                let class = link.get("tclass").and_then(hex).unwrap_or(0) >> 8;
                let peer = gpus.iter().position(|gpu| self.devices[*gpu].busid == target);
                match peer {
                    Some(peer) if peer == number => odd.push((link, "leads to its own GPU")),
                    Some(peer) => links.to_gpus[peer] += count,
                    None if class == 0x0680 => links.to_switch += count,
                    None => odd.push((link, "leads to no GPU of this file")),
                }
            }
            all.push(links);
        }
        for what in ["leads to its own GPU", "leads to no GPU of this file"] {
            let found: Vec<_> = odd.iter().filter(|(_, why)| *why == what).collect();
            if let Some((link, _)) = found.first() {
                let count = counted(found.len(), "link");
                let message = format!("{what} ({count} of this kind, passed over)");
                server.warnings.push(link.note(self.file, message));
            }
        }
        let name =
            if lone.is_some_and(|link| link.name == "xgmi") { "xGMI links" } else { "NVLinks" };
        let from = lone.map_or(String::new(), |link| format!("{} ..", place(self.file, link)));
        server.joined = match server::join(&all, link_mbps, name, &from) {
            Some(joined) => joined,
            None => {
                let from = match all.iter().any(|links| links.to_gpus.iter().any(|n| *n > 0)) {
                    true => format!("{name} join groups of GPUs only, PCIe all of them"),
                    false => "PCIe alone joins the GPUs".to_owned(),
                };
                self.pcie(gpus, from, server)
            }
        };
        Ok(())
    }

    /// The narrowest PCIe link of a GPU joins them.
    fn pcie(&self, gpus: &[usize], from: String, server: &mut Server) -> Joined {
        let link = |gpu: &usize| self.devices[*gpu].link;
        let slowest = gpus.iter().filter_map(link).min_by_key(|link| link.payload());
        let unknown = gpus.iter().find(|gpu| link(gpu).is_none());
        if let Some(gpu) = unknown {
            let message =
                format!("its PCIe link is not said: {}, as NCCL takes it", PcieLink::UNKNOWN);
            server.warnings.push(self.devices[*gpu].element.note(self.file, message));
        }
        let link = slowest.unwrap_or(PcieLink::UNKNOWN);
        Joined::Pcie { rate: link.payload(), from: format!("{from}: {link}") }
    }

    fn nic(&self, index: usize, gpus: &[usize]) -> Result<Nic, ImportError> {
        let device = &self.devices[index];
        let mut names: Vec<String> = Vec::new();
        let mut modes: Vec<NicMode> = Vec::new();
        let mut speed: Option<u64> = None;
        for net in &device.nets {
            let name = net.need(self.file, "name")?;
            modes.push(server::mode_of(name));
            names.extend(name.split('+').map(str::to_owned));
            let own = net.number::<i64>(self.file, "speed")?.filter(|speed| *speed > 0);
            speed = speed.into_iter().chain(own.map(|own| own as u64)).min();
        }
        let mode = modes.first().copied().unwrap_or(NicMode::Rails);
        if modes.iter().any(|other| *other != mode) || (mode != NicMode::Rails && modes.len() > 1) {
            let message = "ports that are merged or bonded and others in one NIC; they are not known \
                           to be one device";
            return Err(device.element.error(self.file, message));
        }
        let (ports, ports_assumed) = match mode {
            NicMode::Bond => (2, true),
            _ => (names.len().max(1) as u32, names.is_empty()),
        };
        let paths: Vec<PathType> = gpus.iter().map(|gpu| self.path(index, *gpu)).collect();
        let nearest = (0..gpus.len()).min_by_key(|gpu| paths[*gpu]);
        let link = nearest.and_then(|gpu| self.narrowest(index, gpus[gpu]));
        let label = device.busid.clone();
        let (line, numa) = (device.element.line, self.numa(device));
        Ok(Nic { label, line, names, ports, ports_assumed, mode, link, paths, speed, numa })
    }

    /// The bridges above a device, the nearest first, as NCCL counts them.
    fn bridges(&self, index: usize) -> Vec<usize> {
        let mut bridges = Vec::new();
        let mut at = self.devices[index].parent;
        while let Some(bridge) = at {
            let parent = self.devices[bridge].parent;
            // a switch that shows itself as two levels is one (ncclTopoFlattenBcmSwitches)
            let inner = parent.is_some_and(|parent| {
                let generation = broadcom(&self.devices[parent], 0);
                generation.is_some() && generation == broadcom(&self.devices[bridge], 1)
            });
            if !inner {
                bridges.push(bridge);
            }
            at = parent;
        }
        bridges
    }

    /// How far a GPU is from a NIC (graph/paths.cc).
    fn path(&self, nic: usize, gpu: usize) -> PathType {
        let [a, b] = [nic, gpu].map(|device| self.bridges(device));
        if self.devices[nic].cpu != self.devices[gpu].cpu {
            return PathType::Sys;
        }
        let meet = a.iter().position(|bridge| b.contains(bridge));
        let Some(up) = meet else { return PathType::Phb };
        let down = b.iter().position(|bridge| *bridge == a[up]).unwrap_or(0);
        if up + down == 0 { PathType::Pix } else { PathType::Pxb }
    }

    /// The narrowest link between a NIC and the bridge, or the CPU, above it and the GPU.
    fn narrowest(&self, nic: usize, gpu: usize) -> Option<PcieLink> {
        let shared = self.bridges(gpu);
        let mut links = vec![self.devices[nic].link?];
        let above = self.bridges(nic).into_iter().take_while(|bridge| !shared.contains(bridge));
        links.extend(above.filter_map(|bridge| self.devices[bridge].link));
        links.into_iter().min_by_key(|link| link.payload())
    }

    fn gdr(&self, server: &mut Server, gpus: &[usize], nics: &[usize]) -> Result<(), ImportError> {
        let nets = nics.iter().flat_map(|nic| &self.devices[*nic].nets).copied();
        let gpus = gpus.iter().filter_map(|gpu| self.devices[*gpu].gpu);
        for (leaves, what) in
            [(nets.collect::<Vec<&Element>>(), "NIC"), (gpus.clone().collect(), "GPU")]
        {
            let said: Vec<&&Element> =
                leaves.iter().filter(|leaf| leaf.get("gdr").is_some()).collect();
            let off: Vec<&&&Element> =
                said.iter().filter(|leaf| leaf.get("gdr") == Some("0")).collect();
            let Some(first) = off.first() else {
                if let (Some(first), None) = (said.first(), &server.gdr) {
                    let from = format!("{}: gdr=\"1\"", place(self.file, first));
                    server.gdr = Some(Told::new(true, from));
                }
                continue;
            };
            if off.len() == said.len() {
                let from = format!("{}: gdr=\"0\" of each {what}", place(self.file, first));
                server.gdr = Some(Told::new(false, from));
            } else {
                let message = format!(
                    "gdr=\"0\" of {} of {}: host.gdr is for all, and stays on",
                    off.len(),
                    counted(said.len(), what)
                );
                server.warnings.push(first.note(self.file, message));
            }
        }
        let sockets: Vec<&Element> = nics
            .iter()
            .flat_map(|nic| &self.devices[*nic].nets)
            .copied()
            .filter(|net| net.get("name").is_some_and(is_socket))
            .collect();
        if let Some(first) = sockets.first() {
            let message = format!(
                "{} is an interface of the kernel, by which NCCL uses TCP; here it is an RDMA device",
                quoted(first.get("name").unwrap_or(""))
            );
            server.warnings.push(first.note(self.file, message));
        }
        let c2c = gpus.flat_map(|gpu| &gpu.children).find(|child| child.name == "c2c");
        server.grace = c2c.map(|c2c| format!("{}: <c2c>", place(self.file, c2c)));
        if let Some(told) = server.model.as_ref().filter(|told| told.value.grace) {
            server.grace.get_or_insert(told.from.clone());
        }
        Ok(())
    }
}

/// Functions of one PCI device are the ports of one NIC, where no `<nic>` says so.
fn join_functions(nics: &mut Vec<Nic>) {
    let slot = |nic: &Nic| nic.label.rsplit_once('.').map(|(slot, _)| slot.to_owned());
    nics.dedup_by(|next, first| {
        let same = next.names.is_empty() && first.names.is_empty() && slot(next) == slot(first);
        first.ports += u32::from(same);
        first.ports_assumed &= !same;
        same
    });
}

/// Two NICs cannot have a name in common.
fn names_differ(file: &TextFile, nics: &[Nic]) -> Result<(), ImportError> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for nic in nics {
        for name in &nic.names {
            if let Some(line) = known.insert(name, nic.line) {
                let place = match line == nic.line {
                    true => "stands twice in this device".to_owned(),
                    false => format!("is in the device of line {line}, too"),
                };
                let message =
                    format!("<net name=\"{name}\"> {place}; names are expected to differ");
                return Err(file.error_at(nic.line, message));
            }
        }
    }
    Ok(())
}

/// The generation of a Broadcom PEX switch that shows itself as two levels (graph/topo.cc).
fn broadcom(device: &Device<'_>, level: u64) -> Option<u32> {
    let id = |key| device.element.get(key).and_then(hex).map(u64::from);
    let own = id("vendor")? << 48
        | id("device")? << 32
        | id("subsystem_vendor")? << 16
        | id("subsystem_device")?;
    match own & !0xfff {
        0x1000_c010_1000_a000 => Some(4),
        gen5 if gen5 == 0x1000_c030_1000_0000 | level << 12 => Some(5),
        _ => None,
    }
}

/// Not an RDMA device: `eth0`, `ens5`, `bond0` ...
fn is_socket(name: &str) -> bool {
    ["eth", "ens", "eno", "enp", "ib", "bond"].iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}
