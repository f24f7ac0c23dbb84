//! One switch, read whole: its ports with their buffers and classes, and its buffer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use models::size::Size;
use models::switch::PoolConfig;
use sim_core::{Bytes, Rate};

use super::asic::{Asic, PoolSize};
use super::buffers::{BufferTables, Group, PortBuffers};
use super::ports::{Port, ports};
use super::qos::{PortQos, QosTables, Watchdog, watchdogs};
use super::settings::classes;
use super::sku::SkuTable;
use super::tables::Config;
use crate::import::ImportError;
use crate::import::text::counted;

/// A switch as its CONFIG_DB has it.
pub(super) struct Switch {
    pub(super) name: String,
    pub(super) config: Config,
    pub(super) asic: Option<&'static Asic>,
    /// What told the ASIC.
    pub(super) asic_from: String,
    pub(super) ports: Vec<SwitchPort>,
    pub(super) has_qos: bool,
    pub(super) watchdogs: Vec<Watchdog>,
    pub(super) ecn_profiles: Vec<String>,
    pub(super) buffer: Buffer,
    /// `over_subscribe_ratio`.
    pub(super) ratio: Option<u64>,
}

/// A port with all that is known of it.
pub(super) struct SwitchPort {
    pub(super) port: Port,
    pub(super) qos: PortQos,
    pub(super) buffers: PortBuffers,
    /// It has buffers of its own.
    pub(super) is_in_use: bool,
    /// Headroom by NVIDIA's formula, and by the table of the SKU.
    pub(super) wanted: [Option<u64>; 2],
}

impl SwitchPort {
    /// The lossless groups: those with PFC and a profile.
    pub(super) fn lossless(&self) -> impl Iterator<Item = (u8, &Group)> {
        let groups = self.buffers.groups.iter().map(|(number, group)| (*number, group));
        groups.filter(|(number, _)| self.qos.pfc.contains(number))
    }
}

/// The buffer of the switch, in bytes; pools have the names of SONiC.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// All of it, as far as it is known.
    pub(super) size: Option<u64>,
    pub(super) size_from: String,
    pub(super) pools: BTreeMap<String, PoolConfig>,
    /// Where each is from, or how it was computed.
    pub(super) pools_from: BTreeMap<String, String>,
    /// The pools of lossless groups and queues: `ingress` and `egress` of the model.
    pub(super) main: [Option<String>; 2],
}

/// What the command line adds to the files.
#[derive(Clone, Debug, Default)]
pub struct SonicOptions {
    /// A table of hosts: host, switch, port, nic.
    pub hosts: Option<PathBuf>,
    /// Who is next to whom: outputs of `show lldp table`, or tables switch, port, peer, peer_port.
    pub lldp: Vec<PathBuf>,
    /// The folder of a hardware SKU with `pg_profile_lookup.ini`, or that file.
    pub sku_tables: Option<PathBuf>,
    /// The ASIC of all switches.
    pub asic: Option<String>,
    /// Rate of ports where there is no PORT table.
    pub speed: Option<Rate>,
    /// Neighbours without a file are left out.
    pub partial: bool,
}

impl Switch {
    pub(super) fn new(
        name: String,
        config: Config,
        sku: Option<&SkuTable>,
        options: &SonicOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        let folder = options.sku_tables.as_ref().map(|path| path.display().to_string());
        let told = Asic::of(&config, options.asic.as_deref(), folder.as_deref())?;
        let (asic, asic_from) = match told {
            Some((asic, from)) => (Some(asic), from),
            None => (None, "nothing tells the ASIC; --asic sets it".to_owned()),
        };
        if asic.is_none() {
            let message = "neither hwsku nor platform tells an ASIC that is known here: cells are \
                           single bytes, there is no latency; --asic names one";
            warnings.push(config.error(message).to_string());
        }
        let bare = ports(&config, asic, options.speed, warnings)?;
        let mut qos = QosTables::new(&config)?;
        let tables = BufferTables::new(&config, asic, sku)?;
        let has_qos = qos.are_there();
        let mut all = Vec::new();
        for port in bare {
            let mut classes = qos.port(&port.name, asic)?;
            if !has_qos {
                classes.pfc = tables.inferred_pfc(&port.name)?;
            }
            let buffers = tables.port(&port, &classes.pfc)?;
            all.push(SwitchPort {
                is_in_use: port.is_up && tables.is_in_use(&port.name),
                wanted: [tables.by_formula(&port), tables.by_table(&port)],
                port,
                qos: classes,
                buffers,
            });
        }
        warnings.extend(qos.notes.iter().map(|note| config.error(note).to_string()));
        let ecn_profiles = qos.ecn_profiles()?;
        let buffer = buffer(&tables, asic, &all);
        let lossless = all.iter().filter(|port| port.is_in_use && !port.qos.pfc.is_empty());
        let bare = lossless.filter(|port| port.lossless().next().is_none()).count();
        if bare > 0 {
            let message = format!(
                "no file has the lossless profile of {}; headroom and limit are those of the \
                 preset, unless --sku-tables names the folder with pg_profile_lookup.ini",
                counted(bare, "port")
            );
            warnings.push(config.error(message).to_string());
        }
        Ok(Switch {
            name,
            asic,
            asic_from,
            has_qos,
            watchdogs: watchdogs(&config)?,
            ecn_profiles,
            buffer,
            ratio: tables.ratio,
            ports: all,
            config,
        })
    }

    /// The port that neighbours call so, by its name or its alias.
    pub(super) fn port(&self, name: &str) -> Option<usize> {
        let by_name = self.ports.iter().position(|port| port.port.name == name);
        by_name
            .or_else(|| self.ports.iter().position(|port| port.port.alias.as_deref() == Some(name)))
    }

    /// The name of its preset.
    pub(super) fn preset(&self) -> &'static str {
        self.asic.map_or("generic", |asic| asic.preset)
    }

    pub(super) fn slices(&self) -> u64 {
        self.asic.map_or(1, |asic| u64::from(asic.slices))
    }
}

/// What the ports in use take of the buffer before it is shared, in bytes.
struct Taken {
    /// Reserves, rounded up to cells.
    reserve: u64,
    /// The same in the simulator, where each group has a profile: its own or that of its class.
    simulated: u64,
    /// Headrooms of all lossless groups.
    headroom: u64,
    ports: u64,
}

fn taken(ports: &[SwitchPort], cell: u64) -> Taken {
    let mut taken = Taken { reserve: 0, simulated: 0, headroom: 0, ports: 0 };
    let reserve =
        |group: &Group| group.profile.reserve.to_bytes(Bytes::new(cell)).next_multiple_of(cell);
    for port in ports.iter().filter(|port| port.is_in_use) {
        taken.ports += 1;
        let groups = &port.buffers.groups;
        taken.reserve += groups.values().map(reserve).sum::<u64>();
        let classes = classes(groups, &port.qos.pfc);
        let usual = |number: &u8| classes[usize::from(!port.qos.pfc.contains(number))];
        let simulated = (0..8).filter_map(|number| groups.get(&number).or(usual(&number)));
        taken.simulated += simulated.map(reserve).sum::<u64>();
        taken.headroom += port.lossless().filter_map(|(_, group)| group.xoff).sum::<u64>();
    }
    taken
}

/// The pools of a switch: what groups share, whatever its ports are that are simulated.
fn buffer(tables: &BufferTables<'_>, asic: Option<&Asic>, ports: &[SwitchPort]) -> Buffer {
    let cell = asic.map_or(1, |asic| asic.cell);
    let taken = taken(ports, cell);
    let main = [true, false].map(|is_ingress| tables.lossless_pool(is_ingress).map(str::to_owned));
    let mut buffer = Buffer { main, ..Buffer::default() };
    // what all pools of one side hold together
    let (mut ingress, mut largest) = (0, (0, String::new()));
    for (name, pool) in &tables.pools {
        let is_main = buffer.main[0].as_ref() == Some(name);
        let shared_headroom = match (pool.xoff, tables.ratio) {
            (Some(xoff), _) if xoff > 0 => Some(xoff),
            (_, Some(ratio)) if is_main => Some(taken.headroom / ratio),
            _ => None,
        };
        let off = taken.reserve + shared_headroom.unwrap_or(taken.headroom);
        let rule = asic.map_or(PoolSize::Shared, |asic| asic.pool);
        let place = &pool.place;
        let (size, from) = match (pool.size, rule, asic.and_then(|asic| asic.memory)) {
            (Some(size), PoolSize::Whole(cells), _) if is_main => {
                buffer.size = Some(size);
                buffer.size_from = format!("{place}.size");
                let off = off + cells * cell * taken.ports;
                let count = counted(taken.ports as usize, "port");
                let from = format!("{place}.size less headroom and reserves of {count}");
                (Some(size.saturating_sub(off)), from)
            }
            (None, _, Some(memory)) if is_main => {
                let count = counted(taken.ports as usize, "port");
                let from = format!("all memory less headroom and reserves of {count}");
                (Some(memory.saturating_sub(off)), from)
            }
            (None, _, Some(memory)) => (Some(memory), "all memory".to_owned()),
            (size, ..) => (size, format!("{place}.size")),
        };
        match pool.is_ingress {
            true => ingress += size.unwrap_or(0) + shared_headroom.unwrap_or(0),
            false => {
                largest = largest.max((pool.size.unwrap_or(0), format!("{place}.size")));
            }
        }
        let config =
            PoolConfig { size: size.map(Size::bytes), xoff: shared_headroom.map(Size::bytes) };
        buffer.pools.insert(name.clone(), config);
        buffer.pools_from.insert(name.clone(), from);
    }
    if !tables.pools.is_empty() {
        let private = match buffer.main[0].as_ref().is_some_and(|main| tables.shares_headroom(main))
        {
            true => 0,
            false => taken.headroom,
        };
        let needed = ingress + taken.simulated + private;
        let memory = (asic.and_then(|asic| asic.memory).unwrap_or(0), "the ASIC".to_owned());
        let told = match buffer.size {
            Some(size) => (size, buffer.size_from.clone()),
            None => largest.max(memory),
        };
        let (size, from) = match told.0 >= needed {
            true => told,
            false => (needed, "pools, reserves, headroom".to_owned()),
        };
        buffer.size = Some(size.next_multiple_of(cell));
        buffer.size_from = from;
    }
    buffer
}
