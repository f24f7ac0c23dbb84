//! Made-up studies.

use viz::study::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Kmin x Kmax: busbw, pauses and p99, with a requirement on pauses and one failed point.
pub(crate) fn heat_map(columns: usize, rows: usize) -> HeatMap {
    let panel = |title: &str, better, value: &dyn Fn(f64, f64) -> f64| HeatPanel {
        title: title.to_owned(),
        better,
        cells: (0..rows)
            .map(|y| {
                let cell = |x: usize| {
                    let at = (x as f64 / columns as f64, y as f64 / rows as f64);
                    ((x, y) != (1, 0)).then(|| value(at.0, at.1))
                };
                (0..columns).map(cell).collect()
            })
            .collect(),
        crossed: (0..rows).map(|y| (0..columns).map(|x| x + y > columns).collect()).collect(),
    };
    HeatMap {
        title: "ECN thresholds of an AllReduce beside a storage incast".to_owned(),
        subtitle: "ecn-threshold · 25 points x 3 seeds · pmax = 0.1 · 1 failed".to_owned(),
        x: Ticks {
            label: "switch.ecn.kmin (KB)".to_owned(),
            names: (0..columns).map(|x| (50_u64 << x.min(20)).to_string()).collect(),
        },
        y: Ticks {
            label: "switch.ecn.kmax".to_owned(),
            names: (0..rows).map(|y| format!("{} KB", 200_u64 << y.min(20))).collect(),
        },
        panels: vec![
            panel("busbw (GB/s)", Better::Higher, &|x, y| 21.0 + 3.5 * x + 1.7 * y - 4.0 * x * y),
            panel("PFC pauses", Better::Lower, &|x, y| (3e4 * x * y * y).round()),
            panel("p99 of storage flows (us)", Better::Lower, &|x, y| 180.0 + 4000.0 * x * y),
        ],
        chosen: Some((2, 1)),
        base: Some((3, 2)),
    }
}

/// Three lines over cable lengths, in `panels` panels.
pub(crate) fn line_plot(panels: usize) -> LinePlot {
    let objectives = [
        ("Smallest lossless headroom (KB)", Better::Lower),
        ("busbw (GB/s)", Better::Higher),
        ("Pauses", Better::Neither),
        ("p99 of FCT (us)", Better::Lower),
        ("Longest queue (KB)", Better::Lower),
    ];
    let rates = [("100 Gb/s", 1.0), ("200 Gb/s", 2.0), ("400 Gb/s", 4.0)];
    let lengths = [5.0, 20.0, 40.0, 100.0, 300.0, 1000.0];
    let line = |index: usize, (name, factor): (&str, f64)| Series {
        name: name.to_owned(),
        points: lengths
            .iter()
            .map(|x| LinePoint {
                x: *x,
                mean: [12.0 + 0.1 * factor * x, 24.0 - x.log10() / 5.0 * factor][index % 2],
                half_width: (index != 2).then_some([2.0 + x / 50.0, 0.05 * factor][index % 2]),
            })
            .collect(),
    };
    let panel = |index: usize| LinePanel {
        label: objectives[index % objectives.len()].0.to_owned(),
        better: objectives[index % objectives.len()].1,
        series: rates.map(|rate| line(index, rate)).to_vec(),
        ..LinePanel::default()
    };
    LinePlot {
        title: "Headroom over cable length".to_owned(),
        subtitle: "headroom-vs-cable · 5 seeds a point".to_owned(),
        x: XAxis {
            label: "Length of the cable (m, logarithmic)".to_owned(),
            scale: XScale::Numbers {
                log: true,
                ticks: lengths.map(|metres| (metres, format!("{metres} m"))).to_vec(),
            },
        },
        panels: (0..panels).map(panel).collect(),
        chosen_x: Some(40.0),
        bare: false,
    }
}

/// The same over named variants.
pub(crate) fn named_plot() -> LinePlot {
    let variants = names(&["ecmp", "ecmp, 4 QPs", "spray", "adaptive routing of leaves"]);
    let series = ["ring", "halving-doubling"].map(|name| Series {
        name: name.to_owned(),
        points: (0..variants.len())
            .map(|place| LinePoint {
                x: place as f64,
                mean: 18.0 + place as f64 * 1.5 + name.len() as f64 / 10.0,
                half_width: Some(0.8),
            })
            .collect(),
    });
    let panel = LinePanel {
        label: "busbw (GB/s)".to_owned(),
        better: Better::Higher,
        series: series.to_vec(),
        ..LinePanel::default()
    };
    LinePlot {
        title: "Load balancing".to_owned(),
        subtitle: String::new(),
        x: XAxis { label: "variant".to_owned(), scale: XScale::Names(variants) },
        panels: vec![panel],
        chosen_x: Some(2.0),
        bare: false,
    }
}

/// `count` points with a front.
pub(crate) fn pareto(count: usize, x_better: Better, y_better: Better) -> Pareto {
    let noise = |index: usize| (index as f64 * 0.618_034).fract();
    let mut points: Vec<ParetoPoint> = (0..count)
        .map(|index| {
            let (a, b) = (noise(index), noise(index * index + 7));
            ParetoPoint {
                x: 100.0 + 900.0 * a,
                y: 20.0 + 4.0 * b - 2.0 * a * b,
                feasible: noise(index * 3 + 1) > 0.25,
                on_front: false,
                label: Some((index + 1).to_string()),
            }
        })
        .collect();
    let ahead = |a: f64, b: f64, better| match better {
        Better::Lower => a < b,
        _ => a > b,
    };
    for index in 0..count {
        let point = &points[index];
        let beaten = points.iter().any(|other| {
            other.feasible && ahead(other.x, point.x, x_better) && ahead(other.y, point.y, y_better)
        });
        points[index].on_front = points[index].feasible && !beaten;
    }
    let chosen = points.iter().position(|point| point.on_front);
    let axis = |label: &str, better| ParetoAxis { label: label.to_owned(), better };
    Pareto {
        title: "busbw against the tail of storage".to_owned(),
        subtitle: format!("ecn-threshold · {count} points"),
        x: axis("p99 of storage flows (us)", x_better),
        y: axis("busbw (GB/s)", y_better),
        points,
        chosen,
        base: (count > 5).then_some(5),
    }
}

fn bar(label: &str, value: f64, note: &str, kind: BarKind) -> Bar {
    Bar { label: label.to_owned(), value: Some(value), note: note.to_owned(), kind }
}

/// Which key matters.
pub(crate) fn sensitivity() -> Bars {
    Bars {
        title: "Which key matters for busbw".to_owned(),
        subtitle: "ecn-threshold · 60 points x 3 seeds".to_owned(),
        axis: "Share of the variance of busbw (%)".to_owned(),
        shares: true,
        bars: vec![
            bar("switch.ecn.kmin", 0.612, "", BarKind::Plain),
            bar("switch.ecn.kmax", 0.204, "", BarKind::Plain),
            bar("switch.ecn.pmax", 0.0312, "", BarKind::Plain),
            bar("interplay and noise", 0.1528, "", BarKind::Rest),
        ],
        baseline: None,
    }
}

/// Worst first.
pub(crate) fn failures(count: usize) -> Bars {
    let failure = |index: usize| {
        let value = 8.0 + 16.0 * index as f64 / count as f64;
        let kind = if index < 2 { BarKind::Broken } else { BarKind::Plain };
        bar(
            &format!("leaf{}:{} - spine{}", index / 4, index, index % 4),
            value,
            "± 0.2, 44 % less",
            kind,
        )
    };
    let mut bars: Vec<Bar> = (0..count).map(failure).collect();
    bars[0].value = None;
    bars[0].note = "deadlock".to_owned();
    Bars {
        title: "busbw with each single failure".to_owned(),
        subtitle: format!("allreduce-4x8-a100 · {count} failures"),
        axis: "busbw (GB/s)".to_owned(),
        shares: false,
        bars,
        baseline: Some(Baseline { label: "nothing fails".to_owned(), value: 24.53 }),
    }
}
