//! `rocesim report`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use scenarios::output;
use scenarios::resolve::Complaint;
use scenarios::study::journal::{self, Directory};
use scenarios::study::judge::Verdict;
use scenarios::study::table::{self, Table};
use scenarios::study::{Study, answer};

use super::{CommandResult, UNFINISHED, print, study_plots};

#[derive(Args)]
pub(super) struct ReportArgs {
    /// Directory of a study
    directory: PathBuf,
}

impl ReportArgs {
    pub(super) fn run(&self) -> CommandResult {
        if !journal::is_study(&self.directory) {
            let message = "there is no study here: a directory that `rocesim study` has made is \
                           expected";
            return Err(Complaint(format!("error: {}: {message}", self.directory.display())));
        }
        let study = journal::study_of(&self.directory)?;
        Directory::open(&self.directory, &study, true)?;
        of_study(&study, &self.directory)
    }
}

/// Writes the tables and plots of a study, and prints its answer.
pub(super) fn of_study(study: &Study, path: &Path) -> CommandResult {
    let directory = Directory { path: path.to_owned() };
    let table = Table::new(study, &directory.read()?)?;
    table::write(path, study, &table)?;
    let verdict = Verdict::new(study, &table);
    let answer = answer::summary(study, &table, &verdict);
    let plots = study_plots::all(study, &table, &verdict);
    let plots = plots.map_err(|error| Complaint(format!("error: {error}")))?;
    for (name, svg) in &plots {
        output::write_file(&path.join(name), svg)?;
    }
    let page = page(answer::title(study), &answer, plots.iter().map(|(_, svg)| svg.as_str()));
    output::write_file(&path.join("report.html"), page)?;
    print(&answer);
    print(&format!("\nreport.html, tables and plots: {}\n", path.display()));
    let answered = table.missing.is_empty() && table.rows.iter().any(|row| row.good);
    Ok(if answered { ExitCode::SUCCESS } else { ExitCode::from(UNFINISHED) })
}

/// One page with the answer and all plots, which needs nothing else.
fn page<'a>(title: &str, answer: &str, plots: impl Iterator<Item = &'a str>) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let plots: Vec<String> = plots.map(|svg| format!("<figure>{svg}</figure>\n")).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>{}</title>\n<style>\n\
         body {{ max-width: 1240px; margin: 2em auto; padding: 0 1em; background: #fff; color: #222 }}\n\
         pre {{ font-size: 13px; overflow-x: auto }}\n\
         figure {{ margin: 2em 0 }}\nsvg {{ width: 100%; height: auto }}\n\
         </style>\n</head>\n<body>\n<pre>{}</pre>\n{}</body>\n</html>\n",
        escaped(title),
        escaped(answer),
        plots.concat()
    )
}
