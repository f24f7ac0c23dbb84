//! What the differences between a simulated and a measured curve look like.
//!
//! The difference t_sim - t_measured is fitted by a + b S, both of the sign that most sizes have,
//! so that a is a time for each operation and b a time for each byte. Differences count relative to
//! the time measured, so that all sizes weigh the same, and by their absolute values, so that a
//! single size that is off does not move the line. Before that, marks of lost packets are looked for
//! in what was measured: time-outs have no place on such a line.

use std::fmt;

use serde::Serialize;

use super::measure::Pair;
use crate::curve_table::{size, time};

/// One size that both have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) bytes: f64,
    pub(super) simulated_s: f64,
    pub(super) measured_s: f64,
    pub(super) in_place_s: Option<f64>,
    pub(super) busbw: Pair,
}

/// The differences of all sizes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// What they look like.
    pub kind: ShapeKind,
    /// a of the fit, with the sign of t_sim - t_measured.
    pub offset_s: f64,
    /// b times size, relative to the time measured, with sign: the median over sizes.
    pub slope_share: f64,
    /// Share of the relative differences that the fit takes away, from 0 to 1.
    pub explained: f64,
}

/// What differences can look like.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeKind {
    /// None to speak of: the mean is within 2 %.
    Even,
    /// About the same time at every size.
    Latency,
    /// In proportion to size.
    Bandwidth,
    /// Both.
    Mixed,
    /// What was measured has marks of lost packets.
    Loss(LossSign),
    /// No line fits.
    Irregular,
}

/// A mark of lost packets in a measured curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossSign {
    /// Time is nearly the same over these sizes, and at least three times what was simulated.
    Plateau {
        /// The smallest size, in bytes.
        from_bytes: u64,
        /// The largest.
        to_bytes: u64,
        /// The median of the times.
        time_s: f64,
    },
    /// busbw falls with size to less than half of its peak, and the simulated does not.
    Falling {
        /// The peak, in GB/s,
        peak_gbytes_per_s: f64,
        /// and where it is, in bytes.
        peak_bytes: u64,
        /// The least of larger sizes.
        least_gbytes_per_s: f64,
    },
    /// Out of place and in place differ by half or more, which should take the same.
    Apart {
        /// Sizes at which they do,
        sizes: usize,
        /// of so many.
        of: usize,
    },
}

/// Mean relative difference that is not worth a shape.
const EVEN: f64 = 0.02;
/// A plateau spans at least this factor of sizes,
const PLATEAU_SPAN: f64 = 8.0;
/// its times differ by at most this factor,
const PLATEAU_SPREAD: f64 = 1.6;
/// and are at least so many times those simulated.
const PLATEAU_EXCESS: f64 = 3.0;
/// Two times that should be the same are apart from this factor on.
const APART: f64 = 1.5;
/// A fit that takes away less says nothing.
const EXPLAINED: f64 = 0.5;

/// The shape of three sizes or more, which are ascending. `curve` is all that was measured, also at
/// other sizes: bytes, and busbw in GB/s.
pub(super) fn shape(points: &[Point], curve: &[(f64, f64)]) -> Option<Shape> {
    if points.len() < 3 {
        return None;
    }
    let fit = fit(points);
    let mut shares: Vec<f64> =
        points.iter().map(|point| fit.slope * point.bytes / point.measured_s).collect();
    shares.sort_by(f64::total_cmp);
    let mean = mean_relative(points, &Line::default());
    let kind = match loss(points, curve) {
        Some(sign) => ShapeKind::Loss(sign),
        None if mean <= EVEN => ShapeKind::Even,
        None => by_fit(points, &fit),
    };
    Some(Shape {
        kind,
        offset_s: fit.offset_s,
        slope_share: shares[shares.len() / 2],
        explained: explained(points, &fit),
    })
}

/// a + b S, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    offset_s: f64,
    slope: f64,
}

impl Line {
    /// What is left of a difference, relative to the time measured.
    fn left(&self, point: &Point) -> f64 {
        let gap = point.simulated_s - point.measured_s;
        (gap - self.offset_s - self.slope * point.bytes) / point.measured_s
    }
}

fn mean_relative(points: &[Point], line: &Line) -> f64 {
    points.iter().map(|point| line.left(point).abs()).sum::<f64>() / points.len() as f64
}

fn explained(points: &[Point], line: &Line) -> f64 {
    let all = mean_relative(points, &Line::default());
    if all > 0.0 { (1.0 - mean_relative(points, line) / all).clamp(0.0, 1.0) } else { 1.0 }
}

/// The better of what a alone and b alone take away, and whether both together are much better.
fn by_fit(points: &[Point], both: &Line) -> ShapeKind {
    let offset = Line { offset_s: scale(points, |_| 1.0), slope: 0.0 };
    let slope = Line { offset_s: 0.0, slope: scale(points, |point| point.bytes) };
    let [offset, slope, both] = [&offset, &slope, both].map(|line| explained(points, line));
    match () {
        () if both < EXPLAINED => ShapeKind::Irregular,
        () if both > offset.max(slope) + 0.1 => ShapeKind::Mixed,
        () if offset > slope => ShapeKind::Latency,
        () => ShapeKind::Bandwidth,
    }
}

/// The multiple of `of` that leaves least of the relative differences: a weighted median.
fn scale(points: &[Point], of: impl Fn(&Point) -> f64) -> f64 {
    let ratio = |point: &Point| {
        let unit = of(point);
        ((point.simulated_s - point.measured_s) / unit, unit / point.measured_s)
    };
    let mut ratios: Vec<(f64, f64)> = points.iter().map(ratio).collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = ratios.iter().map(|ratio| ratio.1).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = ratios.iter().find(|ratio| {
        sum += ratio.1;
        sum >= half
    });
    middle.map_or(0.0, |ratio| ratio.0)
}

/// The line with the least sum of absolute relative differences. The best one goes through two of
/// the points, or through one of them and the origin, so all of these are tried.
fn fit(points: &[Point]) -> Line {
    let sign =
        points.iter().map(|point| (point.simulated_s - point.measured_s).signum()).sum::<f64>();
    let gap = |point: &Point| point.simulated_s - point.measured_s;
    let mut lines = vec![
        Line { offset_s: scale(points, |_| 1.0), slope: 0.0 },
        Line { offset_s: 0.0, slope: scale(points, |point| point.bytes) },
    ];
    // so many at most: curves have 30 sizes
    let points_tried = &points[..points.len().min(200)];
    for (index, one) in points_tried.iter().enumerate() {
        for two in &points_tried[index + 1..] {
            let slope = (gap(two) - gap(one)) / (two.bytes - one.bytes);
            lines.push(Line { offset_s: gap(one) - slope * one.bytes, slope });
        }
    }
    // a cannot be less than nothing, nor b
    let valid = |line: &Line| {
        let sign = if sign < 0.0 { -1.0 } else { 1.0 };
        line.slope.is_finite() && line.offset_s * sign >= 0.0 && line.slope * sign >= 0.0
    };
    let zero = Line::default();
    let lines = lines.into_iter().filter(valid).chain([zero]);
    let least = lines.map(|line| (mean_relative(points, &line), line));
    least.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(zero, |(_, line)| line)
}

/// The first mark of lost packets.
fn loss(points: &[Point], curve: &[(f64, f64)]) -> Option<LossSign> {
    plateau(points).or_else(|| falling(points, curve)).or_else(|| apart(points))
}

/// The widest range of sizes with nearly one time.
fn plateau(points: &[Point]) -> Option<LossSign> {
    let mut widest: Option<(f64, &[Point])> = None;
    for start in 0..points.len() {
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for end in start..points.len() {
            let point = &points[end];
            least = least.min(point.measured_s);
            most = most.max(point.measured_s);
            let slow = point.measured_s >= PLATEAU_EXCESS * point.simulated_s;
            if most > PLATEAU_SPREAD * least || !slow {
                break;
            }
            let span = point.bytes / points[start].bytes;
            if span >= PLATEAU_SPAN && widest.is_none_or(|(known, _)| span > known) {
                widest = Some((span, &points[start..=end]));
            }
        }
    }
    let (_, range) = widest?;
    let mut times: Vec<f64> = range.iter().map(|point| point.measured_s).collect();
    times.sort_by(f64::total_cmp);
    Some(LossSign::Plateau {
        from_bytes: range[0].bytes as u64,
        to_bytes: range[range.len() - 1].bytes as u64,
        time_s: times[times.len() / 2],
    })
}

fn falling(points: &[Point], curve: &[(f64, f64)]) -> Option<LossSign> {
    let peak = curve.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let beyond = curve.iter().filter(|row| row.0 > peak.0);
    let least = beyond.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let here = |point: &Point| point.busbw.here;
    let highest = points.iter().map(here).fold(0.0, f64::max);
    let falls_here = points.iter().any(|point| point.bytes > peak.0 && here(point) < 0.5 * highest);
    (least.1 < 0.5 * peak.1 && !falls_here).then_some(LossSign::Falling {
        peak_gbytes_per_s: peak.1,
        peak_bytes: peak.0 as u64,
        least_gbytes_per_s: least.1,
    })
}

fn apart(points: &[Point]) -> Option<LossSign> {
    let both = points.iter().filter_map(|point| Some((point.measured_s, point.in_place_s?)));
    let both: Vec<(f64, f64)> = both.collect();
    let differ = |(one, two): &&(f64, f64)| one.max(*two) > APART * one.min(*two);
    let sizes = both.iter().filter(differ).count();
    (sizes >= 3 && 4 * sizes >= both.len()).then_some(LossSign::Apart { sizes, of: both.len() })
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed =
            |seconds: f64| format!("{}{}", if seconds < 0.0 { "" } else { "+" }, time(seconds));
        let (offset, slope) = (signed(self.offset_s), self.slope_share * 100.0);
        let explained = format!("explains {:.0} % of the differences", self.explained * 100.0);
        match &self.kind {
            ShapeKind::Even => write!(f, "no shape: all within 2 % in the mean"),
            ShapeKind::Latency => {
                write!(f, "latency-shaped: {offset} at every size {explained}")
            }
            ShapeKind::Bandwidth => {
                write!(f, "bandwidth-shaped: {slope:+.1} % in proportion to size {explained}")
            }
            ShapeKind::Mixed => write!(
                f,
                "latency and bandwidth: {offset} at every size and {slope:+.1} % in proportion to \
                 size {explained}"
            ),
            ShapeKind::Loss(sign) => {
                write!(f, "loss-shaped: {sign}; a line {explained}")
            }
            ShapeKind::Irregular => write!(f, "no shape: a line {explained}"),
        }
    }
}

impl fmt::Display for LossSign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LossSign::Plateau { from_bytes, to_bytes, time_s } => write!(
                f,
                "measured is about {} from {} to {}, whatever the size, as time-outs are",
                time(time_s),
                size(from_bytes),
                size(to_bytes)
            ),
            LossSign::Falling { peak_gbytes_per_s, peak_bytes, least_gbytes_per_s } => write!(
                f,
                "measured busbw falls from {peak_gbytes_per_s:.2} GB/s at {} to \
                 {least_gbytes_per_s:.2} at larger sizes",
                size(peak_bytes)
            ),
            LossSign::Apart { sizes, of } => write!(
                f,
                "measured out of place and in place differ by half or more at {sizes} of {of} sizes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of 1, 2, 4 ... MB: simulated and measured in seconds.
    fn points(times: impl Fn(f64) -> (f64, f64)) -> Vec<Point> {
        let point = |index: i32| {
            let bytes = 1e6 * f64::from(1 << index);
            let (simulated_s, measured_s) = times(bytes);
            let busbw = Pair { here: bytes / simulated_s / 1e9, there: bytes / measured_s / 1e9 };
            Point { bytes, simulated_s, measured_s, in_place_s: None, busbw }
        };
        (0..8).map(point).collect()
    }

    fn kind(points: &[Point]) -> Shape {
        let curve = points.iter().map(|point| (point.bytes, point.busbw.there));
        shape(points, &curve.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_constant_is_latency_and_a_share_is_bandwidth() {
        // 10 GB/s, and 30 us that the simulation has not: -30 us at each size
        let found = kind(&points(|bytes| (bytes / 10e9, bytes / 10e9 + 30e-6)));
        assert_eq!(found.kind, ShapeKind::Latency);
        assert!((found.offset_s + 30e-6).abs() < 1e-9 && found.explained > 0.999, "{found:?}");
        // 10 GB/s simulated, 8 measured: a fifth less time
        let found = kind(&points(|bytes| (bytes / 10e9, bytes / 8e9)));
        assert_eq!(found.kind, ShapeKind::Bandwidth);
        assert!((found.slope_share + 0.2).abs() < 1e-9, "{found:?}");
        // both, the other way round: 100 us more, and 10 GB/s for 12.5
        let found = kind(&points(|bytes| (bytes / 10e9 + 100e-6, bytes / 12.5e9)));
        assert_eq!(found.kind, ShapeKind::Mixed);
        assert!((found.offset_s - 100e-6).abs() < 1e-9, "{found:?}");
        assert!((found.slope_share - 0.25).abs() < 1e-9, "{found:?}");
        let found = kind(&points(|bytes| (bytes / 10e9, 1.01 * bytes / 10e9)));
        assert_eq!(found.kind, ShapeKind::Even);
        assert_eq!(shape(&points(|_| (1.0, 2.0))[..2], &[]), None);
    }

    #[test]
    fn one_size_that_is_off_does_not_move_the_line() {
        let mut all = points(|bytes| (bytes / 10e9, bytes / 10e9 + 30e-6));
        all[4].measured_s *= 1.5;
        let found = kind(&all);
        assert_eq!(found.kind, ShapeKind::Latency);
        assert!((found.offset_s + 30e-6).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn marks_of_loss() {
        // 100 ms from 4 MB to 64 MB, a factor of 16
        let timeouts = |bytes: f64| match bytes {
            4e6..=64e6 => 0.1 + bytes / 10e9,
            _ => bytes / 10e9,
        };
        let found = kind(&points(|bytes| (bytes / 10e9, timeouts(bytes))));
        let ShapeKind::Loss(LossSign::Plateau { from_bytes, to_bytes, time_s }) = found.kind else {
            panic!("{found:?}");
        };
        assert_eq!((from_bytes, to_bytes), (4_000_000, 64_000_000));
        assert!((0.1..0.11).contains(&time_s));
        // 8 GB/s at 1 MB, and a third less at each size
        let slow = |bytes: f64| bytes / (8e9 * 0.67f64.powf((bytes / 1e6).log2()));
        let found = kind(&points(|bytes| (bytes / 10e9, slow(bytes))));
        assert!(matches!(found.kind, ShapeKind::Loss(LossSign::Falling { .. })), "{found:?}");
        // a fall at sizes that were not simulated
        let all = points(|bytes| (bytes / 10e9, bytes / 9e9));
        let found = shape(&all, &[(1e6, 9.0), (1e12, 4.0)]).unwrap();
        assert!(matches!(found.kind, ShapeKind::Loss(LossSign::Falling { .. })), "{found:?}");
        let mut all = points(|bytes| (bytes / 10e9, bytes / 9e9));
        all.iter_mut().for_each(|point| point.in_place_s = Some(2.0 * point.measured_s));
        let expected = ShapeKind::Loss(LossSign::Apart { sizes: 8, of: 8 });
        assert_eq!(kind(&all).kind, expected);
    }
}
