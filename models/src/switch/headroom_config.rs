//! `switch.pfc.headroom`: how much is set aside for what arrives after XOFF.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::size::{self, Size};
use crate::switch::mellanox::MellanoxHeadroom;

/// How much a lossless PG may hold beyond its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Headroom {
    /// From the link: see [`crate::switch::auto_cells`].
    Auto,
    /// This much at every port.
    Size(Size),
    /// `{ rate_delay = 3 }`: this many times link rate x one-way delay.
    RateDelay(u64),
    /// `{ formula = "mellanox" }`: what SONiC computes on NVIDIA's switches.
    Mellanox(MellanoxHeadroom),
}

impl Serialize for Headroom {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Headroom::Auto => serializer.serialize_str("auto"),
            Headroom::Size(size) => size.serialize(serializer),
            Headroom::RateDelay(factor) => {
                BTreeMap::from([("rate_delay", factor)]).serialize(serializer)
            }
            Headroom::Mellanox(parameters) => parameters.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Headroom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = Headroom;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "\"auto\", a size such as \"50KB\", { rate_delay = 3 } or { formula = \"mellanox\" }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Headroom, E> {
        match text {
            "auto" => Ok(Headroom::Auto),
            text => size::parse(text).map(Headroom::Size).map_err(E::custom),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headroom, A::Error> {
        let (mut factor, mut named, mut keys) = (None, false, 0);
        let mut vendor = MellanoxHeadroom::default();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            keys += 1;
            match &*key {
                "rate_delay" => factor = Some(map.next_value()?),
                "formula" => (vendor.formula, named) = (map.next_value()?, true),
                "lossless_mtu" => vendor.lossless_mtu = map.next_value()?,
                "port_mtu" => vendor.port_mtu = map.next_value()?,
                "small_packets" => vendor.small_packets = percentage(map.next_value()?)?,
                "gearbox" => vendor.gearbox = map.next_value()?,
                "mac_phy" => vendor.mac_phy = map.next_value()?,
                "peer_response" => vendor.peer_response = map.next_value()?,
                "tile" => vendor.tile = map.next_value()?,
                other if named => {
                    return Err(de::Error::unknown_field(other, MellanoxHeadroom::KEYS));
                }
                other => return Err(de::Error::unknown_field(other, &["rate_delay", "formula"])),
            }
        }
        match (factor, named) {
            (Some(factor), false) if keys == 1 => Ok(Headroom::RateDelay(factor)),
            (None, true) => Ok(Headroom::Mellanox(vendor)),
            (None, false) if keys > 0 => Err(de::Error::missing_field("formula")),
            (None, false) => Err(de::Error::missing_field("rate_delay")),
            (Some(_), _) => Err(de::Error::custom("`rate_delay` stands alone")),
        }
    }
}

fn percentage<E: de::Error>(value: u8) -> Result<u8, E> {
    match value {
        0..=100 => Ok(value),
        _ => Err(E::custom(format!("{value} is out of range: 0 to 100 (percent) is expected"))),
    }
}

impl JsonSchema for Headroom {
    fn schema_name() -> Cow<'static, str> {
        "Headroom".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = generator.subschema_for::<Size>();
        let mellanox = generator.subschema_for::<MellanoxHeadroom>();
        json_schema!({ "anyOf": [
            { "const": "auto", "description": "from link rate, delay and response time" },
            size,
            {
                "type": "object",
                "properties": { "rate_delay": { "type": "integer", "minimum": 0 } },
                "required": ["rate_delay"],
                "additionalProperties": false,
                "description": "multiple of link rate x one-way delay"
            },
            mellanox
        ] })
    }
}

#[cfg(test)]
mod tests {
    use sim_core::{Bytes, Delta};

    use super::*;

    fn read(json: &str) -> Result<Headroom, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_is_read_and_written_alike() {
        let tile = MellanoxHeadroom {
            small_packets: 50,
            tile: Delta::from_ns(120),
            peer_response: Some(Bytes::new(3892)),
            ..MellanoxHeadroom::default()
        };
        let text = r#"{"tile":"120ns","formula":"mellanox","small_packets":50,
            "peer_response":"3892B"}"#;
        assert_eq!(read(text), Ok(Headroom::Mellanox(tile)));
        for form in [
            Headroom::Auto,
            Headroom::Size(Size::bytes(5)),
            Headroom::RateDelay(3),
            Headroom::Mellanox(MellanoxHeadroom::default()),
            Headroom::Mellanox(tile),
        ] {
            let written = serde_json::to_string(&form).unwrap();
            assert_eq!(read(&written), Ok(form), "{written}");
        }
    }

    #[test]
    fn what_is_no_headroom_is_refused() {
        let refused = |json: &str, why: &str| {
            let error = read(json).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        };
        refused("{}", "missing field `rate_delay`");
        refused(r#"{"tile":"120ns"}"#, "missing field `formula`");
        refused(r#"{"formula":"broadcom"}"#, "unknown variant `broadcom`");
        refused(r#"{"formula":"mellanox","tiles":"1ns"}"#, "unknown field `tiles`");
        refused(r#"{"formula":"mellanox","rate_delay":3}"#, "stands alone");
        refused(r#"{"formula":"mellanox","small_packets":101}"#, "0 to 100");
    }
}
