//! The part of a scenario: keys of `[host]`, each with the place it is from.

use models::host::{NicMode, PathType};

use super::super::text::{aligned, counted, exact};
use super::server::{Joined, Nic, Server};

/// The TOML of a server.
pub(super) fn to_toml(server: &Server) -> String {
    let mut text = format!(
        "# A part of a scenario, from {}:\n# rocesim run SCENARIO --with THIS_FILE\n",
        server.file
    );
    if !server.nics.is_empty() {
        text += &format!("# {}\n", cabling(server));
    }
    text += &format!("\n[host]\n{}", aligned(&host(server)));
    if !server.nics.is_empty() {
        let common = Common::of(server);
        text += &format!("\n[host.nic]\n{}", aligned(&common.lines()));
        for nic in &server.nics {
            text += &format!(
                "\n[[host.nics]]{}\n{}",
                about(nic),
                aligned(&nic_lines(server, nic, &common))
            );
        }
    }
    if let Some(from) = &server.grace {
        text += &format!(
            "\n[nccl]\n{}",
            aligned(&[(
                "NET_GDR_LEVEL = \"PHB\"".to_owned(),
                format!("{from}: to NCCL a NIC behind a Grace CPU is near (NCCL_NET_GDR_C2C)"),
            )])
        );
    }
    text
}

/// What the topology has to have: it is not the server's to say.
pub(super) fn cabling(server: &Server) -> String {
    let ports = server.ports();
    let speeds = speeds(server).map_or(String::new(), |speeds| format!("; {speeds}"));
    format!(
        "The topology has to cable {} of each host (rails = {ports} of a rail{speeds}).",
        counted(ports as usize, "port"),
    )
}

/// Rates of links as NCCL read them.
fn speeds(server: &Server) -> Option<String> {
    let mut speeds: Vec<u64> = server.nics.iter().filter_map(|nic| nic.speed).collect();
    speeds.sort_unstable();
    speeds.dedup();
    let shown: Vec<String> = speeds.iter().map(|mbps| gbps(*mbps)).collect();
    let given = match server.nics.iter().all(|nic| nic.speed.is_some()) {
        true => "NCCL read",
        false => "of some NICs NCCL read",
    };
    (!shown.is_empty()).then(|| format!("{given} {} a port", shown.join(", ")))
}

/// `200 Gb/s`
pub(super) fn gbps(mbps: u64) -> String {
    format!("{} Gb/s", mbps as f64 / 1000.0)
}

/// What a NIC is called in messages.
pub(super) fn name(nic: &Nic) -> String {
    match nic.names.is_empty() {
        true => nic.label.clone(),
        false => nic.names.join("+"),
    }
}

type Lines = Vec<(String, String)>;

fn host(server: &Server) -> Lines {
    let mut lines = Vec::new();
    let mut add = |line: String, from: &str| lines.push((line, from.to_owned()));
    let preset = match &server.model {
        Some(told) => format!("for what this file does not say; {}", told.from),
        None => "for what this file does not say".to_owned(),
    };
    add(format!("preset = \"{}\"", server.preset()), &preset);
    let file = &server.file;
    let all: Vec<String> = server.gpus.iter().map(|gpu| gpu.line.to_string()).collect();
    let place = match &all[..] {
        [first, .., last] if all.len() > 2 && first != last => format!("{file}:{first} .. {last}"),
        _ => format!("{file}:{}", all.join(", ")),
    };
    let labels: Vec<&str> = server.gpus.iter().map(|gpu| gpu.label.as_str()).collect();
    let labels = match &labels[..] {
        [first, .., last] => format!("{first} to {last}"),
        _ => labels.join(""),
    };
    add(format!("gpus = {}", server.gpus.len()), &format!("{place}: {labels}"));
    if let Some(told) = &server.model {
        add(format!("gpu = {:?}", told.value.gpu), &told.from);
    }
    if let Some(told) = &server.architecture {
        add(format!("architecture = {:?}", told.value), &told.from);
    }
    if let Some((rate, from)) = server.joined.rate() {
        add(format!("nvlink.rate = \"{}\"", exact(rate)), from);
    }
    if let Joined::Pcie { .. } = server.joined {
        // as presets have 1.4 us of NVLink's 3.4 us
        let why = "NCCL's 5.7 us for a ring's hop over PCIe (graph/tuning.cc) less slice_latency";
        add("nvlink.latency = \"3700ns\"".to_owned(), why);
    }
    if let Some(told) = &server.gdr {
        add(format!("gdr = {}", told.value), &told.from);
    }
    lines
}

/// What most NICs have in common.
struct Common<'a> {
    nic: &'a Nic,
    /// All have this link, or none is known.
    link: bool,
}

impl<'a> Common<'a> {
    fn of(server: &'a Server) -> Self {
        let like = |nic: &Nic| {
            let same = |other: &&Nic| (other.ports, other.mode) == (nic.ports, nic.mode);
            server.nics.iter().filter(same).count()
        };
        let mut nic = &server.nics[0];
        for other in &server.nics {
            if like(other) > like(nic) {
                nic = other;
            }
        }
        let link = server.nics.iter().all(|other| other.link == nic.link);
        Common { nic, link }
    }

    fn lines(&self) -> Lines {
        let Nic { ports, ports_assumed, mode, .. } = self.nic;
        let why = match (ports_assumed, mode) {
            (true, NicMode::Bond) => "assumed of a bond".to_owned(),
            (true, _) => "assumed: nothing says it".to_owned(),
            (false, NicMode::Merged) => "names joined by +".to_owned(),
            (false, _) => "one for each device of the NIC".to_owned(),
        };
        let mut lines = vec![(format!("ports = {ports}"), why), mode_line(*mode)];
        if let (true, Some(link)) = (self.link, self.nic.link) {
            let line = format!("pcie.rate = \"{}\"", exact(link.payload()));
            lines.push((line, format!("{link}, payload")));
        }
        lines
    }
}

fn mode_line(mode: NicMode) -> (String, String) {
    let (word, why) = match mode {
        NicMode::Rails => ("rails", "every port is a device of its own"),
        NicMode::Merged => ("merged", "NCCL has merged the ports (NCCL_IB_MERGE_NICS)"),
        NicMode::Bond => ("bond", "as its name says"),
    };
    (format!("mode = \"{word}\""), why.to_owned())
}

fn nic_lines(server: &Server, nic: &Nic, common: &Common<'_>) -> Lines {
    let place = format!("{}:{}", server.file, nic.line);
    let mut lines = Vec::new();
    if !nic.names.is_empty() {
        let names: Vec<String> = nic.names.iter().map(|name| format!("{name:?}")).collect();
        lines.push((format!("names = [{}]", names.join(", ")), place.clone()));
    }
    if nic.ports != common.nic.ports {
        lines.push((format!("ports = {}", nic.ports), place.clone()));
    }
    if nic.mode != common.nic.mode {
        lines.push(mode_line(nic.mode));
    }
    if let (false, Some(link)) = (common.link, nic.link) {
        let rate = exact(link.payload());
        let line = format!("pcie = {{ rate = \"{rate}\", latency = \"500ns\" }}");
        lines.push((line, format!("{link}, payload; latency as generic")));
    }
    let paths: Vec<String> =
        nic.paths.iter().map(|path: &PathType| format!("\"{}\"", path.name())).collect();
    let to = match server.gpus.len() {
        1 => "to GPU 0".to_owned(),
        count => format!("to GPUs 0 to {}", count - 1),
    };
    lines.push((format!("paths = [{}]", paths.join(", ")), format!("{place}: {to}")));
    lines
}

fn about(nic: &Nic) -> String {
    let mut parts = Vec::new();
    parts.push(nic.label.clone());
    parts.extend(nic.numa.as_ref().map(|numa| format!("NUMA node {numa}")));
    parts.extend(nic.link.map(|link| link.to_string()));
    parts.extend(nic.speed.map(gbps));
    format!(" # {}", parts.join(", "))
}
