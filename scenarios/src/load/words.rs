//! The messages of serde in the words of TOML: "a table" where serde says "struct Switch".

use std::fmt::Display;

use serde::de::{self, Expected, Unexpected};

use super::error::{LoadError, clip, listing, quoted, suggestion};
use super::tree::Value;

impl de::Error for LoadError {
    fn custom<T: Display>(message: T) -> Self {
        LoadError::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = in_toml_words(&expected.to_string());
        LoadError::new(format!("expected {expected}, found {}", describe(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let expected = in_toml_words(&expected.to_string());
        LoadError::new(format!("expected {expected}, found {length}"))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        let message = format!("unknown value {}{}", quoted(variant), suggestion(variant, known));
        LoadError::new(message)
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        unknown_key(key, known)
    }

    fn missing_field(key: &'static str) -> Self {
        missing_key(key, &[])
    }

    fn duplicate_field(key: &'static str) -> Self {
        LoadError::new(format!("the key {} is given twice", quoted(key)))
    }
}

pub(super) fn unknown_key(key: &str, known: &[&str]) -> LoadError {
    let suggestion = match known {
        [] => "; no key is expected here".to_owned(),
        known => suggestion(key, known),
    };
    LoadError::new(format!("unknown key {}{suggestion}", quoted(key)))
}

/// The error for a key that is not there, with the values that it may have.
pub(super) fn missing_key(key: &str, values: &[&str]) -> LoadError {
    LoadError::new(match values {
        [] => format!("missing key {}", quoted(key)),
        [value] => format!("missing key {}; its value is `{value}`", quoted(key)),
        values => {
            let values = listing(values.iter().copied());
            format!("missing key {}; its value is one of {values}", quoted(key))
        }
    })
}

/// What serde's visitors say they expect; the words of hand-written visitors pass unchanged.
fn in_toml_words(expected: &str) -> String {
    let words = match expected {
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "variant identifier" | "field identifier" => "text",
        "a character" => "text of one character",
        "a sequence" => "an array",
        "a map" => "a table",
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number",
        _ if expected.starts_with("a nonzero ") => "a whole number other than 0",
        _ if expected.starts_with("enum ") => "text or a table",
        _ if expected.starts_with("struct ") => "a table",
        _ if expected.starts_with("tuple ")
            || expected.starts_with("a tuple of size ")
            || expected.starts_with("an array of length ") =>
        {
            let count = expected.split(' ').rev().find_map(|word| word.parse().ok());
            return count.map_or("an array".to_owned(), array_of);
        }
        _ => expected,
    };
    words.to_owned()
}

/// "an array of 2 elements".
pub(super) fn array_of(count: usize) -> String {
    format!("an array of {count} element{}", if count == 1 { "" } else { "s" })
}

fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => Value::Bool(value).describe(),
        Unexpected::Signed(number) => Value::Integer(number).describe(),
        Unexpected::Unsigned(number) => format!("the whole number {number}"),
        Unexpected::Float(number) => Value::Float(number).describe(),
        Unexpected::Char(char) => format!("the text \"{char}\""),
        Unexpected::Str(text) => format!("the text {:?}", clip(text, 40)),
        Unexpected::Seq | Unexpected::TupleVariant => "an array".to_owned(),
        Unexpected::Map | Unexpected::StructVariant => "a table".to_owned(),
        Unexpected::UnitVariant => "a mere name".to_owned(),
        Unexpected::Other(words) => words.to_owned(),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        found => found.to_string(),
    }
}
