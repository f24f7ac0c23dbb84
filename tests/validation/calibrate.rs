//! `calibrate` on logs of nccl-tests from real clusters: every second size of a table is fitted, and
//! the others are predicted; and one operation predicts others of the same cluster. Logs and
//! clusters are those of `nccl_logs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use models::collective::Op;
use scenarios::resolve::{LoadOptions, Loaded, load};
use validation::calibrate::{Calibration, Errors, Owner, Request, calibrate, predict};
use validation::{Table, read_tables};

use crate::common::{reference, say};
use crate::table::in_the_docs;

/// A table of a log in which nothing was wrong, and the cluster that made it.
struct Case {
    scenario: String,
    log: String,
    op: String,
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/validation/nccl_logs")
}

/// The healthy tables with several sizes, from `logs.tsv`.
fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("logs.tsv")).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<&str>>());
    let names = lines.next().unwrap();
    let cell = |row: &[&str], name: &str| {
        row[names.iter().position(|known| *known == name).unwrap()].to_owned()
    };
    lines
        .filter(|row| cell(row, "healthy") == "yes" && !cell(row, "log").ends_with(".tsv"))
        .map(|row| Case {
            scenario: cell(&row, "scenario"),
            log: cell(&row, "log"),
            op: cell(&row, "op"),
        })
        .collect()
}

fn cluster(name: &str) -> Loaded {
    let path = folder().join(format!("{name}.toml"));
    load(path.to_str().unwrap(), &LoadOptions::default()).unwrap()
}

fn op(name: &str) -> Op {
    let plain = |name: &str| name.replace('_', "");
    Op::ALL.into_iter().find(|op| plain(op.name()) == plain(name)).unwrap()
}

/// The table of a case; a table that does not say its operation is that of the case.
fn table(case: &Case, logs: &Path) -> Table {
    let tables = read_tables(&logs.join(&case.log)).unwrap();
    let wanted = Some(op(&case.op));
    let found = tables.into_iter().find(|table| table.op.is_none() || table.op == wanted);
    let found = found.unwrap_or_else(|| panic!("{} has no table of {}", case.log, case.op));
    Table { op: wanted, ..found }
}

const OWNER: Owner<'static> = Owner { verdict: &|| true, told: &|_, _| {} };

fn fit(case: &Case, logs: &Path) -> Calibration {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request { free: None, holdout: 0.5, threads };
    let tables = [table(case, logs)];
    let found = calibrate(&cluster(&case.scenario), &tables, &request, None, &OWNER);
    found.unwrap_or_else(|why| panic!("{} {}: {why}", case.scenario, case.op))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn row(text: &mut String, case: &Case, found: &Calibration) {
    let errors = |errors: Option<Errors>| {
        let sizes = errors.map_or(0, |errors| errors.sizes);
        let of = |which: fn(Errors) -> f64| percent(errors.map(which));
        let steady = percent(errors.and_then(|errors| errors.steady).map(|steady| steady.1));
        format!("{sizes} | {} | {} | {steady}", of(|e| e.before), of(|e| e.after))
    };
    let set: Vec<String> = found.set.iter().map(|set| format!("`{set}`")).collect();
    writeln!(
        text,
        "| {} | {} | {} | {} | {} |",
        case.scenario,
        case.op,
        errors(found.fitted),
        errors(found.held_out),
        set.join(", ").replace("host.", "")
    )
    .unwrap();
}

/// All healthy logs, and predictions of other operations: some minutes.
#[test]
#[ignore = "some minutes; `cargo test --release --test validation calibrations -- --ignored`"]
fn calibrations_predict_the_sizes_that_they_have_not_seen() {
    let Some(logs) = reference("nccl-logs") else { return };
    let mut text = String::from(
        "| cluster | operation | fitted sizes | before | after | steady | held-out sizes | before | \
         after | steady | what was set |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n",
    );
    let mut found: BTreeMap<(String, String), Calibration> = BTreeMap::new();
    let mut held = Vec::new();
    for case in cases() {
        let one = fit(&case, &logs);
        row(&mut text, &case, &one);
        say(text.lines().last().unwrap());
        if let Some(errors) = one.held_out {
            held.push((case.scenario.clone(), case.op.clone(), errors));
        }
        found.insert((case.scenario, case.op), one);
    }
    let within = |most: f64| {
        let of = |errors: &Errors| errors.steady.map_or(errors.after, |steady| steady.1);
        held.iter().filter(|(_, _, errors)| of(errors) <= most).count()
    };
    let all = held.len();
    writeln!(
        text,
        "\nHeld-out sizes (steady ones): {} of {all} tables within 5 %, {} within 10 %.\n",
        within(0.05),
        within(0.10)
    )
    .unwrap();
    text += &predictions(&found, &logs);
    say(&text);
    assert!(within(0.05) >= 8, "{} of {all} within 5 %", within(0.05));
    assert_eq!(within(0.10), all, "within 10 %");
    in_the_docs("calibrations", &text);
}

/// What AllReduce was fitted to, on AllGather and ReduceScatter.
fn predictions(found: &BTreeMap<(String, String), Calibration>, logs: &Path) -> String {
    let mut text = String::from(
        "| cluster | fitted to | predicted | sizes | before | after |\n|---|---|---|--:|--:|--:|\n",
    );
    for case in cases() {
        let other = ["all_gather", "reduce_scatter"].contains(&case.op.as_str());
        let key = (case.scenario.clone(), "all_reduce".to_owned());
        let Some(fitted) = found.get(&key).filter(|_| other) else { continue };
        let errors = predict(&cluster(&case.scenario), &[table(&case, logs)], &fitted.set, 2);
        let errors = errors.unwrap();
        writeln!(
            text,
            "| {} | all_reduce | {} | {} | {} | {} |",
            case.scenario,
            case.op,
            errors.sizes,
            percent(Some(errors.before)),
            percent(Some(errors.after))
        )
        .unwrap();
        if case.scenario.starts_with("h100-10x") {
            assert!(errors.after <= 0.10, "{} {}: {errors:?}", case.scenario, case.op);
        }
    }
    text
}

#[test]
fn some_logs_are_fitted() {
    let Some(logs) = reference("nccl-logs") else { return };
    let wanted = [("h100-10x1", "all_reduce"), ("b200-2x1", "all_gather")];
    for case in cases() {
        if wanted.contains(&(case.scenario.as_str(), case.op.as_str())) {
            let found = fit(&case, &logs);
            let errors = found.held_out.unwrap();
            assert!(errors.after <= 0.05, "{} {}: {}", case.scenario, case.op, found.text());
        }
    }
}
