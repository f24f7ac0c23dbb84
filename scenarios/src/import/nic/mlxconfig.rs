//! `mlxconfig query`: what the firmware starts with, also with the columns of `-e` (default,
//! current, next boot).

use super::super::text::{Line, quoted};
use super::params::{find, number, priorities_of_mask};
use super::{Found, ImportError, Lines, Place, Rank};

/// Device types that have a preset.
const PRESETS: [(&str, &str); 4] = [
    ("ConnectX5", "connectx-5"),
    ("ConnectX6DX", "connectx-6-dx"),
    ("ConnectX7", "connectx-7"),
    ("BlueField3", "bluefield-3"),
];

/// Whether a line with a setting, or the header, is among these.
pub(super) fn is(lines: &Lines<'_>) -> bool {
    lines.iter().any(|line| {
        line.words[0] == "Configurations:"
            || setting(line).is_some_and(|(_, port, _)| port.is_some())
    })
}

/// Parameters of congestion control that are not in the table.
const MASK: &str = "roce_cc_prio_mask";
const ALGORITHM: &str = "roce_cc_algorithm";

/// Name in small letters, port and values of a line with one of the parameters that are known.
fn setting<'t>(line: &Line<'t>) -> Option<(String, Option<&'static str>, Vec<&'t str>)> {
    // a star marks what differs from the default, RO what cannot be set
    let mut words = line.words.iter().copied().skip_while(|word| matches!(*word, "*" | "RO"));
    let name = words.next()?.trim_start_matches('*');
    let (name, port) = match name.rsplit_once("_P") {
        Some((name, "1")) => (name, Some("P1")),
        Some((name, "2")) => (name, Some("P2")),
        _ => (name, None),
    };
    let small = name.to_ascii_lowercase();
    let known = small == MASK || small == ALGORITHM || find(&small).is_some();
    (known && name.chars().all(|c| !c.is_ascii_lowercase())).then(|| (small, port, words.collect()))
}

/// Which columns the rows have.
#[derive(Clone, Copy)]
struct Columns {
    count: usize,
    /// The one that holds now, and the one after the next boot.
    current: usize,
    next: usize,
}

impl Columns {
    /// Of a header `Configurations: Default Current Next Boot`, or `Configurations: Next Boot`.
    fn of(line: &Line<'_>) -> Result<Self, ImportError> {
        let words = line.words[1..].iter().filter(|word| **word != "Boot").collect::<Vec<_>>();
        let place = |name: &str| words.iter().position(|word| **word == name);
        let Some(next) = place("Next").or_else(|| place("Current")) else {
            let message = "columns are not known; `Default Current Next Boot`, or `Next Boot` alone, \
                           is expected after `Configurations:`";
            return Err(line.error(message));
        };
        Ok(Columns { count: words.len(), current: place("Current").unwrap_or(next), next })
    }
}

pub(super) fn read(lines: &Lines<'_>) -> Result<Found, ImportError> {
    let mut found = Found::default();
    let mut columns = Columns { count: 1, current: 0, next: 0 };
    let mut begun = !lines.iter().any(|line| line.words[0] == "Configurations:");
    for line in lines {
        let words = &line.words;
        match words[0] {
            "Configurations:" => {
                columns = Columns::of(line)?;
                begun = true;
            }
            "Device" if words.get(1) == Some(&"type:") => device(line, &mut found),
            _ => match setting(line) {
                Some((name, port, values)) => {
                    let word = word_of(line, &values, columns)?;
                    if values[columns.next] != word {
                        let message = format!(
                            "{} is {word} now and {} after the next boot: the former is taken",
                            shown(&name, port),
                            values[columns.next]
                        );
                        found.warnings.push(line.note(message));
                    }
                    take(line, &name, port, word, &mut found)?;
                }
                // what stands above the settings describes the device
                // "The '*' shows parameters with next value different .."
                None if words[0] == "The" => {}
                None if begun => found.other.push(words[usize::from(words[0] == "*")..][0].into()),
                None => {}
            },
        }
    }
    Ok(found)
}

/// The value that holds.
fn word_of<'t>(
    line: &Line<'t>,
    values: &[&'t str],
    columns: Columns,
) -> Result<&'t str, ImportError> {
    match values.len() == columns.count {
        true => Ok(values[columns.current]),
        false => {
            let (has, wants) = (values.len(), columns.count);
            let message = format!("{has} values; {wants} are expected, as the header has columns");
            Err(line.error(message))
        }
    }
}

/// The name as it stood there.
fn shown(name: &str, port: Option<&str>) -> String {
    let name = name.to_ascii_uppercase();
    port.map_or(name.clone(), |port| format!("{name}_{port}"))
}

fn device(line: &Line<'_>, found: &mut Found) {
    let Some(kind) = line.words.get(2) else { return };
    match PRESETS.iter().find(|(name, _)| name == kind) {
        Some((_, preset)) => {
            let value = format!("\"{preset}\"");
            found.push("nic.preset", value, "Device type", None, Rank::Stored, Place::of(line));
        }
        None => {
            let message = format!("there is no preset for {kind}: the scenario's NIC is kept");
            found.warnings.push(line.note(message));
        }
    }
}

fn take(
    line: &Line<'_>,
    name: &str,
    port: Option<&str>,
    word: &str,
    found: &mut Found,
) -> Result<(), ImportError> {
    let said = shown(name, port);
    let bad =
        |expected: &str| line.error(format!("{said} is {}; {expected} is expected", quoted(word)));
    let place = || Place::of(line);
    if name == ALGORITHM {
        match word.split('(').next().unwrap_or(word) {
            "ECN" | "0" => {
                let value = "\"dcqcn\"";
                found.push("nic.congestion.algorithm", value, said, port, Rank::Stored, place());
            }
            _ => {
                let message = format!("{said} is {word}: only ECN(0), which is DCQCN, is modelled");
                found.warnings.push(line.note(message));
            }
        }
        return Ok(());
    }
    if name == MASK {
        let mask = match word.split('(').next().unwrap_or(word) {
            "Enable" | "True" => 0xff,
            "Disable" | "False" => 0,
            _ => number(word).filter(|mask| *mask < 256).ok_or_else(|| bad("a mask up to 255"))?,
        };
        let value = priorities_of_mask(mask);
        for key in ["nic.congestion.priorities", "nic.np.priorities"] {
            found.push(key, value.as_str(), said.as_str(), port, Rank::Stored, place());
        }
        return Ok(());
    }
    let Some(param) = find(name) else { return Ok(()) };
    let number = number(word).ok_or_else(|| bad("a number, such as 5 or True(1),"))?;
    super::listing::take(param, number, &said, port, Rank::Stored, line, found);
    Ok(())
}
