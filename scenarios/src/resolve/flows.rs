//! Flows from CSV files.

use std::path::Path as FsPath;

use models::BuildError;
use models::traffic::{FlowConfig, TrafficConfig};

use super::layers::put;
use super::{Place, read_file};
use crate::load::{LoadError, Node, Origin, Path, Table, Value, from_node};
use crate::schema::Scenario;

/// Reads the flows of CSV files; returns these under the names that they will have in a run
/// directory, which the tree gets too.
pub(super) fn inline_flows(
    scenario: &mut Scenario,
    folder: Option<&FsPath>,
    place: &mut Place,
) -> Result<Vec<(String, String)>, LoadError> {
    let mut files = Vec::new();
    for (index, section) in scenario.traffic.iter_mut().enumerate() {
        let TrafficConfig::Flows(list) = section else { continue };
        let Some(file) = &list.file else { continue };
        let path = folder.unwrap_or(FsPath::new(".")).join(file);
        let key = format!("traffic[{index}].file");
        let text = read_file(&path).map_err(|why| place.locate(BuildError::new(key, why)))?;
        list.flows.extend(flow_rows(&text, &path.display().to_string(), place.tree.origin)?);
        files.push((rename(place, index, &path)?, text));
    }
    Ok(files)
}

/// Gives the file of a section the name that it has in a run directory.
pub(super) fn rename(
    place: &mut Place,
    section: usize,
    file: &FsPath,
) -> Result<String, LoadError> {
    let base = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    let plain = base.split_once('-').filter(|(number, _)| number.parse::<usize>().is_ok());
    let name = format!("inputs/{section}-{}", plain.map_or(base.as_str(), |(_, plain)| plain));
    let path = Path::parse(&format!("traffic[{section}].file"))?;
    let origin = place.tree.at(&path).map_or(place.tree.origin, |node| node.origin);
    place.tree.set(&path, Node::new(Value::Text(name.clone()), origin))?;
    Ok(name)
}

/// Names file and line where the model found an error in a flow of a CSV file; `files` as
/// `inline_flows` returns them.
pub(super) fn in_file(
    error: BuildError,
    sections: &[TrafficConfig],
    files: &[(String, String)],
) -> BuildError {
    let parts = error.key.strip_prefix("traffic[").and_then(|rest| {
        let (section, rest) = rest.split_once("].flows[")?;
        let (number, field) = rest.split_once("].")?;
        Some((section.parse::<usize>().ok()?, number.parse::<usize>().ok()?, field))
    });
    let Some((section, number, field)) = parts else { return error };
    let Some(TrafficConfig::Flows(list)) = sections.get(section) else { return error };
    let prefix = format!("inputs/{section}-");
    let text = files.iter().find(|(name, _)| name.starts_with(&prefix));
    let (Some(file), Some((_, text))) = (&list.file, text) else { return error };
    // flows of the scenario itself stand before those of its file
    let lines = row_lines(text);
    let row = (number + lines.len()).checked_sub(list.flows.len());
    let Some(line) = row.and_then(|row| lines.get(row)) else { return error };
    let message = format!("{file}:{line}: {field}: {}", error.message);
    BuildError::new(format!("traffic[{section}].file"), message)
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    let mut reader = csv::ReaderBuilder::new();
    reader.trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes())
}

/// The line of each flow.
fn row_lines(text: &str) -> Vec<u64> {
    let records = reader(text).into_records().map_while(Result::ok);
    records.map(|record| record.position().map_or(0, csv::Position::line)).collect()
}

const FLOW_COLUMNS: [&str; 10] = [
    "source",
    "target",
    "bytes",
    "start",
    "after",
    "window",
    "rate",
    "dscp",
    "source_port",
    "destination_port",
];

/// One flow a row; each cell is read as the key of its column.
fn flow_rows(text: &str, name: &str, root: Origin) -> Result<Vec<FlowConfig>, LoadError> {
    let mut reader = reader(text);
    let fail = |line: u64, why: String| LoadError::new(format!("{name}:{line}: {why}"));
    let header = reader.headers().map_err(|error| fail(1, error.to_string()))?.clone();
    for (index, column) in header.iter().enumerate() {
        if header.iter().take(index).any(|before| before == column) {
            return Err(fail(1, format!("the column `{column}` is there twice")));
        }
        if !FLOW_COLUMNS.contains(&column) {
            let hint = crate::load::suggestion(column, &FLOW_COLUMNS);
            return Err(fail(1, format!("unknown column `{column}`{hint}")));
        }
    }
    for needed in &FLOW_COLUMNS[..3] {
        if !header.iter().any(|column| column == *needed) {
            return Err(fail(1, format!("the column `{needed}` is missing")));
        }
    }
    let mut flows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            let expected = header.len();
            fail(line, format!("{expected} columns are expected, as in the header"))
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let mut table = Node::new(Value::Table(Table::new()), root);
        for (column, cell) in header.iter().zip(&record) {
            if cell.is_empty() {
                continue;
            }
            let number = cell.parse::<i64>().map(Value::Integer);
            let value = number.unwrap_or_else(|_| Value::Text(cell.to_owned()));
            put(&mut table, column, Node::new(value, root));
        }
        let flow = from_node(&table, "").map_err(|error| fail(line, error.to_string()))?;
        flows.push(flow);
    }
    Ok(flows)
}
