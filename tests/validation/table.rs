//! Rows of the table in `docs/validation.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use crate::common::say;

/// One quantity of one case: what the reference has, what rocesim has.
pub(crate) struct Row {
    case: String,
    quantity: String,
    reference: String,
    rocesim: String,
    error: String,
    tolerance: String,
    holds: bool,
    /// Why it may fail, if it may: a word beside the verdict.
    excuse: Option<&'static str>,
}

impl Row {
    /// Two numbers whose relative difference counts; a tolerance of 0.01 is 1 %, 0 means equal.
    pub(crate) fn relative(
        [case, quantity]: [&str; 2],
        reference: f64,
        rocesim: f64,
        show: impl Fn(f64) -> String,
        tolerance: f64,
    ) -> Self {
        let error = if rocesim == reference { 0.0 } else { rocesim / reference - 1.0 };
        let tolerance_text = match tolerance {
            0.0 => "equal".to_owned(),
            _ => format!("{} %", tidy(tolerance * 100.0)),
        };
        Row {
            case: case.to_owned(),
            quantity: quantity.to_owned(),
            reference: show(reference),
            rocesim: show(rocesim),
            error: format!("{:+.3} %", error * 100.0),
            tolerance: tolerance_text,
            holds: error.abs() <= tolerance,
            excuse: None,
        }
    }

    /// Two numbers whose difference counts.
    pub(crate) fn absolute(
        [case, quantity]: [&str; 2],
        reference: f64,
        rocesim: f64,
        show: impl Fn(f64) -> String,
        tolerance: f64,
    ) -> Self {
        let difference = rocesim - reference;
        let sign = if difference > 0.0 { "+" } else { "" };
        Row {
            error: format!("{sign}{}", show(difference)),
            tolerance: if tolerance == 0.0 { "equal".to_owned() } else { show(tolerance) },
            holds: difference.abs() <= tolerance,
            ..Row::relative([case, quantity], reference, rocesim, &show, 0.0)
        }
    }

    /// What cannot be put in one number, such as "no PFC": `holds` says whether it is so.
    pub(crate) fn statement(
        [case, quantity]: [&str; 2],
        reference: &str,
        rocesim: &str,
        holds: bool,
    ) -> Self {
        Row {
            case: case.to_owned(),
            quantity: quantity.to_owned(),
            reference: reference.to_owned(),
            rocesim: rocesim.to_owned(),
            error: String::new(),
            tolerance: "as stated".to_owned(),
            holds,
            excuse: None,
        }
    }

    /// The same with what it differs by, and by how much it may.
    pub(crate) fn differing(self, error: &str, tolerance: &str) -> Self {
        Row { error: error.to_owned(), tolerance: tolerance.to_owned(), ..self }
    }

    /// The figure was recalled from its paper, not read: it may fail.
    pub(crate) fn recalled(self) -> Self {
        Row { excuse: Some("[M]"), ..self }
    }

    /// It is out of its tolerance for a reason that the document gives.
    pub(crate) fn explained(self) -> Self {
        Row { excuse: Some("(see text)"), ..self }
    }

    /// Whether it is within its tolerance.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// As one line.
    pub(crate) fn line(&self) -> String {
        self.cells().join(" | ")
    }

    fn cells(&self) -> [String; 7] {
        let verdict = match (self.holds, self.excuse) {
            (true, None) => "holds".to_owned(),
            (false, None) => "FAILS".to_owned(),
            (true, Some(excuse)) => format!("holds {excuse}"),
            (false, Some(excuse)) => format!("fails {excuse}"),
        };
        let Row { case, quantity, reference, rocesim, error, tolerance, .. } = self;
        [case, quantity, reference, rocesim, error, tolerance, &verdict]
            .map(|cell| cell.replace('|', "\\|"))
    }
}

/// Without the zeros at the end.
fn tidy(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Holds rows to their tolerances, and a section of `docs/validation.md` to the rows.
#[track_caller]
pub(crate) fn section(name: &str, rows: &[Row]) {
    let text = markdown(rows);
    say(&format!("{name}\n{text}"));
    let failed: Vec<_> = rows.iter().filter(|row| !row.holds && row.excuse.is_none()).collect();
    for row in &failed {
        say(&format!("FAILS: {}", row.line()));
    }
    assert!(failed.is_empty(), "{name}: {} of {} rows fail", failed.len(), rows.len());
    in_the_docs(name, &text);
}

fn markdown(rows: &[Row]) -> String {
    let mut out = String::from(
        "| case | quantity | reference | rocesim | error | tolerance | |\n|---|---|--:|--:|--:|--:|---|\n",
    );
    for row in rows {
        writeln!(out, "| {} |", row.cells().join(" | ")).unwrap();
    }
    out
}

/// The file must hold `text` between `<!-- name -->` and `<!-- end -->`.
pub(crate) fn in_the_docs(name: &str, text: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/validation.md");
    let file = std::fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {name} -->\n");
    let from = file.find(&begin).unwrap_or_else(|| panic!("docs/validation.md has no {begin}"));
    let from = from + begin.len();
    let to = from + file[from..].find("<!-- end -->").expect("a section ends");
    let expected = format!("\n{text}\n");
    if file[from..to] == expected {
        return;
    }
    let write = "ROCESIM_WRITE_VALIDATION";
    if std::env::var_os(write).is_none() {
        let differ = expected.lines().zip(file[from..to].lines()).find(|(new, old)| new != old);
        panic!("docs/validation.md, {name}, is out of date: set {write}=1 to write it; {differ:?}");
    }
    std::fs::write(&path, format!("{}{expected}{}", &file[..from], &file[to..])).unwrap();
}
