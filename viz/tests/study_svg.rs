//! Plots of made-up studies.

mod common;

use common::studies::{failures, heat_map, line_plot, named_plot, pareto, sensitivity};
use common::{assert_sound, texts};
use proptest::prelude::*;
use viz::study::*;

/// All texts of a plot.
fn words(svg: &str) -> Vec<String> {
    texts(svg).into_iter().map(|text| text.2).collect()
}

fn assert_says(svg: &str, expected: &[&str]) {
    let words = words(svg);
    for text in expected {
        assert!(words.iter().any(|word| word == text), "{text} is missing in {words:?}");
    }
}

/// The value of an attribute of an element.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    Some(element.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0)
}

/// Every coordinate is a number on the page, and every length is one.
fn assert_on_page(svg: &str) {
    let size = |name| attribute(svg, name).unwrap().parse::<i32>().unwrap();
    let (wide, high) = (size("width"), size("height"));
    assert_eq!(wide, 1200);
    assert!(high < 40_000, "{high} high");
    let within = |value: &str, end: i32| {
        let value: i32 = value.parse().expect(value);
        assert!((-1..=end + 1).contains(&value), "{value} of {end}");
    };
    for element in svg.split('<').skip(2) {
        for (names, end) in [(["x", "x1", "x2", "cx"], wide), (["y", "y1", "y2", "cy"], high)] {
            for value in names.iter().filter_map(|name| attribute(element, name)) {
                within(value, end);
            }
        }
        for (name, end) in [("width", wide), ("height", high)] {
            if let Some(value) = attribute(element, name) {
                within(value, end);
            }
        }
        for point in attribute(element, "points").unwrap_or_default().split_whitespace() {
            let (x, y) = point.split_once(',').expect("a point");
            within(x, wide);
            within(y, high);
        }
    }
}

/// Left, right and middle height of each level text of a plot, at half an em a character, which
/// is less than it takes.
fn extents(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let text = |element: &str| {
        let number = |name: &str| attribute(element, name).unwrap().parse::<f64>().unwrap();
        let content = element.split_once('>').unwrap().1.split_once('<').unwrap().0.trim();
        let wide = 0.5 * number("font-size") * content.chars().count() as f64;
        let left = match attribute(element, "text-anchor").unwrap() {
            "start" => number("x"),
            "middle" => number("x") - wide / 2.0,
            _ => number("x") - wide,
        };
        let level = attribute(element, "transform").is_none();
        level.then(|| (left, left + wide, number("y"), content.to_owned()))
    };
    svg.split("<text").skip(1).filter_map(text).collect()
}

/// Nothing is cut off, and no two texts lie over each other.
fn assert_readable(svg: &str) {
    assert_sound(svg);
    assert_on_page(svg);
    let all = extents(svg);
    for (index, (left, right, y, text)) in all.iter().enumerate() {
        assert!(*left >= 0.0 && *right <= 1200.0, "{text} from {left} to {right}");
        let over = |other: &&(f64, f64, f64, String)| {
            (other.2 - y).abs() < 8.0 && other.0 < *right && *left < other.1
        };
        let other = all[index + 1..].iter().find(over);
        assert!(other.is_none() || text.is_empty(), "{text} and {other:?}");
    }
}

#[test]
fn every_cell_has_its_number() {
    let svg = heat_svg(&heat_map(5, 5)).unwrap();
    assert_readable(&svg);
    // 21 + 3.5 x 0.4 + 1.7 x 0.2 - 4 x 0.4 x 0.2 GB/s, 30 000 x 0.8 x 0.8^2 pauses
    assert_says(&svg, &["22.4", "15.4k", "busbw (GB/s)", "higher is better", "lower is better"]);
    assert_says(&svg, &["recommended", "the scenario as it is", "a requirement is broken"]);
    // 3 x 24 numbers, and 3 x 2 ends of colours
    let numbers = words(&svg).into_iter().filter(|word| {
        let number = word.trim_start_matches(['≤', '≥', ' ']);
        number.trim_end_matches('k').parse::<f64>().is_ok()
    });
    // the names of columns are numbers too
    assert_eq!(numbers.count(), 3 * 24 + 3 * 2 + 3 * 5);
    // the lowest value of y is the lowest row
    let height = |name: &str| texts(&svg).iter().find(|text| text.2 == name).unwrap().1;
    assert!(height("200 KB") > height("3200 KB"));
}

#[test]
fn numbers_shrink_and_go_where_there_is_no_room() {
    for (columns, rows) in [(1, 1), (1, 7), (12, 6), (20, 20)] {
        let svg = heat_svg(&heat_map(columns, rows)).unwrap();
        assert_readable(&svg);
        assert_says(&svg, &["21"]);
    }
    let svg = heat_svg(&heat_map(120, 3)).unwrap();
    assert_sound(&svg);
    assert_on_page(&svg);
    assert!(!words(&svg).contains(&"22.4".to_owned()));
    let mut large = heat_map(1000, 400);
    large.panels.truncate(1);
    let svg = heat_svg(&large).unwrap();
    assert_on_page(&svg);
    assert_says(&svg, &["switch.ecn.kmin (KB) (the first 300 of 1000)"]);
}

#[test]
fn the_chosen_cell_is_outlined_in_all_panels() {
    let mut map = heat_map(5, 5);
    map.base = None;
    let outlines = |map: &HeatMap| heat_svg(map).unwrap().matches("stroke-width=\"3\"").count();
    // three panels and the legend
    assert_eq!(outlines(&map), 4);
    map.chosen = Some((5, 0));
    assert_eq!(outlines(&map), 0);
    map.chosen = None;
    assert_eq!(outlines(&map), 0);
    assert!(!words(&heat_svg(&map).unwrap()).contains(&"recommended".to_owned()));
}

#[test]
fn lines_have_error_bars_and_one_legend() {
    for panels in 1..=6 {
        let svg = lines_svg(&line_plot(panels)).unwrap();
        assert_readable(&svg);
        for text in ["100 Gb/s", "400 Gb/s", "bars: 95 % confidence"] {
            assert_eq!(words(&svg).iter().filter(|word| *word == text).count(), 1, "{text}");
        }
        assert_eq!(words(&svg).iter().filter(|word| *word == "recommended").count(), panels);
        let (low, titled) = (panels.min(if panels > 3 { 2 } else { 1 }), "Length of the cable");
        let titles = words(&svg).iter().filter(|word| word.starts_with(titled)).count();
        assert_eq!(titles, low, "{panels} panels");
    }
    // 18 marks and the three of the legend; each of the 18 bars has a stem and two ends
    let svg = lines_svg(&line_plot(1)).unwrap();
    assert_eq!(svg.matches("<circle").count(), 21);
    let mut bare = line_plot(1);
    bare.panels[0].series.iter_mut().flat_map(|line| &mut line.points).for_each(|point| {
        point.half_width = None;
    });
    bare.chosen_x = None;
    let bare = lines_svg(&bare).unwrap();
    assert!(!words(&bare).iter().any(|word| word.contains("confidence") || word == "recommended"));
    let thin = |svg: &str, color: &str| {
        let thin = format!("stroke=\"{color}\" stroke-width=\"1\"");
        svg.split('<').filter(|element| element.contains(&thin)).count()
    };
    for color in ["#0072B2", "#E69F00", "#009E73"] {
        assert_eq!(thin(&svg, color), thin(&bare, color) + 3 * 6, "{color}");
    }
}

#[test]
fn panels_of_the_same_objective_have_headings() {
    let mut plot = line_plot(4);
    for (index, panel) in plot.panels.iter_mut().enumerate() {
        panel.heading = format!("load = {index}0 %");
        panel.log = true;
    }
    plot.bare = true;
    plot.chosen_x = None;
    let svg = lines_svg(&plot).unwrap();
    assert_readable(&svg);
    assert_says(&svg, &["load = 00 %", "load = 30 %", "lower is better", "100 Gb/s"]);
    assert_eq!(svg.matches("<circle").count(), 0, "no marks");
    // 12.5 to 412 KB: powers of ten and 2 and 5 times these
    assert_says(&svg, &["20", "50", "100", "200"]);
}

#[test]
fn names_stand_side_by_side() {
    let svg = lines_svg(&named_plot()).unwrap();
    assert_readable(&svg);
    assert_says(&svg, &["ecmp, 4 QPs", "spray", "halving-doubling"]);
    // no line joins what has no order
    assert!(!svg.contains("stroke=\"#0072B2\" stroke-width=\"2\""));
    let centres: Vec<&str> =
        svg.split("<circle").filter_map(|mark| attribute(mark, "cx")).collect();
    assert_eq!(centres.len(), 2 * 4 + 2);
    assert_ne!(centres[0], centres[4]);
}

#[test]
fn the_front_is_joined_and_labelled() {
    let better = [Better::Lower, Better::Higher, Better::Neither];
    for (x, y) in better.into_iter().flat_map(|x| better.map(|y| (x, y))) {
        for count in [0, 1, 2, 30, 2000] {
            let svg = pareto_svg(&pareto(count, x, y)).unwrap();
            assert_readable(&svg);
        }
    }
    let input = pareto(60, Better::Lower, Better::Higher);
    let svg = pareto_svg(&input).unwrap();
    assert_says(&svg, &["1: recommended", "6: as it is", "front", "a requirement is broken"]);
    assert_says(&svg, &["← better · p99 of storage flows (us)", "busbw (GB/s) · better →"]);
}

/// Corners of the line along the front of two points, from left to right.
fn front(x: Better, y: Better, points: [(f64, f64); 2]) -> Vec<(i32, i32)> {
    let point = |(x, y)| ParetoPoint { x, y, feasible: true, on_front: true, label: None };
    let axis = |better| ParetoAxis { label: String::new(), better };
    let points = points.map(point).to_vec();
    let svg = pareto_svg(&Pareto { x: axis(x), y: axis(y), points, ..Pareto::default() }).unwrap();
    let line = svg.split('<').filter(|element| element.contains("stroke=\"#0072B2\""));
    let line = line.filter_map(|element| attribute(element, "points"));
    let corner = |pair: &str| {
        let (x, y) = pair.split_once(',').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    let corners = line.map(|points| points.split_whitespace().map(corner).collect::<Vec<_>>());
    corners.max_by_key(Vec::len).unwrap()
}

#[test]
fn steps_bound_what_can_be_had() {
    // between two points only the one with the better x is at hand: its y holds
    let fast = [(100.0, 20.0), (200.0, 24.0)];
    let line = front(Better::Lower, Better::Higher, fast);
    assert_eq!(line[1], (line[2].0, line[0].1));
    let line = front(Better::Higher, Better::Lower, fast);
    assert_eq!(line[1], (line[0].0, line[2].1));
    assert_eq!(front(Better::Neither, Better::Lower, fast).len(), 2);
    // falling fronts
    let fast = [(100.0, 24.0), (200.0, 20.0)];
    let line = front(Better::Higher, Better::Higher, fast);
    assert_eq!(line[1], (line[0].0, line[2].1));
    let line = front(Better::Lower, Better::Lower, fast);
    assert_eq!(line[1], (line[2].0, line[0].1));
}

#[test]
fn bars_are_ranked_with_what_is_left_over() {
    let svg = bars_svg(&sensitivity()).unwrap();
    assert_readable(&svg);
    assert_says(&svg, &["switch.ecn.kmin", "61.2 %", "interplay and noise", "15.3 %"]);
    assert_eq!(svg.matches("#A8A8A8").count(), 1);
    let wide = |color: &str| -> Vec<f64> {
        let bars = svg.split("<rect").filter(|bar| bar.contains(color));
        bars.map(|bar| attribute(bar, "width").unwrap().parse().unwrap()).collect()
    };
    let bars = wide("#0072B2");
    assert!((bars[1] / bars[0] - 0.204 / 0.612).abs() < 0.01, "{bars:?}");
}

#[test]
fn failures_stand_beside_the_run_without_one() {
    let svg = bars_svg(&failures(12)).unwrap();
    assert_readable(&svg);
    assert_says(&svg, &["nothing fails: 24.5", "deadlock", "9.33 ± 0.2, 44 % less"]);
    let svg = bars_svg(&failures(80)).unwrap();
    assert_readable(&svg);
    assert_says(&svg, &["and 20 more"]);
}

#[test]
fn nothing_is_a_plot_too() {
    for svg in [
        heat_svg(&HeatMap::default()),
        heat_svg(&HeatMap { panels: vec![HeatPanel::default()], ..HeatMap::default() }),
        lines_svg(&LinePlot::default()),
        lines_svg(&LinePlot { panels: vec![LinePanel::default()], ..LinePlot::default() }),
        pareto_svg(&Pareto::default()),
        bars_svg(&Bars::default()),
    ] {
        assert_readable(&svg.unwrap());
    }
}

fn values() -> impl Strategy<Value = f64> {
    let odd = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MAX, 5e-324, 1e100, -1e100, 1e-100];
    prop_oneof![4 => -1e3..1e3, 1 => any::<f64>(), 1 => prop::sample::select(odd.to_vec())]
}

fn text() -> impl Strategy<Value = String> {
    let odd = ["a".repeat(5000), "\u{1}<&>\"'\u{FFFF}\u{85}".to_owned(), "…".repeat(99)];
    prop_oneof![3 => "[a-z0-9 .:-]{0,30}", 1 => any::<String>(), 1 => prop::sample::select(odd.to_vec())]
}

fn better() -> impl Strategy<Value = Better> {
    prop_oneof![Just(Better::Higher), Just(Better::Lower), Just(Better::Neither)]
}

fn several<T: std::fmt::Debug>(
    of: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 0..=most)
}

fn ticks() -> impl Strategy<Value = Ticks> {
    (text(), several(text(), 30)).prop_map(|(label, names)| Ticks { label, names })
}

fn heat_maps() -> impl Strategy<Value = HeatMap> {
    let cells = several(several(prop::option::of(values()), 25), 12);
    let crossed = several(several(any::<bool>(), 25), 12);
    let panel = (text(), better(), cells, crossed)
        .prop_map(|(title, better, cells, crossed)| HeatPanel { title, better, cells, crossed });
    let cell = || prop::option::of((0..30_usize, 0..30_usize));
    let parts = (text(), text(), ticks(), ticks(), several(panel, 5), cell(), cell());
    parts.prop_map(|(title, subtitle, x, y, panels, chosen, base)| HeatMap {
        title,
        subtitle,
        x,
        y,
        panels,
        chosen,
        base,
    })
}

fn line_plots() -> impl Strategy<Value = LinePlot> {
    let point = (prop_oneof![values(), 0.0..9.0], values(), prop::option::of(values()))
        .prop_map(|(x, mean, half_width)| LinePoint { x, mean, half_width });
    let line = (text(), several(point, 9)).prop_map(|(name, points)| Series { name, points });
    let panel = (text(), better(), several(line, 30), text(), any::<bool>()).prop_map(
        |(label, better, series, heading, log)| LinePanel { heading, log, label, better, series },
    );
    let scale = prop_oneof![
        (any::<bool>(), several((values(), text()), 20))
            .prop_map(|(log, ticks)| XScale::Numbers { log, ticks }),
        several(text(), 40).prop_map(XScale::Names),
    ];
    let chosen = prop::option::of(values());
    let parts = (text(), text(), text(), scale, several(panel, 5), chosen, any::<bool>());
    parts.prop_map(|(title, subtitle, label, scale, panels, chosen_x, bare)| LinePlot {
        title,
        subtitle,
        x: XAxis { label, scale },
        panels,
        chosen_x,
        bare,
    })
}

fn paretos() -> impl Strategy<Value = Pareto> {
    let axis = || (text(), better()).prop_map(|(label, better)| ParetoAxis { label, better });
    let point =
        (values(), values(), any::<bool>(), any::<bool>(), prop::option::of(text())).prop_map(
            |(x, y, feasible, on_front, label)| ParetoPoint { x, y, feasible, on_front, label },
        );
    let place = || prop::option::of(0..50_usize);
    let parts = (text(), text(), axis(), axis(), several(point, 40), place(), place());
    parts.prop_map(|(title, subtitle, x, y, points, chosen, base)| Pareto {
        title,
        subtitle,
        x,
        y,
        points,
        chosen,
        base,
    })
}

fn all_bars() -> impl Strategy<Value = Bars> {
    let kind = prop_oneof![
        Just(BarKind::Plain),
        Just(BarKind::Broken),
        Just(BarKind::Rest),
        any::<usize>().prop_map(BarKind::Of),
    ];
    let bar = (text(), prop::option::of(values()), text(), kind)
        .prop_map(|(label, value, note, kind)| Bar { label, value, note, kind });
    let baseline =
        prop::option::of((text(), values()).prop_map(|(label, value)| Baseline { label, value }));
    let parts = (text(), text(), text(), any::<bool>(), several(bar, 50), baseline);
    parts.prop_map(|(title, subtitle, axis, shares, bars, baseline)| Bars {
        title,
        subtitle,
        axis,
        shares,
        bars,
        baseline,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_heat_map_is_sound(input in heat_maps()) {
        let svg = heat_svg(&input).unwrap();
        assert_sound(&svg);
        assert_on_page(&svg);
    }

    #[test]
    fn any_lines_are_sound(input in line_plots()) {
        let svg = lines_svg(&input).unwrap();
        assert_sound(&svg);
        assert_on_page(&svg);
    }

    #[test]
    fn any_pareto_front_is_sound(input in paretos()) {
        let svg = pareto_svg(&input).unwrap();
        assert_sound(&svg);
        assert_on_page(&svg);
    }

    #[test]
    fn any_bars_are_sound(input in all_bars()) {
        let svg = bars_svg(&input).unwrap();
        assert_sound(&svg);
        assert_on_page(&svg);
    }
}
