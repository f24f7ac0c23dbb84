//! `rocesim replay`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use models::collective::{CollectiveConfig, Job};
use scenarios::collectives::{TableOptions, header};
use scenarios::nccl_tests::{self, Header};
use scenarios::output;
use scenarios::resolve::{self, Complaint, Loaded};
use scenarios::simulate;
use sim_core::Fingerprint;
use validation::replay::{
    Carrier, Hub, Joining, RdmaSetting, Rendezvous, Replay, ReplayError, Row, Token, address_of,
    machine, replayable, run,
};
use validation::{Machine, Measurement};

use super::replay_launch::{self, Given};
use super::run::wall_time;
use super::{CommandResult, ScenarioArgs, UNFINISHED, print};

/// Where the token is looked for.
pub(super) const TOKEN: &str = "ROCESIM_TOKEN";

#[derive(Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    pub(super) scenario: ScenarioArgs,
    /// What carries the data: RoCE NICs by libibverbs, or kernel TCP, which needs none
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Rdma)]
    transport: Kind,
    /// Start the ranks: all of them here, or print the lines that start them by ssh
    #[arg(long, value_name = "HOW", value_enum)]
    pub(super) launch: Option<Launch>,
    /// With --launch ssh: the host of each rank
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    pub(super) hosts: Vec<String>,
    /// This rank, from 0 [default: that of Slurm or Open MPI]
    #[arg(long, value_name = "R")]
    pub(super) rank: Option<u32>,
    /// Number of ranks [default: that of Slurm or Open MPI, or else the scenario's]
    #[arg(long, value_name = "N")]
    pub(super) world: Option<u32>,
    /// Where ranks meet: rank 0 listens at this address and at no other, and all ranks connect to it.
    /// All must have the same token of 16 characters or more in ROCESIM_TOKEN, or in --token-file
    /// [default with Slurm: the first host of the job]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) rendezvous: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// The RDMA device, such as mlx5_0 or mlx5_0:2 (its second port); of TCP the network device or
    /// the address of this rank. With --launch local a list, one for each rank in turn
    #[arg(long, value_name = "DEV", value_delimiter = ',')]
    pub(super) device: Vec<String>,
    /// Index of the GID; auto takes the first one of RoCEv2 over IPv4
    #[arg(long, value_name = "I", default_value = "auto", value_parser = gid_index)]
    gid_index: GidIndex,
    /// Traffic class of data: the DSCP is its upper six bits [default: nccl.IB_TC]
    #[arg(long, value_name = "T")]
    tc: Option<u8>,
    /// QPs of each connection [default: nccl.IB_QPS_PER_CONNECTION]
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u32).range(1..=128))]
    qps: Option<u32>,
    /// Split each message over all QPs [default: nccl.IB_SPLIT_DATA_ON_QPS]
    #[arg(long)]
    split: bool,
    /// Send messages beyond 8 KiB by WRITE, and tell of them by an empty WRITE WITH IMMEDIATE, as NCCL
    /// does with IB_ADAPTIVE_ROUTING = 1
    #[arg(long)]
    adaptive_routing: bool,
    /// Repetitions that are timed
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    iters: u32,
    /// Repetitions before them
    #[arg(long, value_name = "N", default_value_t = 5)]
    warmup: u32,
    /// Check the result, in a repetition of its own
    #[arg(long)]
    check: bool,
    /// Give up when nothing has moved for so long, or another rank does not come
    #[arg(long, value_name = "TIME", value_parser = wall_time, default_value = "60s")]
    pub(super) timeout: Duration,
    /// The measurement, written by rank 0
    #[arg(short, long, value_name = "FILE", default_value = "measurement.json")]
    output: PathBuf,
    /// Another process holds the rendezvous
    #[arg(long, hide = true)]
    hub_elsewhere: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// RC QPs of RoCEv2
    Rdma,
    /// Sockets
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Launch {
    /// Each rank is a process of this machine
    Local,
    /// Print a line for each host
    Ssh,
}

#[derive(Clone, Copy, Debug)]
struct GidIndex(Option<u32>);

fn gid_index(text: &str) -> Result<GidIndex, String> {
    match text {
        "auto" => Ok(GidIndex(None)),
        // a GID index is a byte on the wire of the driver
        _ => match text.parse::<u8>() {
            Ok(index) => Ok(GidIndex(Some(index.into()))),
            Err(_) => Err("auto, or a number from 0 to 255, is expected".to_owned()),
        },
    }
}

/// What is replayed.
pub(super) struct Programs {
    pub(super) loaded: Loaded,
    config: Arc<CollectiveConfig>,
    jobs: Vec<Arc<Job>>,
}

impl Programs {
    pub(super) fn world(&self) -> u32 {
        self.jobs.first().map_or(0, |job| job.ranks.len() as u32)
    }
}

/// An error of a replay: that of input ends the program as such.
pub(super) fn failed(rank: Option<u32>, error: &ReplayError) -> CommandResult {
    let of = rank.map_or(String::new(), |rank| format!("rank {rank}: "));
    let complaint = Complaint(format!("error: {of}{error}"));
    if error.is_input() {
        return Err(complaint);
    }
    eprintln!("{complaint}");
    Ok(ExitCode::from(UNFINISHED))
}

impl ReplayArgs {
    pub(super) fn run(mut self) -> CommandResult {
        self.scenario.set.extend(self.qps.map(|qps| format!("nccl.IB_QPS_PER_CONNECTION={qps}")));
        if self.split {
            self.scenario.set.push("nccl.IB_SPLIT_DATA_ON_QPS=1".to_owned());
        }
        let programs = self.programs()?;
        match self.launch {
            Some(Launch::Local) => replay_launch::local(&self, &programs),
            Some(Launch::Ssh) => replay_launch::ssh(&self, &programs),
            None => self.one(&programs),
        }
    }

    /// The jobs of the scenario, by size.
    fn programs(&self) -> Result<Programs, Complaint> {
        let loaded = resolve::load(&self.scenario.scenario, &self.scenario.options())?;
        let plans = simulate::plans(&loaded, 1)?;
        let mut jobs = Vec::new();
        for plan in plans {
            let of_plan = plan.wiring.collectives();
            if of_plan.len() != 1 {
                let name = &self.scenario.scenario;
                return Err(Complaint(format!(
                    "error: {name} has {} [[traffic]] of kind = \"collective\": one is expected",
                    of_plan.len()
                )));
            }
            jobs.push(Arc::new(of_plan[0].clone()));
        }
        let Some(config) = jobs.first().map(|job| job.config.clone()) else {
            return Err(Complaint("error: the scenario has no size to replay".to_owned()));
        };
        let world = self.world.unwrap_or(jobs[0].ranks.len() as u32);
        for job in &jobs {
            replayable(job, world).map_err(|error| Complaint(format!("error: {error}")))?;
        }
        Ok(Programs { loaded, config, jobs })
    }

    /// What all ranks must have in common.
    pub(super) fn digest(&self, programs: &Programs) -> String {
        let mut digest = Fingerprint::default();
        let text = format!(
            "{} {} {} {} {:?} {} {}",
            env!("CARGO_PKG_VERSION"),
            programs.loaded.resolved,
            self.iters,
            self.warmup,
            self.transport,
            self.check,
            self.adaptive_routing
        );
        text.bytes().for_each(|byte| digest.add(u64::from(byte)));
        digest.hex()
    }

    /// Runs one rank.
    fn one(&self, programs: &Programs) -> CommandResult {
        let given = Given::find(self, programs.world())?;
        let token = self.token()?;
        let carrier =
            self.carrier(programs).map_err(|error| Complaint(format!("error: {error}")))?;
        let digest = self.digest(programs);
        let fail = |error: &ReplayError| failed(Some(given.rank), error);
        let serving = match given.rank == 0 && !self.hub_elsewhere {
            true => match Hub::bind(&given.rendezvous, &token, given.world, &digest) {
                Ok(hub) => Some(hub.serve()),
                Err(error) => return fail(&error),
            },
            false => None,
        };
        let joining = Joining {
            rank: given.rank,
            world: given.world,
            address: given.rendezvous.clone(),
            token: token.clone(),
            digest: digest.clone(),
            patience: self.timeout,
        };
        let replay = Replay {
            scenario: programs.loaded.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: simulate::COMMIT.to_owned(),
            jobs: programs.jobs.clone(),
            carrier,
            iterations: self.iters,
            warmup: self.warmup,
            check: self.check,
        };
        let result = Rendezvous::join(&joining).and_then(|mut rendezvous| {
            let seats = rendezvous.gather(&(machine(), self.device_name()))?;
            let mut table = Table::new(self, programs, &seats);
            let shown = given.rank == 0;
            if shown {
                print(&table.head());
            }
            let mut seen = |row: &Row| {
                let line = table.row(row);
                if shown {
                    print(&line);
                }
            };
            let measurement = run(&replay, &token, &mut rendezvous, &digest, &mut seen)?;
            rendezvous.leave();
            if shown {
                print(&table.foot(&measurement));
            }
            Ok((measurement, table.wrong))
        });
        if let Some(serving) = serving {
            // the others have been told, or have nobody to wait for
            serving.finish(Duration::from_secs(if result.is_ok() { 10 } else { 1 }));
        }
        let (measurement, wrong) = match result {
            Ok(found) => found,
            Err(error) => return fail(&error),
        };
        if given.rank == 0 {
            output::stream_file(&self.output, |file| output::write_json(&measurement, file))?;
            print(&format!("# measurement: {}\n", self.output.display()));
        }
        Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(UNFINISHED) })
    }

    /// The token, from the environment or its file.
    pub(super) fn token(&self) -> Result<Token, Complaint> {
        let (text, place) = match &self.token_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let fail =
                    |why| Complaint(format!("error: --token-file {}: {why}", path.display()));
                (text.map_err(fail)?, path.display().to_string())
            }
            None => match std::env::var(TOKEN) {
                Ok(text) => (text, TOKEN.to_owned()),
                Err(_) => {
                    return Err(Complaint(format!(
                        "error: ranks need a token that they share: export \
                         {TOKEN}=$(openssl rand -hex 16) for all of them, or give a --token-file"
                    )));
                }
            },
        };
        Token::new(&text).map_err(|error| Complaint(format!("error: {place}: {error}")))
    }

    /// What the head of the table calls this rank's device.
    fn device_name(&self) -> String {
        self.device.first().cloned().unwrap_or_else(|| "kernel TCP".to_owned())
    }

    fn carrier(&self, programs: &Programs) -> Result<Carrier, ReplayError> {
        let nccl = &programs.loaded.spec.nccl;
        match (self.transport, self.device.first()) {
            (Kind::Tcp, None) => Ok(Carrier::Tcp { address: None, netdev: None }),
            (Kind::Tcp, Some(device)) => {
                let (address, netdev) = address_of(device)?;
                Ok(Carrier::Tcp { address: Some(address), netdev })
            }
            (Kind::Rdma, device) => {
                let device = device.cloned().map_or_else(only_device, Ok)?;
                let data = self.tc.map_or(nccl.ib_tc.unwrap_or(0), u32::from);
                let fifo = nccl.ib_fifo_tc.filter(|_| self.tc.is_none()).unwrap_or(data);
                Ok(Carrier::Rdma(RdmaSetting {
                    device,
                    gid_index: self.gid_index.0,
                    traffic_class: data as u8,
                    fifo_traffic_class: fifo as u8,
                    timeout: nccl.ib_timeout as u8,
                    retry_cnt: nccl.ib_retry_cnt as u8,
                    adaptive_routing: self.adaptive_routing,
                }))
            }
        }
    }
}

/// The device, where there is but one.
fn only_device() -> Result<String, ReplayError> {
    let all = validation::verbs::devices();
    let all = all.map_err(|error| ReplayError::Setting(error.to_string()))?;
    match &all[..] {
        [one] => Ok(one.clone()),
        [] => Err(ReplayError::Setting(
            "this machine has no RDMA device; --transport tcp needs none".to_owned(),
        )),
        all => {
            Err(ReplayError::Setting(format!("--device is expected: here are {}", all.join(", "))))
        }
    }
}

/// The table of nccl-tests, as it grows.
struct Table {
    header: Header,
    ranks: Vec<nccl_tests::Rank>,
    redop: &'static str,
    rows: Vec<nccl_tests::Row>,
    wrong: u64,
}

impl Table {
    fn new(args: &ReplayArgs, programs: &Programs, seats: &[(Machine, String)]) -> Self {
        let config = &programs.config;
        let options = TableOptions { check: args.check, ..TableOptions::default() };
        let redop = if config.op.reduces() { options.redop } else { "none" };
        let header = Header { warmup: args.warmup, iters: args.iters, ..header(config, &options) };
        let rank = |(rank, (machine, device)): (u32, &(Machine, String))| nccl_tests::Rank {
            rank,
            pid: machine.pid,
            host: machine.host.clone(),
            device: 0,
            bus_id: "0x00".to_owned(),
            gpu: format!("host memory, {device}"),
        };
        let ranks = (0..).zip(seats).map(rank).collect();
        Table { header, ranks, redop, rows: Vec::new(), wrong: 0 }
    }

    fn head(&self) -> String {
        let name = format!("# rocesim replay {}\n", env!("CARGO_PKG_VERSION"));
        name + &nccl_tests::head(&self.header, &self.ranks)
    }

    fn row(&mut self, row: &Row) -> String {
        self.wrong += row.size.wrong.unwrap_or(0);
        let own = nccl_tests::Row::new(&row.collective, self.redop);
        let line = nccl_tests::row_line(&own, row.size.wrong);
        self.rows.push(own);
        line
    }

    fn foot(&self, measurement: &Measurement) -> String {
        let summary = measurement.summary();
        nccl_tests::foot(&self.rows, self.wrong) + &nccl_tests::commented(&summary)
    }
}
