//! Buffer sizes and thresholds, in bytes or in cells of the switch at hand.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sim_core::Bytes;

/// `"50KB"` or `"200 cells"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Bytes.
    Bytes(Bytes),
    /// Buffer cells.
    Cells(u64),
}

impl Size {
    /// Nothing.
    pub const ZERO: Size = Size::Bytes(Bytes::ZERO);

    /// A size in bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Size::Bytes(Bytes::new(bytes))
    }

    /// In bytes, for cells of `cell` bytes.
    pub fn to_bytes(self, cell: Bytes) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes.get(),
            Size::Cells(cells) => cells.saturating_mul(cell.get()),
        }
    }

    /// In whole cells of `cell` bytes, rounded down (as thresholds are programmed).
    pub fn to_cells(self, cell: Bytes) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes.get() / cell.get(),
            Size::Cells(cells) => cells,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => bytes.fmt(f),
            Size::Cells(cells) => write!(f, "{cells} cells"),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size with its unit, such as \"50KB\", \"12MiB\" or \"200 cells\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse(text).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                let hint = "write \"50KB\", \"12MiB\" or \"200 cells\"";
                Err(E::custom(format!("{number} has no unit: {hint}")))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Size, E> {
                self.visit_i64(number as i64)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Reads a size.
pub(crate) fn parse(text: &str) -> Result<Size, String> {
    let cells = text.trim().strip_suffix("cells").or_else(|| text.trim().strip_suffix("cell"));
    match cells {
        Some(count) => {
            let count = count.trim().replace('_', "");
            let cells = count.parse().map_err(|_| format!("{text:?} is no whole number of cells"));
            cells.map(Size::Cells)
        }
        None => text.parse().map(Size::Bytes).map_err(|e: sim_core::ParseUnitError| e.to_string()),
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9][0-9_.]*\\s*(B|KB|kB|MB|GB|TB|KiB|MiB|GiB|TiB|cells?)$",
            "description": "a size in bytes or cells: \"50KB\", \"12MiB\", \"200 cells\""
        })
    }
}
