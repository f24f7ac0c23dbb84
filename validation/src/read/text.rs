//! Files as text, compressed or not, and their rows of numbers.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use scenarios::packed;

use crate::error::ReadError;

/// The content of `path`, which must be text; a gzip file is unpacked, whatever its name.
pub(crate) fn read_text(path: &Path) -> Result<String, ReadError> {
    text_of(path, read_bytes(path)?)
}

/// The content of `path`; a gzip file is unpacked, whatever its name.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    packed::read(path).map_err(|source| ReadError::Open { path: path.to_owned(), source })
}

/// These bytes as text: UTF-8, or UTF-16 if they begin with its mark (PowerShell's `>` writes that).
pub(crate) fn text_of(path: &Path, mut bytes: Vec<u8>) -> Result<String, ReadError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    if let Some(text) = utf16(&bytes) {
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64;
        line_error(path, line, "text was expected".to_owned())
    })
}

fn utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.get(..2)? {
        [0xff, 0xfe] => u16::from_le_bytes,
        [0xfe, 0xff] => u16::from_be_bytes,
        _ => return None,
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    Some(
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    )
}

/// The first of these files that is in the folder, itself or as `.gz`.
pub(crate) fn find(folder: &Path, names: &[&str]) -> Option<PathBuf> {
    names.iter().map(|name| packed::find(&folder.join(name))).find(|file| file.is_file())
}

/// The beginning of a text: so many bytes at most, and no half character.
pub(crate) fn head(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

pub(crate) fn line_error(path: &Path, line: u64, message: String) -> ReadError {
    ReadError::Line { path: path.to_owned(), line, message }
}

/// How the columns of a file stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Words; the columns as listed, and no other.
    Words,
    /// CSV without a header; the columns as listed, and no other.
    Bare,
    /// CSV whose header names the columns, in any order, perhaps among others.
    Header,
}

/// One row of a file.
pub(crate) struct Row<'a> {
    path: &'a Path,
    pub(crate) line: u64,
    names: &'a [&'static str],
    /// The place of each named column.
    places: &'a [usize],
    fields: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// The text of the named column with this index.
    pub(crate) fn text(&self, index: usize) -> &'a str {
        self.fields[self.places[index]]
    }

    /// A whole number.
    pub(crate) fn whole<T: FromStr>(&self, index: usize) -> Result<T, ReadError> {
        let expected = format!("a whole number of at most {} bits", 8 * size_of::<T>());
        self.text(index).parse().map_err(|_| self.error(index, &expected))
    }

    /// A number of at least 0.
    pub(crate) fn number(&self, index: usize) -> Result<f64, ReadError> {
        let number = self.text(index).parse().ok();
        let valid = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
        valid.ok_or_else(|| self.error(index, "a number from 0 on"))
    }

    /// What a column should have been.
    pub(crate) fn error(&self, index: usize, expected: &str) -> ReadError {
        let (column, name, text) = (self.places[index] + 1, self.names[index], self.text(index));
        let message = format!("column {column}: {name} is `{text}`: {expected} was expected");
        line_error(self.path, self.line, message)
    }
}

/// Gives each row of a file to `take`. Empty lines are skipped.
pub(crate) fn rows(
    path: &Path,
    text: &str,
    layout: Layout,
    names: &'static [&'static str],
    mut take: impl FnMut(&Row<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    if layout == Layout::Words {
        let places: Vec<usize> = (0..names.len()).collect();
        for (index, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if !fields.is_empty() {
                let line = index as u64 + 1;
                check_width(path, line, &fields, names)?;
                take(&Row { path, line, names, places: &places, fields: &fields })?;
            }
        }
        return Ok(());
    }
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .has_headers(layout == Layout::Header)
        .flexible(true)
        .from_reader(text.as_bytes());
    // the text is valid UTF-8, and rows may be of any width
    let broken = |error: csv::Error| line_error(path, 1, error.to_string());
    let header = match layout {
        Layout::Header => reader.headers().map_err(broken)?.clone(),
        _ => csv::StringRecord::from(names.to_vec()),
    };
    let places = places(path, &header, names)?;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(broken)? {
        let line = record.position().map_or(1, csv::Position::line);
        let fields: Vec<&str> = record.iter().collect();
        match layout {
            Layout::Header if fields.len() != header.len() => {
                let message = format!(
                    "{} columns, but {} as in the first line were expected",
                    fields.len(),
                    header.len()
                );
                return Err(line_error(path, line, message));
            }
            Layout::Header => {}
            _ => check_width(path, line, &fields, names)?,
        }
        take(&Row { path, line, names, places: &places, fields: &fields })?;
    }
    Ok(())
}

fn places(
    path: &Path,
    header: &csv::StringRecord,
    names: &[&str],
) -> Result<Vec<usize>, ReadError> {
    let place = |name: &&str| {
        header.iter().position(|column| column == *name).ok_or_else(|| {
            let expected = names.join(",");
            let message = format!("there is no column `{name}`: `{expected}` was expected");
            line_error(path, 1, message)
        })
    };
    // an empty file has no header and no rows
    match header.is_empty() {
        true => Ok((0..names.len()).collect()),
        false => names.iter().map(place).collect(),
    }
}

fn check_width(path: &Path, line: u64, fields: &[&str], names: &[&str]) -> Result<(), ReadError> {
    if fields.len() == names.len() {
        return Ok(());
    }
    let (found, expected) = (fields.len(), names.len());
    let message = format!("{found} columns, but {expected} were expected: `{}`", names.join(" "));
    Err(line_error(path, line, message))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    /// `text` as a gzip file.
    pub(crate) fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compressed_text_and_what_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.gz");
        fs::write(&path, gzip("a b\n")).unwrap();
        assert_eq!(read_text(&path).unwrap(), "a b\n");
        assert_eq!(packed::find(&folder.path().join("f")), path);
        assert_eq!(find(folder.path(), &["e", "f"]), Some(path.clone()));
        fs::write(&path, &gzip("a b\n")[..12]).unwrap();
        let text = read_text(&path).unwrap_err().to_string();
        assert!(text.contains("f.gz: no whole gzip file"), "{text}");
        fs::write(&path, b"a\nb\xff\n").unwrap();
        let text = read_text(&path).unwrap_err().to_string();
        assert!(text.ends_with("line 2: text was expected"), "{text}");
    }

    #[test]
    fn rows_name_line_and_column() {
        let sum = |layout, text: &str| {
            let mut sum = 0.0;
            rows(Path::new("f"), text, layout, &["a", "b"], |row| {
                sum += f64::from(row.whole::<u32>(0)?) * 10.0 + row.number(1)?;
                Ok(())
            })
            .map(|()| sum)
            .map_err(|error| error.to_string())
        };
        assert_eq!(sum(Layout::Words, "1 2\n\n3 4\n"), Ok(46.0));
        assert_eq!(sum(Layout::Bare, "1,2\r\n3,4"), Ok(46.0));
        assert_eq!(sum(Layout::Header, "b,c,a\n2,x,1\n"), Ok(12.0));
        assert_eq!(sum(Layout::Header, ""), Ok(0.0));
        let error = |layout, text: &str| sum(layout, text).unwrap_err();
        assert_eq!(
            error(Layout::Header, "b,c,a\n2,x,y\n"),
            "f, line 2: column 3: a is `y`: a whole number of at most 32 bits was expected"
        );
        assert_eq!(
            error(Layout::Bare, "1,2\n3,inf\n"),
            "f, line 2: column 2: b is `inf`: a number from 0 on was expected"
        );
        assert_eq!(
            error(Layout::Words, "\n1\n"),
            "f, line 2: 1 columns, but 2 were expected: `a b`"
        );
        assert_eq!(
            error(Layout::Header, "a,b\n1,2,3\n"),
            "f, line 2: 3 columns, but 2 as in the first line were expected"
        );
        assert_eq!(
            error(Layout::Header, "a,c\n1,2\n"),
            "f, line 1: there is no column `b`: `a,b` was expected"
        );
    }
}
