//! `rocesim check`

use std::process::ExitCode;

use clap::Args;
use models::dependency::{Failure, LinkFailures, Traffic, link_failures};
use models::fabric::Plan;
use models::report::Severity;
use scenarios::check::{Note, Pool, Tier};
use scenarios::resolve::{Complaint, Loaded};
use scenarios::simulate::Estimate;
use scenarios::{check, resolve, simulate, text};
use serde_json::{Value, json};
use sim_core::Bytes;

use super::progress::Steps;
use super::{CommandResult, ScenarioArgs, UNFINISHED, print};

#[derive(Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Print what the headroom of each kind of port is made of
    #[arg(long, short)]
    verbose: bool,
    /// Print notes and headroom as JSON
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
    /// Also try the loss of each single cable between switches
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    failures: u8,
}

impl CheckArgs {
    pub(super) fn run(&self) -> CommandResult {
        let loaded = resolve::load(&self.scenario.scenario, &self.scenario.options())?;
        let plans = simulate::plans(&loaded, 1)?;
        let plan = &plans[0];
        let notes = check::notes(plan);
        let (tiers, pools) = (check::tiers(plan), check::pools(plan));
        let tried = if self.failures > 0 { Some(try_failures(&loaded, plan)?) } else { None };
        if self.json {
            print(&format!("{:#}\n", json_of(&loaded, &notes, &tiers, &pools, tried.as_ref())));
        } else {
            let estimate: Estimate = plans.iter().map(simulate::estimate).sum();
            print(&summary(&loaded, plan, &estimate));
            print(&text::table(&ports(&tiers)));
            print(&headrooms(&tiers, &pools, self.verbose));
            print(&text::notes(&notes, |note| loaded.written(&note.key, note.at)));
            if notes.is_empty() {
                print("  nothing to complain about\n");
            }
            print(&format!("\n  {}\n", check::deadlock(plan)));
            if let Some(tried) = &tried {
                print(&check::failures(plan, tried));
            }
        }
        let bad = notes.iter().any(|note| note.severity == Severity::Error);
        Ok(if bad { ExitCode::from(UNFINISHED) } else { ExitCode::SUCCESS })
    }
}

/// Tries the loss of each single cable between switches.
fn try_failures(loaded: &Loaded, plan: &Plan) -> Result<LinkFailures, Complaint> {
    let mut steps = Steps::new("cables");
    let traffic = Traffic::new(&plan.spec, &plan.wiring);
    let tried = link_failures(&traffic, &plan.spec.routes, |done, all| steps.show(done, all));
    steps.finish();
    tried.map_err(|error| loaded.complaint(error))
}

fn summary(loaded: &Loaded, plan: &Plan, estimate: &Estimate) -> String {
    let topology = &plan.wiring.topology;
    format!(
        "{}: {} hosts, {} switches, {} links, {} flows; about {:.1} M packet-hops\n\n",
        loaded.name,
        topology.hosts().count(),
        topology.switches().count(),
        topology.ports().len() / 2,
        plan.wiring.data_qps,
        estimate.packet_hops / 1e6
    )
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), short)
}

/// Four digits are enough to read.
fn short(bytes: u64) -> String {
    let scale = 10u64.pow(bytes.checked_ilog10().unwrap_or(0).saturating_sub(3));
    Bytes::new(bytes.saturating_add(scale / 2) / scale * scale).to_string()
}

/// One row for each kind of switch port.
fn ports(tiers: &[Tier]) -> Vec<Vec<String>> {
    let header = [
        "ports",
        "count",
        "to",
        "rate",
        "cable",
        "needed",
        "headroom",
        "margin",
        "XOFF alone",
        "shared",
    ];
    let mut table = vec![header.map(String::from).to_vec()];
    for tier in tiers {
        let margin =
            tier.needed_bytes.zip(tier.configured_bytes).map(
                |(needed, configured)| match configured.checked_sub(needed) {
                    Some(margin) => short(margin),
                    None => format!("-{}", short(needed - configured)),
                },
            );
        table.push(vec![
            tier.port.clone(),
            tier.count.to_string(),
            tier.to.to_owned(),
            tier.rate.to_string(),
            check::length(tier.delay),
            shown(tier.needed_bytes),
            shown(tier.configured_bytes),
            margin.unwrap_or_else(|| "-".into()),
            shown(tier.xoff_alone_bytes),
            shown(Some(tier.shared_bytes)),
        ]);
    }
    table
}

/// The sums of headroom against their pools; `verbose`: the terms of each kind of port.
fn headrooms(tiers: &[Tier], pools: &[Pool], verbose: bool) -> String {
    let mut text = "\n".to_owned();
    for pool in pools {
        let Pool { switch, count, groups, sum_bytes, pool_bytes, .. } = pool;
        let from = match pool_bytes {
            Some(bytes) => format!("of a pool of {} that they share", Bytes::new(*bytes)),
            None => "each its own".to_owned(),
        };
        let like = if *count > 1 { format!(" and {} like it", count - 1) } else { String::new() };
        text += &format!(
            "  headroom of {switch}{like}: {groups} lossless groups, {} together, {from}\n",
            Bytes::new(*sum_bytes)
        );
    }
    if !pools.is_empty() {
        text.push('\n');
    }
    for tier in tiers.iter().filter(|tier| verbose && tier.needed_bytes.is_some()) {
        text += &format!("  headroom that {} needs:\n", tier.port);
        check::explained(&tier.terms).iter().for_each(|line| text += &format!("    {line}\n"));
        text.push('\n');
    }
    text
}

fn json_of(
    loaded: &Loaded,
    notes: &[Note],
    tiers: &[Tier],
    pools: &[Pool],
    tried: Option<&LinkFailures>,
) -> Value {
    let failures = tried.map(|tried| {
        let count = |bad: fn(&Failure) -> bool| tried.failures.iter().filter(|f| bad(f)).count();
        json!({
            "cables": tried.cables,
            "cut_hosts_off": count(|failure| failure.unreachable > 0),
            "close_a_circle": count(|failure| !failure.settled.is_empty()),
            "close_a_circle_until_rerouted": count(|failure| !failure.transient.is_empty()),
        })
    });
    let located = |note: &Note| {
        let mut value = json!(note);
        value["written"] = loaded.written(&note.key, note.at).into();
        value
    };
    json!({
        "scenario": loaded.name,
        "notes": notes.iter().map(located).collect::<Vec<_>>(),
        "ports": tiers,
        "headroom": pools,
        "single_failures": failures,
    })
}
