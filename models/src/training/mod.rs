//! Training steps: what is asked for, and the scripts that it becomes. docs/training.md has the
//! equations.

mod check;
mod config;
mod passes;
mod plan;
mod step;

pub use config::{Dimension, JitterConfig, JitterKind, Schedule, StragglerConfig, TrainingConfig};
pub use plan::{CLASS_NAMES, Class, Place, Shape, Training, TrainingPlan, plan};

#[cfg(test)]
mod tests;
