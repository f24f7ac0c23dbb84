//! The plots by which congestion controls are compared: slowdown over the size of flows, lengths of
//! queues, and pauses, with a curve or a bar for each value of a study's first axis.

use scenarios::study::answer;
use scenarios::study::axis::{Axis, Domain};
use scenarios::study::config::Method;
use scenarios::study::curves::{self, SizeBin};
use scenarios::study::table::{Row, Stat};
use sim_core::Bytes;
use viz::PlotError;
use viz::study::{
    Bar, BarKind, Bars, Better, LinePanel, LinePlot, LinePoint, Series, XAxis, XScale, bars_svg,
    lines_svg,
};

use super::study_plots::Pictures;

/// Curves that can be told apart.
const CURVES: usize = 12;
/// Combinations of the other axes in one picture.
const PANELS: usize = 6;
/// Pictures, one for each value of an axis.
const FILES: usize = 8;
/// Over fewer sizes of flows there is no curve.
const SIZES: usize = 3;
/// Bins with fewer flows, of all seeds together, say nothing.
const FLOWS: u64 = 10;
/// Bytes of a KB.
const KB: f64 = 1e3;

/// The plots, as (file name, SVG); none if the first axis has numbers, or runs have no such data.
pub(super) fn all(pictures: &Pictures<'_>) -> Result<Vec<(String, String)>, PlotError> {
    let mut plots: Vec<(String, String)> = Vec::new();
    let Some(layout) = Layout::new(pictures) else { return Ok(plots) };
    for (value, panels) in layout.files() {
        let page = Page { layout: &layout, value, panels };
        let mut add = |kind: &str, svg: String| {
            let name =
                page.value.as_ref().map_or(String::new(), |value| format!("-{}", slug(value)));
            let taken = |name: &str| plots.iter().any(|(known, _)| known == name);
            let names = (1..).map(|number| match number {
                1 => format!("{kind}{name}.svg"),
                number => format!("{kind}{name}-{number}.svg"),
            });
            let free = names.into_iter().find(|name| !taken(name));
            plots.push((free.unwrap_or_default(), svg));
        };
        if let Some(lines) = page.slowdown() {
            add("slowdown", lines_svg(&lines)?);
        }
        if let Some(lines) = page.queues() {
            add("queues", lines_svg(&lines)?);
        }
        if let Some(bars) = page.pauses() {
            add("pauses", bars_svg(&bars)?);
        }
    }
    Ok(plots)
}

/// What is drawn of a bin, and how it is read.
type SizeColumn = (&'static str, fn(&SizeBin) -> Stat);

/// Letters and digits, for the name of a file.
fn slug(value: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '-' };
    value.chars().map(plain).collect::<String>().trim_matches('-').to_lowercase()
}

/// A picture for each value of one axis, a panel for each combination of others.
struct Layout<'a> {
    pictures: &'a Pictures<'a>,
    /// The axis of the pictures, if there is more than one.
    file: Option<usize>,
    /// The axes of the panels.
    panels: Vec<usize>,
}

/// Rows that differ in the first axis alone, and what they share.
struct Panel<'a> {
    heading: String,
    rows: Vec<&'a Row>,
}

impl<'a> Layout<'a> {
    fn new(pictures: &'a Pictures<'a>) -> Option<Self> {
        let axes = &pictures.study.axes;
        let count = |axis: &Axis| axis.domain.count().unwrap_or(0);
        let named = |axis: &&Axis| {
            let listed = matches!(axis.domain, Domain::Levels(_)) && axis.unit.is_none();
            listed && (2..=CURVES).contains(&count(axis))
        };
        axes.first().filter(named)?;
        let searched = axes.iter().any(|axis| axis.ladder().is_some());
        if pictures.study.config.method != Method::Grid || searched {
            return None;
        }
        let mut others: Vec<usize> =
            (1..axes.len()).filter(|axis| count(&axes[*axis]) > 1).collect();
        let combinations: usize = others.iter().map(|axis| count(&axes[*axis])).product();
        let first = others.first().copied();
        let file = first.filter(|axis| combinations > PANELS && count(&axes[*axis]) <= FILES);
        others.retain(|axis| Some(*axis) != file);
        let mut combinations = 1;
        others.retain(|axis| {
            let with = combinations * count(&axes[*axis]);
            let fits = with <= PANELS;
            combinations = if fits { with } else { combinations };
            fits
        });
        Some(Layout { pictures, file, panels: others })
    }

    /// The axes that are not held fixed.
    fn free(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.file).chain(self.panels.iter().copied()).collect()
    }

    /// The value of each picture, and its panels.
    fn files(&self) -> Vec<(Option<String>, Vec<Panel<'a>>)> {
        let rows = self.pictures.slice(&self.free());
        let of_value = |value: Option<String>| {
            let mut panels: Vec<Panel<'a>> = Vec::new();
            let mine = |row: &&&Row| self.file.map(|axis| self.pictures.key(axis, row)) == value;
            for row in rows.iter().filter(mine) {
                let heading = self.heading(row);
                match panels.iter_mut().find(|panel| panel.heading == heading) {
                    Some(panel) => panel.rows.push(row),
                    None => panels.push(Panel { heading, rows: vec![row] }),
                }
            }
            (value, panels)
        };
        match self.file {
            None => vec![of_value(None)],
            Some(axis) => self.pictures.names(axis).into_iter().map(Some).map(of_value).collect(),
        }
    }

    fn heading(&self, row: &Row) -> String {
        let part = |axis: &usize| {
            let name = answer::short(&self.pictures.study.axes[*axis].name);
            format!("{name} = {}", self.pictures.key(*axis, row))
        };
        self.panels.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// One picture.
struct Page<'a> {
    layout: &'a Layout<'a>,
    /// The value of its axis.
    value: Option<String>,
    panels: Vec<Panel<'a>>,
}

impl Page<'_> {
    /// What it shows, its value, and what is held fixed.
    fn subtitle(&self, what: &str) -> String {
        let Layout { pictures, file, .. } = self.layout;
        let name = file.map(|axis| answer::short(&pictures.study.axes[axis].name));
        let value = name.zip(self.value.as_ref()).map(|(name, value)| format!("{name} = {value}"));
        let fixed = Some(pictures.fixed(&self.layout.free())).filter(|fixed| !fixed.is_empty());
        let parts = [Some(what.to_owned()), value, fixed];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// A curve for each row.
    fn series(&self, panel: &Panel<'_>, points: impl Fn(&Row) -> Vec<(f64, Stat)>) -> Vec<Series> {
        let point =
            |(x, stat): (f64, Stat)| LinePoint { x, mean: stat.mean, half_width: stat.ci95 };
        let line = |row: &&Row| Series {
            name: self.layout.pictures.key(0, row),
            points: points(row).into_iter().map(point).collect(),
        };
        panel.rows.iter().map(line).collect()
    }

    /// Slowdown over the size of flows: median and 99th percentile side by side.
    fn slowdown(&self) -> Option<LinePlot> {
        let rows = || self.panels.iter().flat_map(|panel| &panel.rows);
        let sizes = |section| rows().map(|row| curves::slowdown(row, section).len()).max();
        // the section of most sizes: an incast of one has no curve
        let sections = curves::sections(self.layout.pictures.table);
        let section = sections.into_iter().rev().max_by_key(|name| sizes(Some(name)));
        if sizes(section).unwrap_or(0) < SIZES {
            return None;
        }
        let of: [SizeColumn; 2] =
            [("slowdown, p50", |bin| bin.p50), ("slowdown, p99", |bin| bin.p99)];
        let panels = self.panels.iter().flat_map(|panel| {
            of.map(|(label, of)| LinePanel {
                heading: panel.heading.clone(),
                log: true,
                label: label.to_owned(),
                better: Better::Lower,
                series: self.series(panel, |row| {
                    let bins = curves::slowdown(row, section);
                    bins.iter()
                        .filter(|bin| bin.flows >= FLOWS)
                        .map(|bin| (bin.to_bytes as f64, of(bin)))
                        .collect()
                }),
            })
        });
        let of_section = section.map_or(String::new(), |name| format!(" of traffic {name}"));
        let ticks = (3..=18).map(|power| 10_u64.pow(power));
        let ticks = ticks.map(|bytes| (bytes as f64, Bytes::new(bytes).to_string())).collect();
        Some(LinePlot {
            title: self.layout.pictures.title(),
            subtitle: self.subtitle(&format!(
                "FCT over ideal FCT, flows{of_section}; bins of at least {FLOWS} flows"
            )),
            x: XAxis {
                label: "flow size, the upper end of each bin".to_owned(),
                scale: XScale::Numbers { log: true, ticks },
            },
            panels: panels.collect(),
            chosen_x: None,
            bare: false,
        })
    }

    /// How long queues were: the share of samples over length.
    fn queues(&self) -> Option<LinePlot> {
        let panel = |panel: &Panel<'_>| LinePanel {
            heading: panel.heading.clone(),
            label: "share of samples".to_owned(),
            series: self.series(panel, |row| {
                let points = curves::queues(row).into_iter().filter(|(_, bytes)| bytes.mean > 0.0);
                // an interval along the curve would say nothing
                let point = |share| Stat { mean: share, ci95: None };
                points.map(|(share, bytes)| (bytes.mean / KB, point(share))).collect()
            }),
            ..LinePanel::default()
        };
        let panels: Vec<LinePanel> = self.panels.iter().map(panel).collect();
        let mut points =
            panels.iter().flat_map(|panel| &panel.series).flat_map(|line| &line.points);
        points.any(|point| point.x > 0.0).then(|| LinePlot {
            title: self.layout.pictures.title(),
            subtitle: self
                .subtitle("CDF of queue length, over switch ports and time, idle ports too"),
            x: XAxis {
                label: "queue length (KB)".to_owned(),
                scale: XScale::Numbers { log: true, ticks: Vec::new() },
            },
            panels,
            chosen_x: None,
            bare: true,
        })
    }

    /// For how long ports were paused; combinations without any pause are left out.
    fn pauses(&self) -> Option<Bars> {
        let pictures = self.layout.pictures;
        let column = pictures.study.columns.iter().position(|column| column.key == "paused_s")?;
        let scaled = pictures.scaled(column);
        let algorithms = pictures.names(0);
        let mut bars = Vec::new();
        for panel in &self.panels {
            let stat = |row: &Row| scaled.of(row);
            if panel.rows.iter().all(|row| stat(row).is_none_or(|stat| stat.mean == 0.0)) {
                continue;
            }
            for row in &panel.rows {
                let name = pictures.key(0, row);
                let place = algorithms.iter().position(|known| *known == name).unwrap_or(0);
                let parts = [panel.heading.as_str(), &name];
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                bars.push(Bar {
                    label: parts.collect::<Vec<_>>().join(": "),
                    value: stat(row).map(|stat| stat.mean),
                    note: String::new(),
                    kind: BarKind::Of(place),
                });
            }
        }
        (!bars.is_empty()).then(|| Bars {
            title: pictures.title(),
            subtitle: self.subtitle("pauses of all ports"),
            axis: scaled.with_unit("time paused, summed over ports"),
            shares: false,
            bars,
            baseline: None,
        })
    }
}
