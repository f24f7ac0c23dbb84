//! What is wrong with a scenario, where, and how it is shown.

use std::fmt;

use super::tree::{Origin, Sources};

/// An error in a scenario, a preset or a `--set` argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What is wrong and what was expected.
    pub message: String,
    /// The key concerned, as [`Path`](super::Path) writes it.
    pub path: Option<String>,
    /// Where it is written.
    pub origin: Option<Origin>,
    /// Advice in another line.
    pub help: Option<String>,
}

impl LoadError {
    /// An error that does not know its place yet.
    pub fn new(message: impl Into<String>) -> Self {
        LoadError { message: message.into(), path: None, origin: None, help: None }
    }

    /// Attaches the place, unless a more exact one is known.
    pub fn at(mut self, origin: Origin) -> Self {
        self.origin.get_or_insert(origin);
        self
    }

    /// Puts `prefix` in front of the path: the error is within that part of the tree.
    pub fn within(mut self, prefix: &str) -> Self {
        if prefix.is_empty() {
            return self;
        }
        self.path = Some(match self.path {
            None => prefix.to_owned(),
            Some(rest) if rest.starts_with('[') => format!("{prefix}{rest}"),
            Some(rest) => format!("{prefix}.{rest}"),
        });
        self
    }

    /// Attaches advice.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The error in full, with the line it is about; plain text without a newline at the end.
    pub fn render(&self, sources: &Sources) -> String {
        let mut out = String::from("error: ");
        if let Some(origin) = self.origin {
            out += &format!("{}: ", sources.location(origin));
        }
        out += &self.to_string();
        let mut gutter = 1;
        if let Some(origin) = self.origin.filter(|origin| !origin.is_whole()) {
            let number = sources.line(origin).map_or(String::new(), |line| line.to_string());
            gutter = number.len().max(1);
            let Snippet { line, indent, width } = Snippet::of(sources.text(origin.source), origin);
            let (blank, underline) = (" ".repeat(indent), "^".repeat(width));
            out += &format!("\n{:gutter$} |\n{number:gutter$} | {line}", "");
            out += &format!("\n{:gutter$} | {blank}{underline}", "");
        }
        if let Some(help) = &self.help {
            out += &format!("\n{:gutter$} = help: {help}", "");
        }
        out
    }
}

impl fmt::Display for LoadError {
    /// The path and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for LoadError {}

/// The line that an error is about, made fit to print, and what to underline of it.
struct Snippet {
    line: String,
    indent: usize,
    width: usize,
}

impl Snippet {
    /// Longer lines are clipped around the underlined part.
    const MAX_WIDTH: usize = 120;
    /// What is kept before that part.
    const CONTEXT: usize = 30;
    const TAB: usize = 4;

    fn of(text: &str, origin: Origin) -> Self {
        let start = char_boundary(text, origin.start);
        let end = char_boundary(text, origin.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line = &text[line_start..line_end];

        let mut shown = Vec::new();
        let (mut from, mut to) = (None, None);
        for (offset, char) in line.char_indices() {
            if line_start + offset >= start {
                from.get_or_insert(shown.len());
            }
            if line_start + offset >= end {
                to.get_or_insert(shown.len());
            }
            match char {
                '\t' => shown.extend([' '; Self::TAB]),
                '\r' if line_start + offset + 1 == line_end => {}
                char if char.is_control() => shown.push(char::REPLACEMENT_CHARACTER),
                char => shown.push(char),
            }
        }
        let from = from.unwrap_or(shown.len());
        let to = to.unwrap_or(shown.len()).max(from + 1);
        Self::clipped(&shown, from, to)
    }

    fn clipped(shown: &[char], from: usize, to: usize) -> Self {
        if shown.len() <= Self::MAX_WIDTH {
            return Snippet { line: shown.iter().collect(), indent: from, width: to - from };
        }
        let last = shown.len() - Self::MAX_WIDTH;
        let first = from.saturating_sub(Self::CONTEXT).min(last);
        let rest = &shown[first..];
        let mut line = String::new();
        let mut indent = from - first;
        if first > 0 {
            line.push('…');
            indent += 1;
        }
        line.extend(rest.iter().take(Self::MAX_WIDTH));
        if rest.len() > Self::MAX_WIDTH {
            line.push('…');
        }
        let width = (to - from).min((first + Self::MAX_WIDTH).saturating_sub(from)).max(1);
        Snippet { line, indent, width }
    }
}

/// The last character boundary at or before `at`.
fn char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// `text`, or what `max` characters hold of it.
pub(super) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A key or a name in a message: in backticks, and clipped.
pub(super) fn quoted(word: &str) -> String {
    format!("`{}`", clip(word, 60))
}

/// The known word that `word` was probably meant to be.
pub fn near_miss<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let length = word.chars().count();
    if length > 64 {
        return None;
    }
    let word = plain(word);
    let allowed = (length / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &plain(candidate)), candidate))
        .filter(|&(distance, candidate)| {
            (distance <= allowed && distance < length)
                || strsim::jaro_winkler(&word, &plain(candidate)) > 0.9
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// The end of a message on an unknown word: `; did you mean ..?`, or else all that is known.
pub fn suggestion(word: &str, known: &[&str]) -> String {
    match (near_miss(word, known.iter().copied()), known) {
        (Some(near), _) => format!("; did you mean `{near}`?"),
        (None, []) => String::new(),
        (None, [only]) => format!("; expected `{only}`"),
        (None, _) => format!("; expected one of {}", listing(known.iter().copied())),
    }
}

/// The words in backticks, separated by commas.
pub(super) fn listing<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, start: usize, end: usize) -> String {
        let mut sources = Sources::default();
        let source = sources.add("s.toml", text);
        LoadError::new("bad").at(Origin { source, start, end }).render(&sources)
    }

    #[test]
    fn the_line_is_shown_and_underlined() {
        assert_eq!(
            render("a = 1\r\n\tb = 2\r\n", 8, 9),
            "error: s.toml:2: bad\n  |\n2 |     b = 2\n  |     ^"
        );
        // A span over several lines, and one at the end of the text.
        assert_eq!(render("a = [\n1]", 4, 8), "error: s.toml:1: bad\n  |\n1 | a = [\n  |     ^");
        assert_eq!(render("a = ", 4, 4), "error: s.toml:1: bad\n  |\n1 | a = \n  |     ^");
        assert_eq!(render("a = 1", 0, 0), "error: s.toml: bad");
        let helped = LoadError::new("bad").within("[0].b").within("a").with_help("do good");
        assert_eq!(helped.render(&Sources::default()), "error: a[0].b: bad\n  = help: do good");
    }

    #[test]
    fn long_lines_are_clipped_around_the_span() {
        let text = format!("{}BAD{}", "é".repeat(200), "ü".repeat(200));
        let shown = render(&text, 400, 403);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[2], format!("1 | …{}BAD{}…", "é".repeat(30), "ü".repeat(87)));
        assert_eq!(lines[3], format!("  | {}^^^", " ".repeat(31)));
    }

    #[test]
    fn no_place_makes_it_panic() {
        let texts = ["", "\n", "\r\n", "é\u{7}\t\u{301}漢\n\u{feff}x", &"漢\t".repeat(90)];
        for text in texts {
            for start in 0..text.len() + 3 {
                for end in [0, start, start + 1, start + 2, usize::MAX] {
                    render(text, start, end);
                }
            }
        }
    }

    #[test]
    fn near_misses() {
        let known = ["leaf-spine", "fat-tree", "ring", "rail", "priorities"];
        assert_eq!(near_miss("leaf_spin", known), Some("leaf-spine"));
        assert_eq!(near_miss("priority", known), Some("priorities"));
        assert_eq!(near_miss("Rign", known), Some("ring"));
        assert_eq!(near_miss("star", known), None);
        assert_eq!(near_miss("x", ["y"]), None);
        assert_eq!(suggestion("star", &["ring", "rail"]), "; expected one of `ring`, `rail`");
    }
}
