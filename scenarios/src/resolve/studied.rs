//! The scenario of a study: a study's file can be run and checked as its scenario.

use std::path::PathBuf;

use super::{Complaint, read, set};
use crate::load::{LoadError, Node, Path, Sources, parse};

/// A study of a study of a study...
const DEPTH_MAX: u32 = 8;

/// The tree of the scenario: of a study (a file with `axes`), its section `scenario` or its `base`,
/// with its `set` laid over; of anything else, the tree itself. And the folder of files it names.
pub(super) fn scenario(
    sources: &mut Sources,
    tree: Node,
    folder: Option<PathBuf>,
    depth: u32,
) -> Result<(Node, Option<PathBuf>), LoadError> {
    if tree.get("axes").is_none() || tree.get("topology").is_some() {
        return Ok((tree, folder));
    }
    let (mut scenario, folder) = match (tree.get("scenario"), tree.get("base")) {
        (Some(_), Some(base)) => {
            let message = "`base` beside `scenario`: one of them is expected";
            return Err(LoadError::new(message).at(base.origin).within("base"));
        }
        (Some(scenario), None) => (scenario.clone(), folder),
        (None, Some(base)) => based(sources, base, folder, depth)?,
        (None, None) => {
            let message = "a study needs a scenario: `base` names one, `[scenario]` is one";
            return Err(LoadError::new(message).at(tree.origin));
        }
    };
    let keys = tree.get("set").and_then(Node::as_table);
    for entry in keys.into_iter().flatten() {
        let path = Path::parse_at(&entry.key, entry.key_origin)?;
        set(&mut scenario, &path, entry.node.clone())?;
    }
    // a message about a key that is nowhere is one about the study
    scenario.origin = tree.origin;
    Ok((scenario, folder))
}

/// The scenario that `base` names.
fn based(
    sources: &mut Sources,
    base: &Node,
    folder: Option<PathBuf>,
    depth: u32,
) -> Result<(Node, Option<PathBuf>), LoadError> {
    let fail = |message: String| LoadError::new(message).at(base.origin).within("base");
    let Some(name) = base.as_text() else {
        let message = format!("{}: a name or a file is expected", base.value.describe());
        return Err(fail(message));
    };
    if depth == DEPTH_MAX {
        return Err(fail("studies that name each other".to_owned()));
    }
    let near = folder.as_ref().map(|folder| folder.join(name)).filter(|path| path.is_file());
    let found = match &near {
        Some(path) => read(&path.to_string_lossy()),
        None => read(name),
    };
    let found = found
        .map_err(|Complaint(why)| fail(why.strip_prefix("error: ").unwrap_or(&why).to_owned()))?;
    let tree = parse(sources, &found.label, &found.text)?;
    scenario(sources, tree, found.folder, depth + 1)
}
