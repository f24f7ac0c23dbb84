//! Reading the reports of rocesim.

use std::path::Path;

use models::report::{Report, SCHEMA};

use crate::error::{ReadError, read_text};

/// Reads `report.json`, or that file in a run directory.
pub fn read_report(path: &Path) -> Result<Report, ReadError> {
    let mut file = path.to_owned();
    if path.is_dir() {
        file.push("report.json");
        if !file.exists() {
            return Err(ReadError::Missing { folder: path.to_owned(), expected: "report.json" });
        }
    }
    let text = read_text(&file)?;
    let report: Report = serde_json::from_str(&text).map_err(|error| ReadError::Line {
        path: file.clone(),
        line: error.line() as u64,
        message: format!("a report of rocesim was expected: {error}"),
    })?;
    match report.schema == SCHEMA {
        true => Ok(report),
        false => Err(ReadError::Schema { path: file, found: report.schema, expected: SCHEMA }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::{flow, report};

    #[test]
    fn file_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_report(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no report.json"), "{error}");
        let file = folder.path().join("report.json");
        let written = report(vec![flow("n0", "n1", 10000, 1000, Some(2e-6))]);
        std::fs::write(&file, serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(read_report(&file).unwrap(), written);
        assert_eq!(read_report(folder.path()).unwrap(), written);
    }

    #[test]
    fn what_is_no_report() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.json");
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("other.json"), "{error}");
        std::fs::write(&file, "{\n  \"flows\": 3\n}").unwrap();
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("other.json, line 2: a report of rocesim was expected"), "{error}");
        let mut newer = report(vec![]);
        newer.schema = 99;
        std::fs::write(&file, serde_json::to_string(&newer).unwrap()).unwrap();
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("has schema 99"), "{error}");
    }
}
