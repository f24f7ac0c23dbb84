//! Which flows a key is about: `flows.background.slowdown_p99`, `flows.10KB.slowdown_p99`,
//! `flows.background.0B-100KB.slowdown_p99`.

use models::report::{FlowReport, size_bin};
use sim_core::Bytes;

use crate::load::suggestion;

/// Some flows, by their section and their size.
pub(super) struct Which<'a> {
    /// The name of their traffic section.
    section: Option<&'a str>,
    /// They are larger than the first and at most as large as the second, in bytes.
    sizes: Option<(u64, u64)>,
}

impl<'a> Which<'a> {
    /// Reads what stands between `flows.` and the field.
    pub(super) fn read(text: &'a str) -> Which<'a> {
        if let Some(sizes) = sizes(text) {
            return Which { section: None, sizes: Some(sizes) };
        }
        let pair = text.split_once('.').and_then(|(section, rest)| Some((section, sizes(rest)?)));
        match pair {
            Some((section, sizes)) => Which { section: Some(section), sizes: Some(sizes) },
            None => Which { section: Some(text), sizes: None },
        }
    }

    /// Whether a flow is one of them.
    pub(super) fn has(&self, flow: &FlowReport) -> bool {
        let within = |(from, to): (u64, u64)| flow.bytes.is_some_and(|b| b > from && b <= to);
        self.section.is_none_or(|name| flow.traffic.as_deref() == Some(name))
            && self.sizes.is_none_or(within)
    }

    /// What is wrong with its section, as the end of a message; `paths` are those of all sections,
    /// with a point before names.
    pub(super) fn fault(&self, paths: &[String]) -> Option<String> {
        let section = self.section?;
        let names: Vec<&str> = paths.iter().filter_map(|path| path.strip_prefix('.')).collect();
        (!names.contains(&section)).then(|| {
            let hint = suggestion(section, &names);
            format!(
                "; no traffic section, nor a size such as 10KB or 0B-100KB, is `{section}`{hint}"
            )
        })
    }
}

/// `10KB`: the bin of `slowdown_by_size` that has flows of this size. `0B-100KB`: those that are
/// larger than the first, and at most as large as the second.
fn sizes(text: &str) -> Option<(u64, u64)> {
    let bytes = |text: &str| Some(text.parse::<Bytes>().ok()?.get());
    match text.split_once('-') {
        None => bytes(text).map(size_bin),
        Some((from, to)) => Some((bytes(from)?, bytes(to)?)).filter(|(from, to)| from < to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_sizes() {
        let read = |text: &'static str| {
            let which = Which::read(text);
            (which.section, which.sizes)
        };
        assert_eq!(read("storage"), (Some("storage"), None));
        assert_eq!(read("10KB"), (None, Some((5000, 10_000))));
        assert_eq!(read("1.5MB"), (None, Some((1_000_000, 2_000_000))));
        assert_eq!(read("0B-100KB"), (None, Some((0, 100_000))));
        let both = (Some("storage"), Some((1_000_000, 1_500_000)));
        assert_eq!(read("storage.1MB-1.5MB"), both);
        // not sizes, so a name
        assert_eq!(read("read-write"), (Some("read-write"), None));
        assert_eq!(read("2MB-1MB"), (Some("2MB-1MB"), None));
        let paths = [".storage".to_owned(), "[1]".to_owned()];
        assert_eq!(Which::read("storage.10KB").fault(&paths), None);
        let fault = Which::read("storag").fault(&paths).unwrap();
        assert!(fault.contains("did you mean `storage`?"), "{fault}");
    }
}
