//! The points of a study as a job array of Slurm.
//!
//! Each task of the array runs `rocesim study ... --shard i/n --resume` and keeps its own file of
//! results, so a task that Slurm requeues goes on where it was. This process watches: a task that
//! is gone and has not done all its points is submitted again, a few times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::answer::quoted;
use super::config::Method;
use super::journal::Directory;
use super::table::Table;
use super::work::{Owner, Progress, Shard};
use super::{Source, Study};
use crate::output::write_file;
use crate::resolve::Complaint;
use crate::simulate::Verdict;

/// How the array is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tasks of the array.
    pub tasks: u32,
    /// Processors of each.
    pub cpus: u16,
    /// Further arguments of `sbatch`, such as `--partition=debug`.
    pub sbatch: Vec<String>,
    /// The program that the tasks run.
    pub program: PathBuf,
}

/// What has been submitted: `slurm/array.json` in the study's directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Array {
    /// Tasks of the array.
    tasks: u32,
    /// The jobs, the first one first.
    jobs: Vec<Job>,
    /// How often each task has been submitted.
    submitted: BTreeMap<u32, u32>,
}

/// A job, as `sbatch --parsable` answers: its number, and where there are several its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Job {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster: Option<String>,
}

/// How the watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// All points are done.
    Complete,
    /// The user does not want to wait any longer; these jobs go on.
    Left(Vec<u64>),
    /// These tasks were lost more often than they are submitted.
    Lost(Vec<u32>),
}

/// A task is submitted so many times.
const SUBMISSIONS: u32 = 4;
/// Between two looks at the queue.
const LOOK: Duration = Duration::from_secs(1);
/// A task that is gone is submitted again after so long, times how often it was: what it wrote may
/// still be on its way through a network file system.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks in vain, each of which takes its time, before a controller that is away counts as gone.
const LOOKS_IN_VAIN: u32 = 60;

/// Submits what is missing of a study, and waits until it is there. `said` is told of each
/// submission.
pub fn run(
    study: &Study,
    directory: &Directory,
    request: &Request,
    owner: &Owner<'_>,
    said: &dyn Fn(&str),
) -> Result<Watched, Complaint> {
    if study.config.method == Method::Tpe && request.tasks > 1 {
        let message = "error: method `tpe` chooses points by the results of earlier ones: it is \
                       one task; --tasks 1 is expected";
        return Err(Complaint(message.to_owned()));
    }
    let folder = absolute(&directory.path)?.join("slurm");
    fs::create_dir_all(&folder)
        .map_err(|error| Complaint(format!("error: {}: {error}", folder.display())))?;
    // two watchers would both submit what is gone
    let _lock = directory.lock("slurm/watcher.lock")?;
    let mut array = Array::read(&folder)?;
    // an array that is still at work keeps its number of tasks
    if active(&array.jobs)?.is_empty() {
        array = Array { tasks: request.tasks, ..Array::default() };
    }
    let script = folder.join("job.sh");
    write_file(&script, job_script(study, directory, request, array.tasks)?)?;
    Watch { study, directory, request, owner, said, folder, script, array }.run()
}

struct Watch<'a> {
    study: &'a Study,
    directory: &'a Directory,
    request: &'a Request,
    owner: &'a Owner<'a>,
    said: &'a dyn Fn(&str),
    folder: PathBuf,
    script: PathBuf,
    array: Array,
}

impl Watch<'_> {
    fn run(mut self) -> Result<Watched, Complaint> {
        let mut in_vain = 0;
        // since when a task is gone
        let mut gone_since: BTreeMap<u32, Instant> = BTreeMap::new();
        loop {
            // first who is at work, then what is there: who ends in between has written all of it
            let at_work = match active(&self.array.jobs) {
                Ok(at_work) => Some(at_work),
                Err(_) if in_vain < LOOKS_IN_VAIN => {
                    in_vain += 1;
                    None
                }
                Err(Complaint(why)) => {
                    let jobs = self.array.numbers();
                    let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
                    let jobs = jobs.join(" ");
                    let hint = format!("the jobs go on: {jobs}; --resume watches again");
                    return Err(Complaint(format!("{why}\n  {hint}")));
                }
            };
            let unfinished = unfinished(self.study, self.directory, self.array.tasks, self.owner)?;
            if unfinished.is_empty() {
                return Ok(Watched::Complete);
            }
            if let Some(at_work) = at_work {
                gone_since.retain(|task, _| !at_work.contains(task) && unfinished.contains(task));
                let gone = unfinished.difference(&at_work);
                gone.for_each(|task| {
                    gone_since.entry(*task).or_insert_with(Instant::now);
                });
                let times = |task: &u32| self.array.submitted.get(task).copied().unwrap_or(0);
                let waited = gone_since
                    .iter()
                    .filter(|(task, since)| since.elapsed() >= PATIENCE * times(task))
                    .map(|(task, _)| *task);
                let (lost, again): (Vec<u32>, Vec<u32>) =
                    waited.partition(|task| times(task) >= SUBMISSIONS);
                if lost.len() == unfinished.len() {
                    return Ok(Watched::Lost(lost));
                }
                if !again.is_empty() {
                    match self.submit(&again) {
                        Ok(()) => {
                            in_vain = 0;
                            gone_since.retain(|task, _| !again.contains(task));
                        }
                        // others are at work: it is tried again
                        Err(_) if !at_work.is_empty() && in_vain < LOOKS_IN_VAIN => in_vain += 1,
                        Err(complaint) => return Err(complaint),
                    }
                }
            }
            for _ in 0..10 {
                if (self.owner.verdict)() != Verdict::GoOn {
                    return Ok(Watched::Left(self.array.numbers()));
                }
                std::thread::sleep(LOOK / 10);
            }
        }
    }

    /// Submits some tasks of the array.
    fn submit(&mut self, tasks: &[u32]) -> Result<(), Complaint> {
        let list: Vec<String> = tasks.iter().map(u32::to_string).collect();
        let list = list.join(",");
        // `%` means something to Slurm
        let log = self.folder.to_string_lossy().replace('%', "%%");
        let mut command = Command::new("sbatch");
        command
            .arg("--parsable")
            .arg(format!("--array={list}"))
            .arg(format!("--job-name=rocesim-{}", self.study.name))
            .arg(format!("--output={log}/task-%a.log"))
            .args(["--open-mode=append", "--requeue", "--ntasks=1"])
            .arg(format!("--cpus-per-task={}", self.request.cpus))
            .args(&self.request.sbatch)
            .arg(&self.script);
        let text = output(&mut command)?;
        let (id, cluster) = match text.trim().split_once(';') {
            Some((id, cluster)) => (id, Some(cluster.to_owned())),
            None => (text.trim(), None),
        };
        let id: u64 = id.parse().map_err(|_| {
            Complaint(format!("error: sbatch answers {:?}, which is no job", text.trim()))
        })?;
        let again = tasks.iter().any(|task| self.array.submitted.contains_key(task));
        let what = if again { "submitted again" } else { "submitted" };
        (self.said)(&format!(
            "job {id}: tasks {list} {what}; logs: {}",
            self.folder.join("task-*.log").display()
        ));
        self.array.jobs.push(Job { id, cluster });
        for task in tasks {
            *self.array.submitted.entry(*task).or_default() += 1;
        }
        self.array.write(&self.folder)
    }
}

impl Array {
    fn read(folder: &Path) -> Result<Array, Complaint> {
        let path = folder.join("array.json");
        let Ok(text) = fs::read_to_string(&path) else { return Ok(Array::default()) };
        serde_json::from_str(&text).map_err(|error| {
            Complaint(format!("error: {}:{}: {error}", path.display(), error.line()))
        })
    }

    fn write(&self, folder: &Path) -> Result<(), Complaint> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        write_file(&folder.join("array.json"), text)
    }

    fn numbers(&self) -> Vec<u64> {
        self.jobs.iter().map(|job| job.id).collect()
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Complaint> {
    std::path::absolute(path)
        .map_err(|error| Complaint(format!("error: {}: {error}", path.display())))
}

/// The script of each task.
fn job_script(
    study: &Study,
    directory: &Directory,
    request: &Request,
    tasks: u32,
) -> Result<String, Complaint> {
    let mut words = vec![request.program.to_string_lossy().into_owned(), "study".to_owned()];
    if study.source == Source::Failures {
        words.push("failures".to_owned());
    }
    let given = Path::new(&study.given);
    words.push(match given.is_file() {
        true => absolute(given)?.to_string_lossy().into_owned(),
        false => study.given.clone(),
    });
    let options = &study.options;
    for file in &options.with {
        words.extend(["--with".to_owned(), absolute(file)?.to_string_lossy().into_owned()]);
    }
    if let Some(variant) = &options.variant {
        words.extend(["--variant".to_owned(), variant.clone()]);
    }
    if let Some(seed) = options.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    for set in &options.set {
        words.extend(["--set".to_owned(), set.clone()]);
    }
    let out = absolute(&directory.path)?.to_string_lossy().into_owned();
    words.extend(["--out".to_owned(), out, "--resume".to_owned(), "--quiet".to_owned()]);
    words.extend(["--threads".to_owned(), request.cpus.to_string()]);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ");
    Ok(format!("#!/bin/sh\nexec {command} --shard \"$SLURM_ARRAY_TASK_ID/{tasks}\"\n"))
}

/// The tasks of these jobs that wait or run.
fn active(jobs: &[Job]) -> Result<BTreeSet<u32>, Complaint> {
    const ENDED: [&str; 10] = [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ];
    let mut tasks = BTreeSet::new();
    for job in jobs {
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", "--states=all", "--format", "%K %T", "--jobs"]);
        command.arg(job.id.to_string());
        command.args(job.cluster.iter().map(|cluster| format!("--clusters={cluster}")));
        let text = match output(&mut command) {
            Ok(text) => text,
            // forgotten, since it is long done
            Err(Complaint(why)) if why.contains("Invalid job id") => continue,
            Err(complaint) => return Err(complaint),
        };
        for line in text.lines() {
            let (task, state) = line.trim().split_once(' ').unwrap_or((line, ""));
            if let (Ok(task), false) = (task.parse(), ENDED.contains(&state.trim())) {
                tasks.insert(task);
            }
        }
    }
    Ok(tasks)
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String, Complaint> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Ctrl-C is for this process alone
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let output = command.output().map_err(|error| {
        let hint = "is this a machine from which jobs are submitted?";
        Complaint(format!("error: {name}: {error}; {hint}"))
    })?;
    if !output.status.success() {
        let why = match String::from_utf8_lossy(&output.stderr).trim() {
            "" => output.status.to_string(),
            why => why.to_owned(),
        };
        return Err(Complaint(format!("error: {name}: {why}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The tasks that have points to do; tells how far all are.
fn unfinished(
    study: &Study,
    directory: &Directory,
    tasks: u32,
    owner: &Owner<'_>,
) -> Result<BTreeSet<u32>, Complaint> {
    let table = Table::new(study, &directory.read()?)?;
    let done = table.all().count();
    let of = done + table.missing.len() + usize::from(table.base.is_none());
    let failed = table.rows.iter().filter(|row| !row.good).count();
    (owner.told)(Progress { points: done, of, failed });
    let base = table.base.is_none().then_some(0);
    let numbers = table.missing.iter().copied().chain(base);
    Ok(numbers.map(|number| Shard { index: 0, count: tasks }.of(number)).collect())
}
