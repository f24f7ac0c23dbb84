//! The tree of values: what a TOML text says, each value with the place it was written.

use std::ops::Range;
use std::slice;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{LoadError, clip, quoted};

/// The texts that values come from: scenario files, presets, `--set` arguments.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    entries: Vec<Source>,
}

/// One text of [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: String,
    /// An argument has one line, whose number is of no interest.
    is_argument: bool,
}

/// The place of something: a range of bytes in a source.
///
/// The empty range at the very start stands for the source as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The text.
    pub source: SourceId,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// A value and where it was written. Nodes are equal when their values are.
#[derive(Clone, Debug)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// A table's origin is its header, unless it is an inline one.
    pub origin: Origin,
}

/// A TOML value; date-times, infinities and NaN are refused on reading.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number written with a point or an exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// An array, also an array of tables.
    Array(Vec<Node>),
    /// A table.
    Table(Table),
}

/// Keys and their values in the order of writing. Equality ignores the order.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
}

/// One key of a [`Table`].
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key, without quotes.
    pub key: String,
    /// Where the key was written.
    pub key_origin: Origin,
    /// The value.
    pub node: Node,
}

/// Reads a TOML document, which becomes the source `name`.
pub fn parse(sources: &mut Sources, name: &str, text: &str) -> Result<Node, LoadError> {
    let source = sources.add(name, text);
    let reader = Reader { source, offset: 0 };
    let text = sources.text(source);
    let document = DeTable::parse(text).map_err(|error| reader.syntax_error(&error, text))?;
    let table = reader.table(document.into_inner(), 0)?;
    Ok(Node::new(Value::Table(table), Origin { source, start: 0, end: 0 }))
}

/// Turns what the `toml` crate has parsed into nodes.
pub(super) struct Reader {
    pub(super) source: SourceId,
    /// Where the parsed part begins in the source.
    pub(super) offset: usize,
}

impl Reader {
    /// Deeper nesting is refused, so that no recursion over a tree can exhaust the stack.
    const MAX_DEPTH: usize = 100;

    pub(super) fn node(
        &self,
        value: Spanned<DeValue<'_>>,
        depth: usize,
    ) -> Result<Node, LoadError> {
        let origin = self.origin(value.span());
        if depth > Self::MAX_DEPTH {
            return Err(LoadError::new("too deeply nested").at(origin));
        }
        let value = match value.into_inner() {
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Integer(number) => {
                let value = i64::from_str_radix(number.as_str(), number.radix());
                Value::Integer(value.map_err(|_| too_large(&number.to_string(), origin))?)
            }
            DeValue::Float(number) => Value::Float(finite(number.as_str(), origin)?),
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Datetime(_) => {
                return Err(LoadError::new("dates and times of day have no use here")
                    .with_help("a span of time is written as text with its unit, such as \"600ns\"")
                    .at(origin));
            }
            DeValue::Array(elements) => Value::Array(
                elements.into_iter().map(|e| self.node(e, depth + 1)).collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => Value::Table(self.table(table, depth + 1)?),
        };
        Ok(Node::new(value, origin))
    }

    fn table(&self, table: DeTable<'_>, depth: usize) -> Result<Table, LoadError> {
        let entries = table.into_iter().map(|(key, value)| {
            Ok(Entry {
                key_origin: self.origin(key.span()),
                key: key.into_inner().into_owned(),
                node: self.node(value, depth)?,
            })
        });
        Ok(Table { entries: entries.collect::<Result<_, _>>()? })
    }

    /// The error of the `toml` crate, without its own rendering; `text` is what was parsed.
    pub(super) fn syntax_error(&self, error: &toml::de::Error, text: &str) -> LoadError {
        let mut span = error.span().unwrap_or(text.len()..text.len());
        let written = text.get(span.clone()).unwrap_or("");
        let message = match error.message() {
            // The two commonest mistakes deserve better words than the crate has for them.
            quotes if quotes.starts_with("string values must be quoted") => match written {
                "" => "the value is missing".to_owned(),
                _ => format!("text must be in quotes: {:?}", clip(written, 40)),
            },
            "duplicate key" => format!("the key {} is given twice", quoted(written)),
            message => message.lines().map(str::trim).collect::<Vec<_>>().join("; "),
        };
        if span.is_empty() && span.start == 0 {
            span.end = 1;
        }
        LoadError::new(message).at(self.origin(span))
    }

    fn origin(&self, span: Range<usize>) -> Origin {
        let (start, end) = (self.offset + span.start, self.offset + span.end);
        Origin { source: self.source, start, end }
    }
}

fn finite(text: &str, origin: Origin) -> Result<f64, LoadError> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ if text.ends_with("inf") || text.ends_with("nan") => {
            Err(LoadError::new(format!("`{text}` is no finite number")).at(origin))
        }
        _ => Err(too_large(text, origin)),
    }
}

fn too_large(number: &str, origin: Origin) -> LoadError {
    LoadError::new(format!("{} does not fit 64 bits", clip(number, 40))).at(origin)
}

impl Sources {
    /// Registers a text under the name that messages give it. A byte order mark is dropped.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        self.push(name.into(), text.into(), false)
    }

    /// Registers the text of a `--set` argument, `path=value`.
    pub fn add_argument(&mut self, text: &str) -> SourceId {
        self.push(format!("--set {}", clip(text, 80)), text.to_owned(), true)
    }

    fn push(&mut self, name: String, mut text: String, is_argument: bool) -> SourceId {
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        self.entries.push(Source { name, text, is_argument });
        SourceId(self.entries.len() as u32 - 1)
    }

    /// The name of a source.
    pub fn name(&self, id: SourceId) -> &str {
        self.get(id).map_or("", |source| &source.name)
    }

    /// The text of a source.
    pub fn text(&self, id: SourceId) -> &str {
        self.get(id).map_or("", |source| &source.text)
    }

    /// The line of `origin`, counted from 1; none for an argument or for a source as a whole.
    pub fn line(&self, origin: Origin) -> Option<usize> {
        let source = self.get(origin.source).filter(|source| !source.is_argument)?;
        let before = source.text.as_bytes().get(..origin.start).unwrap_or(source.text.as_bytes());
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        (!origin.is_whole()).then_some(line)
    }

    /// Where `origin` is, in words: `scenario.toml:14`.
    pub fn location(&self, origin: Origin) -> String {
        let name = self.name(origin.source);
        match self.line(origin) {
            Some(line) => format!("{name}:{line}"),
            None => name.to_owned(),
        }
    }

    fn get(&self, id: SourceId) -> Option<&Source> {
        self.entries.get(id.0 as usize)
    }
}

impl Origin {
    /// Whether this stands for the source as a whole.
    pub fn is_whole(self) -> bool {
        self.start == 0 && self.end == 0
    }
}

impl Node {
    /// A value with its place.
    pub fn new(value: Value, origin: Origin) -> Self {
        Node { value, origin }
    }

    /// An empty table.
    pub fn empty_table(origin: Origin) -> Self {
        Node::new(Value::Table(Table::new()), origin)
    }

    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if this is an array.
    pub fn as_array(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The table, if this is one.
    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The table, if this is one.
    pub fn as_table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The value of `key`, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_table()?.get(key)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.value == other.value
    }
}

impl Value {
    /// What this is, for messages: ``the text "a"``, `an array`.
    pub fn describe(&self) -> String {
        match self {
            Value::Bool(value) => format!("`{value}`"),
            Value::Integer(number) => format!("the whole number {number}"),
            Value::Float(number) => format!("the number {number:?}"),
            Value::Text(text) => format!("the text {:?}", clip(text, 40)),
            Value::Array(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

impl Table {
    /// A table without keys.
    pub const fn new() -> Self {
        Table { entries: Vec::new() }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The value of `key`.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.entry_mut(key).map(|entry| &mut entry.node)
    }

    /// The key with its value and origin.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The key with its value and origin.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    /// Sets `key`: in the old place if it is there, else at the end. Returns the old value.
    pub fn insert(&mut self, key: &str, key_origin: Origin, node: Node) -> Option<Node> {
        match self.entry_mut(key) {
            Some(entry) => {
                entry.key_origin = key_origin;
                Some(std::mem::replace(&mut entry.node, node))
            }
            None => {
                self.entries.push(Entry { key: key.to_owned(), key_origin, node });
                None
            }
        }
    }

    /// The value of `key`, which becomes an empty table if it is not there.
    pub(super) fn get_or_insert_table(&mut self, key: &str, origin: Origin) -> &mut Node {
        let found = self.entries.iter().position(|entry| entry.key == key);
        let index = found.unwrap_or(self.entries.len());
        if found.is_none() {
            let node = Node::empty_table(origin);
            self.entries.push(Entry { key: key.to_owned(), key_origin: origin, node });
        }
        &mut self.entries[index].node
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Entry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// The entries in order.
    pub fn iter(&self) -> slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// The entries in order.
    pub fn iter_mut(&mut self) -> slice::IterMut<'_, Entry> {
        self.entries.iter_mut()
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.len() == other.len() && self.iter().all(|e| other.get(&e.key) == Some(&e.node))
    }
}

impl IntoIterator for Table {
    type Item = Entry;
    type IntoIter = std::vec::IntoIter<Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'t> IntoIterator for &'t Table {
    type Item = &'t Entry;
    type IntoIter = slice::Iter<'t, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_headers_know_their_place() {
        let text = "a = 1\r\n[b.\"c d\"]\r\nx = { y = 'é' }\r\n[[t]]\r\nz = 0x1F\r\n[[t]]\r\n";
        let mut sources = Sources::default();
        let root = parse(&mut sources, "s.toml", &format!("\u{feff}{text}")).unwrap();
        let written = |origin: Origin| &text[origin.start..origin.end];

        let b = root.get("b").unwrap().as_table().unwrap().entry("c d").unwrap();
        assert_eq!(written(b.key_origin), "\"c d\"");
        assert_eq!(written(b.node.origin), "[b.\"c d\"]");
        let x = b.node.get("x").unwrap();
        assert_eq!(written(x.origin), "{ y = 'é' }");
        assert_eq!(x.get("y").unwrap().as_text(), Some("é"));
        let t = root.get("t").unwrap().as_array().unwrap();
        assert_eq!((t.len(), sources.location(t[1].origin).as_str()), (2, "s.toml:6"));
        assert_eq!(t[0].get("z").unwrap().value, Value::Integer(31));
        assert_eq!(root.as_table().unwrap().keys().collect::<Vec<_>>(), ["a", "b", "t"]);
        assert_eq!(sources.location(root.origin), "s.toml");
    }

    #[test]
    fn what_no_scenario_needs_is_refused() {
        let message = |text: &str| parse(&mut Sources::default(), "s", text).unwrap_err().message;
        assert_eq!(message("a = 2024-01-01"), "dates and times of day have no use here");
        assert_eq!(message("a = -inf"), "`-inf` is no finite number");
        assert_eq!(message("a = nan"), "`nan` is no finite number");
        assert_eq!(message("a = 1e999"), "1e999 does not fit 64 bits");
        assert_eq!(message("a = 9223372036854775808"), "9223372036854775808 does not fit 64 bits");
        assert_eq!(message("a = 50KB"), "text must be in quotes: \"50KB\"");
        assert_eq!(message("a = "), "the value is missing");
        assert_eq!(message("[c]\n[c]"), "the key `c` is given twice");
        let deep = format!("{k}=1\n[{k}.{k}]\n{k}=1", k = vec!["a"; 70].join("."));
        assert!(!message(&deep).is_empty());
    }
}
