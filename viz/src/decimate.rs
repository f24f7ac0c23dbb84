//! Fewer points per line, without losing peaks.

/// The same curve with at most `limit` points (at least 4): both ends, and the least and the
/// greatest value of each of equally many points in between, in their order.
pub(crate) fn decimate(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let [first, inner @ .., last] = points else { return points.to_vec() };
    if points.len() <= limit {
        return points.to_vec();
    }
    let buckets = (limit.max(4) - 2) / 2;
    let size = inner.len().div_ceil(buckets);
    let mut kept = vec![*first];
    for bucket in inner.chunks(size) {
        let by_value = |a: &usize, b: &usize| bucket[*a].1.total_cmp(&bucket[*b].1);
        let least = (0..bucket.len()).min_by(by_value).unwrap_or(0);
        let greatest = (0..bucket.len()).max_by(by_value).unwrap_or(0);
        kept.push(bucket[least.min(greatest)]);
        if least != greatest {
            kept.push(bucket[least.max(greatest)]);
        }
    }
    kept.push(*last);
    kept
}

/// A rate, given as its mean over the interval that ends at each time, as at most `limit` steps
/// of two points. A step over several intervals is their mean: that is exact, where extremes
/// would show single packets.
pub(crate) fn mean_steps(time_s: &[f64], means: &[f64], limit: usize) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = time_s.iter().copied().zip(means.iter().copied()).collect();
    if points.len() < 2 {
        return points;
    }
    // no interval ends at the first time
    let intervals: Vec<_> =
        points.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[1].1)).collect();
    let (count, size) = (intervals.len(), intervals.len().div_ceil(limit.max(1)));
    // what is left goes into a step of its own only if that is not much shorter than the others
    let steps = (count / size + usize::from(count % size > size / 2)).max(1);
    let steps = (0..steps).map(|i| {
        let end = if i + 1 == steps { count } else { (i + 1) * size };
        let step = &intervals[i * size..end];
        let (from, to) = (step[0].0, step[step.len() - 1].1);
        let sum: f64 = step.iter().map(|(from, to, mean)| (to - from) * mean).sum();
        [(from, sum / (to - from)), (to, sum / (to - from))]
    });
    steps.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zigzag(count: usize) -> Vec<(f64, f64)> {
        (0..count).map(|i| (i as f64, (i % 7) as f64)).collect()
    }

    #[test]
    fn short_lines_stay() {
        for count in [0, 1, 2, 100] {
            assert_eq!(decimate(&zigzag(count), 100), zigzag(count));
        }
    }

    #[test]
    fn peaks_and_ends_survive_in_order() {
        let mut points = zigzag(100_000);
        points[54_321].1 = 99.0;
        points[77_777].1 = -99.0;
        let fewer = decimate(&points, 1500);
        assert!(fewer.len() <= 1500, "{} points", fewer.len());
        assert!(fewer.contains(&(54_321.0, 99.0)));
        assert!(fewer.contains(&(77_777.0, -99.0)));
        assert_eq!(fewer.first(), points.first());
        assert_eq!(fewer.last(), points.last());
        assert!(fewer.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn steps_are_means() {
        // intervals 1, 1 and 2 long
        let (times, means) = ([0.0, 1.0, 2.0, 4.0], [99.0, 3.0, 5.0, 7.0]);
        let all = [(0.0, 3.0), (1.0, 3.0), (1.0, 5.0), (2.0, 5.0), (2.0, 7.0), (4.0, 7.0)];
        assert_eq!(mean_steps(&times, &means, 3), all);
        // two in a step, and the third is too little for its own: 3 + 5 + 2 * 7 = 22 over 4
        assert_eq!(mean_steps(&times, &means, 2), [(0.0, 5.5), (4.0, 5.5)]);
        assert_eq!(mean_steps(&times, &means, 1), [(0.0, 5.5), (4.0, 5.5)]);
        // 9 intervals: 5 and 4; 7 in threes: 3, and 3 with the one that is left
        let (times, means): (Vec<f64>, Vec<f64>) = (0..10).map(|i| (f64::from(i), 1.0)).unzip();
        let ends = |times: &[f64], limit: usize| -> Vec<f64> {
            mean_steps(times, &means, limit).chunks(2).map(|step| step[1].0).collect()
        };
        assert_eq!(ends(&times, 2), [5.0, 9.0]);
        assert_eq!(ends(&times[..8], 3), [3.0, 7.0]);
        assert_eq!(mean_steps(&times[..1], &means, 9), [(0.0, 1.0)]);
        assert_eq!(mean_steps(&[], &means, 9), []);
    }
}
