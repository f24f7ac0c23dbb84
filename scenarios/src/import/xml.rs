//! XML as trees of elements that know their lines.

use std::str::FromStr;

use quick_xml::XmlVersion;
use quick_xml::errors::Error;
use quick_xml::events::attributes::AttrError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::ImportError;
use super::text::{TextFile, counted, quoted};

/// Elements may be nested this deep.
const DEPTH_MAX: usize = 64;

/// An element, with what is in it. Text between elements means nothing to NCCL's and MSCCL's files.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
}

impl Element {
    /// The value of an attribute.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// An attribute that is a number, if it is there.
    pub(super) fn number<T: FromStr>(
        &self,
        file: &TextFile,
        key: &str,
    ) -> Result<Option<T>, ImportError> {
        let Some(text) = self.get(key) else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| {
            self.error(file, format!("{key}={} is no number; digits are expected", quoted(text)))
        })
    }

    /// An attribute that has to be there.
    pub(super) fn need(&self, file: &TextFile, key: &str) -> Result<&str, ImportError> {
        self.get(key).ok_or_else(|| {
            let near = self.attributes.iter().map(|(name, _)| name.as_str());
            let near = crate::load::near_miss(key, near);
            let near =
                near.map_or(String::new(), |near| format!("; did you mean that by `{near}`?"));
            self.error(file, format!("there is no attribute `{key}`, which is expected{near}"))
        })
    }

    /// An error about this element.
    pub(super) fn error(&self, file: &TextFile, message: impl AsRef<str>) -> ImportError {
        file.error_at(self.line, format!("<{}>: {}", self.name, message.as_ref()))
    }

    /// A warning about this element, with its place.
    pub(super) fn note(&self, file: &TextFile, message: impl AsRef<str>) -> String {
        self.error(file, message).to_string()
    }
}

/// The one element that a file consists of.
pub(super) fn parse(file: &TextFile) -> Result<Element, ImportError> {
    let text = file.text();
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut lines = Lines { text, at: 0, line: 1 };
    let (mut open, mut root): (Vec<Element>, Option<Element>) = (Vec::new(), None);
    loop {
        let before = reader.buffer_position() as usize;
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => return Err(broken(file, &open, &error, reader.error_position())),
        };
        match event {
            Event::Start(start) => {
                let element = element(file, &start, lines.of(before))?;
                if open.is_empty() && root.is_some() {
                    let message = "a second root; a file has one element that holds all others";
                    return Err(element.error(file, message));
                }
                if open.len() == DEPTH_MAX {
                    let message = format!("nested more than {DEPTH_MAX} deep");
                    return Err(element.error(file, message));
                }
                open.push(element);
            }
            Event::End(_) => {
                let done = open.pop();
                match (open.last_mut(), done) {
                    (Some(parent), Some(done)) => parent.children.push(done),
                    (None, done) => root = done,
                    (Some(_), None) => {}
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match (open.last(), root) {
        (Some(last), _) => Err(cut_off(file, last)),
        (None, Some(root)) => Ok(root),
        (None, None) => Err(file.error("no element is in it; XML is expected")),
    }
}

fn cut_off(file: &TextFile, last: &Element) -> ImportError {
    let message =
        format!("the file is cut off: <{}> of line {} is not closed", last.name, last.line);
    file.error_at_end(message)
}

/// An error of the XML itself.
fn broken(file: &TextFile, open: &[Element], error: &Error, position: u64) -> ImportError {
    let position = position as usize;
    let rest = file.text().get(position..).unwrap_or("");
    // a tag, a comment or a value that never ends
    if let (Error::Syntax(_), Some(last)) = (error, open.last())
        && !rest.contains('>')
    {
        return cut_off(file, last);
    }
    let line = Lines { text: file.text(), at: 0, line: 1 }.of(position);
    let why = match error {
        Error::Syntax(error) => error.to_string(),
        Error::IllFormed(error) => error.to_string(),
        error => error.to_string(),
    };
    file.error_at(line, format!("this is no XML: {why}"))
}

fn element(file: &TextFile, start: &BytesStart<'_>, line: usize) -> Result<Element, ImportError> {
    let name = start.name().0.to_owned();
    let mut element = Element { name, line, attributes: Vec::new(), children: Vec::new() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| {
            let message = match error {
                AttrError::Duplicated(..) => "an attribute stands twice".to_owned(),
                error => format!("{error}; key=\"value\" is expected"),
            };
            element.error(file, message)
        })?;
        let value = attribute
            .normalized_value(XmlVersion::Implicit1_0)
            .map_err(|error| element.error(file, error.to_string()))?;
        element.attributes.push((attribute.key.0.to_owned(), value.into_owned()));
    }
    Ok(element)
}

/// Line numbers of places that come in order.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    /// The line of the first tag at or after `position`.
    fn of(&mut self, position: usize) -> usize {
        let bytes = self.text.as_bytes();
        let position = position.clamp(self.at, bytes.len());
        self.line += bytes[self.at..position].iter().filter(|byte| **byte == b'\n').count();
        self.at = position;
        self.line
    }
}

/// What NCCL's own reader cannot hold (graph/xml.h), and so what it refuses or cuts.
pub(super) fn nccl_limits(file: &TextFile, root: &Element) -> Vec<String> {
    const LIMITS: [(usize, &str); 3] =
        [(16, "attributes"), (640, "elements in one"), (255, "characters in one value")];
    let mut beyond: [Vec<&Element>; 3] = Default::default();
    let mut stack = vec![root];
    while let Some(element) = stack.pop() {
        let longest = element.attributes.iter().map(|(_, value)| value.chars().count()).max();
        let found = [element.attributes.len(), element.children.len(), longest.unwrap_or(0)];
        for ((found, (most, _)), beyond) in found.into_iter().zip(LIMITS).zip(&mut beyond) {
            if found > most {
                beyond.push(element);
            }
        }
        stack.extend(element.children.iter().rev());
    }
    let note = |(beyond, (most, what)): (Vec<&Element>, (usize, &str))| {
        let first = beyond.first()?;
        let count = counted(beyond.len(), "element");
        let message = format!("{count} beyond {most} {what}: NCCL refuses this file as it is");
        Some(first.note(file, message))
    };
    beyond.into_iter().zip(LIMITS).filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Element, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.xml");
        std::fs::write(&path, text).unwrap();
        let file = TextFile::read(&path, "").unwrap();
        parse(&file).map_err(|error| {
            let line = error.line.map_or(String::new(), |line| format!("{line}: "));
            format!("{line}{}", error.message)
        })
    }

    #[test]
    fn elements_know_their_lines() {
        let text = "<?xml version=\"1.0\"?>\n<!-- one\ntwo -->\n\n<a x='1 &amp; 2'>\n  <b/>\n\
                    text <b\n    y=\"z\"></b></a>\n<!-- end -->\n";
        let root = read(text).unwrap();
        assert_eq!((root.name.as_str(), root.line, root.get("x")), ("a", 5, Some("1 & 2")));
        let lines: Vec<_> =
            root.children.iter().map(|child| (child.line, child.get("y"))).collect();
        assert_eq!(lines, [(6, None), (7, Some("z"))]);
    }

    #[test]
    fn what_is_no_xml_is_refused_with_its_line() {
        let message = |text: &str| read(text).unwrap_err();
        assert_eq!(message("<a>\n <b>\n"), "2: the file is cut off: <b> of line 2 is not closed");
        assert_eq!(
            message("<a>\n <b x=\"1"),
            "2: the file is cut off: <a> of line 1 is not closed"
        );
        assert!(
            message("<a>\n</b>\n").starts_with("2: this is no XML: "),
            "{}",
            message("<a>\n</b>\n")
        );
        assert_eq!(
            message("<a/>\n<b/>"),
            "2: <b>: a second root; a file has one element that holds all others"
        );
        assert_eq!(message("<a x=\"1\" x=\"2\"/>"), "1: <a>: an attribute stands twice");
        assert!(message("<a x=1/>").starts_with("1: <a>: "), "{}", message("<a x=1/>"));
        assert_eq!(message("<!-- nothing -->"), "no element is in it; XML is expected");
        assert!(message(&"<a>".repeat(70)).contains("nested more than 64 deep"));
    }
}
