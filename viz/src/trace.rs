//! Traces in Chrome's trace-event format, which Perfetto opens.
//!
//! Processes are nodes, threads are tracks: a lane of a rank, a QP, a queue that is paused. Times are
//! microseconds with three digits: whole nanoseconds. Events stand in the order of time, then of
//! tracks, then the longer first, so that slices nest as they are read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use models::report::{FlowReport, Steps};
use serde_json::{Value, json};
use sim_core::Time;

use crate::Run;

/// What is in a trace: kept of all.
pub type TraceCounts = BTreeMap<&'static str, (u64, u64)>;

/// One event.
struct Event {
    ts: u64,
    track: (u32, u32),
    /// Slices have a length.
    span: Option<u64>,
    what: What,
}

enum What {
    Slice {
        name: String,
        args: Value,
    },
    /// An arrow begins or ends.
    Arrow {
        id: u64,
        ends: bool,
    },
    Count {
        name: String,
        value: f64,
        unit: &'static str,
    },
}

struct Trace<'a> {
    run: &'a Run<'a>,
    steps: &'a Steps,
    /// By name of a node.
    processes: BTreeMap<String, u32>,
    /// Names of tracks, by process and number.
    tracks: Vec<((u32, u32), String)>,
    next: BTreeMap<u32, u32>,
    events: Vec<Event>,
    arrows: u64,
    counts: TraceCounts,
    end: u64,
}

/// Steps that a trace of at most so many events has room for: each may begin and end an arrow.
pub fn traced_steps(events: u64) -> u64 {
    events / 4
}

/// Writes the trace of a run, of at most about `most` events. Steps have room first; of the rest
/// what took longest, or was largest, is kept. The file says what is left out.
pub fn write_trace(
    run: &Run<'_>,
    steps: &Steps,
    most: u64,
    out: &mut dyn Write,
) -> io::Result<TraceCounts> {
    let mut trace = Trace {
        run,
        steps,
        processes: BTreeMap::new(),
        tracks: Vec::new(),
        next: BTreeMap::new(),
        events: Vec::new(),
        arrows: 0,
        counts: BTreeMap::new(),
        end: ns(run.report.simulated_time_s),
    };
    for port in &run.report.ports {
        let number = trace.processes.len() as u32 + 1;
        trace.processes.entry(port.node.to_string()).or_insert(number);
    }
    trace.lanes();
    let room = |trace: &Trace<'_>| most.saturating_sub(trace.events.len() as u64);
    let left = room(&trace);
    trace.messages(left / 2);
    let left = room(&trace);
    trace.flows(left / 2);
    let left = room(&trace);
    trace.pauses(left / 2);
    let left = room(&trace);
    trace.counters(left);
    trace.write(most, out)
}

/// Seconds in whole nanoseconds.
fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round().max(0.0) as u64
}

fn ns_of(time: Time) -> u64 {
    (time.ps() + 500) / 1000
}

/// Nanoseconds as microseconds.
fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

impl Trace<'_> {
    fn process(&mut self, node: &str) -> u32 {
        let number = self.processes.len() as u32 + 1;
        *self.processes.entry(node.to_owned()).or_insert(number)
    }

    fn track(&mut self, node: &str, name: String) -> (u32, u32) {
        let process = self.process(node);
        let next = self.next.entry(process).or_insert(0);
        *next += 1;
        let track = (process, *next);
        self.tracks.push((track, name));
        track
    }

    fn slice(&mut self, track: (u32, u32), [from, to]: [u64; 2], name: String, args: Value) {
        let span = Some(to.saturating_sub(from));
        self.events.push(Event { ts: from, track, span, what: What::Slice { name, args } });
    }

    fn arrow(&mut self, from: (u64, (u32, u32)), to: (u64, (u32, u32))) {
        self.arrows += 1;
        let id = self.arrows;
        for ((ts, track), ends) in [(from, false), (to, true)] {
            self.events.push(Event { ts, track, span: None, what: What::Arrow { id, ends } });
        }
    }

    /// Lanes of collectives: a slice for each repetition, in it one for each step.
    fn lanes(&mut self) {
        let steps = self.steps;
        let several = steps.lanes.iter().any(|lane| lane.collective > 0);
        let mut tracks = Vec::new();
        let mut kept = 0;
        for lane in &steps.lanes {
            let mut name =
                format!("rank {} channel {} lane {}", lane.rank, lane.channel, lane.lane);
            if several {
                let _ = write!(name, " of collective {}", lane.collective);
            }
            let track = self.track(&lane.host, name);
            tracks.push(track);
            for (number, [begin, end]) in lane.repetitions.iter().enumerate() {
                let Some(begin) = begin else { continue };
                let span = [ns_of(*begin), end.map_or(self.end, ns_of)];
                let args = json!({ "cat": "repetition", "gpu": lane.gpu, "ended": end.is_some() });
                self.slice(track, span, format!("repetition {number}"), args);
            }
            for step in &lane.steps {
                let span = [ns_of(step.begin), step.end.map_or(self.end, ns_of)];
                let args = json!({
                    "cat": "step", "step": step.step, "repetition": step.repetition,
                    "bytes": step.bytes, "ended": step.end.is_some(),
                });
                self.slice(track, span, step.what.to_owned(), args);
                kept += 1;
            }
        }
        for arrow in &steps.arrows {
            let end = |[lane, step]: [u32; 2]| {
                let step = &steps.lanes[lane as usize].steps[step as usize];
                (ns_of(step.begin), tracks[lane as usize])
            };
            self.arrow(end(arrow.from), end(arrow.to));
        }
        if steps.noted.of_ranks > 0 {
            self.counts.insert("ranks", (steps.noted.ranks.into(), steps.noted.of_ranks.into()));
            self.counts.insert("steps", (kept, steps.noted.steps));
        }
    }

    /// QPs of collectives: a slice for each message, from when it is the next one of its QP until its
    /// last byte has come.
    fn messages(&mut self, most: u64) {
        let steps = self.steps;
        let all: usize = steps.messages.iter().map(|qp| qp.messages.len()).sum();
        let mut kept = 0;
        for qp in &steps.messages {
            if kept + qp.messages.len() as u64 > most {
                break;
            }
            let track = self.track(&qp.source, format!("QP {} to {}", qp.qp, qp.target));
            let mut free = 0;
            for (number, (posted, came, bytes)) in qp.messages.iter().enumerate() {
                let Some(came) = came else { continue };
                let (posted, came) = (ns_of(*posted), ns_of(*came));
                let span = [posted.max(free), came];
                let args = json!({
                    "cat": "message", "bytes": bytes, "waited_us": (span[0] - posted) as f64 / 1e3,
                });
                self.slice(track, span, format!("message {number}"), args);
                free = came;
                kept += 1;
            }
        }
        if all > 0 {
            self.counts.insert("messages", (kept, all as u64));
        }
    }

    /// Point traffic: the largest flows, at both ends.
    fn flows(&mut self, most: u64) {
        let started = |flow: &&FlowReport| flow.is_point() && flow.start_s.is_some();
        let mut flows: Vec<&FlowReport> = self.run.report.flows.iter().filter(started).collect();
        let all = flows.len();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.delivered_bytes));
        flows.truncate((most / 4) as usize);
        flows.sort_by_key(|flow| flow.id);
        for flow in &flows {
            let FlowReport { id, source, target, .. } = flow;
            let start = ns(flow.start_s.unwrap_or(0.0));
            let end = |span: Option<f64>| span.map_or(self.end, |span| start + ns(span)).max(start);
            let (acked, came) = (end(flow.acked_s), end(flow.fct_s));
            let args = json!({
                "cat": "flow", "bytes": flow.bytes, "slowdown": flow.slowdown,
                "priority": flow.priority, "source_port": flow.source_port,
                "retransmitted_bytes": flow.retransmitted_bytes, "status": flow.status,
            });
            let name = format!("flow {id}");
            let sends = self.track(source, format!("flow {id} to {target}: sends"));
            self.slice(sends, [start, acked], name.clone(), args.clone());
            let receives = self.track(target, format!("flow {id} from {source}: receives"));
            self.slice(receives, [start, came], name, args);
            // within the slice that it ends in
            self.arrow((start, sends), (came.saturating_sub(1).max(start), receives));
        }
        if all > 0 {
            self.counts.insert("flows", (flows.len() as u64, all as u64));
        }
    }

    /// Queues that are paused: the longest pauses.
    fn pauses(&mut self, most: u64) {
        let all = self.run.pauses;
        let end_s = self.run.report.simulated_time_s;
        let length = |index: &usize| all[*index].to_s.unwrap_or(end_s) - all[*index].from_s;
        let mut kept: Vec<usize> = (0..all.len()).collect();
        if kept.len() as u64 > most {
            kept.sort_by(|a, b| length(b).total_cmp(&length(a)).then(a.cmp(b)));
            kept.truncate(most as usize);
            kept.sort_unstable();
        }
        let mut tracks: BTreeMap<(&str, u8), (u32, u32)> = BTreeMap::new();
        for index in &kept {
            let row = &all[*index];
            let known = tracks.get(&(row.port.as_str(), row.priority)).copied();
            let track = known.unwrap_or_else(|| {
                let node = row.port.split([':', '/']).next().unwrap_or_default().to_owned();
                self.track(&node, format!("{} queue {} paused", row.port, row.priority))
            });
            tracks.insert((&row.port, row.priority), track);
            let span = [ns(row.from_s), row.to_s.map_or(self.end, ns)];
            let cause = row.cause.as_ref().map(|(port, queue)| format!("{port} queue {queue}"));
            let args = json!({
                "cat": "pause", "by": row.by, "cause": cause, "root": row.root, "root_kind": row.kind,
                "ended": row.to_s.is_some(),
            });
            self.slice(track, span, "paused".to_owned(), args);
        }
        if !all.is_empty() {
            self.counts.insert("pauses", (kept.len() as u64, all.len() as u64));
        }
    }

    /// Samples: queues of ports and rates of flows, as many as there is room for.
    fn counters(&mut self, most: u64) {
        let series = &self.run.series;
        let used = |port: &&models::report::PortSeries| port.queue_bytes.iter().any(|b| *b > 0);
        let ports: Vec<_> = series.ports.iter().filter(used).take(64).collect();
        let flows: Vec<_> = series.flows.iter().take(64).collect();
        let all = (ports.len() + flows.len()) * series.time_s.len();
        if all == 0 {
            return;
        }
        let every = all.div_ceil(most.max(1) as usize).max(1);
        let mut kept = 0;
        for (sample, time) in series.time_s.iter().enumerate().step_by(every) {
            let ts = ns(*time);
            let mut count = |process: u32, name: String, value: f64, unit: &'static str| {
                let what = What::Count { name, value, unit };
                self.events.push(Event { ts, track: (process, 0), span: None, what });
                kept += 1;
            };
            for port in &ports {
                let node = port.port.split([':', '/']).next().unwrap_or_default();
                let process = self.processes.get(node).copied().unwrap_or(0);
                let value = port.queue_bytes[sample] as f64;
                count(process, format!("{} queue depth", port.port), value, "bytes");
            }
            for flow in &flows {
                let process = self.processes.get(&flow.source).copied().unwrap_or(0);
                let value = flow.rate_bps[sample] as f64 / 1e9;
                count(process, format!("QP {} rate", flow.id), value, "Gb/s");
            }
        }
        self.counts.insert("samples", (kept, all as u64));
    }

    fn write(mut self, most: u64, out: &mut dyn Write) -> io::Result<TraceCounts> {
        let order = |event: &Event| match &event.what {
            What::Slice { .. } => (0, 0),
            What::Arrow { id, ends } => (1 + u64::from(*ends), *id),
            What::Count { .. } => (3, 0),
        };
        self.events.sort_by_key(|event| {
            let longest_first = std::cmp::Reverse(event.span.unwrap_or(0));
            (event.ts, event.track, order(event).0, longest_first, order(event).1)
        });
        let said = self.counts.iter().map(|(what, (kept, all))| {
            ((*what).to_owned(), Value::String(format!("{kept} of {all}")))
        });
        let mut data: serde_json::Map<String, Value> = said.collect();
        data.insert("scenario".to_owned(), json!(self.run.report.scenario));
        data.insert("seed".to_owned(), json!(self.run.report.seed));
        data.insert("trace_max_events".to_owned(), json!(most));
        write!(
            out,
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[",
            Value::Object(data)
        )?;
        let mut first = true;
        let mut next = |out: &mut dyn Write| -> io::Result<()> {
            let separator = if std::mem::take(&mut first) { "\n" } else { ",\n" };
            out.write_all(separator.as_bytes())
        };
        let used: std::collections::BTreeSet<u32> =
            self.events.iter().map(|event| event.track.0).collect();
        for (name, number) in self.processes.iter().filter(|(_, number)| used.contains(number)) {
            next(out)?;
            let name = json!(name);
            write!(
                out,
                "{{\"ph\":\"M\",\"pid\":{number},\"tid\":0,\"name\":\"process_name\",\"args\":{{\"name\":{name}}}}}"
            )?;
        }
        for ((process, thread), name) in &self.tracks {
            next(out)?;
            let name = json!(name);
            write!(
                out,
                "{{\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"name\":\"thread_name\",\"args\":{{\"name\":{name}}}}}"
            )?;
        }
        for event in &self.events {
            next(out)?;
            event.write(out)?;
        }
        out.write_all(b"\n]}\n")?;
        Ok(self.counts)
    }
}

impl Event {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (process, thread) = self.track;
        let ts = us(self.ts);
        match &self.what {
            What::Slice { name, args } => {
                let (span, cat) = (us(self.span.unwrap_or(0)), &args["cat"]);
                let name = json!(name);
                write!(
                    out,
                    "{{\"ph\":\"X\",\"cat\":{cat},\"name\":{name},\"pid\":{process},\"tid\":{thread},\"ts\":{ts},\"dur\":{span},\"args\":{args}}}"
                )
            }
            What::Arrow { id, ends } => {
                let phase = if *ends { "f\",\"bp\":\"e" } else { "s" };
                write!(
                    out,
                    "{{\"ph\":\"{phase}\",\"cat\":\"data\",\"name\":\"data\",\"id\":{id},\"pid\":{process},\"tid\":{thread},\"ts\":{ts}}}"
                )
            }
            What::Count { name, value, unit } => {
                let name = json!(name);
                write!(
                    out,
                    "{{\"ph\":\"C\",\"name\":{name},\"pid\":{process},\"tid\":0,\"ts\":{ts},\"args\":{{\"{unit}\":{value}}}}}"
                )
            }
        }
    }
}
