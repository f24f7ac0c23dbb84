//! What ranks did when: a row for each rank, a bar for each repetition of its collective.

use std::collections::BTreeMap;

use models::report::{LaneSpan, RankReport};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Run;
use crate::chart::{Axis, Scale, Width};
use crate::error::PlotError;
use crate::font;
use crate::scale::{counted, time_unit};
use crate::style::{AXIS, Area, FADED, GRID, INK, PALETTE, fit, fit_ends, printable, text, width};

/// Rows of a timeline, and bars of a row.
const ROWS: usize = 64;
const BARS: usize = 200;
/// Height of a row.
const ROW: i32 = 17;
/// Height of a bar.
const BAR: i32 = 13;

/// A row for each rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Name of its file.
    pub id: String,
    title: String,
    note: String,
    x: Axis,
    /// What the parts of a bar mean, and their places in the palette.
    parts: Vec<(&'static str, usize)>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    label: String,
    /// The same where there is little room.
    short: String,
    bars: Vec<Bar>,
}

/// A span of time, in the unit of the axis; how much of it each part takes.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    from: f64,
    to: f64,
    shares: Vec<f64>,
}

/// The timelines of a run: of its collectives, and of its training jobs.
pub(crate) fn of_run(run: &Run<'_>) -> Vec<Timeline> {
    let mut timelines: Vec<Timeline> = collectives(run).into_iter().collect();
    for (number, training) in run.report.trainings.iter().enumerate() {
        timelines.extend(training_step(number, &training.name, &training.by_rank));
    }
    timelines
}

/// Sums over the lanes of a rank in a repetition.
#[derive(Clone, Copy)]
struct Sum {
    from: f64,
    to: f64,
    busy: f64,
    waits: [f64; 2],
}

fn collectives(run: &Run<'_>) -> Option<Timeline> {
    let end_s = run.report.simulated_time_s;
    let lanes = &run.series.lanes;
    let several = lanes.iter().any(|lane| lane.collective != lanes[0].collective);
    let mut ranks: BTreeMap<(u32, u32), (String, BTreeMap<u32, Sum>)> = BTreeMap::new();
    for lane in lanes {
        let LaneSpan { collective, rank, host, gpu, .. } = lane;
        let label = || match several {
            true => format!("#{collective} rank {rank} {host}/gpu{gpu}"),
            false => format!("rank {rank} {host}/gpu{gpu}"),
        };
        let (_, bars) =
            ranks.entry((*collective, *rank)).or_insert_with(|| (label(), BTreeMap::new()));
        let to = lane.end_s.unwrap_or(end_s);
        let empty = Sum { from: f64::INFINITY, to: 0.0, busy: 0.0, waits: [0.0; 2] };
        let sum = bars.entry(lane.repetition).or_insert(empty);
        (sum.from, sum.to) = (sum.from.min(lane.begin_s), sum.to.max(to));
        sum.busy += to - lane.begin_s;
        sum.waits[0] += lane.waiting_to_receive_s.unwrap_or(0.0);
        sum.waits[1] += lane.waiting_to_send_s.unwrap_or(0.0);
    }
    let all: Vec<(String, Vec<Sum>)> =
        ranks.into_values().map(|(label, bars)| (label, bars.into_values().collect())).collect();
    let last = |bars: &[Sum]| bars.iter().map(|bar| bar.to).fold(0.0, f64::max);
    let shown = chosen(all.len(), |index| last(&all[index].1));
    let begin =
        all.iter().flat_map(|(_, bars)| bars).map(|bar| bar.from).fold(f64::INFINITY, f64::min);
    let end = all.iter().map(|(_, bars)| last(bars)).fold(0.0, f64::max);
    if shown.is_empty() || end <= begin {
        return None;
    }
    let unit = time_unit(end - begin);
    let bar = |sum: &Sum| {
        let waits = sum.waits.map(|wait| (wait / sum.busy.max(1e-15)).clamp(0.0, 1.0));
        let shares = vec![(1.0 - waits[0] - waits[1]).max(0.0), waits[0], waits[1]];
        Bar { from: sum.from / unit.size, to: sum.to / unit.size, shares }
    };
    let rows = shown.iter().map(|index| {
        let (label, bars) = &all[*index];
        let short = label.rsplit_once(' ').map_or(label.as_str(), |(rank, _)| rank).to_owned();
        Row { label: label.clone(), short, bars: bars.iter().take(BARS).map(bar).collect() }
    });
    let mut note =
        "a bar for each repetition; its parts are shares of its time, over all channels".to_owned();
    if shown.len() < all.len() {
        note = format!(
            "{} of {}, the 16 that end last among them; {note}",
            shown.len(),
            counted(all.len() as u64, "rank")
        );
    }
    let from = if begin < 0.2 * end { 0.0 } else { begin };
    let range = [from / unit.size, (end + 0.01 * (end - from)) / unit.size];
    Some(Timeline {
        id: "ranks".to_owned(),
        title: "Collectives by rank".to_owned(),
        note,
        x: Axis { quantity: "Time", unit: unit.name, scale: Scale::Linear, range },
        parts: vec![("working", 2), ("waiting for data", 1), ("waiting for room to send", 4)],
        rows: rows.collect(),
    })
}

/// At most [`ROWS`] of so many: the 16 with the greatest measure, the others evenly.
fn chosen(count: usize, measure: impl Fn(usize) -> f64) -> Vec<usize> {
    if count <= ROWS {
        return (0..count).collect();
    }
    let mut all: Vec<usize> = (0..count).collect();
    all.sort_by(|a, b| measure(*b).total_cmp(&measure(*a)).then(a.cmp(b)));
    let mut rest = all.split_off(16);
    rest.sort_unstable();
    let others = ROWS - all.len();
    all.extend((0..others).map(|place| rest[place * rest.len() / others]));
    all.sort_unstable();
    all
}

/// Where the time of a step goes.
fn training_step(number: usize, name: &str, ranks: &[RankReport]) -> Option<Timeline> {
    let total =
        |rank: &RankReport| rank.compute_s + rank.tp_wait_s + rank.pp_wait_s + rank.dp_wait_s;
    let longest = ranks.iter().map(total).fold(0.0, f64::max);
    if longest <= 0.0 {
        return None;
    }
    let unit = time_unit(longest);
    let shown = chosen(ranks.len(), |index| ranks[index].compute_s);
    let row = |rank: &RankReport| {
        let parts = [rank.compute_s, rank.tp_wait_s, rank.pp_wait_s, rank.dp_wait_s];
        let mut from = 0.0;
        let bars = parts.iter().enumerate().map(|(place, part)| {
            let begin = from;
            from += part / unit.size;
            let shares = (0..4).map(|of| f64::from(u8::from(of == place))).collect();
            Bar { from: begin, to: from, shares }
        });
        let bars = bars.filter(|bar| bar.to > bar.from).collect();
        let label = format!("rank {} {}/gpu{}", rank.rank, rank.host, rank.gpu);
        Row { label, short: format!("rank {}", rank.rank), bars }
    };
    let few = match shown.len() < ranks.len() {
        true => format!("{} of {} ranks; ", shown.len(), ranks.len()),
        false => String::new(),
    };
    let title = if name.is_empty() {
        "Training step by rank".to_owned()
    } else {
        format!("Training step of {name} by rank")
    };
    Some(Timeline {
        id: format!("training-{number}"),
        title,
        note: format!("{few}mean of the timed steps: where the time goes, not in which order"),
        x: Axis {
            quantity: "Time in a step",
            unit: unit.name,
            scale: Scale::Linear,
            range: [0.0, longest / unit.size * 1.02],
        },
        parts: vec![
            ("computing", 2),
            ("waiting for tensor parallelism", 4),
            ("for other stages", 1),
            ("for other copies", 5),
        ],
        rows: shown.into_iter().map(|index| row(&ranks[index])).collect(),
    })
}

impl Timeline {
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// As a self-contained SVG.
    pub fn svg(&self) -> Result<String, PlotError> {
        self.draw(Width::Wide)
    }

    /// The same for a narrow screen.
    pub(crate) fn narrow_svg(&self) -> Result<String, PlotError> {
        self.draw(Width::Narrow)
    }

    /// All that it shows, as text.
    pub fn data(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(|(name, _)| *name).collect();
        let mut text = format!(
            "{}: {}\n({})\nx: {}\nparts: {}\n",
            self.id,
            self.title,
            self.note,
            self.x.label(),
            parts.join(", ")
        );
        for row in &self.rows {
            let bars = row.bars.iter().map(|bar| {
                let shares: Vec<String> =
                    bar.shares.iter().map(|share| format!("{share:.3}")).collect();
                format!("{:.4}..{:.4} {}", bar.from, bar.to, shares.join("/"))
            });
            text += &format!("- {}: {}\n", row.label, bars.collect::<Vec<_>>().join("; "));
        }
        text
    }

    fn draw(&self, screen: Width) -> Result<String, PlotError> {
        font::register();
        let names = text(14.0, INK, FontStyle::Normal);
        let narrow = screen == Width::Narrow;
        let (whole, room) = if narrow { (380, 96) } else { (1120, 200) };
        let label = |row: &Row| if narrow { row.short.clone() } else { row.label.clone() };
        let widest = self.rows.iter().map(|row| width(&label(row), &names)).max().unwrap_or(0);
        let left = 12 + widest.min(room) + 8;
        let legend_lines = if narrow { self.parts.len() as i32 } else { 1 };
        let top = 62 + 21 * legend_lines;
        let bottom = top + self.rows.len() as i32 * ROW + 4;
        let mut svg = String::new();
        {
            let size = (whole as u32, (bottom + 54) as u32);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            self.heading(&root, narrow)?;
            let frame = [left, top, whole - 16, bottom];
            self.axis(&root, frame)?;
            for (index, row) in self.rows.iter().enumerate() {
                let middle = top + index as i32 * ROW + ROW / 2 + 2;
                let style = names.clone().pos(Pos::new(HPos::Right, VPos::Center));
                let label = fit_ends(&printable(&label(row)), &style, left - 16);
                root.draw_text(&label, &style, (left - 8, middle))?;
                self.bars(&root, row, middle, frame)?;
            }
            root.present()?;
        }
        Ok(svg)
    }

    fn heading(&self, root: &Area<'_>, narrow: bool) -> Result<(), PlotError> {
        let room = root.dim_in_pixel().0 as i32 - 16;
        let style = text(18.0, INK, FontStyle::Bold);
        root.draw_text(&fit(&self.title, &style, room), &style, (8, 8))?;
        let style = text(14.0, FADED, FontStyle::Normal);
        root.draw_text(&fit(&self.note, &style, room), &style, (8, 34))?;
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
        let (mut x, mut y) = (10, 66);
        for (name, color) in &self.parts {
            let corners = [(x, y - 6), (x + 13, y + 7)];
            root.draw(&Rectangle::new(corners, PALETTE[*color].filled()))?;
            root.draw_text(name, &style, (x + 20, y))?;
            if narrow { y += 21 } else { x += 44 + width(name, &style) }
        }
        Ok(())
    }

    fn axis(&self, root: &Area<'_>, [left, top, right, bottom]: [i32; 4]) -> Result<(), PlotError> {
        let style = text(14.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Top));
        let across = f64::from(right - left);
        let ticks = self.x.ticks(|ticks| {
            ticks.windows(2).all(|pair| {
                let need = (width(&pair[0].label, &style) + width(&pair[1].label, &style)) / 2 + 14;
                (pair[1].at - pair[0].at) * across >= f64::from(need)
            })
        });
        for tick in ticks {
            let x = left + (tick.at * across).round() as i32;
            root.draw(&PathElement::new([(x, top), (x, bottom)], GRID))?;
            root.draw_text(&tick.label, &style, (x, bottom + 6))?;
        }
        root.draw(&PathElement::new([(left, bottom), (right, bottom)], AXIS))?;
        let style = text(15.0, INK, FontStyle::Normal).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw_text(&self.x.label(), &style, ((left + right) / 2, bottom + 27))?;
        Ok(())
    }

    fn bars(
        &self,
        root: &Area<'_>,
        row: &Row,
        middle: i32,
        [left, _, right, _]: [i32; 4],
    ) -> Result<(), PlotError> {
        let across = f64::from(right - left);
        for bar in &row.bars {
            let x = |at: f64| left + (self.x.place(at) * across).round() as i32;
            let (mut from, to) = (f64::from(x(bar.from)), x(bar.to).max(x(bar.from) + 1));
            // a gap between neighbours
            let to = if to - from as i32 > 4 { to - 1 } else { to };
            let whole = f64::from(to) - from;
            for ((_, color), share) in self.parts.iter().zip(&bar.shares) {
                let end = from + whole * share;
                let corners = [
                    (from.round() as i32, middle - BAR / 2),
                    (end.round() as i32, middle - BAR / 2 + BAR),
                ];
                if corners[1].0 > corners[0].0 {
                    root.draw(&Rectangle::new(corners, PALETTE[*color].filled()))?;
                }
                from = end;
            }
        }
        Ok(())
    }
}
