//! The files of `kind = "program"`.

use std::path::Path as FsPath;
use std::sync::Arc;

use models::BuildError;
use models::collective::msccl::MscclAlgorithm;
use models::collective::{Cuts, MessageSizes};
use models::program::{Content, ProgramConfig, Scheduled};
use models::traffic::TrafficConfig;

use super::Place;
use super::flows::rename;
use crate::import::{program, program_fits, program_text};
use crate::library;
use crate::load::LoadError;
use crate::schema::Scenario;

/// Reads the files of programs; returns them under the names that they will have in a run
/// directory, which the tree gets too.
pub(super) fn read(
    scenario: &mut Scenario,
    folder: Option<&FsPath>,
    place: &mut Place,
) -> Result<Vec<(String, String)>, LoadError> {
    let mut files = Vec::new();
    let buffsize = scenario.nccl.buffsize.get();
    for (index, section) in scenario.traffic.iter_mut().enumerate() {
        let TrafficConfig::Program(config) = section else { continue };
        let key = |field: &str| format!("traffic[{index}].{field}");
        // what is built in names files that are built in
        let built_in = library::program(&config.file).filter(|_| folder.is_none());
        let path = folder.unwrap_or(FsPath::new(".")).join(&config.file);
        let read = match built_in {
            Some(text) => program_text(&config.file, text),
            None => program(&path),
        };
        let refuse = |error: BuildError| place.locate(error);
        let (content, text) =
            read.map_err(|error| refuse(BuildError::new(key("file"), error.to_string())))?;
        check_keys(config, &content, &key).map_err(refuse)?;
        if let (Content::Msccl(algorithm), Some(bytes)) = (&content, &config.bytes) {
            check_room(config, algorithm, bytes, buffsize, &key).map_err(refuse)?;
        }
        config.content = Some(content);
        // the text is kept unpacked
        let plain = path.with_extension(match path.extension() {
            Some(extension) if extension != "gz" => extension.to_owned(),
            _ => Default::default(),
        });
        files.push((rename(place, index, &plain)?, text));
    }
    Ok(files)
}

/// The GOAL schedules among the sections.
pub(super) fn schedules(sections: &[TrafficConfig]) -> Vec<Scheduled> {
    let scheduled = |(section, config): (u32, &TrafficConfig)| match config {
        TrafficConfig::Program(config) => match &config.content {
            Some(Content::Goal(schedule)) => {
                let (config, schedule) = (Arc::new(config.clone()), schedule.clone());
                Some(Scheduled { config, schedule, section })
            }
            _ => None,
        },
        _ => None,
    };
    (0..).zip(sections).filter_map(scheduled).collect()
}

/// Keys that go with the other kind of file, or are missing.
fn check_keys(
    config: &ProgramConfig,
    content: &Content,
    key: &impl Fn(&str) -> String,
) -> Result<(), BuildError> {
    let (of_msccl, of_goal) = (
        [
            ("bytes", config.bytes.is_some()),
            ("dtype", config.dtype.is_some()),
            ("iterations", config.iterations.is_some()),
            ("warmup", config.warmup.is_some()),
        ],
        [("unit", config.unit.is_some()), ("dscp", config.dscp.is_some())],
    );
    let (foreign, what) = match content {
        Content::Msccl(_) => {
            (&of_goal[..], "an algorithm of MSCCL, and this is for GOAL schedules")
        }
        Content::Goal(_) => (&of_msccl[..], "a GOAL schedule, and this is for algorithms of MSCCL"),
    };
    if let Some((field, _)) = foreign.iter().find(|(_, given)| *given) {
        let message = format!("{} is {what}; leave it out", config.file);
        return Err(BuildError::new(key(field), message));
    }
    if matches!(content, Content::Msccl(_)) && config.bytes.is_none() {
        let message = "missing key `bytes`; the size of the buffer is expected, as in \"64MiB\"";
        return Err(BuildError::new(key("bytes"), message));
    }
    Ok(())
}

/// Whether an algorithm comes to its end at all sizes, with the room that buffers have.
fn check_room(
    config: &ProgramConfig,
    algorithm: &Arc<MscclAlgorithm>,
    bytes: &MessageSizes,
    buffsize: u64,
    key: &impl Fn(&str) -> String,
) -> Result<(), BuildError> {
    let buffers = algorithm.protocol.on_rings(buffsize);
    let mut checked = Vec::new();
    for bytes in bytes.list(&key("bytes"))? {
        let cuts = Cuts::new(bytes, algorithm.chunks, buffers.chunk, buffers.slices);
        if checked.contains(&cuts.at_once) {
            continue;
        }
        checked.push(cuts.at_once);
        let slots = buffers.slots / buffers.slices;
        program_fits(algorithm, cuts.at_once, slots).map_err(|(line, why)| {
            let message = format!("with {bytes} B {}:{line}: {why}", config.file);
            BuildError::new(key("bytes"), message)
        })?;
    }
    Ok(())
}
