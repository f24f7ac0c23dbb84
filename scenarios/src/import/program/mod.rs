//! What `kind = "program"` names: algorithms of MSCCL and GOAL schedules.
//!
//! - `msccl`: reads XML; `walk`: can it come to its end; `deliver`: is the result right
//! - `goal`: reads schedules; `order`: pairs sends with receives, and puts all in an order

mod deliver;
mod goal;
mod msccl;
mod order;
#[cfg(test)]
mod tests;
mod walk;

use std::path::Path;
use std::sync::Arc;

use models::collective::msccl::MscclAlgorithm;
use models::program::Content;

use super::ImportError;
use super::text::TextFile;

/// What is wrong on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    message: String,
}

impl Fault {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Fault { line, message: message.into() }
    }

    fn of(self, file: &TextFile) -> ImportError {
        file.error_at(self.line, self.message)
    }
}

fn fault(line: u32, message: String) -> Fault {
    Fault::at(line as usize, message)
}

/// Reads a program and checks it; returns it with its text. A file that begins with `<` is one of
/// MSCCL, any other one a GOAL schedule.
pub fn program(path: &Path) -> Result<(Content, String), ImportError> {
    read(&TextFile::read(path, "an algorithm of MSCCL (XML) or a GOAL schedule is expected")?)
}

/// The same of a text under this name.
pub fn program_text(name: &str, text: &str) -> Result<(Content, String), ImportError> {
    read(&TextFile::of(name, text))
}

fn read(file: &TextFile) -> Result<(Content, String), ImportError> {
    let text = file.text();
    let is_xml = text.trim_start_matches('\u{feff}').trim_start().starts_with('<');
    let content = if is_xml {
        let algorithm = msccl::parse(file)?;
        walk::check(&algorithm).map_err(|fault| fault.of(file))?;
        Content::Msccl(Arc::new(algorithm))
    } else {
        let schedule = goal::parse(text).and_then(|ranks| order::schedule(&ranks));
        Content::Goal(Arc::new(schedule.map_err(|fault| fault.of(file))?))
    };
    Ok((content, text.to_owned()))
}

/// Whether an algorithm comes to its end where so many chunks are handled at once and a sender may
/// be so many calls ahead; or else the line, and why not.
pub fn program_fits(
    algorithm: &MscclAlgorithm,
    at_once: u32,
    slots: u64,
) -> Result<(), (usize, String)> {
    let fits = walk::fits(algorithm, walk::Room { at_once, slots });
    fits.map_err(|fault| (fault.line, fault.message))
}
