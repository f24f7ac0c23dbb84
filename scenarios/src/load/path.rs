//! Paths: one way to name a value of the tree, for `--set`, overrides, studies and messages.
//!
//! `switch.ecn.3.kmin` goes by keys, `traffic[0].bytes` by the number of an element, and
//! `traffic.background.bytes` by its `name`. A key with a dot or a bracket in it is put in
//! quotes: `a."b.c"`.

use std::fmt;
use std::ops::Range;

use toml::de::DeValue;

use super::error::{LoadError, clip, listing, quoted, suggestion};
use super::tree::{Node, Origin, Reader, Sources, Table, Value};

/// The name of a value in a tree. It has at least one segment, the first of which is a key.
#[derive(Clone, Debug)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    segment: Segment,
    /// Where the segment is written, if the path has a place.
    origin: Option<Origin>,
}

/// One segment of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A key of a table, or the `name` of an element of an array of tables.
    Key(String),
    /// The number of an element of an array.
    Index(usize),
}

impl Path {
    /// Longer paths are refused, as deeper trees are.
    const MAX_STEPS: usize = 50;

    /// Reads a path.
    pub fn parse(text: &str) -> Result<Path, LoadError> {
        let steps = Scanner { text, at: 0 }.path().map_err(|(error, _)| error)?;
        let step = |(segment, _)| Step { segment, origin: None };
        Ok(Path { steps: steps.into_iter().map(step).collect() })
    }

    /// Reads a path that is written at `origin`, which goes into errors and into new keys.
    pub fn parse_at(text: &str, origin: Origin) -> Result<Path, LoadError> {
        // In a TOML key, quotes and escapes may make the two lengths differ.
        let verbatim = origin.end.saturating_sub(origin.start) == text.len();
        let part = |range: Range<usize>| match verbatim {
            true => Origin {
                start: origin.start + range.start,
                end: origin.start + range.end,
                ..origin
            },
            false => origin,
        };
        let steps = Scanner { text, at: 0 }.path().map_err(|(error, at)| error.at(part(at)))?;
        let step = |(segment, at)| Step { segment, origin: Some(part(at)) };
        Ok(Path { steps: steps.into_iter().map(step).collect() })
    }

    /// The segments.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.steps.iter().map(|step| &step.segment)
    }

    /// The first `count` segments as text.
    fn prefix(&self, count: usize) -> String {
        let mut text = String::new();
        for step in &self.steps[..count] {
            if matches!(step.segment, Segment::Key(_)) && !text.is_empty() {
                text.push('.');
            }
            text += &step.segment.to_string();
        }
        text
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix(self.steps.len()))
    }
}

impl fmt::Display for Segment {
    /// The key, in quotes where needed, or the number in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Key(key) if !key.is_empty() && key.chars().all(is_bare) => f.write_str(key),
            Segment::Key(key) => {
                write!(f, "\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.segments().eq(other.segments())
    }
}

impl Eq for Path {}

impl Node {
    /// The value at `path`, if there is one.
    pub fn at(&self, path: &Path) -> Option<&Node> {
        path.segments().try_fold(self, |here, segment| match (segment, &here.value) {
            (Segment::Key(key), Value::Table(table)) => table.get(key),
            (Segment::Key(name), Value::Array(elements)) => elements.get(named(elements, name)?),
            (Segment::Index(index), Value::Array(elements)) => elements.get(*index),
            _ => None,
        })
    }

    /// Removes a key of a table, if it is there.
    pub fn remove(&mut self, path: &Path) {
        let mut here = self;
        for (depth, step) in path.steps.iter().enumerate() {
            let last = depth + 1 == path.steps.len();
            let next = match (&step.segment, &mut here.value) {
                (Segment::Key(key), Value::Table(table)) if last => {
                    table.remove(key);
                    return;
                }
                (Segment::Key(key), Value::Table(table)) => table.get_mut(key),
                (segment, Value::Array(elements)) => {
                    let index = position(elements, segment);
                    index.and_then(|index| elements.get_mut(index))
                }
                _ => None,
            };
            let Some(next) = next else { return };
            here = next;
        }
    }

    /// Sets the value at `path`; tables on the way are made where they are missing.
    pub fn set(&mut self, path: &Path, node: Node) -> Result<(), LoadError> {
        let mut here = self;
        for (depth, step) in path.steps.iter().enumerate() {
            let origin = step.origin.unwrap_or(node.origin);
            let fail = |message| LoadError::new(message).at(origin).within(&path.to_string());
            let next = path.steps.get(depth + 1).map(|step| &step.segment);
            here = match (&step.segment, &mut here.value) {
                (Segment::Key(key), Value::Table(table)) => match next {
                    None => {
                        table.insert(key, origin, node);
                        return Ok(());
                    }
                    Some(Segment::Index(_)) if table.get(key).is_none() => {
                        return Err(fail(no_array(key, table)));
                    }
                    Some(_) => table.get_or_insert_table(key, origin),
                },
                (segment, Value::Array(elements)) => match position(elements, segment) {
                    Some(index) => &mut elements[index],
                    None => {
                        let error = fail(no_element(&path.prefix(depth), elements, segment));
                        return Err(match segment {
                            Segment::Key(key) if key.parse::<usize>().is_ok() => error.with_help(
                                format!("by number, it is `{}[{key}]`", path.prefix(depth)),
                            ),
                            _ => error,
                        });
                    }
                },
                (segment, value) => {
                    let wanted = match segment {
                        Segment::Key(_) => "a table",
                        Segment::Index(_) => "an array",
                    };
                    let (prefix, found) = (path.prefix(depth), value.describe());
                    return Err(fail(match prefix.as_str() {
                        "" => format!("the whole is {found}, not {wanted}"),
                        _ => format!("`{prefix}` is {found}, not {wanted}"),
                    }));
                }
            };
        }
        *here = node;
        Ok(())
    }
}

/// The segment that names element `index` of an array in messages: its name if it has one.
pub(super) fn element_segment(element: &Node, index: usize) -> Segment {
    match element.get("name").and_then(Node::as_text) {
        Some(name) => Segment::Key(name.to_owned()),
        None => Segment::Index(index),
    }
}

fn position(elements: &[Node], segment: &Segment) -> Option<usize> {
    match segment {
        Segment::Key(name) => named(elements, name),
        Segment::Index(index) => (*index < elements.len()).then_some(*index),
    }
}

fn named(elements: &[Node], name: &str) -> Option<usize> {
    elements.iter().position(|e| e.get("name").and_then(Node::as_text) == Some(name))
}

fn no_array(key: &str, table: &Table) -> String {
    let arrays = table.iter().filter(|entry| entry.node.as_array().is_some());
    let known: Vec<_> = arrays.map(|entry| entry.key.as_str()).collect();
    format!("there is no array {}{}", quoted(key), suggestion(key, &known))
}

fn no_element(array: &str, elements: &[Node], segment: &Segment) -> String {
    let names: Vec<_> =
        elements.iter().filter_map(|e| e.get("name").and_then(Node::as_text)).collect();
    match (segment, elements.len()) {
        (_, 0) => format!("`{array}` is empty"),
        (Segment::Index(index), 1) => format!("`{array}` has no element {index}, only element 0"),
        (Segment::Index(index), count) => {
            format!("`{array}` has no element {index}, only elements 0 to {}", count - 1)
        }
        (Segment::Key(name), _) if names.is_empty() => {
            format!("`{array}` is an array without names: {} names no element", quoted(name))
        }
        (Segment::Key(name), _) => {
            let (name, names) = (quoted(name), listing(names));
            format!("`{array}` has no element named {name}, only {names}")
        }
    }
}

/// Reads a `--set` argument, `path=value`. The value is TOML, or text without quotes.
pub fn assignment(sources: &mut Sources, argument: &str) -> Result<(Path, Node), LoadError> {
    let source = sources.add_argument(argument);
    let argument = sources.text(source);
    let place = |text: &str, start: usize| Origin { source, start, end: start + text.len() };
    let whole = place(argument, 0);
    let Some(equals) = equals_sign(argument) else {
        return Err(LoadError::new("expected `path=value`").at(whole));
    };
    let path = argument[..equals].trim();
    let path_start = argument.len() - argument.trim_start().len();
    let path = Path::parse_at(path, place(path, path_start))?;

    let value = argument[equals + 1..].trim();
    let start = argument[equals + 1..].find(value).map_or(equals + 1, |skip| equals + 1 + skip);
    let within = |error: LoadError| error.within(&path.to_string());
    if value.is_empty() {
        return Err(within(LoadError::new("the value is missing").at(place("=", equals))));
    }
    let reader = Reader { source, offset: start };
    let node = match DeValue::parse(value) {
        Ok(parsed) => reader.node(parsed, 0).map_err(within)?,
        Err(_) if is_bare_text(value) => {
            Node::new(Value::Text(value.to_owned()), place(value, start))
        }
        Err(error) => return Err(within(reader.syntax_error(&error, value))),
    };
    Ok((path, node))
}

/// The first `=` that is not within quotes.
fn equals_sign(argument: &str) -> Option<usize> {
    let (mut in_quotes, mut escaped) = (false, false);
    for (at, char) in argument.char_indices() {
        match char {
            '=' if !in_quotes => return Some(at),
            '"' if !escaped => in_quotes = !in_quotes,
            _ => {}
        }
        escaped = char == '\\' && !escaped;
    }
    None
}

/// Whether a value that is not TOML was meant as text; what begins like TOML was not.
fn is_bare_text(value: &str) -> bool {
    !value.starts_with(['"', '\'', '[', '{']) && !value.contains(char::is_control)
}

/// Whether a key with this character needs no quotes.
fn is_bare(char: char) -> bool {
    !char.is_whitespace()
        && !char.is_control()
        && !matches!(char, '.' | '[' | ']' | '"' | '\\' | '=')
}

type Scanned<T> = Result<T, (LoadError, Range<usize>)>;

/// Reads the text of a path from left to right.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

impl Scanner<'_> {
    /// `key [n] .. . key [n] ..`
    fn path(mut self) -> Scanned<Vec<(Segment, Range<usize>)>> {
        let mut steps = Vec::new();
        loop {
            let start = self.at;
            let key = if self.eat('"') { self.quoted_key(start)? } else { self.bare_key()? };
            steps.push((Segment::Key(key), start..self.at));
            let mut start = self.at;
            while self.eat('[') {
                steps.push((Segment::Index(self.index()?), start..self.at));
                start = self.at;
            }
            if steps.len() > Path::MAX_STEPS {
                let message = format!("a path has at most {} segments", Path::MAX_STEPS);
                return Err((LoadError::new(message), 0..self.text.len()));
            }
            if self.at == self.text.len() {
                return Ok(steps);
            }
            if !self.eat('.') {
                return Err(self.error("a `.` or a `[`"));
            }
        }
    }

    fn bare_key(&mut self) -> Scanned<String> {
        let key: String = self.rest().chars().take_while(|&char| is_bare(char)).collect();
        if key.is_empty() {
            return Err(self.error("a key"));
        }
        self.at += key.len();
        Ok(key)
    }

    fn quoted_key(&mut self, start: usize) -> Scanned<String> {
        let mut key = String::new();
        let mut chars = self.text[self.at..].chars();
        while let Some(char) = chars.next() {
            self.at += char.len_utf8();
            match char {
                '"' => return Ok(key),
                '\\' => {
                    let escaped = chars.next().filter(|char| matches!(char, '"' | '\\'));
                    let Some(char) = escaped else {
                        return Err(self.error("`\\\"` or `\\\\`"));
                    };
                    self.at += 1;
                    key.push(char);
                }
                char => key.push(char),
            }
        }
        let message = format!("the path `{}` has no closing quote", clip(self.text, 60));
        Err((LoadError::new(message), start..self.text.len()))
    }

    /// What follows a `[`.
    fn index(&mut self) -> Scanned<usize> {
        let digits = self.rest().find(|char: char| !char.is_ascii_digit());
        let digits = &self.rest()[..digits.unwrap_or(self.rest().len())];
        let Ok(index) = digits.parse() else {
            return Err(self.error("the number of an element"));
        };
        self.at += digits.len();
        if self.eat(']') { Ok(index) } else { Err(self.error("a `]`")) }
    }

    fn eat(&mut self, char: char) -> bool {
        let found = self.rest().starts_with(char);
        self.at += if found { char.len_utf8() } else { 0 };
        found
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// The error at the present place.
    fn error(&self, expected: &str) -> (LoadError, Range<usize>) {
        let (found, width) = match self.rest().chars().next() {
            Some(char) => (format!("before `{}`", clip(self.rest(), 20)), char.len_utf8()),
            None => ("at its end".to_owned(), 0),
        };
        let path = clip(self.text, 60);
        let message = format!("the path `{path}` lacks {expected} {found}");
        (LoadError::new(message), self.at..self.at + width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{parse, to_toml};

    const TEXT: &str = "seed = 1\n[switch.ecn.3]\nkmin = \"1KB\"\n[[traffic]]\nname = \"a.b\"\n\
                        bytes = 1\n[[traffic]]\nbytes = 2\n";

    /// Applies a `--set` argument to [`TEXT`]; the argument sets, or the error is rendered.
    fn set(argument: &str) -> Result<Node, String> {
        let mut sources = Sources::default();
        let mut root = parse(&mut sources, "s.toml", TEXT).unwrap();
        assignment(&mut sources, argument)
            .and_then(|(path, node)| root.set(&path, node))
            .map(|()| root)
            .map_err(|error| error.render(&sources))
    }

    #[test]
    fn paths_are_written_as_they_are_read() {
        for text in
            ["switch.ecn.3.kmin", "traffic[0].bytes", "m[1][2]", "a.\"b.c\\\"\\\\\".\"\"", "é-ü"]
        {
            assert_eq!(Path::parse(text).unwrap().to_string(), text);
        }
        let message = |text: &str| Path::parse(text).unwrap_err().message;
        assert_eq!(message("a..b"), "the path `a..b` lacks a key before `.b`");
        assert_eq!(message("a."), "the path `a.` lacks a key at its end");
        assert_eq!(message("a[x]"), "the path `a[x]` lacks the number of an element before `x]`");
        assert_eq!(message("a[1"), "the path `a[1` lacks a `]` at its end");
        assert_eq!(message("a[1]b"), "the path `a[1]b` lacks a `.` or a `[` before `b`");
        assert_eq!(message("a.\"b"), "the path `a.\"b` has no closing quote");
        assert_eq!(message(&"a.".repeat(60)), "a path has at most 50 segments");
        assert!(Path::parse("").is_err() && Path::parse("[0]").is_err());
    }

    #[test]
    fn assignments_set_what_they_name() {
        let value = |argument: &str, path: &str| {
            let root = set(argument).unwrap();
            root.at(&Path::parse(path).unwrap()).unwrap().value.clone()
        };
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(value("switch.ecn.3.kmin=50KB", "switch.ecn.3.kmin"), text("50KB"));
        assert_eq!(value(" nic.mtu = 1024", "nic.mtu"), Value::Integer(1024));
        assert_eq!(value("a.b.c=true", "a.b.c"), Value::Bool(true));
        assert_eq!(value("senders=0..8", "senders"), text("0..8"));
        assert_eq!(value("kmin=50000 cells", "kmin"), text("50000 cells"));
        assert_eq!(value("traffic.\"a.b\".bytes=7", "traffic[0].bytes"), Value::Integer(7));
        assert_eq!(value("traffic[1]={ name = 'x' }", "traffic.x.name"), text("x"));
        assert_eq!(value("\"a=b\"=\"c=d\"", "\"a=b\""), text("c=d"));
        assert_eq!(to_toml(&set("traffic=[]").unwrap()).matches("traffic").count(), 1);
    }

    #[test]
    fn errors_point_into_the_argument() {
        let error = |argument: &str| set(argument).unwrap_err();
        let expected = "error: --set traffic.ab.bytes=1: traffic.ab.bytes: `traffic` has no \
                        element named `ab`, only `a.b`\n  |\n  | traffic.ab.bytes=1\n  |         ^^";
        assert_eq!(error("traffic.ab.bytes=1"), expected);
        let first = |argument: &str| error(argument).lines().next().unwrap().to_owned();
        assert_eq!(
            first("traffic[2].bytes=1"),
            "error: --set traffic[2].bytes=1: traffic[2].bytes: `traffic` has no element 2, only \
             elements 0 to 1"
        );
        assert_eq!(
            first("seed.x=1"),
            "error: --set seed.x=1: seed.x: `seed` is the whole number 1, not a table"
        );
        assert_eq!(
            first("trafic[0].x=1"),
            "error: --set trafic[0].x=1: trafic[0].x: there is no array `trafic`; did you mean \
             `traffic`?"
        );
        assert!(error("traffic.0.x=1").ends_with("\n  = help: by number, it is `traffic[0]`"));
        assert_eq!(first("seed"), "error: --set seed: expected `path=value`");
        assert_eq!(first("seed="), "error: --set seed=: seed: the value is missing");
        assert!(error("seed=[1").contains("\n  | seed=[1\n  |        ^"));
        assert!(error("a..b=1").ends_with("\n  | a..b=1\n  |   ^"));
    }
}
