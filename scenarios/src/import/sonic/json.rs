//! JSON as CONFIG_DB has it: every scalar is text, and no key stands twice.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::import::ImportError;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    /// A string, a number or a truth value, as it is written.
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

/// Reads a text; `file` is its name in messages.
pub(super) fn parse(file: &str, text: &str) -> Result<Json, ImportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|error| {
        let whole = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = whole.strip_suffix(&place).unwrap_or(&whole).to_owned();
        let line = Some(error.line()).filter(|line| *line > 0);
        ImportError { file: file.to_owned(), line, message }
    })
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }
    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }
    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Text("NULL".to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut map: Vec<(String, Json)> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        while let Some(key) = values.next_key::<String>()? {
            if !known.insert(key.clone()) {
                let message = format!("the key {key:?} stands twice; once is expected");
                return Err(de::Error::custom(message));
            }
            map.push((key, values.next_value()?));
        }
        Ok(Json::Map(map))
    }
}
