//! What a machine tells of itself: processor and memory, the RDMA device, counters and settings, from
//! procfs and sysfs. What is not there is said to be absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use crate::measurement::{CounterReport, CounterSample, DeviceReport, Machine};
use crate::verbs::{Device, GidEntry, PortState};

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// This machine.
pub fn machine() -> Machine {
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let info = text("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory = text("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total = total.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Machine {
        host: word(system.nodename()),
        pid: std::process::id(),
        kernel: format!("{} {}", word(system.sysname()), word(system.release())),
        cpu: of("model name").unwrap_or_default(),
        cpus: thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory_bytes: total.unwrap_or(0) * 1024,
        virtual_machine: of("flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
    }
}

/// The device, as sysfs describes it.
pub(super) fn device(device: &Device, port: &PortState, gid: &GidEntry) -> DeviceReport {
    let folder = Path::new("/sys/class/infiniband").join(device.name());
    let read = |path: &str| text(folder.join(path)).unwrap_or_default();
    let driver = fs::read_link(folder.join("device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    // a software device has no driver of a bus
    let software = || match folder.join("parent").exists() {
        true => "rdma_rxe or siw".to_owned(),
        false => String::new(),
    };
    DeviceReport {
        name: device.name().to_owned(),
        port: device.port(),
        driver: driver.unwrap_or_else(software),
        firmware: read("fw_ver"),
        board: read("board_id"),
        rate: read(&format!("ports/{}/rate", device.port())),
        active_mtu: port.active_mtu,
        gid_index: gid.index,
        gid: gid.gid.to_string(),
        netdev: gid.netdev.clone().unwrap_or_default(),
    }
}

/// Where counters are read.
pub(super) struct Counting {
    begin: Instant,
    folders: Vec<(&'static str, PathBuf)>,
    netdev: String,
    report: CounterReport,
}

impl Counting {
    /// Of an RDMA device and the network device of its port, where there is one; of kernel TCP with
    /// a network device alone.
    pub(super) fn new(device: Option<(&str, u8)>, netdev: &str) -> Self {
        let mut folders = Vec::new();
        if let Some((name, port)) = device {
            let port = format!("/sys/class/infiniband/{name}/ports/{port}");
            folders.push(("hw_counters", PathBuf::from(format!("{port}/hw_counters"))));
            folders.push(("counters", PathBuf::from(format!("{port}/counters"))));
        }
        if !netdev.is_empty() {
            let folder = format!("/sys/class/net/{netdev}/statistics");
            folders.push(("netdev", PathBuf::from(folder)));
        }
        let report = CounterReport::default();
        let mut own =
            Counting { begin: Instant::now(), folders, netdev: netdev.to_owned(), report };
        own.settings(device.is_some());
        own
    }

    /// Settings of DCQCN: of MLNX_OFED in sysfs, of the kernel's driver in debugfs.
    fn settings(&mut self, rdma: bool) {
        if !rdma {
            return;
        }
        let net = format!("/sys/class/net/{}", self.netdev);
        let mut folders: Vec<PathBuf> = ["roce_rp", "roce_np", "roce_rp/enable", "roce_np/enable"]
            .map(|name| PathBuf::from(format!("{net}/ecn/{name}")))
            .to_vec();
        let bus = fs::read_link(format!("{net}/device")).ok();
        let bus = bus.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let bus = bus.unwrap_or_else(|| "PCI".to_owned());
        folders.push(PathBuf::from(format!("/sys/kernel/debug/mlx5/{bus}/cc_params")));
        for folder in folders {
            let entries: Vec<PathBuf> = match fs::read_dir(&folder) {
                Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
                Err(_) => {
                    self.report.absent.push(folder.display().to_string());
                    continue;
                }
            };
            let files = entries.into_iter().filter(|path| path.is_file());
            let read = files.filter_map(|path| Some((path.display().to_string(), text(path)?)));
            self.report.settings.extend(read);
        }
    }

    /// Reads all counters now.
    pub(super) fn sample(&mut self, when: impl Into<String>) {
        let first = self.report.samples.is_empty();
        let mut values = BTreeMap::new();
        let mut absent = Vec::new();
        for (source, folder) in &self.folders {
            match numbers(folder) {
                Some(numbers) => drop(values.insert((*source).to_owned(), numbers)),
                None => absent.push(folder.display().to_string()),
            }
        }
        match tcp() {
            Some(numbers) => drop(values.insert("tcp".to_owned(), numbers)),
            None => absent.push("/proc/net/snmp".to_owned()),
        }
        if !self.netdev.is_empty() {
            match ethtool(&self.netdev) {
                Some(numbers) => drop(values.insert("ethtool".to_owned(), numbers)),
                None => absent.push(format!("ethtool -S {}", self.netdev)),
            }
        }
        if first {
            self.report.absent.extend(absent);
        }
        let at_s = self.begin.elapsed().as_secs_f64();
        self.report.samples.push(CounterSample { when: when.into(), at_s, values });
    }

    /// All of it.
    pub(super) fn finish(self) -> CounterReport {
        self.report
    }
}

/// A folder of files with a number each.
fn numbers(folder: &Path) -> Option<BTreeMap<String, u64>> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let numbers = entries.filter_map(|entry| {
        let value = text(entry.path())?.parse().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), value))
    });
    Some(numbers.collect())
}

/// The kernel's TCP, of the whole machine: `RetransSegs` and others.
fn tcp() -> Option<BTreeMap<String, u64>> {
    let snmp = text("/proc/net/snmp")?;
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let pairs = names.split(' ').zip(values.split(' '));
    Some(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

/// `ethtool -S`, if that program is here: pauses by priority, discards. Counters of single rings are
/// left out.
fn ethtool(netdev: &str) -> Option<BTreeMap<String, u64>> {
    let output = Command::new("ethtool").args(["-S", netdev]).output().ok()?;
    let output = output.status.success().then_some(output.stdout)?;
    let lines = String::from_utf8_lossy(&output).into_owned();
    let pairs = lines.lines().filter_map(|line| {
        let (name, value) = line.trim().rsplit_once(':')?;
        let ring = name.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let value = value.trim().parse().ok()?;
        (!ring.starts_with(|c: char| c.is_ascii_digit())).then(|| (name.to_owned(), value))
    });
    Some(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_to_be_absent() {
        let mut counting = Counting::new(Some(("no_such_device", 1)), "lo");
        counting.sample("before");
        counting.sample("after");
        let report = counting.finish();
        assert_eq!(report.samples.len(), 2);
        let absent = |path: &str| report.absent.iter().filter(|own| own.contains(path)).count();
        assert_eq!(absent("/no_such_device/ports/1/hw_counters"), 1);
        assert_eq!(absent("/ecn/roce_rp"), 2);
        assert!(machine().cpus > 0 && !machine().kernel.is_empty());
    }
}
