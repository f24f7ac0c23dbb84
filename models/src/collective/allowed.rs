//! NCCL_ALGO and NCCL_PROTO: which algorithms and protocols NCCL may take for which operation.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::config::Op;
use super::protocol::Protocol;
use super::tuning::Algorithm;

/// Something that is named in such a list.
pub trait Word: Copy + PartialEq + 'static {
    /// All that is simulated.
    const ALL: &'static [Self];
    /// What NCCL has beside these, and why it is not there.
    const OTHERS: &'static [(&'static str, &'static str)];
    /// For messages.
    const WHAT: &'static str;
    /// Its name.
    fn word(self) -> &'static str;
}

impl Word for Algorithm {
    const ALL: &'static [Algorithm] = &Algorithm::ALL;
    const OTHERS: &'static [(&'static str, &'static str)] = &[
        ("CollNetDirect", "it needs a plug-in for reductions in switches (SHARP, not on RoCE)"),
        ("CollNetChain", "it needs a plug-in for reductions in switches (SHARP, not on RoCE)"),
        ("CollNet", "it needs a plug-in for reductions in switches (SHARP, not on RoCE)"),
        ("PAT", "parallel aggregated trees are not simulated"),
    ];
    const WHAT: &'static str = "algorithm";

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Word for Protocol {
    const ALL: &'static [Protocol] = &Protocol::ALL;
    const OTHERS: &'static [(&'static str, &'static str)] = &[];
    const WHAT: &'static str = "protocol";

    fn word(self) -> &'static str {
        self.name()
    }
}

/// One entry: `allreduce:^tree,ring`.
#[derive(Clone, Debug, PartialEq)]
struct Entry<T> {
    /// Of this operation; of all if absent.
    op: Option<Op>,
    /// All but these.
    exclude: bool,
    /// Those that are simulated.
    words: Vec<T>,
}

/// A list such as `"Ring,Tree"`, `"^LL128"` or `"allreduce:tree;allgather:ring"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed<T> {
    text: String,
    entries: Vec<Entry<T>>,
}

/// As NCCL_ALGO calls it (NCCL ncclFuncToString, in any case).
fn operation(name: &str) -> Option<Op> {
    let plain: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let known = |op: &&Op| op.name().replace('_', "").eq_ignore_ascii_case(&plain);
    Op::ALL.iter().find(known).copied()
}

impl<T: Word> Allowed<T> {
    /// Whether it may be taken for an operation. What comes last counts.
    pub fn allows(&self, op: Op, word: T) -> bool {
        let of = |entry: &&Entry<T>| entry.op.is_none_or(|only| only == op);
        let entry = self.entries.iter().rev().find(of);
        entry.is_none_or(|entry| entry.words.contains(&word) != entry.exclude)
    }
}

impl<T: Word> FromStr for Allowed<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut entries = Vec::new();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (op, list) = match entry.split_once(':') {
                None => (None, entry),
                Some((name, list)) => match operation(name) {
                    Some(op) => (Some(op), list),
                    None => return Err(format!("{name:?} is no operation of NCCL's")),
                },
            };
            let (exclude, list) = match list.strip_prefix('^') {
                Some(list) => (true, list),
                None => (false, list),
            };
            let mut words = Vec::new();
            let mut other = None;
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let found = T::ALL.iter().find(|word| word.word().eq_ignore_ascii_case(name));
                let known = T::OTHERS.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
                match (found, known) {
                    (Some(word), _) => words.push(*word),
                    (None, Some(known)) => other = Some(known),
                    (None, None) => {
                        let all: Vec<&str> = T::ALL.iter().map(|word| word.word()).collect();
                        return Err(format!(
                            "{name:?} is no {} of NCCL's: {} are expected",
                            T::WHAT,
                            all.join(", ")
                        ));
                    }
                }
            }
            match other {
                // what is not there cannot be taken; if nothing else is left, nothing can
                Some((name, why)) if words.is_empty() && !exclude => {
                    return Err(format!("{name} is not simulated: {why}"));
                }
                _ if words.is_empty() && other.is_none() => {
                    return Err(format!(
                        "an {} is expected, such as {}",
                        T::WHAT,
                        T::ALL[0].word()
                    ));
                }
                _ => entries.push(Entry { op, exclude, words }),
            }
        }
        if entries.is_empty() {
            return Err(format!("a list is expected, such as \"{}\"", T::ALL[1].word()));
        }
        Ok(Allowed { text: text.to_owned(), entries })
    }
}

impl<T> Serialize for Allowed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de, T: Word> Deserialize<'de> for Allowed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form<T>(PhantomData<T>);
        impl<T: Word> de::Visitor<'_> for Form<T> {
            type Value = Allowed<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "names of NCCL's, such as {:?}", T::ALL[1].word())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Allowed<T>, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Form(PhantomData))
    }
}

impl<T: Word> JsonSchema for Allowed<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Allowed_{}", T::WHAT).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let all: Vec<&str> = T::ALL.iter().map(|word| word.word()).collect();
        json_schema!({ "type": "string", "examples": all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithms(text: &str, op: Op) -> Vec<&'static str> {
        let allowed: Allowed<Algorithm> = text.parse().unwrap();
        let all = Algorithm::ALL.into_iter().filter(|word| allowed.allows(op, *word));
        all.map(Algorithm::name).collect()
    }

    #[test]
    fn lists_are_nccls() {
        assert_eq!(algorithms("ring,TREE", Op::AllReduce), ["Tree", "Ring"]);
        assert_eq!(algorithms("^Tree", Op::AllReduce), ["Ring", "NVLS", "NVLSTree"]);
        let by_op = "allreduce:tree;allgather:ring";
        assert_eq!(algorithms(by_op, Op::AllReduce), ["Tree"]);
        assert_eq!(algorithms(by_op, Op::AllGather), ["Ring"]);
        assert_eq!(algorithms(by_op, Op::Reduce).len(), 4);
        // CollNet is not there: what is left counts
        assert_eq!(algorithms("CollNetDirect,Ring", Op::AllReduce), ["Ring"]);
    }

    #[test]
    fn mistakes_say_what_is_expected() {
        let error = |text: &str| text.parse::<Allowed<Algorithm>>().unwrap_err();
        assert_eq!(
            error("Rings"),
            "\"Rings\" is no algorithm of NCCL's: Tree, Ring, NVLS, NVLSTree are expected"
        );
        assert!(error("CollNet").contains("not on RoCE"));
        assert!(error("allredcue:ring").contains("no operation"));
        assert!(error("").contains("such as \"Ring\""));
        assert!("LL,LL64".parse::<Allowed<Protocol>>().unwrap_err().contains("LL, LL128, Simple"));
    }
}
