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
use viz::RunDir;

use super::{CommandResult, UNFINISHED, print, study_plots, views};

#[derive(Args)]
pub(super) struct ReportArgs {
    /// Directory of a run or of a study; several runs are compared with the first
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// Write the page to this file [default: report.html in the run directory; comparison.html here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the pictures of runs as SVG files into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write them as PNG files into this folder
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
}

impl ReportArgs {
    pub(super) fn run(&self) -> CommandResult {
        if let [directory] = self.directories.as_slice()
            && journal::is_study(directory)
        {
            return self.study(directory);
        }
        self.directories.iter().try_for_each(|directory| refuse(directory))?;
        let mut runs = Vec::new();
        for directory in &self.directories {
            runs.push(views::read(directory)?);
        }
        name_apart(&mut runs);
        let (page, file) = match runs.as_slice() {
            [run] => (views::page(run)?, run.path.join("report.html")),
            runs => (views::comparison(runs)?, PathBuf::from("comparison.html")),
        };
        let file = self.out.clone().unwrap_or(file);
        output::write_file(&file, page)?;
        let mut said = format!("report: {}\n", file.display());
        if self.svg.is_some() || self.png.is_some() {
            let pictures = views::pictures(&runs)?;
            said += &views::write_pictures(&pictures, self.svg.as_deref(), self.png.as_deref())?;
        }
        print(&said);
        Ok(ExitCode::SUCCESS)
    }

    fn study(&self, directory: &Path) -> CommandResult {
        if self.out.is_some() || self.svg.is_some() || self.png.is_some() {
            let message = "this is a study, whose page and plots are written into its directory: \
                           --out, --svg and --png are for runs";
            return Err(Complaint(format!("error: {}: {message}", directory.display())));
        }
        let study = journal::study_of(directory)?;
        Directory::open(directory, &study, true)?;
        of_study(&study, directory)
    }
}

/// Says what a folder without a run is.
fn refuse(directory: &Path) -> Result<(), Complaint> {
    let message = if journal::is_study(directory) {
        "this is a study: runs are compared with runs, and a study has a report of its own"
    } else if directory.join("report.json").is_file() {
        return Ok(());
    } else if directory.join("seeds.json").is_file() {
        "these are runs of several seeds, of which there are no series: leave out --seeds"
    } else {
        "there is no run and no study here: a directory that `rocesim run` or `rocesim study` has \
         made is expected"
    };
    Err(Complaint(format!("error: {}: {message}", directory.display())))
}

/// Runs whose directories are called the same are called by their paths.
fn name_apart(runs: &mut [RunDir]) {
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for run in runs {
        if names.iter().filter(|name| **name == run.name).count() > 1 {
            run.name = run.path.display().to_string();
        }
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
