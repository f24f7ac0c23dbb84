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
}
