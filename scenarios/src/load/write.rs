//! Writing: the tree as TOML that reads back as the same tree.

use super::tree::{Node, Table, Value};

/// The tree as a TOML document; of anything but a table, the value as it is written inline.
pub fn to_toml(node: &Node) -> String {
    let mut out = String::new();
    match &node.value {
        Value::Table(table) => write_table(&mut out, table, ""),
        value => write_inline(&mut out, value),
    }
    out
}

/// A value as it is written on one line, tables too.
pub fn to_inline(node: &Node) -> String {
    let mut out = String::new();
    write_inline(&mut out, &node.value);
    out
}

/// The keys of a table, first those that fit a line and then its sections.
fn write_table(out: &mut String, table: &Table, path: &str) {
    for entry in table.iter().filter(|entry| !is_section(&entry.node)) {
        *out += &format!("{} = ", key_text(&entry.key));
        write_inline(out, &entry.node.value);
        out.push('\n');
    }
    for entry in table.iter().filter(|entry| is_section(&entry.node)) {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", key_text(&entry.key));
        match &entry.node.value {
            Value::Table(table) => {
                // The headers of its sections imply the header of a table that has only sections.
                if table.is_empty() || table.iter().any(|entry| !is_section(&entry.node)) {
                    write_header(out, &format!("[{path}]"));
                }
                write_table(out, table, &path);
            }
            Value::Array(elements) => {
                for table in elements.iter().filter_map(Node::as_table) {
                    write_header(out, &format!("[[{path}]]"));
                    write_table(out, table, &path);
                }
            }
            _ => {}
        }
    }
}

/// Whether a value is written under a header of its own.
fn is_section(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::Array(elements) => {
            !elements.is_empty() && elements.iter().all(|e| e.as_table().is_some())
        }
        _ => false,
    }
}

fn write_header(out: &mut String, header: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    *out += header;
    out.push('\n');
}

fn write_inline(out: &mut String, value: &Value) {
    match value {
        Value::Bool(value) => *out += &value.to_string(),
        Value::Integer(number) => *out += &number.to_string(),
        // `Debug` keeps the point or the exponent that makes it a float, and every digit.
        Value::Float(number) => *out += &format!("{number:?}").to_lowercase(),
        Value::Text(text) => write_text(out, text),
        Value::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                *out += if index > 0 { ", " } else { "" };
                write_inline(out, &element.value);
            }
            out.push(']');
        }
        Value::Table(table) if table.is_empty() => *out += "{}",
        Value::Table(table) => {
            *out += "{ ";
            for (index, entry) in table.iter().enumerate() {
                *out += if index > 0 { ", " } else { "" };
                *out += &format!("{} = ", key_text(&entry.key));
                write_inline(out, &entry.node.value);
            }
            *out += " }";
        }
    }
}

fn key_text(key: &str) -> String {
    let is_bare = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    if !key.is_empty() && key.chars().all(is_bare) {
        return key.to_owned();
    }
    let mut text = String::new();
    write_text(&mut text, key);
    text
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => *out += "\\\"",
            '\\' => *out += "\\\\",
            '\n' => *out += "\\n",
            '\r' => *out += "\\r",
            '\t' => *out += "\\t",
            char if char.is_control() => *out += &format!("\\u{:04X}", u32::from(char)),
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Sources, parse};

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"
            title = "a \"b\" \\ \u0001\u007F\n\ttab é"
            "odd key.\n" = [[1, 2], [], ["x", { a = 1, "b c" = {} }]]
            floats = [1.0, -0.5, 1e300, 1e-9, 0.1]
            integers = [9223372036854775807, -9223372036854775808]
            empty = []
            [switch.ecn.3]
            kmin = "50KB"
            [switch.ecn]
            on = true
            [nothing]
            [[traffic]]
            name = "a"
            link = { rate = "1Gbps" }
            [[traffic]]
            [[traffic.step]]
            n = 1
            [[traffic.step.""]]
            [traffic.step.deep.er]
            [[traffic]]
            mixed = [{ a = 1 }, 2]
        "#;
        let read = |text: &str| parse(&mut Sources::default(), "s", text).unwrap();
        let root = read(text);
        let written = to_toml(&root);
        assert_eq!(read(&written), root, "{written}");
        assert_eq!(to_toml(&read(&written)), written);
    }

    #[test]
    fn the_form_is_that_of_a_hand_written_file() {
        let text = "a = 1\n\n[s.t]\nx = 1e16\n\n[[u]]\ny = [\"z\"]\n\n[[u]]\n\n[u.v]\nw = 0.5\n";
        assert_eq!(to_toml(&parse(&mut Sources::default(), "s", text).unwrap()), text);
    }
}
