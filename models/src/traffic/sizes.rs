//! `sizes`: how large the messages of random traffic are.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use sim_core::Bytes;
use sim_core::rng::Stream;

use super::cdf::{ALI_STORAGE, FB_HADOOP, GOOGLE_RPC, WEB_SEARCH};

/// The name of a published distribution, one of one's own, or one size.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// By name.
    Published(PublishedSizes),
    /// Points of a cumulative distribution: a size, and the share of messages up to it.
    Points(Vec<(Bytes, f64)>),
    /// All are of this size.
    Fixed(Bytes),
}

/// Published distributions of message sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedSizes {
    /// Web search at Microsoft (DCTCP, 2010): 1.71 MB on average.
    WebSearch,
    /// Hadoop at Facebook (2015): 120 KB on average.
    FbHadoop,
    /// Distributed storage at Alibaba (2019): 41 KB on average.
    AliStorage,
    /// RPCs at Google (before 2008): 2.9 KB on average.
    GoogleRpc,
}

/// A cumulative distribution of sizes that is fit for use; straight lines between its points.
#[derive(Clone, Debug)]
pub(super) struct Cdf {
    /// Neither sizes nor shares fall, and the last share is 1. What the first point has of the
    /// share is of exactly its size.
    points: Vec<(u64, f64)>,
}

impl Sizes {
    /// The distribution, or what is wrong with which point.
    pub(super) fn cdf(&self) -> Result<Cdf, (Option<usize>, String)> {
        let points = match self {
            Sizes::Published(published) => published.points().to_vec(),
            Sizes::Points(points) => {
                points.iter().map(|(bytes, share)| (bytes.get(), *share)).collect()
            }
            Sizes::Fixed(bytes) => vec![(bytes.get(), 1.0)],
        };
        check(&points)?;
        Ok(Cdf { points })
    }
}

impl PublishedSizes {
    fn points(self) -> &'static [(u64, f64)] {
        match self {
            PublishedSizes::WebSearch => WEB_SEARCH,
            PublishedSizes::FbHadoop => FB_HADOOP,
            PublishedSizes::AliStorage => ALI_STORAGE,
            PublishedSizes::GoogleRpc => GOOGLE_RPC,
        }
    }
}

fn check(points: &[(u64, f64)]) -> Result<(), (Option<usize>, String)> {
    let Some(&(largest, last)) = points.last() else {
        let example = "[[\"4KB\", 0.3], [\"64KB\", 1]]";
        return Err((None, format!("no points: {example} is expected")));
    };
    let mut before = (0, 0.0);
    for (index, &(bytes, share)) in points.iter().enumerate() {
        let fail = |why: String| Err((Some(index), why));
        if !(0.0..=1.0).contains(&share) {
            return fail(format!("the share {share} is out of range: 0 to 1 is expected"));
        }
        if bytes < before.0 {
            let (now, then) = (Bytes::new(bytes), Bytes::new(before.0));
            return fail(format!("{now} after {then}: sizes in rising order are expected"));
        }
        if share < before.1 {
            let then = before.1;
            return fail(format!("{share} after {then}: shares in rising order are expected"));
        }
        before = (bytes, share);
    }
    if last < 1.0 {
        let why = format!("the last share is {last}: 1 is expected, for all messages");
        return Err((Some(points.len() - 1), why));
    }
    if largest == 0 {
        return Err((None, "messages of 0 B: at least 1 B is expected".to_owned()));
    }
    Ok(())
}

impl Cdf {
    /// The mean size in bytes.
    pub(super) fn mean(&self) -> f64 {
        let (bytes, share) = self.points[0];
        let segment = |pair: &[(u64, f64)]| {
            (pair[0].0 as f64 + pair[1].0 as f64) / 2.0 * (pair[1].1 - pair[0].1)
        };
        bytes as f64 * share + self.points.windows(2).map(segment).sum::<f64>()
    }

    /// A random size: the inverse of the distribution, to the nearest byte, and at least 1 B.
    pub(super) fn draw(&self, random: &mut Stream) -> u64 {
        let share = random.unit();
        // the last share is 1, and what is drawn is below
        let above = self.points.partition_point(|point| point.1 <= share);
        let (bytes, upper) = self.points[above];
        let Some((from, lower)) = above.checked_sub(1).map(|below| self.points[below]) else {
            return bytes.max(1);
        };
        let part = (share - lower) / (upper - lower);
        ((from as f64 + (bytes - from) as f64 * part + 0.5) as u64).max(1)
    }
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Sizes::Published(published) => published.serialize(serializer),
            Sizes::Points(points) => points.serialize(serializer),
            Sizes::Fixed(bytes) => bytes.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Sizes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a name such as \"web-search\", a size such as \"64KB\", or points such as \
                     [[\"4KB\", 0.3], [\"64KB\", 1]]",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Sizes, E> {
                if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
                    return PublishedSizes::deserialize(text.into_deserializer())
                        .map(Sizes::Published);
                }
                text.parse().map(Sizes::Fixed).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Sizes, E> {
                Err(E::custom(format!("{number} has no unit: write \"1MB\" or \"64KiB\"")))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Sizes, E> {
                self.visit_i64(number as i64)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Sizes, A::Error> {
                let mut points = Vec::new();
                while let Some(point) = seq.next_element()? {
                    points.push(point);
                }
                Ok(Sizes::Points(points))
            }
        }
        deserializer.deserialize_any(Form)
    }
}

impl JsonSchema for Sizes {
    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let published = generator.subschema_for::<PublishedSizes>();
        let point = generator.subschema_for::<(Bytes, f64)>();
        json_schema!({ "anyOf": [
            published,
            { "type": "string", "description": "one size", "pattern": "^[0-9]" },
            { "type": "array", "description": "points of a cumulative distribution", "items": point }
        ] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::rng::Domain;

    fn mean(published: PublishedSizes) -> f64 {
        Sizes::Published(published).cdf().unwrap().mean()
    }

    fn points(points: &[(u64, f64)]) -> Sizes {
        Sizes::Points(points.iter().map(|(bytes, share)| (Bytes::new(*bytes), *share)).collect())
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6 * expected, "{value}, {expected} is expected");
    }

    #[test]
    fn means_of_the_published_distributions() {
        // sum of (middle of each step) x (its share), in bytes
        // 750 + 750 + 2,500 + 4,000 + 8,450 + 9,800 + 60,000 + 150,000 + 350,000 + 525,000 + 600,000
        near(mean(PublishedSizes::WebSearch), 1_711_250.0);
        // 0.5 + 1.5 + 7.5 + 32.5 + 18.75 + 45 + 55 + 65 + 85 + 105 + 135 + 370 + 4,000 + 3,250
        // + 3,000 + 10,500 + 16,250 + 22,500 + 60,000
        near(mean(PublishedSizes::FbHadoop), 120_420.75);
        // 458.6 + 2,776.8 + 1,368 + 2,366.4 + 1,468.8 + 3,110.4 + 1,459.2 + 27,861.6
        near(mean(PublishedSizes::AliStorage), 40_869.8);
        // all 843 points of the source: 2,891.62
        let google = mean(PublishedSizes::GoogleRpc);
        assert!((google / 2891.62 - 1.0).abs() < 0.01, "{google}");
    }

    #[test]
    fn draws_follow_the_lines_between_the_points() {
        let cdf = points(&[(1000, 0.25), (3000, 0.75), (3000, 0.85), (9000, 1.0)]).cdf().unwrap();
        // 1000 x 0.25 + 2000 x 0.5 + 3000 x 0.1 + 6000 x 0.15
        near(cdf.mean(), 2450.0);
        let mut random = Stream::new(1, Domain::Traffic, 0);
        let draws: Vec<u64> = (0..100_000).map(|_| cdf.draw(&mut random)).collect();
        let share = |within: &dyn Fn(u64) -> bool| {
            draws.iter().filter(|bytes| within(**bytes)).count() as f64 / 1e5
        };
        // binomial: each within 0.0016 (one sigma)
        for (found, expected) in [
            (share(&|bytes| bytes == 1000), 0.25),
            (share(&|bytes| bytes < 2000), 0.5),
            (share(&|bytes| bytes == 3000), 0.1),
            (share(&|bytes| bytes >= 6000), 0.075),
        ] {
            assert!((found - expected).abs() < 0.007, "{found}, {expected} is expected");
        }
        assert_eq!(Sizes::Fixed(Bytes::new(77)).cdf().unwrap().draw(&mut random), 77);
    }

    #[test]
    fn bad_distributions_say_which_point_is_wrong() {
        let refused = |sizes: Sizes| sizes.cdf().unwrap_err();
        let cases = [
            (&[][..], None, "no points"),
            (&[(1, 0.5), (2, 0.4), (3, 1.0)], Some(1), "0.4 after 0.5"),
            (&[(2000, 0.5), (1000, 1.0)], Some(1), "1 KB after 2 KB"),
            (&[(1, 0.5), (2, 0.9)], Some(1), "the last share is 0.9: 1 is expected"),
            (&[(1, 50.0), (2, 100.0)], Some(0), "the share 50 is out of range"),
            (&[(1, f64::NAN), (2, 1.0)], Some(0), "out of range"),
            (&[(0, 1.0)], None, "messages of 0 B"),
        ];
        for (bad, at, message) in cases {
            let (index, why) = refused(points(bad));
            assert_eq!(index, at, "{why}");
            assert!(why.contains(message), "{why}");
        }
        assert!(refused(Sizes::Fixed(Bytes::ZERO)).1.contains("at least 1 B"));
    }

    #[test]
    fn sizes_are_a_name_a_size_or_points() {
        let read = |text: &str| serde_json::from_str::<Sizes>(text);
        let ali = Sizes::Published(PublishedSizes::AliStorage);
        assert_eq!(read("\"ali-storage\"").unwrap(), ali);
        assert_eq!(read("\"64KB\"").unwrap(), Sizes::Fixed(Bytes::new(64_000)));
        let own = "[[\"4KB\",0.3],[\"64KB\",1.0]]";
        assert_eq!(read(own).unwrap(), points(&[(4000, 0.3), (64_000, 1.0)]));
        assert_eq!(serde_json::to_string(&read(own).unwrap()).unwrap(), own);
        let error = read("\"web-serch\"").unwrap_err().to_string();
        assert!(error.contains("web-serch") && error.contains("`web-search`"), "{error}");
        assert!(read("64000").unwrap_err().to_string().contains("has no unit"));
    }
}
