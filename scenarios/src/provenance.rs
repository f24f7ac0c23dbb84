//! Where the figures of presets come from.
//!
//! Every key of a preset has a line of its own, and at its end how it is known and the source:
//!
//! ```text
//! cell = "254B" # [vendor] sonic-mgmt qos_params.th5: cell_size
//! ```

use std::fmt::{self, Write};

use crate::library::{self, Kind};
use crate::text::wrapped;

/// How a figure is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// A standard says so.
    Standard,
    /// The maker of the device or of the model says so: data sheet, configuration, source text.
    Vendor,
    /// Somebody has measured it.
    Measured,
    /// It follows from others, by a rule that the source names.
    Derived,
    /// Nobody says so: a choice that seems reasonable.
    Assumed,
    /// The line does not say.
    Unstated,
}

impl How {
    /// All that a line can say.
    pub const ALL: [How; 5] =
        [How::Standard, How::Vendor, How::Measured, How::Derived, How::Assumed];

    /// The tag, without its brackets.
    pub const fn name(self) -> &'static str {
        match self {
            How::Standard => "standard",
            How::Vendor => "vendor",
            How::Measured => "measured",
            How::Derived => "derived",
            How::Assumed => "assumed",
            How::Unstated => "?",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One key of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// `buffer.cell`
    pub key: String,
    /// As it is written.
    pub value: String,
    /// How it is known.
    pub how: How,
    /// Who says so.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
}

/// The figures of a preset, in the order of its lines.
pub fn figures(preset_text: &str) -> Vec<Figure> {
    let mut section = "";
    let mut figures = Vec::new();
    for (index, line) in preset_text.lines().enumerate() {
        let (content, comment) = split_comment(line);
        if let Some(header) = content.strip_prefix('[') {
            section = header.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = content.split_once('=') else { continue };
        let key = match section {
            "" => key.trim().to_owned(),
            section => format!("{section}.{}", key.trim()),
        };
        let (how, source) = tag(comment);
        let value = value.trim().to_owned();
        figures.push(Figure { key, value, how, source: source.to_owned(), line: index + 1 });
    }
    figures
}

/// A line without its comment, and the comment without its sign.
fn split_comment(line: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return (line[..at].trim(), line[at + 1..].trim()),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    (line.trim(), "")
}

fn tag(comment: &str) -> (How, &str) {
    let tagged = comment.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let how = |name: &str| How::ALL.into_iter().find(|how| how.name() == name);
    match tagged.and_then(|(name, source)| Some((how(name)?, source.trim()))) {
        Some(tagged) => tagged,
        None => (How::Unstated, comment),
    }
}

/// Those that nobody vouches for.
pub fn assumed(figures: &[Figure]) -> impl Iterator<Item = &Figure> {
    figures.iter().filter(|figure| matches!(figure.how, How::Assumed | How::Unstated))
}

/// The figures of a preset of the library under their keys in a scenario, such as
/// `switch.buffer.cell`; none if there is no such preset.
pub fn preset(kind: Kind, name: &str) -> Vec<Figure> {
    let text = library::find(kind, name).map_or("", |entry| entry.text);
    let mut figures = figures(text);
    for Figure { key, .. } in &mut figures {
        let section = match kind {
            Kind::Scenario | Kind::Paper | Kind::Clinic | Kind::Study | Kind::ScenarioPreset => "",
            Kind::SwitchPreset => "switch.",
            // it may also set keys of the notification point
            Kind::CongestionPreset if !key.starts_with("np.") => "nic.congestion.",
            Kind::CongestionPreset | Kind::NicPreset => "nic.",
            Kind::HostPreset => "host.",
        };
        key.insert_str(0, section);
    }
    figures
}

/// The figures that hold in a scenario which names `presets`, the last of which wins, and sets the
/// keys `own` itself.
pub fn in_use(presets: &[(Kind, &str)], own: &[&str]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut generic = vec![(Kind::SwitchPreset, "generic"), (Kind::NicPreset, "generic")];
    // there are servers only where one is described
    let host = own.iter().any(|key| is_below(key, "host"));
    if host || presets.iter().any(|(kind, _)| *kind == Kind::HostPreset) {
        generic.push((Kind::HostPreset, "generic"));
    }
    for (kind, name) in generic.iter().chain(presets) {
        lay(&mut figures, *kind, name);
    }
    for key in own {
        remove(&mut figures, key);
    }
    figures
}

/// Lays a preset over `figures`, after those that it names itself.
fn lay(figures: &mut Vec<Figure>, kind: Kind, name: &str) {
    let layer = preset(kind, name);
    let named = [
        ("switch.preset", Kind::SwitchPreset),
        ("nic.preset", Kind::NicPreset),
        ("nic.congestion.preset", Kind::CongestionPreset),
        ("host.preset", Kind::HostPreset),
    ];
    for (key, kind) in named {
        if let Some(figure) = layer.iter().find(|figure| figure.key == key) {
            lay(figures, kind, figure.value.trim_matches(['"', '\'']));
        }
    }
    for figure in layer {
        remove(figures, &figure.key);
        figures.push(figure);
    }
}

/// Removes a key, what is below it, and its rival.
fn remove(figures: &mut Vec<Figure>, key: &str) {
    let rival = match key.rsplit_once('.') {
        Some((section, "dynamic_th")) => format!("{section}.static_th"),
        Some((section, "static_th")) => format!("{section}.dynamic_th"),
        _ => String::new(),
    };
    figures.retain(|figure| !is_below(&figure.key, key) && figure.key != rival);
}

/// True if `key` is `section` or a key in it.
pub(crate) fn is_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Columns of a terminal.
const WIDTH: usize = 100;
/// Longer values are wrapped.
const VALUE_MAX: usize = 26;

/// Key, value, how it is known, source: a table of at most 100 columns, by section.
pub fn table(figures: &[Figure]) -> String {
    let split = |figure: &Figure| match figure.key.rsplit_once('.') {
        Some((section, name)) => (section.to_owned(), name.to_owned()),
        None => (String::new(), figure.key.clone()),
    };
    let length = |text: &str| text.chars().count();
    let names = figures.iter().map(|figure| length(&split(figure).1)).max().unwrap_or(0);
    let plain = |figure: &Figure| figure.value.trim_matches('"').to_owned();
    let values = figures.iter().map(|figure| length(&plain(figure))).max().unwrap_or(0);
    let (values, hows) = (values.min(VALUE_MAX), 8);
    let sources = WIDTH.saturating_sub(2 + names + 2 + values + 2 + hows + 2).max(20);
    let mut text = String::new();
    let mut current = String::new();
    for figure in figures {
        let (section, name) = split(figure);
        if section != current {
            let _ = writeln!(text, "\n[{section}]");
            current = section;
        }
        let (value, source) = (wrapped(&plain(figure), values), wrapped(&figure.source, sources));
        for row in 0..value.len().max(source.len()).max(1) {
            let cell = |cells: &[String]| cells.get(row).cloned().unwrap_or_default();
            let (name, how) = match row {
                0 => (name.as_str(), figure.how.name()),
                _ => ("", ""),
            };
            let (value, source) = (cell(&value), cell(&source));
            let row = format!("  {name:names$}  {value:values$}  {how:hows$}  {source}");
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Entry, LIBRARY};
    use crate::load::{Node, Sources, Value, parse};

    fn presets() -> impl Iterator<Item = &'static Entry> {
        LIBRARY.iter().filter(|entry| !entry.kind.is_runnable())
    }

    fn figure<'a>(figures: &'a [Figure], key: &str) -> Option<&'a Figure> {
        figures.iter().find(|figure| figure.key == key)
    }

    #[test]
    fn a_line_says_key_value_how_and_source() {
        let text = "# title\nlatency = \"1us\" # [assumed] a guess\n\n[buffer.pools.a]\n\
                    name = \"a # b\"   # [vendor]  x: y\nxoff = 1 # no tag\nlast = { a = 1 }\n";
        let found = figures(text);
        let rows: Vec<_> =
            found.iter().map(|f| (f.key.as_str(), f.value.as_str(), f.how, f.line)).collect();
        assert_eq!(
            rows,
            [
                ("latency", "\"1us\"", How::Assumed, 2),
                ("buffer.pools.a.name", "\"a # b\"", How::Vendor, 5),
                ("buffer.pools.a.xoff", "1", How::Unstated, 6),
                ("buffer.pools.a.last", "{ a = 1 }", How::Unstated, 7),
            ]
        );
        let sources: Vec<_> = found.iter().map(|figure| figure.source.as_str()).collect();
        assert_eq!(sources, ["a guess", "x: y", "no tag", ""]);
        assert_eq!(assumed(&found).count(), 3);
    }

    #[test]
    fn every_key_of_every_preset_has_a_tag_and_a_source() {
        let mut count = 0;
        for entry in presets() {
            let name = format!("{} {}", entry.kind.name(), entry.name);
            for figure in figures(entry.text) {
                let Figure { key, how, source, line, .. } = figure;
                assert_ne!(how, How::Unstated, "{name}:{line}: {key} has no tag: {source}");
                assert!(source.len() >= 4, "{name}:{line}: {key} has no source");
                count += 1;
            }
        }
        assert!(count > 300, "{count}");
    }

    #[test]
    fn no_key_of_a_preset_is_overlooked() {
        fn leaves(node: &Node, path: &str, into: &mut Vec<String>) {
            match &node.value {
                Value::Table(table) => {
                    for entry in table {
                        let dot = if path.is_empty() { "" } else { "." };
                        leaves(&entry.node, &format!("{path}{dot}{}", entry.key), into);
                    }
                }
                _ => into.push(path.to_owned()),
            }
        }
        for entry in presets() {
            let tree = parse(&mut Sources::default(), entry.name, entry.text).unwrap();
            let mut keys = Vec::new();
            leaves(&tree, "", &mut keys);
            let figures = figures(entry.text);
            for key in &keys {
                let found = figures.iter().any(|figure| is_below(key, &figure.key));
                assert!(found, "{}: {key}", entry.name);
            }
        }
    }

    #[test]
    fn later_presets_and_own_keys_win() {
        let figures = in_use(
            &[(Kind::SwitchPreset, "tomahawk5"), (Kind::NicPreset, "connectx-7")],
            &["switch.buffer.lossless.static_th", "switch.ecn", "nic.latency"],
        );
        let value = |key| figure(&figures, key).map(|figure| figure.value.as_str());
        assert_eq!(value("switch.buffer.cell"), Some("\"254B\""));
        // from generic
        assert_eq!(value("switch.pfc.quanta"), Some("65535"));
        // from the preset that the preset names
        assert_eq!(value("nic.congestion.rpg_ai_rate"), Some("\"5Mbps\""));
        assert_eq!(value("nic.congestion.algorithm"), Some("\"dcqcn\""));
        assert_eq!(value("nic.np.min_time_between_cnps"), Some("\"4us\""));
        // static_th of the preset replaces dynamic_th of generic
        assert_eq!(value("switch.buffer.lossy.dynamic_th"), None);
        // the scenario's own keys are no figures of a preset
        assert_eq!(value("switch.buffer.lossless.dynamic_th"), None);
        assert_eq!(value("switch.ecn.3.kmin"), None);
        assert_eq!(value("nic.latency"), None);
        let mut keys: Vec<_> = figures.iter().map(|figure| &figure.key).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert!(preset(Kind::NicPreset, "nobody").is_empty());
    }

    #[test]
    fn a_table_fits_a_terminal() {
        for entry in presets() {
            let table = table(&figures(entry.text));
            for line in table.lines() {
                let fits = line.chars().count() <= WIDTH && !line.ends_with(' ');
                assert!(fits, "{}: {line:?}", entry.name);
            }
        }
        let text = "a = 1 # [derived] one two three\n[b.c]\nlong = [1, 2] # [assumed] x\n";
        assert_eq!(
            table(&figures(text)),
            "  a     1       derived   one two three\n\n[b.c]\n  long  [1, 2]  assumed   x\n"
        );
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }
}
