//! A study's directory: what it is a study of, and each run that is done.
//!
//! ```text
//! DIR/study.toml          the study, as it was given
//! DIR/manifest.json       of what it is made; another study is refused
//! DIR/results/*.jsonl     one line a run, written and synced as soon as it is done
//! DIR/points.csv, .parquet, runs.csv, .parquet      the tables, once all runs are there
//! DIR/slowdown.csv, .parquet, queues.csv, .parquet  where runs have point traffic, or samples
//! ```
//!
//! A line that was torn by a crash is cut off when its file is opened again; all that came before
//! it counts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::curves::Curves;
use super::{Source, Study};
use crate::output::{readable_folder, write_file};
use crate::resolve::{Complaint, LoadOptions};

/// What tells a run from the others of its study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// Number of its point.
    pub point: u32,
    /// The rung, where a smallest value is searched for.
    pub rung: Option<u32>,
    /// Its seed.
    pub seed: u64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number of its point; 0 is the base.
    pub point: u32,
    /// The rung, where a smallest value is searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<u32>,
    /// Its seed.
    pub seed: u64,
    /// How it ended: as in `report.json`, or `refused` or `given_up`.
    pub outcome: String,
    /// Why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Requirements that it breaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// One value for each column of the study; none where there is none to be had.
    pub values: Vec<Option<f64>>,
    /// What is more than a number.
    #[serde(default, skip_serializing_if = "Curves::is_empty")]
    pub curves: Curves,
    /// That of its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

impl Record {
    /// What tells it from others.
    pub fn id(&self) -> RunId {
        RunId { point: self.point, rung: self.rung, seed: self.seed }
    }

    /// All requirements hold.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.error.is_none()
    }
}

/// All runs of a study that are done.
pub type Records = BTreeMap<RunId, Record>;

/// The directory of a study.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
}

/// `manifest.json`
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    /// Version of this layout.
    schema: u32,
    /// Version of the program.
    rocesim: String,
    /// Name of the study.
    study: String,
    /// Of what it is made.
    identity: String,
    /// What `values` of a run are.
    columns: Vec<String>,
    /// What the study was loaded from, and how.
    source: Source,
    given: String,
    options: LoadOptions,
}

const SCHEMA: u32 = 1;

fn failed(path: &Path, error: &std::io::Error) -> Complaint {
    Complaint(format!("error: {}: {error}", path.display()))
}

/// Loads the study that a directory is of.
pub fn study_of(path: &Path) -> Result<Study, Complaint> {
    let Manifest { source, given, options, .. } = read_manifest(path)?;
    source.load(&given, &options)
}

/// Whether there is a study in this directory.
pub fn is_study(path: &Path) -> bool {
    path.join("manifest.json").is_file()
}

fn read_manifest(path: &Path) -> Result<Manifest, Complaint> {
    let file = path.join("manifest.json");
    let text = fs::read_to_string(&file).map_err(|error| failed(&file, &error))?;
    serde_json::from_str(&text).map_err(|error| {
        let place = format!("{}:{}", file.display(), error.line());
        Complaint(format!("error: {place}: this is no study's manifest: {error}"))
    })
}

impl Directory {
    /// Makes the directory of `study`, or, to `resume`, opens it.
    pub fn open(path: &Path, study: &Study, resume: bool) -> Result<Directory, Complaint> {
        let directory = Directory { path: path.to_owned() };
        if is_study(path) {
            if !resume {
                let message = "it holds a study: --resume goes on with it, --out takes another";
                return Err(Complaint(format!("error: {}: {message}", path.display())));
            }
            directory.check(study)?;
            return Ok(directory);
        }
        let occupied = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            let message = "it is there and holds no study: give another directory with --out";
            return Err(Complaint(format!("error: {}: {message}", path.display())));
        }
        directory.create(study)?;
        // another task may have been faster
        directory.check(study)?;
        Ok(directory)
    }

    /// Fills a directory beside it, and puts that in its place.
    fn create(&self, study: &Study) -> Result<(), Complaint> {
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        fs::create_dir_all(&parent).map_err(|error| failed(&parent, &error))?;
        let fresh =
            readable_folder(tempfile::Builder::new().prefix(".rocesim-")).tempdir_in(&parent);
        let fresh = fresh.map_err(|error| failed(&parent, &error))?;
        let given = match Path::new(&study.given) {
            file if file.is_file() => {
                std::path::absolute(file).map_err(|error| failed(file, &error))?
            }
            name => name.to_owned(),
        };
        let manifest = Manifest {
            schema: SCHEMA,
            rocesim: env!("CARGO_PKG_VERSION").to_owned(),
            study: study.name.clone(),
            identity: study.identity.clone(),
            columns: study.columns.iter().map(|column| column.name.clone()).collect(),
            given: given.to_string_lossy().into_owned(),
            source: study.source,
            options: study.options.clone(),
        };
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
        let results = fresh.path().join("results");
        fs::create_dir(&results).map_err(|error| failed(&results, &error))?;
        write_file(&fresh.path().join("study.toml"), &study.text)?;
        write_file(&fresh.path().join("manifest.json"), &text)?;
        match fs::rename(fresh.path(), &self.path) {
            Ok(()) => {
                let _ = fresh.keep();
                Ok(())
            }
            Err(_) if is_study(&self.path) => Ok(()),
            Err(error) => Err(failed(&self.path, &error)),
        }
    }

    /// Refuses a study that is not the one of this directory.
    fn check(&self, study: &Study) -> Result<(), Complaint> {
        let manifest = read_manifest(&self.path)?;
        let place = self.path.display();
        let mine = (SCHEMA, env!("CARGO_PKG_VERSION"));
        if (manifest.schema, &*manifest.rocesim) != mine {
            return Err(Complaint(format!(
                "error: {place}: its runs are of rocesim {}, this is {}: results of two versions \
                 do not go into one table; give another directory with --out",
                manifest.rocesim, mine.1
            )));
        }
        if manifest.identity == study.identity {
            return Ok(());
        }
        let difference = first_difference(&manifest.identity, &study.identity);
        Err(Complaint(format!(
            "error: {place}: the study has changed since: {difference}; give another directory \
             with --out, or take the change back"
        )))
    }

    fn results(&self) -> PathBuf {
        self.path.join("results")
    }

    /// All runs that any file of the directory has. The same run in two files is the same.
    pub fn read(&self) -> Result<Records, Complaint> {
        let mut records = Records::new();
        let folder = self.results();
        let entries = fs::read_dir(&folder).map_err(|error| failed(&folder, &error))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
            .collect();
        files.sort();
        for path in files {
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            for (index, line) in text[..whole].lines().enumerate() {
                let record: Record = serde_json::from_str(line).map_err(|error| {
                    let place = format!("{}:{}", path.display(), index + 1);
                    Complaint(format!("error: {place}: this is no result of a run: {error}"))
                })?;
                records.entry(record.id()).or_insert(record);
            }
        }
        Ok(records)
    }

    /// Takes a lock that no other process can have until the file is dropped.
    pub(super) fn lock(&self, name: &str) -> Result<File, Complaint> {
        let path = self.path.join(name);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(|error| failed(&path, &error))?;
        lock(&file, &path)?;
        Ok(file)
    }

    /// Opens the file of this process or task, called `name`, for its runs.
    pub fn journal(&self, name: &str) -> Result<Journal, Complaint> {
        let path = self.results().join(format!("{name}.jsonl"));
        let fail = |error: std::io::Error| failed(&path, &error);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(&path).map_err(fail)?;
        lock(&file, &path)?;
        // a line that was torn
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(fail)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        if let Ok(folder) = File::open(self.results()) {
            let _ = folder.sync_all();
        }
        Ok(Journal { file, path })
    }
}

fn lock(file: &File, path: &Path) -> Result<(), Complaint> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let message = "another rocesim is at work on this";
            Err(Complaint(format!("error: {}: {message}", path.display())))
        }
        // a file system without locks
        Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// A file that runs are appended to.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Appends a run; it is on the disk when this returns.
    pub fn append(&mut self, record: &Record) -> Result<(), Complaint> {
        let line = serde_json::to_string(record).unwrap_or_default() + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.and_then(|()| self.file.sync_data()).map_err(|error| failed(&self.path, &error))
    }
}

/// The first lines that differ, in words.
fn first_difference(was: &str, is: &str) -> String {
    let (mut was, mut is) = (was.lines(), is.lines());
    let mut section = String::new();
    loop {
        match (was.next(), is.next()) {
            (Some(a), Some(b)) if a == b => {
                if a.starts_with(['[', '#']) {
                    section = format!(" (in {})", a.trim_start_matches("# "));
                }
            }
            (Some(a), Some(b)) => return format!("it was `{a}` and is `{b}`{section}"),
            (Some(a), None) => return format!("`{a}` is gone{section}"),
            (None, Some(b)) => return format!("`{b}` is new{section}"),
            (None, None) => return "nothing that shows".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(point: u32, value: f64) -> Record {
        Record {
            point,
            rung: None,
            seed: 1,
            outcome: "completed".into(),
            error: None,
            broken: Vec::new(),
            values: vec![Some(value), None],
            curves: Curves::default(),
            fingerprint: Some("ab".into()),
        }
    }

    #[test]
    fn a_torn_line_is_cut_off_and_numbers_keep_every_bit() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory { path: folder.path().to_owned() };
        fs::create_dir(directory.results()).unwrap();
        let values = [0.1 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, 8.431_926_534_1e22];
        {
            let mut journal = directory.journal("local").unwrap();
            for (point, value) in (0..).zip(values) {
                journal.append(&record(point, value)).unwrap();
            }
            // the lock is held
            assert!(directory.journal("local").unwrap_err().0.contains("another rocesim"));
        }
        let path = directory.results().join("local.jsonl");
        let mut text = fs::read_to_string(&path).unwrap();
        text += "{\"point\":9,\"se";
        fs::write(&path, &text).unwrap();
        assert_eq!(directory.read().unwrap().len(), 4, "a reader leaves the torn line out");
        directory.journal("local").unwrap().append(&record(9, 5.0)).unwrap();
        let records = directory.read().unwrap();
        assert_eq!(records.len(), 5);
        for ((_, found), value) in records.iter().zip(values) {
            assert_eq!(found.values[0].unwrap().to_bits(), value.to_bits());
        }
    }

    #[test]
    fn the_first_difference_is_told() {
        let was = "seeds = 3\n[axes]\nkmin = [\"50KB\"]\n";
        let is = "seeds = 3\n[axes]\nkmin = [\"60KB\"]\n";
        assert_eq!(
            first_difference(was, is),
            "it was `kmin = [\"50KB\"]` and is `kmin = [\"60KB\"]` (in [axes])"
        );
    }
}
