//! What a study answers, in words.

use super::axis::{Axis, Domain};
use super::judge::{Beyond, Choice, Margin, Verdict};
use super::scale::Scaled;
use super::table::{Row, Stat, Table};
use super::{Column, Study, ranking};
use crate::expect;
use crate::text;

/// Rows of a table of the best, and of failures.
const SHOWN: usize = 10;
/// Characters of a line.
pub(super) const WIDTH: usize = 98;

/// The answer: what is recommended and its margin, which axis matters, what failed.
pub fn summary(study: &Study, table: &Table, verdict: &Verdict) -> String {
    let mut out = format!("{}\n{}\n", title(study), counts(study, table));
    if study.axes.iter().any(|axis| axis.ladder().is_some()) {
        out += &format!("\n{}", found(study, table));
    } else if study.is_about_failures() {
        out += &format!("\n{}", worst_first(study, table));
    } else if let Some(axis) = ranking::axis(study, verdict) {
        out += &format!("\n{}", clipped(&ranking::told(study, table, axis)));
        out += &sensitivity(study, verdict);
    } else {
        out += &format!("\n{}", recommendation(study, table, verdict));
        out += &sensitivity(study, verdict);
        out += &best(study, table, verdict);
    }
    out + &failures(study, table)
}

/// The question.
pub fn title(study: &Study) -> &str {
    if study.config.title.is_empty() { &study.name } else { &study.config.title }
}

fn plural(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}

fn counts(study: &Study, table: &Table) -> String {
    let good = table.rows.iter().filter(|row| row.good).count();
    let mut text = plural(table.rows.len(), "point");
    if study.config.seeds > 1 {
        text += &format!(" x {} seeds", study.config.seeds);
    }
    if !study.is_about_failures() && study.axes.iter().all(|axis| axis.ladder().is_none()) {
        text += &format!(" ({}): {good} meet all requirements", study.config.method.name());
    }
    if !table.missing.is_empty() {
        let missing = plural(table.missing.len(), "point");
        text += &format!("; {missing} missing: --resume runs the rest");
    }
    text
}

/// A value with its unit and, over seeds, its confidence interval.
fn shown(column: &Column, stat: Option<Stat>) -> String {
    let Some(stat) = stat else { return "-".to_owned() };
    let mean = expect::written(column.unit, stat.mean);
    match stat.spread() {
        Some(ci) => format!("{mean} +- {}", expect::written(column.unit, ci)),
        None => mean,
    }
}

fn recommendation(study: &Study, table: &Table, verdict: &Verdict) -> String {
    if study.objectives.is_empty() {
        return "no recommendation: the study has neither `maximize` nor `minimize`\n".to_owned();
    }
    if verdict.choices.is_empty() {
        return "no recommendation: no point meets all requirements\n".to_owned();
    }
    let choices = verdict.choices.iter().map(|choice| recommended(study, table, choice));
    choices.collect::<Vec<_>>().join("\n")
}

/// One recommendation.
fn recommended(study: &Study, table: &Table, choice: &Choice) -> String {
    let row = &table.rows[choice.rows[0]];
    let is_in = |names: &[String], axis: &Axis| names.contains(&axis.name);
    let levels = || study.axes.iter().zip(&row.point.levels);
    let given: Vec<String> = levels()
        .filter(|(axis, _)| is_in(&study.config.given, axis))
        .map(|(axis, level)| format!("{} = {}", axis.name, level.label))
        .collect();
    let mut out = match choice.rows.len() {
        1 => format!("recommended: point {}", row.point.number),
        count => format!("recommended: what {count} points share, from {}", row.point.number),
    };
    if !given.is_empty() {
        out = format!("for {}: {out}", given.join(", "));
    }
    out.push('\n');
    let objective = short(&study.columns[study.objectives[0].column].key);
    let mut lines = Vec::new();
    if choice.margins.iter().any(Option::is_some) {
        lines.push(vec![
            String::new(),
            String::new(),
            format!("other values, and what {objective} is then"),
        ]);
    }
    for ((axis, level), margin) in levels().zip(&choice.margins) {
        if is_in(&study.config.given, axis) {
            continue;
        }
        let margin = margin.as_ref().map_or(String::new(), in_words);
        lines.push(match is_in(&study.config.across, axis) {
            true => vec![format!("  {}", axis.name), "any".to_owned(), "the worst counts".into()],
            false => vec![format!("  {}", axis.name), level.label.clone(), margin],
        });
    }
    out += &clipped(&text::words(&lines));
    out.push('\n');
    let mut lines = Vec::new();
    for objective in &study.objectives {
        let column = &study.columns[objective.column];
        let base = table.base.as_ref().and_then(|base| objective.of(base));
        let worst = objective.worst(table, &choice.rows);
        let noise = match (&choice.rows[..], &table.base) {
            ([row], Some(base)) => table.rows[*row].more_than(base, objective.column),
            _ => None,
        };
        let beside = beside(column, worst, base, noise);
        lines.push(vec![format!("  {}", column.key), shown(column, worst), beside]);
    }
    out += &text::words(&lines);
    out += &why(study, choice);
    if choice.rows.len() == 1 {
        out += &format!("\n  alone: {}\n", command(study, row));
    }
    out
}

/// Why it was chosen among equals, and what it cannot be told from.
fn why(study: &Study, choice: &Choice) -> String {
    let key = |index: usize| &study.columns[study.objectives[index].column].key;
    let percent = 100.0 * study.config.tolerance;
    let mut text = match choice.ties {
        0 | 1 => format!("  no other comes within {percent} % of its {}\n", key(0)),
        ties => format!("  {ties} come within {percent} % of the best {}; this one ", key(0)),
    };
    if choice.ties > 1 {
        text += &match choice.decided {
            Some(index) => {
                let better = if study.objectives[index].larger { "most" } else { "least" };
                format!("has the {better} {}\n", key(index))
            }
            None => "is the first of them\n".to_owned(),
        };
    }
    if choice.alike > 1 {
        let others = plural(choice.alike - 1, "other point");
        text += &format!("  {others} cannot be told from it by these seeds\n");
    }
    for labels in &choice.hopeless {
        let labels = labels.join(", ");
        text += &format!("  left out: {labels}, where nothing meets the requirements\n");
    }
    text
}

/// A value beside that of the base; `more` is the difference over equal seeds.
fn beside(column: &Column, value: Option<Stat>, base: Option<Stat>, more: Option<Stat>) -> String {
    let (Some(value), Some(base)) = (value, base) else { return String::new() };
    let of_base = expect::written(column.unit, base.mean);
    if value.mean == base.mean {
        return "as the scenario is".to_owned();
    }
    let within = if more.is_some_and(Stat::may_be_zero) { " (may be chance)" } else { "" };
    match base.mean {
        0.0 => format!("{of_base} as the scenario is{within}"),
        mean => format!("{:.3} x the {of_base} as the scenario is{within}", value.mean / mean),
    }
}

/// How far an axis may move, and what comes of going further.
fn in_words(margin: &Margin) -> String {
    let [first, last] = &margin.within;
    let mut parts = Vec::new();
    if first != last {
        parts.push(format!("{first} to {last} will do"));
    }
    parts.extend(margin.beyond.iter().flatten().map(worse));
    if parts.is_empty() {
        return "makes no difference".to_owned();
    }
    parts.join("; ")
}

fn worse(beyond: &Beyond) -> String {
    if !beyond.broken.is_empty() {
        return format!("{} breaks {}", beyond.label, beyond.broken.join(", "));
    }
    match beyond.ratio {
        Some(ratio) => format!("{}: x {ratio:.2}", beyond.label),
        None => format!("{}: nothing to compare", beyond.label),
    }
}

/// The last part of a key.
pub fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// How to run a point alone.
pub fn command(study: &Study, row: &Row) -> String {
    let rung = row.found.as_ref().map(|(rung, _)| *rung);
    let settings = study.options.set.iter().cloned().chain(study.settings(&row.point, rung));
    let settings: Vec<String> =
        settings.map(|setting| format!(" --set {}", quoted(&setting))).collect();
    let plain = study.given.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let given = if plain { study.given.clone() } else { quoted(&study.given) };
    format!("rocesim run {given}{}", settings.join(""))
}

/// A word for the shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn sensitivity(study: &Study, verdict: &Verdict) -> String {
    let Some(first) = verdict.effects.first() else { return String::new() };
    if first.axes.iter().all(|share| *share == 0.0) && first.rest == 0.0 {
        return String::new();
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut header = vec!["what matters (share of variance)".to_owned()];
    let keys = study.objectives.iter().map(|objective| &study.columns[objective.column].key);
    header.extend(keys.map(|key| short(key).to_owned()));
    let mut rows = vec![header];
    for axis in first.ranked() {
        let mut row = vec![format!("  {}", study.axes[axis].name)];
        row.extend(verdict.effects.iter().map(|effects| percent(effects.axes[axis])));
        rows.push(row);
    }
    let mut rest = vec!["  interplay of axes, and noise".to_owned()];
    rest.extend(verdict.effects.iter().map(|effects| percent(effects.rest)));
    rows.push(rest);
    format!("\n{}", text::table(&rows))
}

/// The best points, by the first objective.
fn best(study: &Study, table: &Table, verdict: &Verdict) -> String {
    let Some(first) = study.objectives.first() else { return String::new() };
    let mut rows: Vec<(usize, &Row)> =
        table.rows.iter().enumerate().filter(|(_, row)| row.good).collect();
    let mean = |row: &Row| first.of(row).map_or(f64::NAN, |stat| stat.mean);
    rows.sort_by(|(_, a), (_, b)| {
        let order = mean(a).total_cmp(&mean(b));
        if first.larger { order.reverse() } else { order }
    });
    let objectives: Vec<Scaled<'_>> =
        study.objectives.iter().map(|o| Scaled::new(study, table, o.column)).collect();
    // axes last: they may be many
    let mut header: Vec<String> = vec!["point".into()];
    header.extend(objectives.iter().map(|column| column.with_unit(short(&column.column.key))));
    header.extend(short_names(study));
    let line = |row: &Row, recommended: bool| {
        let mark = match (recommended, row.front) {
            (true, _) => " <-",
            (false, true) => " *",
            _ => "",
        };
        let mut cells = vec![match row.point.number {
            0 => "as is".to_owned(),
            number => format!("{number}{mark}"),
        }];
        cells.extend(objectives.iter().map(|column| number(column.of(row))));
        cells.extend(row.point.levels.iter().map(|level| level.label.clone()));
        cells
    };
    let lines: Vec<Vec<String>> = std::iter::once(header)
        .chain(rows.iter().take(SHOWN).map(|(index, row)| line(row, verdict.recommends(*index))))
        .chain(table.base.iter().map(|base| line(base, false)))
        .collect();
    let front = rows.iter().filter(|(_, row)| row.front).count();
    let mut head = format!("the best {}", rows.len().min(SHOWN));
    if !verdict.choices.is_empty() {
        head += "; <- is recommended";
    }
    if study.objectives.len() > 1 {
        let no_other = "no other is better in one objective and as good in the rest";
        head += &format!("; * of these {no_other} ({front} in all)");
    }
    format!("\n{head}\n{}", clipped(&text::table_by(&lines, |column| column > 0)))
}

/// Four digits, and what the interval has of these.
fn number(stat: Option<Stat>) -> String {
    let Some(stat) = stat else { return "-".to_owned() };
    let mean = expect::written("", stat.mean);
    match stat.spread() {
        Some(ci) => format!("{mean} +- {}", two_digits(ci)),
        None => mean,
    }
}

fn two_digits(number: f64) -> String {
    let digits = 1 - number.abs().log10().floor() as i32;
    format!("{number:.*}", digits.clamp(0, 9) as usize)
}

/// The last parts of the axes' names, or the whole where two would be the same.
fn short_names(study: &Study) -> Vec<String> {
    let name = |axis: &Axis| {
        let last = short(&axis.name);
        let same = study.axes.iter().filter(|other| short(&other.name) == last).count();
        if same == 1 { last.to_owned() } else { axis.name.clone() }
    };
    study.axes.iter().map(name).collect()
}

/// The smallest values that were found.
fn found(study: &Study, table: &Table) -> String {
    let mut header: Vec<String> = Vec::new();
    for (axis, name) in study.axes.iter().zip(short_names(study)) {
        let smallest = if axis.ladder().is_some() { "smallest " } else { "" };
        header.push(format!("{smallest}{name}"));
    }
    let others: Vec<&Column> = study.extra_columns().collect();
    header.extend(others.iter().map(|column| short(&column.key).to_owned()));
    let mut lines = vec![header];
    for row in &table.rows {
        let mut cells = Vec::new();
        for (axis, level) in study.axes.iter().zip(&row.point.levels) {
            cells.push(match (&axis.domain, &row.found) {
                (Domain::Smallest(_), Some((_, level))) => level.label.clone(),
                (Domain::Smallest(_), None) => "none".to_owned(),
                _ => level.label.clone(),
            });
        }
        for column in &others {
            let index = study.columns.iter().position(|known| known == *column);
            cells.push(shown(column, index.and_then(|index| row.stats[index])));
        }
        lines.push(cells);
    }
    let keys: Vec<String> = study.config.require.iter().map(|(k, v)| format!("{k}: {v}")).collect();
    format!("the smallest that meets {}\n{}", keys.join(", "), clipped(&text::table(&lines)))
}

/// What each failure costs, the worst first.
fn worst_first(study: &Study, table: &Table) -> String {
    let Some(objective) = study.objectives.first() else { return String::new() };
    let column = &study.columns[objective.column];
    let none = table.rows.iter().find(|row| !row.point.levels.iter().any(|l| l.label != "none"));
    let whole = none.and_then(|row| objective.of(row)).map(|stat| stat.mean);
    let mean = |row: &Row| objective.of(row).filter(|_| row.outcome() == "completed");
    let loss = |row: &Row| match (mean(row), whole) {
        (Some(stat), Some(whole)) if objective.larger => 1.0 - stat.mean / whole,
        (Some(stat), Some(whole)) => stat.mean / whole - 1.0,
        _ => f64::INFINITY,
    };
    let mut rows: Vec<&Row> = table.rows.iter().collect();
    rows.sort_by(|a, b| loss(b).total_cmp(&loss(a)).then(a.point.number.cmp(&b.point.number)));
    let mut header: Vec<String> = study.axes.iter().map(|axis| axis.name.clone()).collect();
    header.extend([short(&column.key).to_owned(), "change".into(), "ended".into()]);
    header.extend(study.objectives[1..].iter().map(|o| short(&study.columns[o.column].key).into()));
    let mut lines = vec![header];
    for row in rows {
        let mut cells: Vec<String> =
            row.point.levels.iter().map(|level| level.label.clone()).collect();
        cells.push(shown(column, objective.of(row)));
        cells.push(match (objective.of(row), whole) {
            (Some(stat), Some(whole)) if whole != 0.0 => {
                // no minus before zero
                let change = 100.0 * (stat.mean / whole - 1.0);
                format!("{:+.1} %", if change.abs() < 0.05 { 0.0 } else { change })
            }
            _ => "-".to_owned(),
        });
        cells.push(row.outcome().replace('_', " "));
        for other in &study.objectives[1..] {
            cells.push(shown(&study.columns[other.column], other.of(row)));
        }
        lines.push(cells);
    }
    format!("the worst first\n{}", text::table(&lines))
}

/// The points that could not be run or break a requirement.
fn failures(study: &Study, table: &Table) -> String {
    let ladder = study.axes.iter().any(|axis| axis.ladder().is_some());
    let failed = |row: &&Row| match ladder {
        true => row.found.is_none(),
        false => !row.good && (!study.is_about_failures() || row.error().is_some()),
    };
    let rows: Vec<&Row> = table.rows.iter().filter(failed).collect();
    if rows.is_empty() {
        return String::new();
    }
    let why = |row: &Row| match row.error() {
        Some(_) => "could not be built".to_owned(),
        None if row.outcome() == "completed" => format!("breaks {}", row.broken().join(", ")),
        None => row.outcome().replace('_', " "),
    };
    let what = if ladder { "found nothing up to the end" } else { "did not meet the requirements" };
    let mut out = format!("\n{} {what}", plural(rows.len(), "point"));
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for row in rows.iter().filter(|_| !ladder) {
        let why = why(row);
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    let told = reasons.len() < rows.len() && rows.len() > 1;
    for (why, count) in reasons.iter().filter(|_| told) {
        out += &format!("\n  {count} x {why}");
    }
    if let Some(error) = rows.iter().find_map(|row| row.error()) {
        out += &format!("\n  what could not be built: {}", error.lines().next().unwrap_or(""));
    }
    out += if told { "\nthe first of them\n" } else { "\n" };
    let names = short_names(study);
    for row in rows.iter().take(SHOWN) {
        let levels = names.iter().zip(&row.point.levels);
        let levels: Vec<String> =
            levels.map(|(name, level)| format!("{name} = {}", level.label)).collect();
        let why = if told { String::new() } else { format!("{}: ", why(row)) };
        out += &clipped(&format!("  {}: {why}{}\n", row.point.number, levels.join(", ")));
    }
    if rows.len() > SHOWN {
        out += &format!("  and {} more: see points.csv\n", rows.len() - SHOWN);
    }
    out
}

/// Lines of no more than a terminal's width.
fn clipped(text: &str) -> String {
    let line = |line: &str| match line.chars().count() > WIDTH {
        true => line.chars().take(WIDTH - 3).chain("...".chars()).collect::<String>() + "\n",
        false => line.trim_end().to_owned() + "\n",
    };
    text.lines().map(line).collect()
}
