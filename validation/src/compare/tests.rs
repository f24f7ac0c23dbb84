use super::flows::tests::{flow, report};
use super::*;
use crate::read::report::of_report;
use crate::run::{Port, Series};

/// An ns-3 run whose clock is 2 s ahead, and one of rocesim.
fn example() -> [Run; 2] {
    let mut written = report(vec![flow("host0", "host1", 10000, 1000, Some(2e-6))]);
    written.packet_hops = 12;
    written.totals.pfc_xoff_frames = 2;
    written.totals.pfc_xon_frames = 1;
    let mut here = of_report(&written);
    let port = |name: &str| Port { name: name.to_owned(), pauses: 3.0, paused_s: 1e-6 };
    here.ports = Some(vec![port("host0/nic0"), port("leaf2:4")]);
    let places = [("leaf2:4".to_owned(), vec![(0.0, 0.0), (1e-6, 50.0)])];
    here.queues = Some(Series { interval_s: 1e-6, places: places.into(), ..Series::default() });
    let rates = [("host0 -> host1, port 10000".to_owned(), vec![(0.0, 10.0), (1e-6, 5.0)])];
    here.rates = Some(Series { interval_s: 1e-6, places: rates.into(), ..Series::default() });

    let mut there = Run::empty(Writer::Ns3);
    there.flows = here.flows.clone();
    for flow in there.flows.iter_mut().flatten() {
        (flow.source, flow.target) = ("n0".to_owned(), "n1".to_owned());
        flow.start_s += 2.0;
    }
    there.totals.packet_hops = Some(10.0);
    there.totals.pfc_frames = Some(3.0);
    there.ports = Some(vec![Port { name: "n0:0".to_owned(), pauses: 3.0, paused_s: 2e-6 }]);
    let start = there.flows.as_ref().unwrap()[0].start_s - here.flows.as_ref().unwrap()[0].start_s;
    let queues = [("n2:4".to_owned(), vec![(start + 1e-6, 40.0)])];
    let instants_s = vec![start + 1e-6];
    there.queues = Some(Series { interval_s: 1e-6, instants_s, places: queues.into() });
    let rates = [("n0, port 10000".to_owned(), vec![(start + 1e-6, 5.0)])];
    there.rates = Some(Series { interval_s: 1e-6, places: rates.into(), ..Series::default() });
    [here, there]
}

#[test]
fn everything_under_the_names_here() {
    let [here, there] = example();
    let found = compare_runs(&here, &there);
    assert_eq!((found.reference, found.notes.len()), ("ns-3", 0));
    assert_eq!(found.flows.as_ref().unwrap().matched, 1);
    let totals: Vec<_> = found.totals.iter().map(|item| (&*item.name, item.value)).collect();
    let expected = [
        ("packet-hops", Pair { here: 12.0, there: 10.0 }),
        ("PFC frames sent", Pair { here: 3.0, there: 3.0 }),
    ];
    assert_eq!(totals, expected);
    let pauses = found.pauses.as_ref().unwrap();
    assert_eq!(pauses.sum, Pair { here: 6.0, there: 3.0 });
    assert_eq!(pauses.worst.as_ref().unwrap().name, "leaf2:4");
    assert_eq!(found.queues.as_ref().unwrap().mean_abs_error, Some(0.25)); // 50 against 40
    assert_eq!(found.rates.as_ref().unwrap().mean_abs_error, Some(0.0));
    assert!(found.is_within(0.0));
}

#[test]
fn tolerance() {
    let [mut here, there] = example();
    here.flows.as_mut().unwrap()[0].fct_s = Some(2.1e-6); // 5 % more
    assert!(!compare_runs(&here, &there).is_within(0.04));
    assert!(compare_runs(&here, &there).is_within(0.06));
    here.flows.as_mut().unwrap()[0].fct_s = None;
    assert!(!compare_runs(&here, &there).is_within(1.0));
}

#[test]
fn two_runs_of_rocesim() {
    let [mut here, _] = example();
    let collective = |time_s| crate::run::Collective { name: "job".into(), bytes: 8, time_s };
    here.collectives = vec![collective(Some(2.0))];
    let mut there = here.clone();
    there.collectives[0].time_s = Some(1.0);
    let found = compare_runs(&here, &there);
    assert_eq!(found.reference, "reference");
    assert_eq!(found.collectives[0].value, Pair { here: 2.0, there: 1.0 });
    assert_eq!(found.queues.unwrap().mean_abs_error, Some(0.0));
}
