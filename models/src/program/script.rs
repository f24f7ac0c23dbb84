//! A GOAL schedule as scripts of its ranks.

use std::sync::Arc;

use sim_core::{Delta, Time};

use super::{ProgramConfig, Schedule, Work};
use crate::collective::Rank;
use crate::error::BuildError;
use crate::script::{Script, ScriptBuilder, Workload};

/// A traffic section that is a GOAL schedule.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// Its keys.
    pub config: Arc<ProgramConfig>,
    /// What its file says.
    pub schedule: Arc<Schedule>,
    /// Its place among the traffic sections.
    pub section: u32,
}

/// Classes of tasks, for reports.
const CLASSES: [&str; 3] = ["calc", "send", "recv"];

impl Scheduled {
    /// The scripts of ranks that have these GPUs.
    pub fn workload(&self, ranks: Vec<Rank>) -> Result<Workload, BuildError> {
        let key = |field: &str| format!("traffic[{}].{field}", self.section);
        let wanted = self.schedule.ranks.len();
        if ranks.len() != wanted {
            let message = format!(
                "it is for {wanted} ranks (num_ranks), and {} GPUs take part: hosts and gpus that \
                 make {wanted} are expected",
                ranks.len()
            );
            return Err(BuildError::new(key("file"), message));
        }
        if self.config.dscp.is_some_and(|dscp| dscp > 63) {
            let message = "it is out of range: 0 to 63 is expected";
            return Err(BuildError::new(key("dscp"), message));
        }
        let scripts: Option<Vec<Script>> = (0..wanted).map(|rank| self.script(rank)).collect();
        let Some(scripts) = scripts else {
            let message =
                "with this unit a calc takes longer than a run can: a shorter one is expected";
            return Err(BuildError::new(key("unit"), message));
        };
        Ok(Workload {
            name: self.config.name.clone(),
            section: self.section,
            ranks,
            scripts,
            comms: Vec::new(),
            lines: self.schedule.lines.clone(),
            dscp: self.config.dscp,
            classes: CLASSES.to_vec(),
        })
    }

    /// What a rank does; none if a time is beyond what can be counted.
    fn script(&self, rank: usize) -> Option<Script> {
        let unit = self.config.unit.unwrap_or(Delta::from_ns(1)).ps();
        let mut builder = ScriptBuilder::default();
        // tasks that compute have the stream of their processor, others one of their own
        let mut alone = u32::MAX;
        for task in &self.schedule.ranks[rank] {
            let (stream, class, work) = match task.work {
                Work::Calc { cpu, units } => {
                    let span = units.checked_mul(unit).filter(|span| *span < 1 << 62)?;
                    (cpu, 0, crate::script::Work::Compute(Delta::from_ps(span)))
                }
                Work::Send { line, bytes } => {
                    alone -= 1;
                    (alone, 1, crate::script::Work::Send { line, bytes })
                }
                Work::Recv { line, number, .. } => {
                    alone -= 1;
                    (alone, 2, crate::script::Work::Recv { line, number })
                }
            };
            builder.add_started(stream, class, work, &task.ended, &task.begun);
        }
        Some(builder.finish(Time::ZERO + self.config.start, 1, Vec::new()))
    }
}
