//! Runs the collectives of a scenario as one rank, size by size, and times them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use models::collective::Job;
use models::report::{CollectiveReport, FlowStatus, planned};
use serde::{Deserialize, Serialize};
use sim_core::Time;

use super::error::ReplayError;
use super::lanes::{self, Ends, Lanes};
use super::machine::{self, Counting};
use super::rendezvous::Rendezvous;
use super::secret::Token;
use super::transport::{Means, QpSetting, Transport};
use crate::measurement::{
    LaneTimes, MEASUREMENT_SCHEMA, Measurement, RankMeasurement, SizeReport, TransportReport,
};
use crate::verbs::{Device, choose};

/// What carries the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Kernel TCP.
    Tcp {
        /// Where this rank listens; none for the address that it reaches the rendezvous by.
        address: Option<IpAddr>,
        /// The network device, for its counters.
        netdev: Option<String>,
    },
    /// RC QPs.
    Rdma(RdmaSetting),
}

/// RC QPs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaSetting {
    /// `mlx5_0`, or `mlx5_0:2` for its second port.
    pub device: String,
    /// Index of the GID; none for the one that is RoCEv2 of an IPv4 address.
    pub gid_index: Option<u32>,
    /// Traffic class of data,
    pub traffic_class: u8,
    /// and of CTS messages.
    pub fifo_traffic_class: u8,
    /// Local ACK timeout: 4.096 us x 2^timeout.
    pub timeout: u8,
    /// Retransmissions without progress before a QP fails.
    pub retry_cnt: u8,
    /// Data by WRITE, told of by an empty WRITE WITH IMMEDIATE (NCCL_IB_ADAPTIVE_ROUTING = 1).
    pub adaptive_routing: bool,
}

/// What is to be replayed.
pub struct Replay {
    /// Name of the scenario.
    pub scenario: String,
    /// Version of the program,
    pub version: String,
    /// and its commit.
    pub commit: String,
    /// By size.
    pub jobs: Vec<Arc<Job>>,
    /// What carries the data.
    pub carrier: Carrier,
    /// Repetitions that are timed,
    pub iterations: u32,
    /// and those before them.
    pub warmup: u32,
    /// The result is checked, in a repetition of its own.
    pub check: bool,
}

/// A size that has been measured.
#[derive(Clone, Debug)]
pub struct Row {
    /// As in a report.
    pub collective: CollectiveReport,
    /// More about it.
    pub size: SizeReport,
}

/// Steps of each lane whose times are kept.
const STEPS_KEPT: usize = 256;
/// How long one wait may take: how soon a failure elsewhere is seen.
const WAIT: Duration = Duration::from_millis(100);

/// The address of a network device, or the address that `text` is, and the device's name.
pub fn address_of(text: &str) -> Result<(IpAddr, Option<String>), ReplayError> {
    let all = if_addrs::get_if_addrs().map_err(ReplayError::io("network devices"))?;
    if let Ok(address) = text.parse::<IpAddr>() {
        let own = all.iter().find(|own| own.ip() == address);
        return match own {
            Some(own) => Ok((address, Some(own.name.clone()))),
            None => Err(ReplayError::Setting(format!("{address} is no address of this machine"))),
        };
    }
    let mut of_name = all.iter().filter(|own| own.name == text).map(|own| own.ip());
    let found = of_name.clone().find(IpAddr::is_ipv4).or_else(|| of_name.next());
    match found {
        Some(address) => Ok((address, Some(text.to_owned()))),
        None => {
            let mut names: Vec<&str> = all.iter().map(|own| own.name.as_str()).collect();
            names.dedup();
            let here = names.join(", ");
            let message = format!("no network device {text} with an address: here are {here}");
            Err(ReplayError::Setting(message))
        }
    }
}

/// Whether a job can be replayed by so many ranks; if not, why.
pub fn replayable(job: &Job, world: u32) -> Result<(), ReplayError> {
    let ranks = job.ranks.len() as u32;
    if ranks != world {
        let message = format!("the scenario has {ranks} ranks, and --world is {world}");
        return Err(ReplayError::Scenario(message));
    }
    lanes::refuse(job)
}

/// What ranks tell each other after a size.
#[derive(Serialize, Deserialize)]
struct Timed {
    mean_s: f64,
    shortest_s: f64,
    longest_s: f64,
    wrong: Option<u64>,
}

/// Runs everything as the rank that has joined `rendezvous`, and tells `seen` of each size. The
/// measurement is that of all ranks, and the same at each.
pub fn run(
    replay: &Replay,
    token: &Token,
    rendezvous: &mut Rendezvous,
    digest: &str,
    seen: &mut dyn FnMut(&Row),
) -> Result<Measurement, ReplayError> {
    let result = run_all(replay, token, rendezvous, digest, seen);
    result.map_err(|error| {
        // a connection that closes may be that of one who ended because of another: the hub knows
        let error = match error {
            error @ (ReplayError::Gone { .. } | ReplayError::Qp { .. }) => {
                rendezvous.explain(error)
            }
            error => error,
        };
        if !matches!(error, ReplayError::Other { .. }) {
            rendezvous.abort(&error);
        }
        error
    })
}

fn run_all(
    replay: &Replay,
    token: &Token,
    rendezvous: &mut Rendezvous,
    digest: &str,
    seen: &mut dyn FnMut(&Row),
) -> Result<Measurement, ReplayError> {
    let mut opened = Opened::new(&replay.carrier)?;
    opened.counting.sample("before");
    let mut joined: Option<(Ends, Transport)> = None;
    let mut rows = Vec::new();
    for job in &replay.jobs {
        let ends = lanes::ends(job, rendezvous.rank);
        // all ranks have the same jobs, and so join anew at the same size, or do not
        let wiring = |job: &Job| {
            (0..rendezvous.world).map(|rank| lanes::ends(job, rank)).collect::<Vec<_>>()
        };
        let same =
            rows.last().is_some_and(|(before, _): &(Arc<Job>, Row)| wiring(before) == wiring(job));
        let mut transport = match joined.take() {
            Some((_, transport)) if same => transport,
            other => {
                // old QPs go before new ones come
                drop(other);
                Transport::join(&opened.means(), &ends, token, rendezvous)?
            }
        };
        let row = Sized { replay, job, rendezvous: &mut *rendezvous }.run(&mut transport)?;
        joined = Some((ends, transport));
        opened.counting.sample(format!("{} B", job.bytes));
        seen(&row);
        rows.push((job.clone(), row));
    }
    let own = RankMeasurement {
        rank: rendezvous.rank,
        machine: machine::machine(),
        device: opened.device_report()?,
        counters: opened.counting.finish(),
    };
    let ranks = rendezvous.gather(&own)?;
    let (collectives, sizes) = rows.into_iter().map(|(_, row)| (row.collective, row.size)).unzip();
    Ok(Measurement {
        measurement: MEASUREMENT_SCHEMA,
        rocesim: replay.version.clone(),
        commit: replay.commit.clone(),
        scenario: replay.scenario.clone(),
        transport: transport_report(&replay.carrier),
        digest: digest.to_owned(),
        collectives,
        sizes,
        notes: notes(&ranks),
        ranks,
    })
}

fn transport_report(carrier: &Carrier) -> TransportReport {
    match carrier {
        Carrier::Tcp { .. } => TransportReport::Tcp,
        Carrier::Rdma(setting) => TransportReport::Rdma {
            traffic_class: setting.traffic_class,
            fifo_traffic_class: setting.fifo_traffic_class,
            timeout: setting.timeout,
            retry_cnt: setting.retry_cnt,
            adaptive_routing: setting.adaptive_routing,
        },
    }
}

fn notes(ranks: &[RankMeasurement]) -> Vec<String> {
    let mut notes = Vec::new();
    let first = &ranks[0].machine.host;
    if ranks.len() > 1 && ranks.iter().all(|rank| rank.machine.host == *first) {
        let message = "all ranks ran on one machine: they shared its processors and its memory";
        notes.push(message.to_owned());
    }
    if ranks.iter().any(|rank| rank.machine.virtual_machine) {
        let message = "some ranks ran in a virtual machine: if its time is virtual, as under an \
                       emulator, times say nothing of any NIC";
        notes.push(message.to_owned());
    }
    let rxe = |rank: &RankMeasurement| {
        rank.device.as_ref().is_some_and(|device| device.driver.contains("rxe"))
    };
    if ranks.iter().any(rxe) {
        notes.push("Soft-RoCE has no PFC, no DCQCN and no CNPs".to_owned());
    }
    notes
}

/// What is open for all sizes.
struct Opened {
    device: Option<(Device, QpSetting)>,
    address: Option<IpAddr>,
    counting: Counting,
}

impl Opened {
    fn new(carrier: &Carrier) -> Result<Self, ReplayError> {
        let setting = match carrier {
            Carrier::Tcp { address, netdev } => {
                let counting = Counting::new(None, netdev.as_deref().unwrap_or_default());
                return Ok(Opened { device: None, address: *address, counting });
            }
            Carrier::Rdma(setting) => setting,
        };
        let odd = |error: crate::verbs::VerbsError| ReplayError::Setting(error.to_string());
        let device = Device::open(&setting.device).map_err(odd)?;
        let gids = device.gids();
        let gid = choose(device.name(), &gids, setting.gid_index).map_err(ReplayError::Setting)?;
        let netdev = gid.netdev.clone().unwrap_or_default();
        let counting = Counting::new(Some((device.name(), device.port())), &netdev);
        let qps = QpSetting {
            gid_index: Some(gid.index),
            traffic_class: setting.traffic_class,
            fifo_traffic_class: setting.fifo_traffic_class,
            timeout: setting.timeout,
            retry_cnt: setting.retry_cnt,
            adaptive_routing: setting.adaptive_routing,
        };
        Ok(Opened { device: Some((device, qps)), address: None, counting })
    }

    fn means(&self) -> Means<'_> {
        match &self.device {
            Some((device, qps)) => Means::Rdma(device, qps),
            None => Means::Tcp(self.address),
        }
    }

    fn device_report(&self) -> Result<Option<crate::measurement::DeviceReport>, ReplayError> {
        let Some((device, qps)) = &self.device else { return Ok(None) };
        let odd = |error: crate::verbs::VerbsError| ReplayError::Setting(error.to_string());
        let port = device.state().map_err(odd)?;
        let gids = device.gids();
        let gid = choose(device.name(), &gids, qps.gid_index).map_err(ReplayError::Setting)?;
        Ok(Some(machine::device(device, &port, gid)))
    }
}

/// One size.
struct Sized<'a> {
    replay: &'a Replay,
    job: &'a Arc<Job>,
    rendezvous: &'a mut Rendezvous,
}

impl Sized<'_> {
    fn run(&mut self, transport: &mut Transport) -> Result<Row, ReplayError> {
        let Replay { iterations, warmup, check, .. } = *self.replay;
        let mut lanes = Lanes::new(self.job.clone(), self.rendezvous.rank, STEPS_KEPT);
        let mut wrong = None;
        if check {
            lanes.fill(true);
            self.rendezvous.barrier()?;
            self.repeat(&mut lanes, transport, 1)?;
            self.settle(&mut lanes, transport)?;
            wrong = Some(lanes.wrong());
        }
        lanes.fill(false);
        self.repeat(&mut lanes, transport, warmup)?;
        self.settle(&mut lanes, transport)?;
        self.rendezvous.barrier()?;
        let times = self.repeat(&mut lanes, transport, iterations)?;
        self.settle(&mut lanes, transport)?;
        let seconds: Vec<f64> =
            times.iter().map(|(begin, end)| end.since(*begin).as_secs()).collect();
        let whole = match (times.first(), times.last()) {
            (Some(first), Some(last)) => last.1.since(first.0).as_secs(),
            _ => 0.0,
        };
        let own = Timed {
            mean_s: whole / f64::from(iterations.max(1)),
            shortest_s: seconds.iter().copied().fold(f64::INFINITY, f64::min),
            longest_s: seconds.iter().copied().fold(0.0, f64::max),
            wrong,
        };
        // nobody goes on before all have what they need
        let all = self.rendezvous.gather(&own)?;
        let begun = times.last().map_or(Time::ZERO, |(begin, _)| *begin);
        Ok(self.row(&all, steps(&lanes, begun)))
    }

    fn row(&self, all: &[Timed], steps: Vec<LaneTimes>) -> Row {
        let by_rank: Vec<f64> = all.iter().map(|own| own.mean_s).collect();
        let time_s = by_rank.iter().sum::<f64>() / by_rank.len() as f64;
        let algbw = self.job.bytes as f64 / time_s / 1e9;
        let ranks = by_rank.len() as u32;
        let qps = self.job.connections.iter().map(|joined| match &joined.link {
            models::collective::Link::Remote { qps, .. } => qps.len() as u32,
            models::collective::Link::Local => 1,
        });
        let collective = CollectiveReport {
            iterations: self.replay.iterations,
            time_s: Some(time_s),
            algbw_gbytes_per_s: Some(algbw),
            busbw_gbytes_per_s: Some(algbw * self.job.config.op.bus_factor(ranks)),
            status: FlowStatus::Completed,
            ..planned(self.job, qps.sum())
        };
        let wrong: Option<Vec<u64>> = all.iter().map(|own| own.wrong).collect();
        let size = SizeReport {
            bytes: self.job.bytes,
            warmup: self.replay.warmup,
            time_by_rank_s: by_rank,
            shortest_s: all.iter().map(|own| own.shortest_s).fold(f64::INFINITY, f64::min),
            longest_s: all.iter().map(|own| own.longest_s).fold(0.0, f64::max),
            wrong: wrong.map(|wrong| wrong.iter().sum()),
            steps,
        };
        Row { collective, size }
    }

    /// Repeats the programs so often; begin and end of each repetition.
    fn repeat(
        &mut self,
        lanes: &mut Lanes,
        transport: &mut Transport,
        count: u32,
    ) -> Result<Vec<(Time, Time)>, ReplayError> {
        let origin = Instant::now();
        let clock = || {
            Time::from_ps(
                u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000),
            )
        };
        let (mut actions, mut events) = (Vec::new(), Vec::new());
        let mut times = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let begin = clock();
            lanes.begin(&mut actions);
            loop {
                while lanes.advance(transport, clock, &mut actions) || !actions.is_empty() {
                    actions.drain(..).try_for_each(|action| transport.act(action))?;
                }
                if lanes.is_done() {
                    break;
                }
                self.wait(lanes, transport, &mut events)?;
                apply(lanes, &mut events, &mut actions);
            }
            times.push((begin, clock()));
        }
        Ok(times)
    }

    /// Waits until all that was sent is acknowledged: whoever waits at the rendezvous sends nothing.
    fn settle(&mut self, lanes: &mut Lanes, transport: &mut Transport) -> Result<(), ReplayError> {
        let (mut actions, mut events) = (Vec::new(), Vec::new());
        while !lanes.is_quiet() || !transport.is_idle() {
            self.wait(lanes, transport, &mut events)?;
            apply(lanes, &mut events, &mut actions);
            actions.drain(..).try_for_each(|action| transport.act(action))?;
        }
        Ok(())
    }

    /// Waits for events; fails if none comes for too long, or another rank has failed.
    fn wait(
        &mut self,
        lanes: &Lanes,
        transport: &mut Transport,
        events: &mut Vec<super::transport::Event>,
    ) -> Result<(), ReplayError> {
        let begin = Instant::now();
        let patience = self.rendezvous.patience();
        loop {
            transport.wait(WAIT, events)?;
            if !events.is_empty() {
                return Ok(());
            }
            self.rendezvous.check()?;
            if begin.elapsed() > patience {
                let acks = || "acknowledgements of what it has sent".to_owned();
                let what = lanes.waits_for().unwrap_or_else(acks);
                let (rank, waited) = (self.rendezvous.rank, patience);
                return Err(ReplayError::TimeOut { rank, waited, what });
            }
        }
    }
}

fn apply(
    lanes: &mut Lanes,
    events: &mut Vec<super::transport::Event>,
    actions: &mut Vec<lanes::Action>,
) {
    use super::transport::Event;
    for event in events.drain(..) {
        match event {
            Event::Arrived { recv, qp } => lanes.arrived(recv, qp),
            Event::Acknowledged { send, qp } => lanes.acknowledged(send, qp),
            Event::Granted { send, qp } => lanes.granted(send, qp, actions),
        }
    }
}

fn steps(lanes: &Lanes, begun: Time) -> Vec<LaneTimes> {
    let of = |(lane, channel, steps, times): (u32, u32, u64, &[lanes::StepTime])| LaneTimes {
        lane,
        channel,
        steps,
        begin_end_s: times
            .iter()
            .map(|time| [time.begin, time.end].map(|at| at.since(begun).as_secs()))
            .collect(),
    };
    lanes.times().map(of).collect()
}
