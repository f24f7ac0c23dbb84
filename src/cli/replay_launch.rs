//! How the ranks of a replay are started: by hand, by Slurm or Open MPI, all on this machine, or by
//! ssh.

use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use scenarios::resolve::Complaint;
use validation::replay::{Hub, Token};

use super::replay::{Programs, ReplayArgs, TOKEN, failed};
use super::{CommandResult, UNFINISHED, print};

/// What a rank must be told.
pub(super) struct Given {
    pub(super) rank: u32,
    pub(super) world: u32,
    pub(super) rendezvous: String,
}

/// Variables of launchers: rank and world.
const LAUNCHERS: [[&str; 3]; 3] = [
    ["Slurm", "SLURM_PROCID", "SLURM_NTASKS"],
    ["Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ["PMI", "PMI_RANK", "PMI_SIZE"],
];
/// Where ranks of a Slurm job meet, if nothing else is said.
const PORT: u16 = 18_515;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

impl Given {
    /// From the options, or else from a launcher's variables.
    pub(super) fn find(args: &ReplayArgs, ranks: u32) -> Result<Self, Complaint> {
        let complain = |message: String| Err(Complaint(format!("error: {message}")));
        let launcher = LAUNCHERS.iter().find_map(|[name, rank, world]| {
            Some((*name, variable::<u32>(rank)?, variable::<u32>(world)?))
        });
        let (rank, world) = match (args.rank, args.world, launcher) {
            (Some(rank), world, _) => (rank, world.unwrap_or(ranks)),
            (None, None, Some((_, rank, world))) => (rank, world),
            (None, ..) => {
                return complain(
                    "which rank is this? --launch local starts all of them here; --rank R and \
                     --rendezvous HOST:PORT start one, as do srun and mpirun"
                        .to_owned(),
                );
            }
        };
        if world != ranks {
            let from = launcher.map_or(String::new(), |(name, ..)| format!(", as {name} says"));
            return complain(format!(
                "the scenario has {ranks} ranks, but there are {world}{from}"
            ));
        }
        if rank >= world {
            return complain(format!("--rank {rank}: ranks are 0 to {}", world.saturating_sub(1)));
        }
        let of_slurm = || {
            let list = std::env::var("SLURM_JOB_NODELIST").ok()?;
            Some(format!("{}:{PORT}", first_host(&list)?))
        };
        match args.rendezvous.clone().or_else(of_slurm) {
            Some(rendezvous) => Ok(Given { rank, world, rendezvous }),
            None => complain(
                "--rendezvous HOST:PORT is expected: rank 0 listens there, and all ranks connect"
                    .to_owned(),
            ),
        }
    }
}

/// The first host of Slurm's list, such as `gpu[03-08,11],login`: `gpu03`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (prefix, rest) = list.split_at(end);
    let Some(range) = rest.strip_prefix('[') else {
        return (!prefix.is_empty()).then(|| prefix.to_owned());
    };
    let number = range.split([',', '-', ']']).next()?;
    let suffix = range.split_once(']')?.1.split(',').next()?;
    Some(format!("{prefix}{number}{suffix}"))
}

/// The rank's device: of a list, each has one in turn.
fn device_of(args: &ReplayArgs, rank: u32) -> Option<&String> {
    let count = args.device.len();
    args.device.get(rank as usize % count.max(1))
}

/// Options of this command line that ranks do not share.
const OWN: [&str; 5] = ["--launch", "--hosts", "--device", "--world", "--rank"];

/// The command line of a rank: as this one, without what is its own.
fn arguments() -> Vec<String> {
    let mut all = std::env::args().skip(1);
    let mut kept = Vec::new();
    while let Some(argument) = all.next() {
        let name = argument.split('=').next().unwrap_or_default();
        if !OWN.contains(&name) {
            kept.push(argument);
        } else if !argument.contains('=') {
            all.next();
        }
    }
    kept
}

/// Starts all ranks as processes of this machine, and waits for them.
pub(super) fn local(args: &ReplayArgs, programs: &Programs) -> CommandResult {
    let world = programs.world();
    let fail = |error| failed(None, &error);
    let started = Token::random().and_then(|secret| {
        let token = Token::new(&secret)?;
        let hub = Hub::bind("127.0.0.1:0", &token, world, &args.digest(programs))?;
        Ok((secret, hub.address()?, hub.serve()))
    });
    let (secret, address, _serving) = match started {
        Ok(started) => started,
        Err(error) => return fail(error),
    };
    let own = std::env::current_exe().map_err(|why| Complaint(format!("error: rocesim: {why}")))?;
    let mut children = Vec::new();
    for rank in 0..world {
        let mut command = Command::new(&own);
        command.args(arguments()).env(TOKEN, &secret);
        command.args(["--rank", &rank.to_string(), "--world", &world.to_string()]);
        command.args(["--rendezvous", &address.to_string(), "--hub-elsewhere"]);
        if let Some(device) = device_of(args, rank) {
            command.args(["--device", device]);
        }
        let child = command.spawn();
        children.push(child.map_err(|why| Complaint(format!("error: rank {rank}: {why}")))?);
    }
    Ok(wait(children, args.timeout))
}

/// Waits for all. When one fails, the others have until `patience` is over to say what they saw.
fn wait(mut children: Vec<Child>, patience: Duration) -> ExitCode {
    let mut codes: Vec<Option<u8>> = vec![None; children.len()];
    let mut failed: Option<Instant> = None;
    while codes.iter().any(Option::is_none) {
        for (code, child) in codes.iter_mut().zip(&mut children) {
            if code.is_none()
                && let Ok(Some(status)) = child.try_wait()
            {
                // a signal is a failure
                let own = status.code().and_then(|code| u8::try_from(code).ok());
                *code = Some(own.unwrap_or(UNFINISHED));
            }
        }
        if failed.is_none() && codes.iter().flatten().any(|code| *code != 0) {
            failed = Some(Instant::now());
        }
        if failed.is_some_and(|since| since.elapsed() > patience + Duration::from_secs(5)) {
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    // bad input is bad input for all
    ExitCode::from(codes.into_iter().flatten().max().unwrap_or(0))
}

/// Prints the lines that start the ranks by ssh.
pub(super) fn ssh(args: &ReplayArgs, programs: &Programs) -> CommandResult {
    let world = programs.world();
    if args.hosts.len() != world as usize {
        return Err(Complaint(format!(
            "error: --hosts: {} are given, {world} expected, one for each rank (the same host may be \
             given again)",
            args.hosts.len()
        )));
    }
    let rendezvous = match &args.rendezvous {
        Some(address) => address.clone(),
        None => format!("{}:{PORT}", args.hosts[0].rsplit('@').next().unwrap_or_default()),
    };
    let mut words = arguments();
    if args.rendezvous.is_none() {
        words.extend(["--rendezvous".to_owned(), rendezvous]);
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let mut text = String::new();
    if args.token_file.is_none() {
        text += &format!("export {TOKEN}=$(openssl rand -hex 16)\n");
    }
    for (rank, host) in (0..).zip(&args.hosts) {
        let device = device_of(args, rank);
        let device = device.map_or(String::new(), |name| format!(" --device {}", quoted(name)));
        let own = format!("rocesim {} --rank {rank} --world {world}{device}", words.join(" "));
        // the token goes by stdin: a command line can be read by all users of a machine
        text += &match args.token_file {
            Some(_) => format!("ssh {host} {} &\n", quoted(&own)),
            None => {
                let remote = quoted(&format!("read -r {TOKEN}; export {TOKEN}; {own}"));
                format!("ssh {host} {remote} <<< \"${TOKEN}\" &\n")
            }
        };
    }
    print(&(text + "wait\n"));
    Ok(ExitCode::SUCCESS)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_hosts_of_slurm() {
        let of = |list| first_host(list).unwrap();
        assert_eq!(of("gpu[03-08,11],login"), "gpu03");
        assert_eq!(of("a,b"), "a");
        assert_eq!(of("rack2-n[7]-ib"), "rack2-n7-ib");
        assert_eq!(first_host(""), None);
    }

    #[test]
    fn words_of_a_shell() {
        assert_eq!(quoted("a.toml"), "a.toml");
        assert_eq!(quoted("nccl.ALGO=\"Ring\""), "'nccl.ALGO=\"Ring\"'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
