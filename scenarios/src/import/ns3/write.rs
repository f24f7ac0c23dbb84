//! The scenario as TOML.

use sim_core::{Bytes, Delta, Rate};

use super::config::{Control, Dcqcn, Hpcc, Marking, Settings, Window};
use super::routes::Route;
use super::topology::{Link, Topology};
use crate::import::text::exact;

/// What the scenario is written from.
pub(super) struct Parts<'a> {
    pub(super) title: &'a str,
    pub(super) topology: &'a Topology,
    pub(super) routes: &'a [Route],
    pub(super) settings: &'a Settings,
    /// The rates of switch ports and, unless nothing is marked, marking at each.
    pub(super) rates: &'a [Rate],
    pub(super) marking: &'a [Marking],
    pub(super) flows_file: &'a str,
    /// The run ends then at the latest.
    pub(super) end: Delta,
}

/// The whole file.
pub(super) fn to_toml(parts: &Parts<'_>) -> String {
    let Parts { settings, .. } = parts;
    let mut out = format!(
        "# Imported from a run of ns-3 (HPCC's third.cc).\n\
         title = {}\nseed = {}\npreset = \"hpcc-ns3\"\n",
        toml::Value::from(parts.title),
        settings.seed
    );
    write_topology(&mut out, parts);
    write_balance(&mut out, settings);
    if !settings.conweave.pfc {
        out += "\n[switch.pfc]\npriorities = []\n";
    }
    out += &format!("\n[switch.buffer]\nsize = \"{}MiB\"\n", settings.buffer_mib);
    write_marking(&mut out, parts);
    write_nic(&mut out, parts);
    out += &format!(
        "\n[[traffic]]\nname = \"flows\"\nkind = \"flows\"\nfile = {}\n",
        toml::Value::from(parts.flows_file)
    );
    write_overrides(&mut out, parts);
    if let Some(interval) = settings.sample {
        out += &format!("\n[sample]\ninterval = \"{}\"\n", exact(interval));
    }
    out += &format!("\n[stop]\nafter = \"{}\"\nafter_last_flow = \"1us\"\n", exact(parts.end));
    out
}

fn write_topology(out: &mut String, Parts { topology, routes, .. }: &Parts<'_>) {
    *out += "\n[topology]\nkind = \"graph\"\nnumbered = true\n";
    for (key, switches) in [("hosts", false), ("switches", true)] {
        *out += &format!("{key} = [{}]\n", names(topology.nodes(switches)));
    }
    *out += "links = [\n";
    for Link { a, b, rate, delay, loss } in &topology.links {
        let (rate, delay) = (exact(rate), exact(delay));
        *out +=
            &format!("    {{ a = \"n{a}\", b = \"n{b}\", rate = \"{rate}\", delay = \"{delay}\"");
        if *loss > 0.0 {
            *out += &format!(", loss = {loss:?}");
        }
        *out += " },\n";
    }
    *out += "]\n";
    if !routes.is_empty() {
        *out += "# where ns-3's order of next hops is not that of ports, which count from 0 here\n";
        *out += "routes = [\n";
        for Route { node, target, ports } in *routes {
            let end = format!("target = \"n{target}\", ports = {ports:?}");
            *out += &format!("    {{ node = \"n{node}\", {end} }},\n");
        }
        *out += "]\n";
    }
}

/// Names of nodes, runs of them as ranges: `"n[0..8]", "n9"`.
fn names(nodes: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for node in nodes {
        match runs.last_mut() {
            Some((_, end)) if *end == node => *end += 1,
            _ => runs.push((node, node + 1)),
        }
    }
    let name = |(from, end): &(u32, u32)| match end - from {
        1 => format!("\"n{from}\""),
        _ => format!("\"n[{from}..{end}]\""),
    };
    runs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Marking at ports of the NICs' rate; a buffer never reaches the thresholds that mark nothing.
fn write_marking(out: &mut String, parts: &Parts<'_>) {
    *out += "\n[switch.ecn.3]\n";
    match (parts.settings.marks, parts.marking.get(base(parts))) {
        (true, Some(Marking { kmin, kmax, pmax })) => {
            let [kmin, kmax] = [kmin, kmax].map(kilobytes);
            *out += &format!("kmin = \"{kmin}\"\nkmax = \"{kmax}\"\npmax = {pmax:?}\n");
        }
        _ => *out += "kmin = \"1TB\"\nkmax = \"1TB\"\npmax = 0.0\n",
    }
}

/// As the maps of the config count.
fn kilobytes(size: &Bytes) -> String {
    format!("{}KB", size.get() / 1000)
}

/// The rate that needs no override: that of the NICs, if a switch has it.
fn base(parts: &Parts<'_>) -> usize {
    let nic = parts.topology.nic_rate();
    parts.rates.iter().position(|rate| *rate == nic).unwrap_or(0)
}

fn write_nic(out: &mut String, Parts { topology, settings, .. }: &Parts<'_>) {
    *out += &format!("\n[nic]\nmtu = {}\n", settings.mtu);
    if let Control::Hpcc(_) = &settings.control {
        // ns-3 moves a send time that is set when HPCC changes a rate
        *out += "pacing = \"credit\"\n";
    }
    *out += &format!("\n[nic.pfc]\ncontrol_waits = {}\n", settings.control_waits);
    if !settings.conweave.pfc {
        *out += "priorities = []\n";
    }
    let (mut window, mut rtt) = (1, Delta::ZERO);
    topology.each_window(settings.mtu, |_, bytes, time| {
        (window, rtt) = (window.max(bytes), rtt.max(time));
    });
    write_transport(out, settings, window);
    *out += "\n[nic.congestion]\n";
    match &settings.control {
        Control::None => *out += "algorithm = \"none\"\n",
        Control::Dcqcn(dcqcn) => write_dcqcn(out, dcqcn),
        Control::Hpcc(hpcc) => write_hpcc(out, hpcc, rtt),
        Control::Timely { additive, hyper, min } => {
            *out += "algorithm = \"timely\"\nhai_below_t_low = true\nheader = \"8B\"\n";
            write_rates(out, [("delta", additive), ("hai_delta", hyper), ("min_rate", min)]);
        }
        Control::Dctcp { gain, additive, min } => {
            *out += &format!("algorithm = \"dctcp\"\nwindow = false\ng = {gain:?}\n");
            write_rates(out, [("rate_ai", additive), ("min_rate", min)]);
        }
    }
}

fn write_balance(out: &mut String, settings: &Settings) {
    let Some(balance) = settings.conweave.balance else { return };
    *out += &format!("\n[switch]\nload_balance = \"{balance}\"\n");
    *out += match balance {
        "conga" => {
            "\n[switch.conga]\ngap = \"100us\"\nperiod = \"50us\"\nalpha = 0.2\nageing = \"500us\"\n"
        }
        "flowlet" => "\n[switch.flowlet]\ngap = \"100us\"\n",
        _ => "\n[switch.drill]\nsamples = 2\nmemory = 1\n",
    };
}

/// Windows; `bdp` is the largest product of bandwidth and delay.
fn write_transport(out: &mut String, settings: &Settings, bdp: u64) {
    let irn = settings.conweave.irn;
    if settings.window.is_some() || settings.ack_every > 1 || irn {
        *out += "\n[nic.transport]\n";
    }
    if settings.ack_every > 1 {
        *out += &format!("ack_every = {}\n", settings.ack_every);
    }
    let global = settings.window.as_ref().is_some_and(|window| window.is_global);
    if global || irn {
        *out += &format!("window = \"{bdp}B\"\n");
    }
    if let Some(Window { follows_rate, .. }) = &settings.window {
        *out += &format!("window_follows_rate = {follows_rate}\n");
    }
    if irn {
        *out += "recovery = \"selective-repeat\"\n\n[nic.transport.selective]\n\
                 rto_low = \"100us\"\nrto_high = \"320us\"\nrto_low_packets = 3\n";
    }
}

fn write_rates<const N: usize>(out: &mut String, rates: [(&str, &Rate); N]) {
    for (key, rate) in rates {
        *out += &format!("{key} = \"{}\"\n", exact(rate));
    }
}

fn write_hpcc(out: &mut String, hpcc: &Hpcc, base_rtt: Delta) {
    let Hpcc { target, stages, additive, min, fast_react, multi_rate, pint } = hpcc;
    *out += &format!("algorithm = \"hpcc\"\neta = {target:?}\nmax_stage = {stages}\n");
    write_rates(out, [("rate_ai", additive), ("min_rate", min)]);
    *out += &format!("base_rtt = \"{}\"\n", exact(base_rtt));
    *out += &format!("fast_react = {fast_react}\nmulti_rate = {multi_rate}\n");
    if let Some([base, probability]) = pint {
        *out += "feedback = \"pint\"\n";
        *out += &format!("pint_base = {base:?}\npint_probability = {probability:?}\n");
    }
}

fn write_dcqcn(out: &mut String, dcqcn: &Dcqcn) {
    *out += "algorithm = \"dcqcn\"\n";
    for (key, span) in [
        ("dce_tcp_rtt", dcqcn.alpha_period),
        ("rate_reduce_monitor_period", dcqcn.decrease_period),
        ("rpg_time_reset", dcqcn.increase_period),
    ] {
        *out += &format!("{key} = \"{}\"\n", exact(span));
    }
    for (key, rate) in [
        ("rpg_ai_rate", dcqcn.additive),
        ("rpg_hai_rate", dcqcn.hyper),
        ("rpg_min_rate", dcqcn.min),
    ] {
        *out += &format!("{key} = \"{}\"\n", exact(rate));
    }
    // a float has its point or exponent, without which it would count 1/1024
    *out += &format!("dce_tcp_g = {:?}\n", dcqcn.keep);
    *out += &format!("rpg_threshold = {}\n", dcqcn.recoveries);
    *out += &format!("clamp_tgt_rate = {}\n", dcqcn.clamp);
}

/// Ports that are faster or slower than the NICs.
fn write_overrides(out: &mut String, parts: &Parts<'_>) {
    let nic = parts.topology.nic_rate();
    for (index, rate) in parts.rates.iter().enumerate() {
        let mut set = Vec::new();
        if let Some(Marking { kmin, kmax, pmax }) = parts.marking.get(index)
            && index != base(parts)
        {
            let [kmin, kmax] = [kmin, kmax].map(kilobytes);
            set.push(format!("\"switch.ecn.3.kmin\" = \"{kmin}\""));
            set.push(format!("\"switch.ecn.3.kmax\" = \"{kmax}\""));
            set.push(format!("\"switch.ecn.3.pmax\" = {pmax:?}"));
        }
        let shift = alpha_shift(*rate, nic);
        if shift != 3 {
            set.push(format!("\"switch.buffer.lossless.dynamic_th\" = {}", -shift));
        }
        if !set.is_empty() {
            let (rate, set) = (exact(rate), set.join(", "));
            *out += &format!("\n[[override]]\nrate = \"{rate}\"\nset = {{ {set} }}\n");
        }
    }
}

/// A port's share of the buffer is what is free / 2^shift: 3, and 1 less for each factor of 2 by
/// which the port is faster than the NICs.
fn alpha_shift(rate: Rate, nic: Rate) -> i8 {
    let (mut rate, mut shift) = (rate.bps(), 3);
    while rate > nic.bps() && shift > 0 {
        shift -= 1;
        rate /= 2;
    }
    shift
}
