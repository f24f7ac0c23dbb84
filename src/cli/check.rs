//! `rocesim check`

use std::process::ExitCode;

use clap::Args;
use models::dependency::{Traffic, link_failures};
use models::fabric::Plan;
use models::report::Severity;
use scenarios::resolve::{Complaint, Loaded};
use scenarios::simulate::Estimate;
use scenarios::{check, deadlock, resolve, simulate, text};
use sim_core::Bytes;

use super::progress::Steps;
use super::{CommandResult, ScenarioArgs, UNFINISHED, print};

#[derive(Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Also try the loss of each single cable between switches
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    failures: u8,
}

impl CheckArgs {
    pub(super) fn run(&self) -> CommandResult {
        let loaded = resolve::load(&self.scenario.scenario, &self.scenario.options())?;
        let plans = simulate::plans(&loaded, 1)?;
        let plan = &plans[0];
        let topology = &plan.wiring.topology;
        let estimate: Estimate = plans.iter().map(simulate::estimate).sum();
        print(&format!(
            "{}: {} hosts, {} switches, {} links, {} flows; about {:.1} M packet-hops\n\n",
            loaded.name,
            topology.hosts().count(),
            topology.switches().count(),
            topology.ports().len() / 2,
            plan.wiring.data_qps,
            estimate.packet_hops / 1e6
        ));
        print(&text::table(&buffers(plan)));
        let notes = check::notes(plan);
        let location = |key: &str| loaded.location(key);
        print("\n");
        print(&text::notes(&notes, location));
        if notes.is_empty() {
            print("  nothing to complain about\n");
        }
        let bad = self.deadlocks(&loaded, plan)?
            || notes.iter().any(|note| note.severity == Severity::Error);
        Ok(if bad { ExitCode::from(UNFINISHED) } else { ExitCode::SUCCESS })
    }
}

impl CheckArgs {
    /// Prints which buffers can wait for themselves; true if frames go round.
    fn deadlocks(&self, loaded: &Loaded, plan: &Plan) -> Result<bool, Complaint> {
        let traffic = Traffic::new(&plan.spec, &plan.wiring);
        let dependencies = traffic.dependencies(&plan.wiring.routes);
        print("\n");
        print(&deadlock::cycles(plan, &dependencies));
        if self.failures > 0 {
            let mut steps = Steps::new("cables");
            let tried =
                link_failures(&traffic, &plan.spec.routes, |done, all| steps.show(done, all));
            steps.finish();
            let tried = tried.map_err(|error| loaded.complaint(error))?;
            print(&deadlock::failures(plan, &tried));
        }
        Ok(!dependencies.loops().is_empty())
    }
}

/// One row for each kind of switch port.
fn buffers(plan: &Plan) -> Vec<Vec<String>> {
    let header =
        ["ports", "count", "rate", "delay", "headroom", "XOFF of one sender", "shared pool"];
    let mut rows = vec![header.map(String::from).to_vec()];
    let mut counted: Vec<(Vec<String>, String, u32)> = Vec::new();
    let topology = &plan.wiring.topology;
    for (index, switch) in topology.switches().enumerate() {
        let buffer = &plan.buffers[index];
        for (slot, port) in topology.ports_of(switch).enumerate() {
            let Some(config) = plan.spec.switch_ports[port.index()].as_deref() else { continue };
            let info = topology.port(port);
            let (slice, base) = buffer.places[slot];
            let cell = config.buffer.cell.get();
            let lossless = config.pfc.priorities.first().copied();
            let limit = lossless.map(|priority| {
                let group = base as usize + usize::from(priority);
                u64::from(buffer.mmus[usize::from(slice)].xoff_alone(group)) * cell
            });
            let shown =
                |bytes: Option<u64>| bytes.map_or("-".into(), |b| Bytes::new(b).to_string());
            let values = vec![
                info.rate.to_string(),
                info.delay.to_string(),
                shown(lossless.map(|_| buffer.headroom[slot])),
                shown(limit),
                shown(Some(buffer.ingress_pool[usize::from(slice)])),
            ];
            match counted.iter_mut().find(|(known, ..)| *known == values) {
                Some((.., count)) => *count += 1,
                None => counted.push((values, topology.port_name(port), 1)),
            }
        }
    }
    for (values, first, count) in counted {
        let mut row = vec![format!("{first} ..."), count.to_string()];
        row.extend(values);
        rows.push(row);
    }
    rows
}
