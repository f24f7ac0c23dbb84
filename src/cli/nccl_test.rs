//! `rocesim nccl-test`: nccl-tests' flags on a scenario's cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use models::collective::{DataType, MessageSizes, Op, Step};
use models::traffic::TrafficConfig;
use scenarios::collectives::TableOptions;
use scenarios::load::suggestion;
use scenarios::nccl_tests::parse_size;
use scenarios::resolve::{self, Complaint};
use sim_core::Bytes;

use super::run::{RunArgs, wall_time};
use super::{CommandResult, ScenarioArgs};

/// The flags have nccl-tests' own names, and its sizes: K, M and G are powers of 1024.
#[derive(Args)]
pub(super) struct TestArgs {
    /// The operation: all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv
    #[arg(value_name = "OP", value_parser = operation)]
    operation: &'static str,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// First size
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "32M",
          value_parser = parse_size, allow_negative_numbers = true)]
    min_bytes: u64,
    /// Last size
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "32M",
          value_parser = parse_size, allow_negative_numbers = true)]
    max_bytes: u64,
    /// From one size to the next: plus this
    #[arg(short = 'i', long = "stepbytes", value_name = "SIZE", default_value = "1M",
          value_parser = parse_size, conflicts_with = "step_factor", allow_negative_numbers = true)]
    step_bytes: u64,
    /// From one size to the next: times this, instead of -i
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR",
          value_parser = clap::value_parser!(u64).range(1..))]
    step_factor: Option<u64>,
    /// Iterations that are timed, one after the other
    #[arg(short = 'n', long = "iters", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Iterations before them
    #[arg(short = 'w', long = "warmup_iters", value_name = "N", default_value_t = 0)]
    warmup: u32,
    /// GPUs of each server that take part [default: all]
    #[arg(short = 'g', long = "ngpus", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    gpus: Option<u32>,
    /// Rank that a broadcast comes from, and a reduce goes to
    #[arg(short = 'r', long = "root", value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// How an all_reduce is done: auto asks NCCL's tuning model for each size [default: as the
    /// scenario says]
    #[arg(long, value_name = "ALGORITHM")]
    algorithm: Option<String>,
    /// Type of the elements
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float",
          value_parser = element)]
    element: DataType,
    /// Reduction; the traffic does not depend on it
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum",
          value_parser = reduction)]
    reduction: &'static str,
    /// 0 shows N/A for the number of wrong elements: a simulation computes none
    #[arg(short = 'c', long = "check", value_name = "N", default_value_t = 1)]
    check: u32,
    /// Write the report as JSON to this file
    #[arg(short = 'J', long = "output_file", value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Threads: sizes that run at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Give up after this much wall-clock time, such as 10min
    #[arg(long, value_name = "TIME", value_parser = wall_time)]
    max_wall: Option<Duration>,
    /// Simulate only the beginning of large sizes, until their steps repeat within 0.5 %, and
    /// extrapolate the rest; such rows end in ~
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    meaningless: Meaningless,
}

/// Flags of nccl-tests that a simulation has no use for. All take a number there.
macro_rules! meaningless {
    ($($short:literal $name:ident),+ $(,)?) => {
        #[derive(Args)]
        #[command(next_help_heading = "Flags of nccl-tests without a meaning here")]
        struct Meaningless {$(
            #[arg(short = $short, long = stringify!($name), value_name = "N", hide = true,
                  allow_negative_numbers = true)]
            $name: Option<i64>,
        )+}

        impl Meaningless {
            /// Letter and name of those that were given.
            fn given(&self) -> Vec<(char, &'static str)> {
                let all = [$(($short, stringify!($name), self.$name)),+];
                all.into_iter().filter_map(|(short, name, value)| value.map(|_| (short, name))).collect()
            }
        }
    };
}

meaningless! {
    't' nthreads, 'm' agg_iters, 'N' run_cycles, 'p' parallel_init, 'z' blocking,
    'y' stream_null, 'T' timeout, 'G' cudagraph, 'C' report_cputime, 'S' report_timestamps,
    'a' average, 'R' local_register, 'x' cta_policy, 'D' device_implementation,
    'V' device_cta_count, 'M' memory, 'u' unalign, 'I' per_iter_timing, 'K' per_iter_skip,
}

/// What else nccl-tests can measure, beside [`Op::ALL`].
const NOT_SIMULATED: [&str; 4] = ["alltoallv", "gather", "hypercube", "scatter"];

fn operation(text: &str) -> Result<&'static str, String> {
    let name = text.strip_suffix("_perf").unwrap_or(text);
    let simulated = Op::ALL.map(Op::name);
    if NOT_SIMULATED.contains(&name) {
        return Err(format!("{name} is not simulated; these are: {}", simulated.join(", ")));
    }
    let found = simulated.into_iter().find(|simulated| *simulated == name);
    found.ok_or_else(|| format!("there is no such operation{}", suggestion(name, &simulated)))
}

fn element(text: &str) -> Result<DataType, String> {
    let names = DataType::ALL.map(DataType::name);
    let found = DataType::ALL.into_iter().find(|dtype| dtype.name() == text);
    found.ok_or_else(|| format!("there is no such type{}", suggestion(text, &names)))
}

fn reduction(text: &str) -> Result<&'static str, String> {
    let known = ["sum", "prod", "max", "min", "avg"];
    let found = known.into_iter().find(|name| *name == text);
    found.ok_or_else(|| format!("there is no such reduction{}", suggestion(text, &known)))
}

impl TestArgs {
    /// What is wrong with the flags together.
    fn check(&self) -> Result<(), Complaint> {
        let complain = |message: String| Err(Complaint(format!("error: {message}")));
        let (name, bytes) = (self.element.name(), self.element.size());
        let (min_bytes, max_bytes) = (self.min_bytes, self.max_bytes);
        if min_bytes > max_bytes {
            return complain(format!(
                "-b (minbytes) {min_bytes} is more than -e (maxbytes) {max_bytes}"
            ));
        }
        if min_bytes < bytes {
            return complain(format!(
                "-b (minbytes) {min_bytes} is less than one {name}: at least {bytes} is expected"
            ));
        }
        if self.step() == Step::Bytes(Bytes::ZERO) {
            return complain("-i (stepbytes) 0 leads nowhere: at least 1 is expected".to_owned());
        }
        if self.sizes().list("bytes").is_err() {
            return complain(format!(
                "too many sizes from {min_bytes} to {max_bytes}: a larger -i (stepbytes), or -f \
                 (stepfactor), is expected"
            ));
        }
        Ok(())
    }

    /// A line for each flag that has no meaning in a simulation.
    fn ignored(&self) -> Vec<String> {
        let given = self.meaningless.given().into_iter();
        let line =
            |(short, name)| format!("-{short} ({name}) has no meaning in a simulation: ignored");
        given.map(line).collect()
    }

    /// What the flags set in the scenario's section of collective traffic, such as
    /// `traffic.allreduce`, in the form of `--set`.
    fn assignments(&self, section: &str) -> Vec<String> {
        let (from, to) = (size(self.min_bytes), size(self.max_bytes));
        let bytes = match self.step() {
            _ if self.sizes().list("bytes").is_ok_and(|sizes| sizes.len() == 1) => {
                format!("\"{from}\"")
            }
            Step::Factor(factor) => {
                format!("{{ from = \"{from}\", to = \"{to}\", factor = {factor} }}")
            }
            Step::Bytes(step) => {
                let step = size(step.get());
                format!("{{ from = \"{from}\", to = \"{to}\", step = \"{step}\" }}")
            }
        };
        let mut set = vec![
            format!("{section}.op={}", self.operation),
            format!("{section}.bytes={bytes}"),
            format!("{section}.iterations={}", self.iterations),
            format!("{section}.warmup={}", self.warmup),
            format!("{section}.dtype=\"{}\"", self.element.name()),
        ];
        set.extend(self.gpus.map(|gpus| format!("{section}.gpus={gpus}")));
        set.extend((self.root > 0).then(|| format!("{section}.root={}", self.root)));
        set.extend(self.algorithm.iter().map(|name| format!("{section}.algorithm={name}")));
        set
    }

    fn sizes(&self) -> MessageSizes {
        let [from, to] = [self.min_bytes, self.max_bytes].map(Bytes::new);
        MessageSizes::Sweep(from, to, self.step())
    }

    fn step(&self) -> Step {
        match self.step_factor {
            Some(factor) if factor > 1 => Step::Factor(factor),
            _ => Step::Bytes(Bytes::new(self.step_bytes)),
        }
    }

    /// Runs the collective of the scenario with these flags.
    pub(super) fn run(mut self) -> CommandResult {
        self.check()?;
        for line in self.ignored() {
            eprintln!("{line}");
        }
        let loaded = resolve::load(&self.scenario.scenario, &self.scenario.options())?;
        let mut sections = loaded.scenario.traffic.iter().zip(&loaded.spec.sections);
        let collective = sections.find(|(s, _)| matches!(s, TrafficConfig::Collective(_)));
        let Some((_, called)) = collective else {
            let message = format!(
                "error: {} has no [[traffic]] of kind = \"collective\": one is expected",
                self.scenario.scenario
            );
            return Err(Complaint(message));
        };
        let assignments = self.assignments(&format!("traffic{called}"));
        self.scenario.set.extend(assignments);
        let table = TableOptions { redop: self.reduction, check: self.check > 0 };
        let mut run = RunArgs::of(self.scenario, self.threads);
        run.max_wall = self.max_wall;
        run.quick = self.quick;
        run.run_table(&table, self.output_file.as_deref())
    }
}

/// Exact, in the largest binary unit.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use scenarios::load::{Sources, assignment};

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        test: TestArgs,
    }

    fn parse(line: &str) -> Result<TestArgs, String> {
        let words = std::iter::once("nccl-test").chain(line.split_whitespace());
        Program::try_parse_from(words).map(|program| program.test).map_err(|e| e.to_string())
    }

    fn complaint(line: &str) -> String {
        match parse(line) {
            Ok(test) => test.check().unwrap_err().to_string(),
            Err(message) => message,
        }
    }

    #[test]
    fn flags_become_assignments() {
        let line = "all_reduce -b128M --maxbytes 8GB -f 2 -n 20 -w 5 -g 4 -d double cluster";
        let test = parse(line).unwrap();
        test.check().unwrap();
        let set = test.assignments("traffic.allreduce");
        let expected = [
            "traffic.allreduce.op=all_reduce",
            "traffic.allreduce.bytes={ from = \"128MiB\", to = \"8GiB\", factor = 2 }",
            "traffic.allreduce.iterations=20",
            "traffic.allreduce.warmup=5",
            "traffic.allreduce.dtype=\"double\"",
            "traffic.allreduce.gpus=4",
        ];
        assert_eq!(set, expected);
        for argument in &set {
            assignment(&mut Sources::default(), argument).unwrap();
        }
        assert_eq!((test.operation, test.reduction), ("all_reduce", "sum"));
        assert_eq!((test.element, test.scenario.scenario.as_str()), (DataType::Double, "cluster"));
        assert!(test.ignored().is_empty() && test.output_file.is_none());
    }

    #[test]
    fn the_defaults_are_one_size_once() {
        let test = parse("all_reduce_perf cluster").unwrap();
        let expected = [
            "traffic[0].op=all_reduce",
            "traffic[0].bytes=\"32MiB\"",
            "traffic[0].iterations=1",
            "traffic[0].warmup=0",
            "traffic[0].dtype=\"float\"",
        ];
        assert_eq!(test.assignments("traffic[0]"), expected);
        let steps = parse("all_reduce cluster -b 1000 -e 3000 -i 1k -f 1");
        assert!(steps.is_err(), "-i and -f exclude each other");
        let steps = parse("all_reduce cluster -b 1000 -e 3000 -i 1k -c 0").unwrap();
        let bytes = "traffic[0].bytes={ from = \"1000B\", to = \"3000B\", step = \"1KiB\" }";
        assert_eq!(steps.assignments("traffic[0]")[1], bytes);
        assert_eq!((steps.check, test.check), (0, 1));
    }

    #[test]
    fn flags_without_a_meaning_are_named() {
        let test = parse("all_reduce cluster -z 1 --cudagraph=0 -t 2").unwrap();
        let lines = test.ignored().join("\n");
        assert_eq!(
            lines,
            "-t (nthreads) has no meaning in a simulation: ignored\n\
             -z (blocking) has no meaning in a simulation: ignored\n\
             -G (cudagraph) has no meaning in a simulation: ignored"
        );
        // they take a number, so that none swallows the scenario
        assert!(complaint("all_reduce -z cluster").contains("invalid digit"));
        assert!(complaint("all_reduce cluster -q 1").contains("unexpected argument '-q'"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let cases = [
            (
                "gather c",
                "gather is not simulated; these are: all_reduce, all_gather, reduce_scatter",
            ),
            ("all_to_all cluster", "did you mean `alltoall`?"),
            ("allreduce cluster", "did you mean `all_reduce`?"),
            ("all_reduce cluster -b 8T", "K, M or G"),
            ("all_reduce cluster -b 64M", "-b (minbytes) 67108864 is more than -e (maxbytes)"),
            ("all_reduce cluster -b 2 -f 2", "at least 4 is expected"),
            ("all_reduce cluster -b 1M -i 0", "-i (stepbytes) 0 leads nowhere"),
            ("all_reduce cluster -b 8 -i 8", "too many sizes from 8 to 33554432"),
            ("all_reduce cluster -d flaot", "did you mean `float`?"),
            ("all_reduce cluster -o xor", "expected one of `sum`, `prod`, `max`, `min`, `avg`"),
            ("all_reduce cluster -n 0", "0 is not in 1.."),
        ];
        for (line, part) in cases {
            let message = complaint(line);
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
