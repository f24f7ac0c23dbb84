//! Words of a line of a log, without what launchers put around and between them.

use crate::read::text::head;

/// More of a line is not looked at: rows have some 300 bytes.
const LINE_MAX: usize = 4096;
/// Words that are longer are not looked into.
const APART_MAX: usize = 64;

/// The line without tags and colours; each tag becomes a blank.
///
/// `mpirun --tag-output` writes `[1,0]<stdout>:`, Intel's `-l` writes `[0]`, each in front of every
/// piece that a process wrote, so that they also stand within rows.
pub(super) fn untagged(line: &str) -> String {
    let mut rest = head(line, LINE_MAX);
    let mut text = String::with_capacity(rest.len());
    while let Some(at) = rest.find(['[', '<', '\u{1b}', '\0']) {
        text.push_str(&rest[..at]);
        let length = tag(&rest[at..]);
        match length {
            0 => text.push_str(&rest[at..=at]),
            _ => text.push(' '),
        }
        rest = &rest[at + length.max(1)..];
    }
    text.push_str(rest);
    text
}

/// Bytes of the tag that this begins with, or 0.
fn tag(text: &str) -> usize {
    if text.starts_with('\0') {
        return 1;
    }
    if let Some(colour) = text.strip_prefix("\u{1b}[") {
        // what ends it is a letter, or in a damaged line any character
        let mut end = colour.char_indices().filter(|(_, c)| !(c.is_ascii_digit() || *c == ';'));
        return end.next().map_or(text.len(), |(end, c)| 2 + end + c.len_utf8());
    }
    if let Some(length) = stream(text) {
        return length;
    }
    // what is between the brackets has no blank, and is short
    let near = head(text, 80);
    let Some(end) = near.find(']').filter(|_| near.starts_with('[')) else { return 0 };
    let inside = &near[1..end];
    if let Some(length) = stream(&text[end + 1..]) {
        return end + 1 + length;
    }
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if inside.split(',').all(number) { end + 1 } else { 0 }
}

/// `<stdout>:` and the like.
fn stream(text: &str) -> Option<usize> {
    let name =
        ["<stdout>", "<stderr>", "<stddiag>"].into_iter().find(|name| text.starts_with(name))?;
    let colon = text[name.len()..].starts_with(':');
    Some(name.len() + usize::from(colon))
}

/// A word and where it begins.
pub(super) type Word<'a> = (usize, &'a str);

/// The words of a line; numbers that touch each other are taken apart.
pub(super) fn words(line: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    let base = line.as_ptr() as usize;
    for word in line.split_whitespace() {
        let at = word.as_ptr() as usize - base;
        apart(at, word, &mut found);
    }
    found
}

/// Columns that grew beyond their width touch: `1715.440.00`, `0.00N/A`, `-11626.5`. All decimals of
/// bandwidths are two.
fn apart<'a>(at: usize, word: &'a str, found: &mut Vec<Word<'a>>) {
    if let Some(end) = word.find("N/A").filter(|end| *end > 0 && word.len() <= APART_MAX) {
        apart(at, &word[..end], found);
        return apart(at + end, &word[end..], found);
    }
    let mut push = |end: usize| {
        found.push((at, &word[..end]));
        end
    };
    let digits = |c: char| c.is_ascii_digit();
    let end = if word.len() > APART_MAX {
        push(word.len())
    } else if word.len() > 3 && word.starts_with("N/A") {
        push(3)
    } else if word.len() > 2 && word.starts_with("-1") && word[2..].starts_with(|c: char| c != '.')
    {
        // the root, and the time or what another process wrote
        push(2)
    } else if let Some((whole, rest)) = word.split_once('.')
        && rest.contains('.')
        && rest.len() > 2
        && word.chars().all(|c| digits(c) || c == '.')
    {
        push((whole.len() + 3).min(word.len()))
    } else {
        push(word.len())
    };
    if end < word.len() {
        apart(at + end, &word[end..], found);
    }
}

/// A number, or a cell that says that there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell {
    /// A number.
    Number(f64),
    /// `N/A`, and what is no number: `nan`.
    Absent,
}

/// RCCL marks what is too large with an asterisk.
pub(super) fn cell(word: &str) -> Option<Cell> {
    let word = word.trim_end_matches('*');
    if word == "N/A" {
        return Some(Cell::Absent);
    }
    let number: f64 = word.parse().ok()?;
    Some(if number.is_finite() { Cell::Number(number) } else { Cell::Absent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_before_and_within_rows() {
        let cases = [
            ("[0]   8  -1[0]  1.5", "    8  -1   1.5"),
            ("[1,0]<stdout>:#  Rank  0 on a [0x0f]", " #  Rank  0 on a [0x0f]"),
            ("[job-7@1,12]<stdout>: 8", "  8"),
            ("<stdout>:8", " 8"),
            ("Thu Jul 3 10:00:00 2025<stdout>:8", "Thu Jul 3 10:00:00 2025 8"),
            ("[node01:02943] 15 more [", "[node01:02943] 15 more ["),
            ("\u{1b}[31mred\u{1b}[0m", " red "),
            ("\u{1b}[", " "),
            // what a fuzzer found: it ends with something that is no letter
            ("\u{1b}[2\u{fffd}8", " 8"),
        ];
        for (line, text) in cases {
            assert_eq!(untagged(line), text, "{line}");
        }
        assert_eq!(untagged(&"ä".repeat(5000)).len(), 4096);
    }

    #[test]
    fn columns_that_touch_are_taken_apart() {
        let cases = [
            ("1715.440.00  0N/A", vec!["1715.44", "0.00", "0", "N/A"]),
            ("43046.100.00N/A", vec!["43046.10", "0.00", "N/A"]),
            ("-11626.5 -1 -1node01:7", vec!["-1", "1626.5", "-1", "-1", "node01:7"]),
            ("2.17.6", vec!["2.17", ".6"]),
            ("4e-07 -1.5", vec!["4e-07", "-1.5"]),
        ];
        for (line, expected) in cases {
            let found: Vec<&str> = words(line).into_iter().map(|(_, word)| word).collect();
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(cell("2e+00*"), Some(Cell::Number(2.0)));
        assert_eq!((cell("nan"), cell("float")), (Some(Cell::Absent), None));
    }
}
