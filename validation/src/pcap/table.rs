//! What is in a capture, for a terminal.

use std::fmt;

use scenarios::text::table;
use sim_core::Rate;

use super::stats::{CaptureStats, Icrc, RoceStats};

/// A capture in words and tables, with the first QPs and addresses.
#[derive(Clone, Copy, Debug)]
pub struct CaptureTable<'a> {
    /// What is told.
    pub stats: &'a CaptureStats,
    /// QPs and addresses that have a line.
    pub top: usize,
}

impl fmt::Display for CaptureTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.roce(f)?;
        self.pauses(f)?;
        self.addresses(f)?;
        self.qps(f)
    }
}

impl CaptureTable<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaptureStats { format, frames, bytes, span_s, .. } = self.stats;
        writeln!(f, "{} ({format})", clipped(&self.stats.file, 80))?;
        write!(f, "{frames} frames, {bytes} B in {}", time(*span_s))?;
        if self.stats.captured_bytes < *bytes {
            write!(f, ", {} B of them captured", self.stats.captured_bytes)?;
        }
        writeln!(f)?;
        let CaptureStats { roce, pause_frames, other_frames, .. } = self.stats;
        write!(f, "RoCEv2 {}, pause {pause_frames}, other {other_frames}", roce.frames)?;
        for (count, what) in
            [(self.stats.short_frames, "cut short"), (self.stats.malformed_frames, "malformed")]
        {
            if count > 0 {
                write!(f, ", {what} {count}")?;
            }
        }
        writeln!(f)
    }

    fn roce(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RoceStats { opcodes, naks, icrc, .. } = &self.stats.roce;
        let roce = &self.stats.roce;
        if roce.frames == 0 {
            return Ok(());
        }
        writeln!(f)?;
        let mut rows = vec![["opcode", "frames"].map(str::to_owned).to_vec()];
        rows.extend(opcodes.iter().map(|(name, count)| vec![name.clone(), count.to_string()]));
        f.write_str(&table(&rows))?;
        writeln!(f)?;
        let named: Vec<String> = naks
            .iter()
            .map(|(code, count)| format!(", {count} NAK ({})", code.replace('_', " ")))
            .collect();
        write!(f, "acknowledged: {} ACK{}", roce.acks, named.concat())?;
        if roce.rnr_naks > 0 {
            write!(f, ", {} RNR NAK", roce.rnr_naks)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "PSNs:         {} gaps ({} skipped), {} late, {} again",
            roce.psn_gaps, roce.psns_skipped, roce.late_packets, roce.repeated_packets
        )?;
        writeln!(
            f,
            "congestion:   {} CNP ({:.0}/s); {} of {} ECN-capable frames marked ({:.2} %), {} of them \
             data",
            roce.cnps,
            roce.cnps_per_s,
            roce.ecn_marked,
            roce.ecn_capable,
            roce.ecn_marked_share * 100.0,
            roce.ecn_marked_data
        )?;
        let Icrc { right, wrong, unchecked } = icrc;
        writeln!(f, "ICRC:         {right} right, {wrong} wrong, {unchecked} not captured")?;
        if let Some(gaps) = &self.stats.gaps {
            let [p50, p99, max] = [gaps.p50_s, gaps.p99_s, gaps.max_s].map(time);
            writeln!(f, "packet gaps:  p50 {p50}, p99 {p99}, max {max} (within a QP)")?;
        }
        Ok(())
    }

    fn pauses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stats.pauses.is_empty() {
            return Ok(());
        }
        let names = ["pause sent by", "at", "prio", "XOFF", "XON", "episodes", "paused"];
        let mut rows = vec![names.map(str::to_owned).to_vec()];
        for pause in self.stats.pauses.iter().take(self.top) {
            let open = if pause.open { " (open)" } else { "" };
            rows.push(vec![
                pause.sender.clone(),
                clipped(pause.interface.as_deref().unwrap_or("-"), 20),
                pause.priority.map_or("all".to_owned(), |priority| priority.to_string()),
                pause.xoff_frames.to_string(),
                pause.xon_frames.to_string(),
                pause.episodes.to_string(),
                time(pause.paused_s) + open,
            ]);
        }
        write!(f, "\n{}", table(&rows))?;
        self.more(f, self.stats.pauses.len(), "ports and priorities")
    }

    fn addresses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stats.addresses.is_empty() {
            return Ok(());
        }
        let names =
            ["address", "tx", "rx", "data", "again", "NAK tx", "rx", "CNP tx", "rx", "marked rx"];
        let mut rows = vec![names.map(str::to_owned).to_vec()];
        for (address, counts) in self.stats.addresses.iter().take(self.top) {
            let numbers = [
                counts.tx_packets,
                counts.rx_packets,
                counts.data_packets,
                counts.retransmitted_packets,
                counts.out_of_sequence,
                counts.packet_seq_err,
                counts.np_cnp_sent,
                counts.rp_cnp_received,
                counts.np_ecn_marked_roce_packets,
            ];
            let mut row = vec![clipped(address, 24)];
            row.extend(numbers.map(|number| number.to_string()));
            rows.push(row);
        }
        write!(f, "\n{}", table(&rows))?;
        self.more(f, self.stats.addresses.len(), "addresses")
    }

    fn qps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stats.qps.is_empty() {
            return Ok(());
        }
        let names =
            ["from", "to QP", "packets", "rate", "gaps", "again", "ACK", "NAK", "CNP", "CE %"];
        let mut rows = vec![names.map(str::to_owned).to_vec()];
        for qp in self.stats.qps.iter().take(self.top) {
            let way = qp.way.map_or(String::new(), |way| format!(" ({way})"));
            let share = 100.0 * qp.ecn_marked as f64 / (qp.ecn_capable as f64).max(1.0);
            let naks = qp.naks.values().sum::<u64>() + qp.rnr_naks;
            rows.push(vec![
                clipped(&qp.source, 15),
                format!("{} 0x{:x}{way}", clipped(&qp.target, 15), qp.qp),
                qp.packets.to_string(),
                rate(qp.throughput_bps),
                qp.psn_gaps.to_string(),
                (qp.late_packets + qp.repeated_packets).to_string(),
                qp.acks.to_string(),
                naks.to_string(),
                qp.opcodes.get("CNP").copied().unwrap_or(0).to_string(),
                if qp.ecn_capable == 0 { "-".to_owned() } else { format!("{share:.1}") },
            ]);
        }
        write!(f, "\n{}", table(&rows))?;
        self.more(f, self.stats.qps.len(), "QPs")
    }

    /// How many lines were left out.
    fn more(&self, f: &mut fmt::Formatter<'_>, all: usize, what: &str) -> fmt::Result {
        match all.saturating_sub(self.top) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more {what} (--top, --json)"),
        }
    }
}

/// `23.1 us`
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        0.0 => return "0".to_owned(),
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = if value < 10.0 { 2 } else { 1 };
    format!("{value:.digits$} {unit}")
}

fn rate(bps: f64) -> String {
    match bps {
        0.0 => "-".to_owned(),
        bps if bps >= 1e9 => format!("{:.2} Gb/s", bps / 1e9),
        bps if bps >= 1e6 => format!("{:.2} Mb/s", bps / 1e6),
        bps => Rate::from_bps(bps as u64).to_string(),
    }
}

/// A text of at most so many characters, its end kept.
fn clipped(text: &str, width: usize) -> String {
    let count = text.chars().count();
    match count > width {
        true => "...".chars().chain(text.chars().skip(count + 3 - width)).collect(),
        false => text.to_owned(),
    }
}
