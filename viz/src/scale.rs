//! Units and ranges of axes.

use std::ops::Range;

use sim_core::units::grouped;

/// A unit that values are divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// As written on the axis.
    pub(crate) name: &'static str,
    /// Of the base unit.
    pub(crate) size: f64,
}

/// For times, from the span to show in seconds.
pub(crate) fn time_unit(span_s: f64) -> Unit {
    match span_s {
        span if span >= 1.0 => Unit { name: "s", size: 1.0 },
        span if span >= 1e-3 => Unit { name: "ms", size: 1e-3 },
        _ => Unit { name: "us", size: 1e-6 },
    }
}

/// For sizes, from the greatest one in bytes.
pub(crate) fn size_unit(greatest: f64) -> Unit {
    match greatest {
        bytes if bytes >= 1e6 => Unit { name: "MB", size: 1e6 },
        _ => Unit { name: "KB", size: 1e3 },
    }
}

/// For rates.
pub(crate) const GIGABITS: Unit = Unit { name: "Gb/s", size: 1e9 };

/// For shares.
pub(crate) const PERCENT: Unit = Unit { name: "%", size: 0.01 };

/// The times to show, never empty. Starts at 0 unless the samples start much later.
pub(crate) fn time_range(time_s: &[f64]) -> Range<f64> {
    let finite = || time_s.iter().copied().filter(|time| time.is_finite());
    let (mut from, mut to) = finite()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), time| {
            (from.min(time), to.max(time))
        });
    if from > to {
        (from, to) = (0.0, 0.0);
    }
    if (0.0..=0.1 * (to - from)).contains(&from) {
        from = 0.0;
    }
    match to > from {
        true => from..to,
        false => from..from + 1e-6_f64.max(from * 1e-3),
    }
}

/// From 0 to a little more than the greatest value, never empty.
pub(crate) fn value_range(greatest: f64) -> Range<f64> {
    match greatest > 0.0 && greatest.is_finite() {
        true => 0.0..greatest * 1.06,
        false => 0.0..1.0,
    }
}

/// A number at a tick of an axis of this range: no more digits than tell ticks apart.
pub(crate) fn tick(value: f64, range: &Range<f64>) -> String {
    let magnitude = (range.end - range.start).log10().floor() as i32;
    let text = format!("{value:.*}", (2 - magnitude).clamp(0, 12) as usize);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A number in words: three significant digits.
pub(crate) fn short(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    tick(value, &(0.0..value))
}

/// A time in words: `1.25 ms`.
pub(crate) fn time(seconds: f64) -> String {
    let unit = time_unit(seconds);
    format!("{} {}", short(seconds / unit.size), unit.name)
}

/// A size in words: `312 KB`.
pub(crate) fn size(bytes: f64) -> String {
    if bytes < 1e3 {
        return format!("{} B", short(bytes));
    }
    let unit = size_unit(bytes);
    format!("{} {}", short(bytes / unit.size), unit.name)
}

/// A size in words, in binary units: `128 MiB`.
pub(crate) fn binary_size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    format!("{} {}", short(value), units[unit])
}

/// A rate in words: `400 Gb/s`.
pub(crate) fn rate(bps: f64) -> String {
    let (size, name) = match bps {
        bps if bps >= 1e9 => (GIGABITS.size, GIGABITS.name),
        _ => (1e6, "Mb/s"),
    };
    format!("{} {name}", short(bps / size))
}

/// A share in words, with a digit after the point: `97.9 %`.
pub(crate) fn percent(share: f64) -> String {
    match share / PERCENT.size {
        value if value.is_nan() || value <= 0.0 => "0 %".to_owned(),
        value if value < 0.05 => "< 0.1 %".to_owned(),
        value => format!("{value:.1} %"),
    }
}

/// A number of things: `1 host`, `1 234 hosts`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_have_no_spare_digits() {
        assert_eq!(tick(0.0, &(0.0..1.0)), "0");
        assert_eq!(tick(0.1 + 0.2, &(0.0..1.0)), "0.3");
        assert_eq!(tick(200.0, &(0.0..1000.0)), "200");
        assert_eq!(tick(2_000_100.0, &(2_000_000.0..2_000_400.0)), "2000100");
        assert_eq!(tick(0.0005, &(0.0..0.002)), "0.0005");
        assert_eq!(tick(-1e-17, &(0.0..1.0)), "0");
    }

    #[test]
    fn words() {
        assert_eq!(time(387.779e-6), "388 us");
        assert_eq!(time(0.02), "20 ms");
        assert_eq!(time(0.0), "0 us");
        assert_eq!(size(78.0), "78 B");
        assert_eq!(size(312_345.0), "312 KB");
        assert_eq!(size(4_194_304.0), "4.19 MB");
    }

    #[test]
    fn more_words() {
        assert_eq!(binary_size(0.0), "0 B");
        assert_eq!(binary_size(1023.0), "1023 B");
        assert_eq!(binary_size(1536.0), "1.5 KiB");
        assert_eq!(binary_size(134_217_728.0), "128 MiB");
        assert_eq!(binary_size(1e8), "95.4 MiB");
        assert_eq!(rate(400e9), "400 Gb/s");
        assert_eq!(rate(2.5e6), "2.5 Mb/s");
        assert_eq!(percent(0.979), "97.9 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(0.0004), "< 0.1 %");
        assert_eq!([0.0, -1.0, f64::NAN].map(percent), ["0 %"; 3]);
        assert_eq!(counted(1, "host"), "1 host");
        assert_eq!(counted(2_000, "link"), "2 000 links");
    }

    #[test]
    fn ranges_are_never_empty() {
        for times in [&[][..], &[0.0], &[2.0], &[f64::NAN], &[1.0, 1.0]] {
            let range = time_range(times);
            assert!(range.end > range.start, "{times:?}: {range:?}");
        }
        assert_eq!(time_range(&[1e-6, 2e-6, 2e-5]), 0.0..2e-5);
        assert_eq!(time_range(&[2.0, 2.1]), 2.0..2.1);
        for greatest in [0.0, f64::NAN, f64::INFINITY, 1e-30, 1e30] {
            let range = value_range(greatest);
            assert!(range.end > range.start, "{greatest}: {range:?}");
        }
    }
}
