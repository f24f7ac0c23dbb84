//! From the tree to Rust types: a serde deserializer that knows where each value was written.
//!
//! An error takes up its place and its path on the way out: the innermost value gives the
//! place, and every table and array adds its segment in front of the path.

use std::slice;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{LoadError, quoted};
use super::path::{Segment, element_segment};
use super::tagged::{Section, visit_name};
use super::tree::{Entry, Node, Value};
use super::words::{array_of, unknown_key};

/// Reads a value of type `T`; `path` says what of the scenario `node` is, for messages.
pub fn from_node<'a, T: Deserialize<'a>>(node: &'a Node, path: &str) -> Result<T, LoadError> {
    T::deserialize(node).map_err(|error| error.at(node.origin).within(path))
}

/// Methods for the whole numbers: what does not fit is refused with the range that does.
macro_rules! whole_numbers {
    ($($method:ident $type:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
            match self.value {
                Value::Integer(number) => match $type::try_from(number) {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => {
                        let range = range($type::MIN.into(), $type::MAX.into());
                        Err(LoadError::new(format!(
                            "{number} is out of range: {range} is expected"
                        )))
                    }
                },
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

/// "a whole number from 0 to 255"; what TOML cannot write is no bound worth telling.
fn range(min: i128, max: i128) -> String {
    match max {
        max if max < i64::MAX.into() => format!("a whole number from {min} to {max}"),
        _ => format!("a whole number of {min} or more"),
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = LoadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        match &self.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => visit_elements(elements, visitor),
            Value::Table(table) => Section::new(table).deserialize_any(visitor),
        }
    }

    whole_numbers! {
        deserialize_i8 i8 visit_i8
        deserialize_i16 i16 visit_i16
        deserialize_i32 i32 visit_i32
        deserialize_i64 i64 visit_i64
        deserialize_u8 u8 visit_u8
        deserialize_u16 u16 visit_u16
        deserialize_u32 u32 visit_u32
        deserialize_u64 u64 visit_u64
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        match self.value {
            Value::Integer(number) => visitor.visit_f64(number as f64),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        match &self.value {
            // Derived visitors would take the values of the keys in order.
            Value::Array(_) => Err(LoadError::new("expected a table, found an array")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        match &self.value {
            Value::Text(text) => visit_name(text, visitor),
            Value::Table(table) => Section::new(table).deserialize_enum(name, variants, visitor),
            value => {
                let found = value.describe();
                Err(LoadError::new(format!("expected text or a table, found {found}")))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct
        map identifier
    }
}

fn visit_elements<'de, V: Visitor<'de>>(
    elements: &'de [Node],
    visitor: V,
) -> Result<V::Value, LoadError> {
    let mut rest = Elements { elements, next: 0 };
    let value = visitor.visit_seq(&mut rest)?;
    match (rest.next, elements.len()) {
        (used, count) if used == count => Ok(value),
        (used, count) => Err(LoadError::new(format!("expected {}, found {count}", array_of(used)))),
    }
}

struct Elements<'de> {
    elements: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = LoadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, LoadError> {
        let Some(node) = self.elements.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(node).map(Some).map_err(|error| {
            error.at(node.origin).within(&element_segment(node, index).to_string())
        })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len() - self.next)
    }
}

/// The keys and values of a table, except those left out.
pub(super) struct Entries<'de> {
    pub(super) rest: slice::Iter<'de, Entry>,
    pub(super) without: Vec<&'de str>,
    /// The entry whose key has been read, and whose value has not.
    pub(super) current: Option<&'de Entry>,
}

impl<'de> Entries<'de> {
    /// The next entry, unless there are no more.
    fn next_entry(&mut self) -> Option<&'de Entry> {
        self.rest.by_ref().find(|entry| !self.without.contains(&entry.key.as_str()))
    }

    /// Makes sure that no entry is left.
    pub(super) fn finish(mut self) -> Result<(), LoadError> {
        match self.next_entry() {
            Some(entry) => Err(at_key(unknown_key(&entry.key, &[]), entry)),
            None => Ok(()),
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = LoadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, LoadError> {
        let Some(entry) = self.next_entry() else { return Ok(None) };
        self.current = Some(entry);
        seed.deserialize(Key(&entry.key)).map(Some).map_err(|error| at_key(error, entry))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, LoadError> {
        let Some(entry) = self.current.take() else {
            return Err(LoadError::custom("a value was asked for before its key"));
        };
        seed.deserialize(&entry.node)
            .map_err(|error| error.at(entry.node.origin).within(&key_segment(entry)))
    }
}

fn at_key(error: LoadError, entry: &Entry) -> LoadError {
    error.at(entry.key_origin).within(&key_segment(entry))
}

pub(super) fn key_segment(entry: &Entry) -> String {
    Segment::Key(entry.key.clone()).to_string()
}

/// A key of a table as a value: text, or a whole number in digits.
struct Key<'de>(&'de str);

/// Methods for keys that are whole numbers.
macro_rules! whole_number_keys {
    ($($method:ident $type:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
            match self.0.parse::<$type>() {
                Ok(number) => visitor.$visit(number),
                Err(_) => {
                    let range = range($type::MIN.into(), $type::MAX.into());
                    let key = quoted(self.0);
                    Err(LoadError::new(format!("the key {key} is not {range}")))
                }
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = LoadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        visitor.visit_borrowed_str(self.0)
    }

    whole_number_keys! {
        deserialize_i8 i8 visit_i8
        deserialize_i16 i16 visit_i16
        deserialize_i32 i32 visit_i32
        deserialize_i64 i64 visit_i64
        deserialize_u8 u8 visit_u8
        deserialize_u16 u16 visit_u16
        deserialize_u32 u32 visit_u32
        deserialize_u64 u64 visit_u64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    use serde::Deserialize;

    use crate::load::{Sources, from_node, parse};

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Switch {
        headroom: Option<String>,
        ports: u8,
        queues: Option<NonZeroU32>,
        signed: i8,
        total: u64,
        pmax: f64,
        on: bool,
        ecn: BTreeMap<u8, Ecn>,
        link: (String, String),
        list: Vec<Ecn>,
        id: Id,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Ecn {
        kmin: u64,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Id(u32);

    /// The first line of the error, without `error: s.toml:`.
    fn error(text: &str) -> String {
        let mut sources = Sources::default();
        let root = parse(&mut sources, "s.toml", text).unwrap();
        let error = from_node::<Switch>(&root, "switch").unwrap_err().render(&sources);
        error.lines().next().unwrap().strip_prefix("error: s.toml:").unwrap().to_owned()
    }

    #[test]
    fn values_of_all_types_are_read() {
        let text = "headroom = 'auto'\nports = 3\nqueues = 1\nsigned = -3\ntotal = 5\npmax = 1\n\
                    on = true\nlink = ['a', 'b']\nlist = [{ kmin = 1 }]\nid = 7\n[ecn.3]\nkmin = 2";
        let root = parse(&mut Sources::default(), "s", text).unwrap();
        let expected = Switch {
            headroom: Some("auto".to_owned()),
            ports: 3,
            queues: NonZeroU32::new(1),
            signed: -3,
            total: 5,
            pmax: 1.0,
            on: true,
            ecn: BTreeMap::from([(3, Ecn { kmin: 2 })]),
            link: ("a".to_owned(), "b".to_owned()),
            list: vec![Ecn { kmin: 1 }],
            id: Id(7),
        };
        assert_eq!(from_node(&root, ""), Ok(expected));
    }

    #[test]
    fn an_error_shows_its_line() {
        let text = "ports = 3\n\n\n\n\n\n\n\n\n\n\n\n\nheadrom = \"auto\"\n";
        let mut sources = Sources::default();
        let root = parse(&mut sources, "scenario.toml", text).unwrap();
        let error = from_node::<Switch>(&root, "switch.pfc").unwrap_err();
        assert_eq!(
            error.render(&sources),
            "error: scenario.toml:14: switch.pfc.headrom: unknown key `headrom`; did you mean \
             `headroom`?\n   |\n14 | headrom = \"auto\"\n   | ^^^^^^^"
        );
    }

    #[test]
    fn errors_name_line_path_and_what_was_expected() {
        let cases = [
            (
                "ports = -3",
                "1: switch.ports: -3 is out of range: a whole number from 0 to 255 is expected",
            ),
            (
                "total = -1",
                "1: switch.total: -1 is out of range: a whole number of 0 or more is expected",
            ),
            ("ports = 'x'", "1: switch.ports: expected a whole number, found the text \"x\""),
            ("ports = 3.5", "1: switch.ports: expected a whole number, found the number 3.5"),
            (
                "queues = 0",
                "1: switch.queues: expected a whole number other than 0, found the whole number 0",
            ),
            ("\nheadroom = 1", "2: switch.headroom: expected text, found the whole number 1"),
            ("on = []", "1: switch.on: expected true or false, found an array"),
            ("pmax = {}", "1: switch.pmax: expected a number, found a table"),
            ("list = 'x'", "1: switch.list: expected an array, found the text \"x\""),
            ("list = [[1]]", "1: switch.list[0]: expected a table, found an array"),
            ("[[list]]\nname = 'a'", "1: switch.list.a: missing key `kmin`"),
            ("\n[ecn.3]", "2: switch.ecn.3: missing key `kmin`"),
            ("[ecn.x]", "1: switch.ecn.x: the key `x` is not a whole number from 0 to 255"),
            ("ecn = true", "1: switch.ecn: expected a table, found `true`"),
            ("link = ['a']", "1: switch.link: expected an array of 2 elements, found 1"),
            ("link = ['a', 'b', 'c']", "1: switch.link: expected an array of 2 elements, found 3"),
            (
                "zzz = 1",
                "1: switch.zzz: unknown key `zzz`; expected one of `headroom`, `ports`, `queues`, \
                 `signed`, `total`, `pmax`, `on`, `ecn`, `link`, `list`, `id`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error(text), expected);
        }
    }
}
