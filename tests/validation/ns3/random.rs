//! Runs that mark at random: means over seeds.

use std::collections::BTreeMap;
use std::path::Path;

use models::report::Report;

use super::{completion, count, mean, reports, runs, us};
use crate::table::{Row, section};

/// The same model replayed with independent random numbers: sequences, mean completion time in
/// ns, marks.
const REPLAYED: [(&str, u32, [f64; 2]); 2] =
    [("b_incast_2", 200, [388_216.0, 15.265]), ("b_incast_4", 100, [573_654.0, 140.17])];

/// Mean completion time in ns, and marks.
fn outcome(report: &Report) -> [f64; 2] {
    let fcts = completion(report);
    let marks = report.totals.ecn_marked_packets as f64;
    [mean(fcts.values().map(|fct| *fct as f64)), marks]
}

fn means(outcomes: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|index| mean(outcomes.iter().map(|outcome| outcome[index])))
}

/// By scenario: what each of ns-3's seeds came to.
fn ns3_seeds(folder: &Path) -> BTreeMap<String, Vec<[f64; 2]>> {
    let table = std::fs::read_to_string(folder.join("seeds/seeds.csv")).unwrap();
    let mut seeds = BTreeMap::<String, Vec<[f64; 2]>>::new();
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |index: usize| cells[index].parse::<f64>().unwrap();
        seeds.entry(cells[0].to_owned()).or_default().push([number(3), number(5)]);
    }
    seeds
}

/// The input of an incast, made from that of another number of senders.
fn incast(folder: &Path, senders: u32, work: &Path) {
    let config = std::fs::read_to_string(folder.join("b_incast_8/config.txt")).unwrap();
    std::fs::write(work.join("config.txt"), config).unwrap();
    let switch = senders + 1;
    let link = |host: u32| format!("{host} {switch} 100Gbps 1000ns 0\n");
    let links: String = (0..=senders).map(link).collect();
    let topology = format!("{} 1 {switch}\n{switch}\n{links}", senders + 2);
    std::fs::write(work.join("topology.txt"), topology).unwrap();
    let flow = |host: u32| format!("{host} {senders} 3 100 1000000 2.0\n");
    let flows: String = (0..senders).map(flow).collect();
    std::fs::write(work.join("flow.txt"), format!("{senders}\n{flows}")).unwrap();
}

fn rows_of(case: &str, theirs: [f64; 2], ours: [f64; 2]) -> [Row; 2] {
    let marks = |value: f64| format!("{value:.1}");
    [
        Row::relative([case, "mean FCT"], theirs[0], ours[0], us, 0.03),
        Row::relative([case, "CE marks"], theirs[1], ours[1], marks, 0.03),
    ]
}

#[test]
fn runs_with_seeds() {
    let Some(folder) = runs() else { return };
    let mut rows = Vec::new();
    let mut seeds: Vec<_> = ns3_seeds(&folder).into_iter().collect();
    let senders = |name: &str| name["b_incast_".len()..].parse::<u32>().unwrap();
    seeds.sort_by_key(|(name, _)| senders(name));
    for (name, theirs) in seeds {
        let work = tempfile::tempdir().unwrap();
        incast(&folder, senders(&name), work.path());
        let ours = reports(work.path(), &["--seeds", "100"]);
        let ours: Vec<_> = ours.iter().map(outcome).collect();
        let ours = means(&ours);
        let case = format!("{name}, 20 seeds of ns-3");
        assert_eq!(theirs.len(), 20);
        let replayed = REPLAYED.iter().find(|replayed| replayed.0 == name);
        let of_ns3 = rows_of(&case, means(&theirs), ours);
        match replayed {
            None => rows.extend(of_ns3),
            Some((_, sequences, replayed)) => {
                rows.extend(of_ns3.map(Row::explained));
                let case = format!("{name}, ns-3's model with {sequences} independent sequences");
                rows.extend(rows_of(&case, *replayed, ours));
            }
        }
    }
    section("ns-3, means over seeds", &rows);
}

#[test]
fn the_public_hpcc_fabric_under_its_own_load() {
    let Some(folder) = runs() else { return };
    let name = "e_hpcc320_fbhdp_30_1ms";
    let folder = folder.join(name);
    let report = reports(&folder, &[]).remove(0);
    assert_eq!(report.totals.lossless_drops, 0);
    let theirs = validation::read_fct(&folder).unwrap();
    let ours = completion(&report);
    let hops = validation::read_run(&folder).unwrap().totals.packet_hops.unwrap();
    let mut rows = vec![
        Row::relative([name, "flows"], theirs.len() as f64, ours.len() as f64, count, 0.0),
        // they do not depend on which packets are marked
        Row::relative([name, "packet-hops"], hops, report.packet_hops as f64, count, 0.0),
    ];
    let bins = [0, 1_000, 10_000, 100_000, 1_000_000, u64::MAX];
    let slowdown = |value: f64| format!("{value:.3}");
    for (least, most) in bins.iter().zip(&bins[1..]) {
        let of_bin: Vec<_> =
            theirs.iter().filter(|flow| (*least..*most).contains(&(flow.bytes - 1))).collect();
        let mean_of = |fct: &dyn Fn(&validation::Ns3Flow) -> f64| {
            mean(of_bin.iter().map(|flow| fct(flow) / flow.standalone_ns as f64))
        };
        let label = match most {
            &u64::MAX => format!("mean slowdown of {} flows above {least} B", of_bin.len()),
            most => format!("mean slowdown of {} flows of {} to {most} B", of_bin.len(), least + 1),
        };
        if of_bin.is_empty() {
            continue;
        }
        let (theirs, ours) = (
            mean_of(&|flow| flow.fct_ns as f64),
            mean_of(&|flow| ours[&(flow.source, flow.target, flow.source_port)] as f64),
        );
        rows.push(Row::relative([name, &label], theirs, ours, slowdown, 0.05));
    }
    section("ns-3, 320 hosts", &rows);
}
