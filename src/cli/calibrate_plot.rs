//! The plots of a calibration: one for each table.

use scenarios::text::binary;
use validation::calibrate::{Calibration, SizeRow};
use viz::PlotError;
use viz::study::{Better, LinePanel, LinePlot, LinePoint, Series, XAxis, XScale, lines_svg};

/// Sizes that are named at the axis.
const TICKS: usize = 9;

/// As (file name, SVG): busbw measured, as given and calibrated, and below it the errors.
pub(super) fn curves(found: &Calibration) -> Result<Vec<(String, String)>, PlotError> {
    let one = found.tables.len() == 1;
    let numbered = found.tables.iter().enumerate();
    let plot = |(number, table): (usize, &validation::calibrate::Measured)| {
        let name = match one {
            true => "curves.svg".to_owned(),
            false => format!("curves-{number}-{}.svg", table.op),
        };
        let rows: Vec<&SizeRow> =
            found.rows.iter().filter(|row| row.point.table == number).collect();
        let title = if found.title.is_empty() { &found.scenario } else { &found.title };
        let subtitle = format!("{} of {}; {}", table.op, table.source, told(&rows));
        Ok((name, lines_svg(&lines(title, subtitle, &rows))?))
    };
    numbered.map(plot).collect()
}

/// Mean errors of what was fitted and held out.
fn told(rows: &[&SizeRow]) -> String {
    let mean = |held: bool| {
        let of = rows.iter().filter(|row| row.point.held_out == held);
        let errors: Vec<f64> = of.filter_map(|row| row.after_error).map(f64::abs).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64 * 100.0)
    };
    match (mean(false), mean(true)) {
        (Some(fitted), Some(held)) => {
            format!("mean error {fitted:.1} % where fitted, {held:.1} % where held out")
        }
        (Some(fitted), None) => format!("mean error {fitted:.1} %, nothing held out"),
        _ => "nothing fitted".to_owned(),
    }
}

fn lines(title: &str, subtitle: String, rows: &[&SizeRow]) -> LinePlot {
    let series = |name: &str, value: &dyn Fn(&SizeRow) -> Option<f64>| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .filter_map(|row| {
                let point =
                    LinePoint { x: row.point.bytes as f64, mean: value(row)?, half_width: None };
                Some(point)
            })
            .collect(),
    };
    let busbw = |row: &SizeRow, time_s: Option<f64>| Some(row.point.busbw(time_s?));
    let percent = |error: Option<f64>| Some(error? * 100.0);
    let names = ["measured", "simulated as given", "calibrated"];
    let held = "calibrated, held out";
    let held_out = |row: &SizeRow| row.after_error.filter(|_| row.point.held_out);
    LinePlot {
        title: title.to_owned(),
        subtitle,
        x: XAxis {
            label: "Message size (bytes in binary units, logarithmic)".to_owned(),
            scale: XScale::Numbers { log: true, ticks: ticks(rows) },
        },
        panels: vec![
            LinePanel {
                log: true,
                label: "busbw (GB/s)".to_owned(),
                better: Better::Neither,
                series: vec![
                    series(names[0], &|row| Some(row.measured_busbw_gbytes_per_s)),
                    series(names[1], &|row| busbw(row, row.before_time_s)),
                    series(names[2], &|row| busbw(row, row.after_time_s)),
                ],
                ..LinePanel::default()
            },
            LinePanel {
                label: "error of busbw (%)".to_owned(),
                better: Better::Neither,
                series: vec![
                    series(names[1], &|row| percent(row.before_error)),
                    series(names[2], &|row| percent(row.after_error)),
                    series(held, &|row| percent(held_out(row))),
                ],
                ..LinePanel::default()
            },
        ],
        chosen_x: None,
        bare: false,
    }
}

/// Some of the sizes.
fn ticks(rows: &[&SizeRow]) -> Vec<(f64, String)> {
    let every = rows.len().div_ceil(TICKS).max(1);
    rows.iter()
        .step_by(every)
        .map(|row| (row.point.bytes as f64, binary(row.point.bytes)))
        .collect()
}
