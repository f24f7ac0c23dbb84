//! Small statistics.

pub use models::report::stats::{mean, quantile, sorted};

/// Half the width of the 95 % confidence interval of the mean (Student's t); `None` for fewer
/// than two values.
pub fn confidence_95(values: &[f64]) -> Option<f64> {
    // two-sided 97.5 % quantiles for 1 to 30 degrees of freedom
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = mean(values);
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1) as f64;
    let t = T.get(n - 2).copied().unwrap_or(1.96);
    Some(t * (variance / n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence() {
        let values = [1.0, 2.0, 3.0, 4.0];
        // sd of 1..4 is 1.29099; / sqrt 4 = 0.645497; x t(3) = 3.182
        assert!((confidence_95(&values).unwrap() - 2.05397).abs() < 1e-4);
        assert_eq!(confidence_95(&[1.0]), None);
    }
}
