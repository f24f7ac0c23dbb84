//! `evaluations.jsonl`: the simulations of a calibration, each on the disk as soon as it is done.
//!
//! ```text
//! {"schema":1,"rocesim":"0.1.0","commit":"..","scenario":".."}      what they are of
//! {"ask":{"set":[..],"op":"all_reduce","bytes":8},"answer":{"time_s":..}}
//! ```
//!
//! A line that was torn by a crash is cut off. Of another scenario, or another version of the
//! program, nothing is taken over.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use scenarios::resolve::Complaint;
use serde::{Deserialize, Serialize};

use super::runs::{Answer, Ask};

/// The name of the file.
pub const EVALUATIONS: &str = "evaluations.jsonl";

const SCHEMA: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    schema: u32,
    rocesim: String,
    /// Digest of the scenario with presets laid under.
    scenario: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    ask: Ask,
    answer: Answer,
}

/// The file, open to be appended to.
#[derive(Debug)]
pub(super) struct Cache {
    file: Mutex<File>,
    path: PathBuf,
}

/// What is known from before, and a note if that was of something else.
pub(super) type Opened = (Cache, BTreeMap<Ask, Answer>, Option<String>);

impl Cache {
    /// Opens the file in `folder`.
    pub(super) fn open(folder: &Path, scenario: &str) -> Result<Opened, Complaint> {
        let path = folder.join(EVALUATIONS);
        let fail = |error: std::io::Error| Complaint(format!("error: {}: {error}", path.display()));
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(&path).map_err(fail)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let message = "another rocesim is at work on this";
            return Err(Complaint(format!("error: {}: {message}", path.display())));
        }
        let text = std::fs::read_to_string(&path).map_err(fail)?;
        let head = Head {
            schema: SCHEMA,
            rocesim: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let first = lines.next();
        let same =
            first.is_some_and(|line| serde_json::from_str(line).is_ok_and(|h: Head| h == head));
        let mut known = BTreeMap::new();
        let mut note = None;
        if same {
            let parsed = lines.map_while(|line| serde_json::from_str::<Line>(line).ok());
            known.extend(parsed.map(|line| (line.ask, line.answer)));
            file.set_len(whole as u64).map_err(fail)?;
        } else {
            if first.is_some() {
                note = Some(format!(
                    "{}: its simulations are of another scenario or version, and are not used",
                    path.display()
                ));
            }
            file.set_len(0).map_err(fail)?;
            file.seek(SeekFrom::Start(0)).map_err(fail)?;
            let line = serde_json::to_string(&head).unwrap_or_default() + "\n";
            file.write_all(line.as_bytes()).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        Ok((Cache { file: Mutex::new(file), path }, known, note))
    }

    /// Appends one; the system has it when this returns.
    pub(super) fn append(&self, ask: &Ask, answer: &Answer) -> Result<(), Complaint> {
        let line = Line { ask: ask.clone(), answer: *answer };
        let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| Complaint(format!("error: {}: {error}", self.path.display())))
    }
}
