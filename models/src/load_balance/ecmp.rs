//! ECMP: a hash of header fields, the same for every packet of a flow.
//!
//! Two tiers with equal function, seed and offset choose alike, so that the upper tier uses only
//! some of its links (polarisation). CRC and XOR are linear: another seed permutes their choices
//! among a power of two of links but never changes which flows collide.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// `[switch.ecmp]`
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EcmpConfig {
    /// The hash.
    pub function: EcmpFunction,
    /// The fields that it sees.
    pub fields: Vec<HashField>,
    /// Its initial value: a number, or `"node"` for the number of the node.
    pub seed: EcmpSeed,
    /// Bits of the hash that are shifted out before the choice.
    #[schemars(range(min = 0, max = 31))]
    pub offset: u8,
}

impl Default for EcmpConfig {
    fn default() -> Self {
        use HashField::{DestinationIp, DestinationPort, SourceIp, SourcePort};
        EcmpConfig {
            function: EcmpFunction::Murmur3,
            fields: vec![SourceIp, DestinationIp, SourcePort, DestinationPort],
            seed: EcmpSeed::Node,
            offset: 0,
        }
    }
}

/// A hash function over 12 bytes: source and destination address, source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EcmpFunction {
    /// CRC-16/CCITT, most significant bit first.
    Crc16,
    /// CRC-32 (IEEE 802.3), reflected.
    Crc32,
    /// The 16-bit words folded together.
    Xor,
    /// MurmurHash3, x86 32-bit.
    Murmur3,
}

/// A header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HashField {
    /// IPv4 source.
    SourceIp,
    /// IPv4 destination.
    DestinationIp,
    /// UDP source port: the entropy of RoCEv2.
    SourcePort,
    /// UDP destination port: 4791 for all RoCEv2.
    DestinationPort,
}

/// The initial value of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcmpSeed {
    /// The number of the node: every switch differs.
    Node,
    /// The same on every switch that has this setting.
    Fixed(u32),
}

impl Serialize for EcmpSeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            EcmpSeed::Node => serializer.serialize_str("node"),
            EcmpSeed::Fixed(seed) => serializer.serialize_u32(*seed),
        }
    }
}

impl<'de> Deserialize<'de> for EcmpSeed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl Visitor<'_> for Form {
            type Value = EcmpSeed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"node\" or a whole number below 2^32")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<EcmpSeed, E> {
                if text == "node" {
                    return Ok(EcmpSeed::Node);
                }
                Err(E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<EcmpSeed, E> {
                let seed = u32::try_from(number);
                let unexpected = de::Unexpected::Signed(number);
                seed.map(EcmpSeed::Fixed).map_err(|_| E::invalid_value(unexpected, &self))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for EcmpSeed {
    fn schema_name() -> Cow<'static, str> {
        "EcmpSeed".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "const": "node" },
            { "type": "integer", "minimum": 0, "maximum": u32::MAX }
        ] })
    }
}

/// What a RoCEv2 packet offers a hash; the protocol is always UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FiveTuple {
    /// IPv4 source.
    pub source: u32,
    /// IPv4 destination.
    pub destination: u32,
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
}

impl FiveTuple {
    /// The tuple of the opposite direction.
    #[inline]
    pub fn reversed(self) -> Self {
        FiveTuple {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }

    fn masked_words(&self, mask: &[u32; 3]) -> [u32; 3] {
        let ports = u32::from(self.source_port) | u32::from(self.destination_port) << 16;
        [self.source & mask[0], self.destination & mask[1], ports & mask[2]]
    }
}

/// The chooser of one switch.
#[derive(Clone, Debug)]
pub struct Ecmp {
    function: EcmpFunction,
    mask: [u32; 3],
    seed: u32,
    offset: u8,
}

impl Ecmp {
    /// The chooser of the switch with this number.
    pub fn new(config: &EcmpConfig, number: u32) -> Self {
        let mut mask = [0; 3];
        for field in &config.fields {
            match field {
                HashField::SourceIp => mask[0] = u32::MAX,
                HashField::DestinationIp => mask[1] = u32::MAX,
                HashField::SourcePort => mask[2] |= 0x0000_ffff,
                HashField::DestinationPort => mask[2] |= 0xffff_0000,
            }
        }
        let seed = match config.seed {
            EcmpSeed::Node => number,
            EcmpSeed::Fixed(seed) => seed,
        };
        Ecmp { function: config.function, mask, seed, offset: config.offset }
    }

    /// The place of a tuple among `count` next hops.
    #[inline]
    pub fn choose(&self, tuple: &FiveTuple, count: usize) -> usize {
        let words = tuple.masked_words(&self.mask);
        let hash = match self.function {
            EcmpFunction::Murmur3 => murmur3(words, self.seed),
            EcmpFunction::Crc32 => crc32(words, self.seed),
            EcmpFunction::Crc16 => u32::from(crc16(words, self.seed as u16)),
            EcmpFunction::Xor => u32::from(xor16(words) ^ self.seed as u16),
        };
        (hash >> (self.offset & 31)) as usize % count
    }
}

/// MurmurHash3_x86_32 of three little-endian words.
#[inline]
fn murmur3(words: [u32; 3], seed: u32) -> u32 {
    let mut hash = seed;
    for word in words {
        let k = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = (hash ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 12;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// The header bytes in network order.
fn header_bytes([source, destination, ports]: [u32; 3]) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&source.to_be_bytes());
    bytes[4..8].copy_from_slice(&destination.to_be_bytes());
    bytes[8..10].copy_from_slice(&(ports as u16).to_be_bytes());
    bytes[10..].copy_from_slice(&((ports >> 16) as u16).to_be_bytes());
    bytes
}

fn crc32(words: [u32; 3], seed: u32) -> u32 {
    let mut crc = !seed;
    for byte in header_bytes(words) {
        crc = CRC32[usize::from((crc as u8) ^ byte)] ^ (crc >> 8);
    }
    !crc
}

fn crc16(words: [u32; 3], seed: u16) -> u16 {
    let mut crc = !seed;
    for byte in header_bytes(words) {
        crc = CRC16[usize::from((crc >> 8) as u8 ^ byte)] ^ (crc << 8);
    }
    crc
}

fn xor16(words: [u32; 3]) -> u16 {
    words.iter().fold(0, |hash, word| hash ^ (*word as u16) ^ ((*word >> 16) as u16))
}

const CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { 0x1021 ^ (crc << 1) } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[u8; 12]) -> [u32; 3] {
        std::array::from_fn(|i| u32::from_be_bytes(text[4 * i..4 * i + 4].try_into().unwrap()))
    }

    /// As `FiveTuple` holds it: the source port in the low half.
    fn header(text: &[u8; 12]) -> [u32; 3] {
        let [source, destination, ports] = words(text);
        [source, destination, ports.rotate_left(16)]
    }

    #[test]
    fn functions_agree_with_published_vectors() {
        // CRC-32 (zlib) and CRC-16/CCITT-FALSE of "123456789012", MurmurHash3 of "abcdefghijkl"
        assert_eq!(crc32(header(b"123456789012"), 0), 0x5d34_eb96);
        assert_eq!(crc16(header(b"123456789012"), 0), 0xd07b);
        assert_eq!(murmur3([0x6463_6261, 0x6867_6665, 0x6c6b_6a69], 0), 0xa36f_3d27);
    }

    #[test]
    fn equal_switches_choose_alike_and_linear_hashes_keep_collisions() {
        let tuples: Vec<FiveTuple> = (0..64)
            .map(|i| FiveTuple {
                source: 0x0a00_0001 + 256 * i,
                destination: 0x0a01_0001 + 256 * (i % 7),
                source_port: 49152 + 37 * i as u16,
                destination_port: 4791,
            })
            .collect();
        let choices = |function, seed| -> Vec<usize> {
            let seed = EcmpSeed::Fixed(seed);
            let ecmp = Ecmp::new(&EcmpConfig { function, seed, ..EcmpConfig::default() }, 5);
            tuples.iter().map(|tuple| ecmp.choose(tuple, 4)).collect()
        };
        let partition = |choices: &[usize]| -> Vec<bool> {
            let pairs = (0..64).flat_map(|a| (0..a).map(move |b| (a, b)));
            pairs.map(|(a, b)| choices[a] == choices[b]).collect()
        };
        for function in [EcmpFunction::Crc16, EcmpFunction::Crc32, EcmpFunction::Xor] {
            let (one, two) = (choices(function, 1), choices(function, 0xbeef));
            assert_eq!(partition(&one), partition(&two), "{function:?}");
        }
        let (one, two) = (choices(EcmpFunction::Murmur3, 1), choices(EcmpFunction::Murmur3, 2));
        assert_ne!(partition(&one), partition(&two));
    }
}
