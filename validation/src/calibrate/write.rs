//! The folder of a calibration: the scenario with its new values, and what was found as JSON.

use std::path::Path;

use scenarios::output::{write_file, write_json};
use scenarios::resolve::{Complaint, Loaded};
use toml_edit::{DocumentMut, Item, Table, Value};

use super::known::Known;
use super::result::Calibration;

/// The scenario as it was written, with the keys that `found` changes; each says how it was found.
pub fn calibrated_scenario(loaded: &Loaded, found: &Calibration) -> Result<String, Complaint> {
    let (text, given) = loaded.written_text();
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| Complaint(format!("error: {}", error.message())))?;
    for set in given {
        put(&mut document, set, None)?;
    }
    for set in &found.set {
        put(&mut document, set, Some(&remark(found, set)))?;
    }
    let mut head = format!("# Calibrated by rocesim {} from\n", found.rocesim);
    for table in &found.tables {
        head += &format!("#   {} of {}:{}\n", table.op, table.source, table.line);
    }
    for set in &found.set {
        head += &format!("# {set}\n#     {}\n", remark(found, set));
    }
    head += "\n";
    Ok(head + &document.to_string())
}

/// How a value was found, in one line.
fn remark(found: &Calibration, set: &str) -> String {
    let path = set.split('=').next().unwrap_or_default();
    let Some(key) = found.keys.iter().find(|key| key.path == path) else {
        return "calibrated: the best of those that were tried".to_owned();
    };
    let before = key.before.as_deref().unwrap_or("the model's own");
    match (key.known.clone(), key.after.as_deref()) {
        (Known::Fitted { low, high }, Some(_)) if high.is_finite() => {
            let ends = [low, high].map(|value| value / key.value.unwrap_or(1.0) - 1.0);
            let [low, high] = ends.map(|end| end * 100.0);
            format!("calibrated; it was {before}; 95 % interval {low:+.0} to {high:+.0} %")
        }
        _ => format!("calibrated; it was {before}"),
    }
}

/// Sets `path=value` in a document.
fn put(document: &mut DocumentMut, set: &str, remark: Option<&str>) -> Result<(), Complaint> {
    let fail = |what: &str| Complaint(format!("error: {set}: {what}"));
    let (path, value) = set.split_once('=').ok_or_else(|| fail("path=value is expected"))?;
    let mut value: Value = match value.trim().parse() {
        Ok(value) => value,
        Err(_) => Value::from(value.trim()),
    };
    let path = scenarios::load::Path::parse(path.trim()).map_err(|error| fail(&error.message))?;
    let segments: Vec<_> = path.segments().cloned().collect();
    let (last, before) = segments.split_last().ok_or_else(|| fail("a key is expected"))?;
    let mut here: &mut Item = document.as_item_mut();
    for segment in before {
        here = step(here, segment).ok_or_else(|| fail("there is no such table to put it in"))?;
    }
    let scenarios::load::Segment::Key(key) = last else {
        return Err(fail("the last part of it must be a key"));
    };
    match here {
        Item::Value(Value::InlineTable(table)) => {
            // a line of its own is needed for a comment
            table.insert(key, value);
        }
        here => {
            if let Some(remark) = remark {
                value.decor_mut().set_suffix(format!(" # {remark}"));
            }
            let table = here.as_table_like_mut().ok_or_else(|| fail("it is within no table"))?;
            match table.get_mut(key) {
                Some(item) => *item = Item::Value(value),
                None => {
                    table.insert(key, Item::Value(value));
                }
            }
        }
    }
    Ok(())
}

/// One segment down; tables are made where they are missing.
fn step<'i>(here: &'i mut Item, segment: &scenarios::load::Segment) -> Option<&'i mut Item> {
    use scenarios::load::Segment;
    match segment {
        Segment::Key(key) => {
            if here.is_array_of_tables() {
                let named =
                    |table: &Table| table.get("name").and_then(Item::as_str) == Some(key.as_str());
                let index = here.as_array_of_tables()?.iter().position(named)?;
                return here.get_mut(index);
            }
            let table = here.as_table_like_mut()?;
            if !table.contains_key(key) {
                let mut made = Table::new();
                made.set_implicit(true);
                table.insert(key, Item::Table(made));
            }
            table.get_mut(key)
        }
        Segment::Index(index) => here.get_mut(*index),
    }
}

/// Writes `calibrated.toml`, with the files that it names, and `calibration.json`.
pub fn write(folder: &Path, loaded: &Loaded, found: &Calibration) -> Result<(), Complaint> {
    for (name, text) in &loaded.files {
        write_file(&folder.join(name), text)?;
    }
    write_file(&folder.join("calibrated.toml"), calibrated_scenario(loaded, found)?)?;
    let mut json = Vec::new();
    let written = write_json(found, &mut json);
    let target = folder.join("calibration.json");
    written.map_err(|error| Complaint(format!("error: {}: {error}", target.display())))?;
    write_file(&target, json)
}
