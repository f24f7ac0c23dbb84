//! The numbers that a scenario is made of: given, or by default; checked.

use sim_core::{Bytes, Rate};

use super::{Cable, InitOptions, Pattern, Shape, Sizes, refuse};
use crate::library::{self, Kind};
use crate::load::suggestion;
use crate::resolve::Complaint;

const HOSTS_MAX: u32 = 16_384;

/// What the shape is then built from, and what is sent on it.
pub(super) struct Numbers {
    pub(super) hosts: u32,
    /// With GPUs a host is called a server.
    pub(super) gpus: Option<u32>,
    pub(super) nics: u32,
    pub(super) rate: Rate,
    pub(super) cable: Cable,
    pub(super) nic_preset: String,
    /// As given.
    pub(super) switch: Option<String>,
    pub(super) node: Option<String>,
    pub(super) pattern: Pattern,
    pub(super) sizes: Sizes,
}

impl Numbers {
    pub(super) fn new(options: &InitOptions) -> Result<Self, Complaint> {
        check_flags(options)?;
        check_counts(options)?;
        // every preset of a server has 8
        let gpus = options.gpus.or(options.node.as_ref().map(|_| 8));
        let nics = options.nics.unwrap_or(match options.shape {
            Shape::Rail => gpus.unwrap_or(8),
            _ => 1,
        });
        if let Some(gpus) = gpus
            && !gpus.is_multiple_of(nics)
        {
            let message = format!("{gpus} GPUs do not divide among {nics} NICs");
            return refuse("--gpus", format!("{message}: a multiple of {nics} is expected"));
        }
        let pattern = options.pattern.unwrap_or(match gpus {
            Some(_) => Pattern::Allreduce,
            None => Pattern::Incast,
        });
        if pattern == Pattern::Allreduce && gpus.is_none() {
            return refuse("--pattern", "allreduce runs on GPUs: give --gpus, such as --gpus 8");
        }
        let rate = options.nic.unwrap_or(Rate::from_gbps(if gpus.is_some() { 400 } else { 100 }));
        if rate < Rate::from_gbps(10) || rate > Rate::from_gbps(1600) {
            return refuse(
                "--nic",
                format!("{rate} is out of range: 10Gbps to 1600Gbps is expected"),
            );
        }
        let nic_preset = options.nic_preset.clone().unwrap_or("connectx-6-dx".to_owned());
        known("--nic-preset", &nic_preset, &library::names(Kind::NicPreset))?;
        if let Some(name) = &options.switch {
            known("--switch", name, &library::names(Kind::SwitchPreset))?;
        }
        if let Some(name) = &options.node {
            known("--node", name, &library::names(Kind::HostPreset))?;
        }
        Ok(Numbers {
            hosts: hosts(options)?,
            gpus,
            nics,
            rate,
            cable: options.cable,
            nic_preset,
            switch: options.switch.clone(),
            node: options.node.clone(),
            pattern,
            sizes: sizes(options.bytes, pattern)?,
        })
    }

    /// A host, in the plural.
    pub(super) fn noun(&self) -> &'static str {
        if self.gpus.is_some() { "servers" } else { "hosts" }
    }
}

/// Flags that this shape has no use for are refused.
fn check_flags(options: &InitOptions) -> Result<(), Complaint> {
    use Shape::{FatTree, LeafSpine, Rail, Ring, Star};
    let flags: [(&str, bool, &[Shape]); 5] = [
        ("--nics", options.nics.is_some_and(|nics| nics > 1), &[Star, LeafSpine, Rail]),
        ("--leaves", options.leaves.is_some(), &[LeafSpine, Rail, Ring]),
        ("--spines", options.spines.is_some(), &[LeafSpine, Rail]),
        ("--oversubscription", options.oversubscription.is_some(), &[LeafSpine, Rail]),
        ("--k", options.k.is_some(), &[FatTree]),
    ];
    for (flag, given, shapes) in flags {
        if given && !shapes.contains(&options.shape) {
            let names: Vec<&str> = shapes.iter().map(|shape| shape.name()).collect();
            let names = names.join(", ");
            return refuse(flag, format!("this is for {names}, not for {}", options.shape.name()));
        }
    }
    Ok(())
}

fn check_counts(options: &InitOptions) -> Result<(), Complaint> {
    let spines_min = u32::from(options.shape == Shape::LeafSpine);
    for (flag, count, min, max) in [
        ("--hosts", options.hosts, 2, HOSTS_MAX),
        ("--gpus", options.gpus, 1, 64),
        ("--nics", options.nics, 1, 32),
        ("--leaves", options.leaves, 1, HOSTS_MAX),
        ("--spines", options.spines, spines_min, 1024),
    ] {
        if let Some(count) = count
            && !(min..=max).contains(&count)
        {
            let message = format!("{count} is out of range: {min} to {max} is expected");
            return refuse(flag, message);
        }
    }
    match options.oversubscription {
        Some(ratio) if !(0.1..=100.0).contains(&ratio) => {
            refuse("--oversubscription", format!("{ratio} is out of range: 0.1 to 100 is expected"))
        }
        _ => Ok(()),
    }
}

fn known(flag: &str, name: &str, names: &[&str]) -> Result<(), Complaint> {
    if names.contains(&name) {
        return Ok(());
    }
    refuse(flag, format!("there is no preset `{name}`{}", suggestion(name, names)))
}

/// The number of hosts; that of a fat tree follows from its switches.
fn hosts(options: &InitOptions) -> Result<u32, Complaint> {
    if options.shape != Shape::FatTree {
        return Ok(options.hosts.unwrap_or(16));
    }
    let k = match (options.k, options.hosts) {
        (Some(k), _) => k,
        (None, hosts) => tree_for(hosts.unwrap_or(16)),
    };
    if !k.is_multiple_of(2) || !(2..=42).contains(&k) {
        return refuse("--k", format!("{k} is no even number of ports: 2, 4 ... 42 is expected"));
    }
    let hosts = k * k * k / 4;
    match options.hosts {
        Some(given) if options.k.is_some() && given != hosts => {
            let message = format!("a fat tree of {k}-port switches has {hosts} hosts, not {given}");
            refuse("--hosts", format!("{message}: give one of --k and --hosts"))
        }
        _ => Ok(hosts),
    }
}

/// The smallest even k with k^3 / 4 hosts or more.
pub(super) fn tree_for(hosts: u32) -> u32 {
    (2..).step_by(2).find(|k| k * k * k / 4 >= hosts).unwrap_or(2)
}

fn sizes(given: Option<Sizes>, pattern: Pattern) -> Result<Sizes, Complaint> {
    match (given, pattern) {
        (Some(Sizes::Sweep(..)), Pattern::Incast | Pattern::Permutation) => {
            refuse("--bytes", format!("{} has one size: write --bytes 1MB", pattern.name()))
        }
        (Some(sizes), _) => Ok(sizes),
        // long enough to reach a steady state, short enough to see the answer soon
        (None, Pattern::Allreduce) => Ok(Sizes::One(Bytes::new(128 << 20))),
        (None, Pattern::Incast) => Ok(Sizes::One(Bytes::new(1_000_000))),
        (None, Pattern::Permutation) => Ok(Sizes::One(Bytes::new(10_000_000))),
    }
}
