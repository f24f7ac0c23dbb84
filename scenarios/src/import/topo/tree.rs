//! The devices of a `<system>`: which there are, where they stand, and what each is.

use std::collections::BTreeMap;

use super::super::ImportError;
use super::super::text::{TextFile, counted, quoted};
use super::super::xml::Element;
use super::gpus::PcieLink;
use super::server::Server;

/// Elements that NCCL knows, and what they may stand in.
const KNOWN: [(&str, &[&str]); 9] = [
    ("cpu", &["system"]),
    ("pci", &["cpu", "pci"]),
    ("gpu", &["pci"]),
    ("nic", &["pci", "cpu"]),
    ("net", &["nic"]),
    ("nvlink", &["gpu"]),
    ("xgmi", &["gpu"]),
    ("c2c", &["gpu"]),
    ("pcilink", &["pci"]),
];

/// A PCI device, or a NIC that hangs on a CPU without one.
pub(super) struct Device<'e> {
    pub(super) element: &'e Element,
    pub(super) busid: String,
    pub(super) parent: Option<usize>,
    /// Which of the CPUs it belongs to.
    pub(super) cpu: usize,
    pub(super) class: Option<u32>,
    pub(super) link: Option<PcieLink>,
    pub(super) gpu: Option<&'e Element>,
    pub(super) nets: Vec<&'e Element>,
    pub(super) has_devices: bool,
}

/// What a device is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Gpu,
    Nic,
    Bridge,
    NvSwitch,
    /// It has a class, and it is none of these.
    Other,
    /// Nobody says.
    Unknown,
}

/// A file as it is read.
pub(super) struct Walk<'e> {
    pub(super) file: &'e TextFile,
    pub(super) cpus: Vec<&'e Element>,
    pub(super) devices: Vec<Device<'e>>,
    /// Names of elements that are not known, with their number and the first of them.
    unknown: BTreeMap<&'e str, (usize, &'e Element)>,
}

impl<'e> Walk<'e> {
    /// The devices in the root of a file.
    pub(super) fn read(file: &'e TextFile, root: &'e Element) -> Result<Self, ImportError> {
        let (cpus, devices) = (Vec::new(), Vec::new());
        let mut walk = Walk { file, cpus, devices, unknown: BTreeMap::new() };
        for cpu in &root.children {
            if cpu.name == "cpu" {
                walk.cpu(cpu)?;
            } else {
                walk.unknown(cpu, "system")?;
            }
        }
        if walk.cpus.is_empty() {
            let message = "there is no <cpu> in it; devices are expected in <cpu>";
            return Err(root.error(file, message));
        }
        Ok(walk)
    }

    fn cpu(&mut self, cpu: &'e Element) -> Result<(), ImportError> {
        let hash = |cpu: &Element| cpu.get("host_hash").map(str::to_owned);
        for other in &self.cpus {
            if hash(other) != hash(cpu) {
                let message = format!(
                    "host_hash differs from that of line {}: this is a file of several hosts; that of \
                     one host is expected",
                    other.line
                );
                return Err(cpu.error(self.file, message));
            }
            if other.get("numaid") == cpu.get("numaid") {
                let message = format!(
                    "numaid={} stands in line {} already; each NUMA node is expected once",
                    quoted(cpu.get("numaid").unwrap_or("")),
                    other.line
                );
                return Err(cpu.error(self.file, message));
            }
        }
        cpu.need(self.file, "numaid")?;
        self.cpus.push(cpu);
        for child in &cpu.children {
            match child.name.as_str() {
                "pci" => self.pci(child, None)?,
                "nic" => {
                    let busid = format!("NIC of line {}", child.line);
                    let mut device = Device {
                        element: child,
                        busid,
                        parent: None,
                        cpu: self.cpus.len() - 1,
                        class: None,
                        link: None,
                        gpu: None,
                        nets: Vec::new(),
                        has_devices: false,
                    };
                    self.nets(child, &mut device)?;
                    self.devices.push(device);
                }
                _ => self.unknown(child, "cpu")?,
            }
        }
        Ok(())
    }

    fn pci(&mut self, element: &'e Element, parent: Option<usize>) -> Result<(), ImportError> {
        let file = self.file;
        let busid = element.need(file, "busid")?.to_ascii_lowercase();
        if !is_busid(&busid) {
            let message = format!(
                "busid={} is no PCI address; one such as \"0000:3b:00.0\" is expected",
                quoted(&busid)
            );
            return Err(element.error(file, message));
        }
        if let Some(other) = self.devices.iter().find(|other| other.busid == busid) {
            let message = format!(
                "busid {} stands in line {} already; each device is expected once",
                quoted(&busid),
                other.element.line
            );
            return Err(element.error(file, message));
        }
        let class = match element.get("class") {
            None | Some("") => None,
            Some(text) => Some(hex(text).ok_or_else(|| {
                let message = format!(
                    "class={} is no PCI class; one such as \"0x030200\" is expected",
                    quoted(text)
                );
                element.error(file, message)
            })?),
        };
        let width = element.number(file, "link_width")?.unwrap_or(0);
        let link = PcieLink::new(element.get("link_speed").unwrap_or(""), width);
        let has_devices = element.children.iter().any(|child| child.name == "pci");
        let mut device = Device {
            element,
            busid,
            parent,
            cpu: self.cpus.len() - 1,
            class,
            link,
            gpu: None,
            nets: Vec::new(),
            has_devices,
        };
        for child in &element.children {
            match child.name.as_str() {
                "pci" | "pcilink" => {}
                "gpu" if device.gpu.is_some() => {
                    return Err(child.error(file, "a second GPU in one device; one is expected"));
                }
                "gpu" => {
                    device.gpu = Some(child);
                    let is_link =
                        |link: &&Element| matches!(&*link.name, "nvlink" | "xgmi" | "c2c");
                    for other in child.children.iter().filter(|link| !is_link(link)) {
                        self.unknown(other, "gpu")?;
                    }
                }
                "nic" => self.nets(child, &mut device)?,
                _ => self.unknown(child, "pci")?,
            }
        }
        self.devices.push(device);
        let own = self.devices.len() - 1;
        for child in element.children.iter().filter(|child| child.name == "pci") {
            self.pci(child, Some(own))?;
        }
        Ok(())
    }

    fn nets(&mut self, nic: &'e Element, device: &mut Device<'e>) -> Result<(), ImportError> {
        for child in &nic.children {
            match child.name.as_str() {
                "net" => device.nets.push(child),
                _ => self.unknown(child, "nic")?,
            }
        }
        if device.nets.is_empty() {
            return Err(
                nic.error(self.file, "there is no <net> in it; one for each port is expected")
            );
        }
        Ok(())
    }

    /// An element that means nothing here, or stands where it should not.
    fn unknown(&mut self, element: &'e Element, parent: &str) -> Result<(), ImportError> {
        if let Some((_, places)) = KNOWN.iter().find(|(name, _)| *name == element.name) {
            let places: Vec<String> = places.iter().map(|place| format!("<{place}>")).collect();
            let message =
                format!("it stands in <{parent}>; it is expected in {}", places.join(" or "));
            return Err(element.error(self.file, message));
        }
        self.unknown.entry(element.name.as_str()).or_insert((0, element)).0 += 1;
        Ok(())
    }

    pub(super) fn role(&self, device: &Device<'_>) -> Role {
        if device.gpu.is_some() {
            return Role::Gpu;
        }
        if !device.nets.is_empty() {
            return Role::Nic;
        }
        let Some(class) = device.class else {
            return if device.has_devices { Role::Bridge } else { Role::Unknown };
        };
        let vendor = device.element.get("vendor").and_then(hex);
        match class >> 8 {
            0x0302 | 0x1200 => Role::Gpu,
            // what drives a console is one, too
            0x0300 if vendor == Some(0x10de) => Role::Gpu,
            0x0380 if vendor == Some(0x1002) => Role::Gpu,
            0x0200 | 0x0207 => Role::Nic,
            0x0604 => Role::Bridge,
            0x0680 => Role::NvSwitch,
            _ if device.has_devices => Role::Bridge,
            _ => Role::Other,
        }
    }

    /// The devices of a role by their numbers, or where they have none by their addresses, as the
    /// kernel finds them.
    pub(super) fn in_order(&self, role: Role, key: &str) -> Result<Vec<usize>, ImportError> {
        let mut found = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            if self.role(device) != role {
                continue;
            }
            let leaves = device.gpu.iter().chain(&device.nets);
            let mut number = None;
            for leaf in leaves {
                let own: Option<u32> = leaf.number(self.file, key)?;
                number = number.into_iter().chain(own).min();
            }
            found.push((number.unwrap_or(u32::MAX), &device.busid, index));
        }
        found.sort();
        if role == Role::Gpu
            && let Some(pair) =
                found.windows(2).find(|pair| pair[0].0 == pair[1].0 && pair[0].0 != u32::MAX)
        {
            let [first, second] = [0, 1].map(|i| self.devices[pair[i].2].gpu);
            let (Some(first), Some(second)) = (first, second) else { return Ok(Vec::new()) };
            let message = format!(
                "dev=\"{}\" stands in line {} already; each GPU is expected to have its own number",
                pair[0].0, first.line
            );
            return Err(second.error(self.file, message));
        }
        Ok(found.into_iter().map(|(.., index)| index).collect())
    }

    /// There are GPUs, and what nothing is known of is not what the file consists of.
    pub(super) fn check(
        &self,
        root: &Element,
        gpus: &[usize],
        nics: &[usize],
    ) -> Result<(), ImportError> {
        if gpus.len() > 64 {
            let message = format!("{} GPUs are in it; at most 64 can be", gpus.len());
            return Err(root.error(self.file, message));
        }
        if !gpus.is_empty() {
            return Ok(());
        }
        let unknown = self.devices.iter().filter(|device| self.role(device) == Role::Unknown);
        if let Some(first) = unknown.clone().next() {
            let message = format!(
                "{} of this file without a class: GPUs and NICs cannot be told apart, NCCL asks the \
                 kernel where it runs; class=\"0x030200\" (GPU) or \"0x020000\" (NIC) is expected in \
                 each, or the file that NCCL_TOPO_DUMP_FILE writes there",
                counted(unknown.count(), "device")
            );
            return Err(first.element.error(self.file, message));
        }
        let nics = counted(nics.len(), "NIC");
        let message = format!(
            "no GPU is in it ({nics}); <gpu> in <pci>, or <pci> with class=\"0x030200\", is expected"
        );
        Err(root.error(self.file, message))
    }

    pub(super) fn numa(&self, device: &Device<'_>) -> Option<String> {
        self.cpus[device.cpu].get("numaid").map(str::to_owned)
    }

    /// `2 NUMA nodes, GenuineIntel`
    pub(super) fn describe_cpus(&self) -> String {
        let nodes = counted(self.cpus.len(), "NUMA node");
        match self.cpus[0].get("vendor").or(self.cpus[0].get("arch")) {
            Some(vendor) => format!("{nodes}, {vendor}"),
            None => nodes,
        }
    }

    /// What has no meaning here.
    pub(super) fn rest(&self, server: &mut Server) {
        for (name, (count, first)) in &self.unknown {
            let known = KNOWN.iter().map(|(known, _)| *known);
            if let Some(near) = crate::load::near_miss(name, known) {
                let message = format!("NCCL knows no such element; did you mean <{near}>?");
                server.warnings.push(first.note(self.file, message));
            }
            server.ignored.push((format!("<{name}>"), *count));
        }
        let mut count = |role: Role, what: &str| {
            let found = self.devices.iter().filter(|device| self.role(device) == role);
            let found: Vec<_> = found.collect();
            if let Some(first) = found.first() {
                if role != Role::NvSwitch {
                    let class = first.element.get("class").unwrap_or("");
                    let message = format!(
                        "class={}: neither a GPU (0x0302..) nor a NIC (0x0200.., 0x0207..); passed over",
                        quoted(class)
                    );
                    server.warnings.push(first.element.note(self.file, message));
                }
                server.ignored.push((what.to_owned(), found.len()));
            }
        };
        count(Role::Other, "PCI devices of other classes");
        count(Role::Unknown, "PCI devices without a class");
        count(Role::NvSwitch, "NVSwitches");
    }
}

/// `topo.xml:12`
pub(super) fn place(file: &TextFile, element: &Element) -> String {
    format!("{}:{}", file.short_name(), element.line)
}

/// `0x030200`
pub(super) fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// `0000:3b:00.0`
fn is_busid(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let hex = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 4 && parts.iter().all(hex) && text.matches('.').count() == 1
}
