//! Sections of several kinds, as Rust enums: the key `kind` or `algorithm` names the variant.
//!
//! `{ kind = "star", hosts = 9 }` is the variant `star` of an enum that derives `Deserialize`,
//! with the content `{ hosts = 9 }`, whose values keep their places. (For that, the enum must
//! not have serde's own `tag` attribute.) A text `"star"` is the variant with empty content.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::de::{Entries, key_segment};
use super::error::{LoadError, listing, near_miss, quoted};
use super::merge::TAGS;
use super::tree::{Entry, Table, Value};
use super::words::missing_key;

/// A table without the tags that have been read.
pub(super) struct Section<'de> {
    table: &'de Table,
    read: Vec<&'de str>,
}

/// Reads an enum from a text: the name of a variant without content.
pub(super) fn visit_name<'de, V: Visitor<'de>>(
    name: &'de str,
    visitor: V,
) -> Result<V::Value, LoadError> {
    static EMPTY: Table = Table::new();
    visitor.visit_enum(Variant { name, tag: None, content: Section::new(&EMPTY) })
}

impl<'de> Section<'de> {
    pub(super) fn new(table: &'de Table) -> Self {
        Section { table, read: Vec::new() }
    }

    fn entries(self) -> Entries<'de> {
        Entries { rest: self.table.iter(), without: self.read, current: None }
    }

    /// The entry that names the variant of the enum `name`.
    fn tag(&self, name: &str, variants: &[&str]) -> Result<&'de Entry, LoadError> {
        let names_algorithms = name.ends_with("Congestion") || name.ends_with("CongestionConfig");
        let [usual, other] = if names_algorithms { [TAGS[1], TAGS[0]] } else { TAGS };
        let unread = |tag| self.table.entry(tag).filter(|_| !self.read.contains(&tag));
        if let Some(entry) = unread(usual) {
            return Ok(entry);
        }
        let Some(entry) = unread(other) else { return Err(missing_key(usual, variants)) };
        match entry.node.as_text() {
            // The other key may have a meaning of its own, as the algorithm of a collective has.
            Some(text) if near_miss(text, variants.iter().copied()).is_none() => {
                let (tag, variants) = (quoted(usual), listing(variants.iter().copied()));
                let message = format!("missing key {tag}, and `{other}` is none of {variants}");
                Err(LoadError::new(message))
            }
            _ => Ok(entry),
        }
    }
}

impl<'de> Deserializer<'de> for Section<'de> {
    type Error = LoadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        let mut entries = self.entries();
        let value = visitor.visit_map(&mut entries)?;
        entries.finish()?;
        Ok(value)
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
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        let tag = self.tag(name, variants)?;
        let Value::Text(name) = &tag.node.value else {
            let message = format!("expected text, found {}", tag.node.value.describe());
            return Err(LoadError::new(message).at(tag.node.origin).within(&key_segment(tag)));
        };
        let mut content = self;
        content.read.push(&tag.key);
        visitor.visit_enum(Variant { name, tag: Some(tag), content })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, LoadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// A variant by name, and its content.
struct Variant<'de> {
    name: &'de str,
    tag: Option<&'de Entry>,
    content: Section<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = LoadError;
    type Variant = Section<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Section<'de>), LoadError> {
        let name: BorrowedStrDeserializer<'de, LoadError> = BorrowedStrDeserializer::new(self.name);
        match (seed.deserialize(name), self.tag) {
            (Ok(variant), _) => Ok((variant, self.content)),
            (Err(error), Some(tag)) => Err(error.at(tag.node.origin).within(&key_segment(tag))),
            (Err(error), None) => Err(error),
        }
    }
}

impl<'de> VariantAccess<'de> for Section<'de> {
    type Error = LoadError;

    fn unit_variant(self) -> Result<(), LoadError> {
        self.entries().finish()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, LoadError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, LoadError> {
        self.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use crate::load::{Sources, assignment, from_node, parse};

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Scenario {
        topology: Option<Topology>,
        congestion: Option<Congestion>,
        #[serde(default)]
        traffic: Vec<Traffic>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum Topology {
        Star(Star),
        LeafSpine { leaves: u8 },
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Star {
        hosts: u32,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Congestion {
        None,
        Dcqcn(Dcqcn),
        Swift(Star),
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default, deny_unknown_fields)]
    struct Dcqcn {
        g: f64,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case")]
    enum Traffic {
        Collective(Collective),
    }

    /// An enum within an enum: after `kind`, its tag is `algorithm`.
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    enum Collective {
        Ring { bytes: u64 },
        Tree {},
    }

    fn read(text: &str) -> Result<Scenario, String> {
        let mut sources = Sources::default();
        let root = parse(&mut sources, "s.toml", text).unwrap();
        from_node(&root, "").map_err(|error| error.render(&sources))
    }

    #[test]
    fn a_tag_or_a_text_names_the_variant() {
        let topology = |text: &str| read(text).unwrap().topology.unwrap();
        let congestion = |text: &str| read(text).unwrap().congestion.unwrap();
        let star = "[topology]\nhosts = 9\nkind = 'star'";
        assert_eq!(topology(star), Topology::Star(Star { hosts: 9 }));
        let leaf_spine = "topology = { kind = 'leaf-spine', leaves = 2 }";
        assert_eq!(topology(leaf_spine), Topology::LeafSpine { leaves: 2 });
        assert_eq!(congestion("congestion = 'none'"), Congestion::None);
        assert_eq!(congestion("congestion.algorithm = 'none'"), Congestion::None);
        assert_eq!(congestion("congestion = 'dcqcn'"), Congestion::Dcqcn(Dcqcn { g: 0.0 }));
        let dcqcn = "congestion = { kind = 'dcqcn', g = 1 }";
        assert_eq!(congestion(dcqcn), Congestion::Dcqcn(Dcqcn { g: 1.0 }));
        let ring = "[[traffic]]\nkind = 'collective'\nalgorithm = 'ring'\nbytes = 3";
        assert_eq!(
            read(ring).unwrap().traffic,
            [Traffic::Collective(Collective::Ring { bytes: 3 })]
        );
    }

    #[test]
    fn errors_within_tagged_sections() {
        let cases = [
            (
                "[topology]\nkind = 'star'\nhots = 9",
                "s.toml:3: topology.hots: unknown key `hots`; did you mean `hosts`?",
            ),
            (
                "[topology]\nkind = 'star'\nhosts = 'x'",
                "s.toml:3: topology.hosts: expected a whole number, found the text \"x\"",
            ),
            ("[topology]\nkind = 'star'", "s.toml:1: topology: missing key `hosts`"),
            (
                "[topology]\nkind = 'leaf-spin'",
                "s.toml:2: topology.kind: unknown value `leaf-spin`; did you mean `leaf-spine`?",
            ),
            (
                "[topology]\nhosts = 9",
                "s.toml:1: topology: missing key `kind`; its value is one of `star`, `leaf-spine`",
            ),
            (
                "[topology]\nkind = 9",
                "s.toml:2: topology.kind: expected text, found the whole number 9",
            ),
            (
                "topology = 9",
                "s.toml:1: topology: expected text or a table, found the whole number 9",
            ),
            (
                "[congestion]\ng = 9",
                "s.toml:1: congestion: missing key `algorithm`; its value is one of `none`, \
                 `dcqcn`, `swift`",
            ),
            (
                "[congestion]\nalgorithm = 'none'\ng = 9",
                "s.toml:3: congestion.g: unknown key `g`; no key is expected here",
            ),
            (
                "congestion = 'dcqn'",
                "s.toml:1: congestion: unknown value `dcqn`; did you mean `dcqcn`?",
            ),
            ("congestion = 'swift'", "s.toml:1: congestion: missing key `hosts`"),
            (
                "[[traffic]]\nname = 'a'\nalgorithm = 'ring'",
                "s.toml:1: traffic.a: missing key `kind`, and `algorithm` is none of `collective`",
            ),
            (
                "[[traffic]]\nkind = 'collective'\nalgorithm = 'tree'\nbytes = 1",
                "s.toml:4: traffic[0].bytes: unknown key `bytes`; no key is expected here",
            ),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err();
            assert_eq!(error.lines().next().unwrap(), format!("error: {expected}"));
        }
    }

    #[test]
    fn errors_point_to_the_preset_or_argument_at_fault() {
        let mut sources = Sources::default();
        let preset = "[congestion]\nalgorithm = 'dcqcn'\ng = 'x'\n";
        let mut root = parse(&mut sources, "preset mlx5", preset).unwrap();
        root.overlay(parse(&mut sources, "s.toml", "[congestion]\nalgorithm = 'dcqcn'").unwrap());
        let error = from_node::<Scenario>(&root, "").unwrap_err();
        assert_eq!(
            error.render(&sources),
            "error: preset mlx5:3: congestion.g: expected a number, found the text \"x\"\n  |\n\
             3 | g = 'x'\n  |     ^^^"
        );

        let (path, node) = assignment(&mut sources, "congestion.gg=1").unwrap();
        root.set(&path, node).unwrap();
        let (path, node) = assignment(&mut sources, "congestion.g=1").unwrap();
        root.set(&path, node).unwrap();
        let error = from_node::<Scenario>(&root, "").unwrap_err();
        assert_eq!(
            error.render(&sources),
            "error: --set congestion.gg=1: congestion.gg: unknown key `gg`; did you mean \
             `g`?\n  |\n  | congestion.gg=1\n  |            ^^"
        );
    }
}
