//! `nvidia-smi topo -m`: how far GPUs and NICs are from each other, as it is printed, or as people
//! paste it (tabs, blanks, a table of Markdown, without its end).

use models::host::{NicMode, PathType};

use super::super::ImportError;
use super::super::text::{TextFile, quoted};
use super::gpus::{self, Model, PcieLink};
use super::server::{self, Gpu, Joined, Links, Nic, Server, Told};

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Own,
    NvLinks(u32),
    Path(PathType),
}

/// Words of cells; SOC is what SYS was called once.
const WORDS: [&str; 8] = ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "NV1"];

impl Cell {
    fn parse(word: &str) -> Option<Cell> {
        Some(match word {
            "X" => Cell::Own,
            "PIX" => Cell::Path(PathType::Pix),
            "PXB" => Cell::Path(PathType::Pxb),
            "PHB" => Cell::Path(PathType::Phb),
            "NODE" => Cell::Path(PathType::Node),
            "SYS" | "SOC" => Cell::Path(PathType::Sys),
            word => Cell::NvLinks(word.strip_prefix("NV")?.parse().ok()?),
        })
    }

    fn name(self) -> String {
        match self {
            Cell::Own => "X".to_owned(),
            Cell::NvLinks(count) => format!("NV{count}"),
            Cell::Path(path) => path.name().to_owned(),
        }
    }
}

/// A row.
struct Row {
    line: usize,
    cells: Vec<Cell>,
    /// What follows them.
    rest: Vec<String>,
}

/// A matrix as it is read.
struct Matrix<'f> {
    file: &'f TextFile,
    header: usize,
    /// GPUs, then NICs.
    columns: Vec<String>,
    gpus: usize,
    /// By column.
    rows: Vec<Option<Row>>,
    /// `NIC0` and `mlx5_0`.
    legend: Vec<(String, String)>,
}

/// Whether this is a matrix.
pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| is_header(&words(line)))
}

/// The server of a matrix; `user` is what the GPUs are, if the user has said it.
pub(super) fn read(file: &TextFile, user: Option<&'static Model>) -> Result<Server, ImportError> {
    let matrix = Matrix::read(file)?;
    let mut server = Server::default();
    matrix.missing_rows(&mut server)?;
    for gpu in 0..matrix.gpus {
        let row = matrix.rows[gpu].as_ref();
        server.gpus.push(Gpu {
            label: matrix.columns[gpu].clone(),
            line: row.map_or(matrix.header, |row| row.line),
            numa: row.and_then(|row| row.rest.get(1)).filter(|numa| *numa != "N/A").cloned(),
            link: None,
        });
    }
    matrix.what_joins_gpus(&mut server, user)?;
    for column in matrix.gpus..matrix.columns.len() {
        let nic = matrix.nic(column)?;
        server.nics.push(nic);
    }
    let mut nodes: Vec<&String> = server.gpus.iter().filter_map(|gpu| gpu.numa.as_ref()).collect();
    nodes.sort();
    nodes.dedup();
    if !nodes.is_empty() {
        server.cpus = super::counted(nodes.len(), "NUMA node");
    }
    server.grace =
        server.model.as_ref().filter(|told| told.value.grace).map(|told| told.from.clone());
    Ok(server)
}

impl<'f> Matrix<'f> {
    fn read(file: &'f TextFile) -> Result<Self, ImportError> {
        let lines: Vec<(usize, Vec<String>)> = (1..)
            .zip(file.text().lines().map(words))
            .filter(|(_, words)| !words.is_empty())
            .collect();
        let header = lines.iter().position(|(_, words)| is_header(words)).unwrap_or(0);
        let columns: Vec<String> =
            lines[header].1.iter().take_while(|word| is_device(word)).cloned().collect();
        let gpus = columns.iter().take_while(|name| is_gpu(name)).count();
        for (index, name) in columns.iter().enumerate() {
            let message = match columns[..index].contains(name) {
                true => format!("column {name} stands twice"),
                false if is_gpu(name) && index >= gpus => {
                    format!("column {name} stands behind a NIC; GPUs are expected first")
                }
                false => continue,
            };
            return Err(file.error_at(lines[header].0, message));
        }
        if gpus > 64 {
            let message = format!("{gpus} GPUs are in it; at most 64 can be");
            return Err(file.error_at(lines[header].0, message));
        }
        let rows = columns.iter().map(|_| None).collect();
        let header_line = lines[header].0;
        let mut matrix =
            Matrix { file, header: header_line, columns, gpus, rows, legend: Vec::new() };
        let last = lines.len() - 1;
        for (index, (line, words)) in lines.iter().enumerate().skip(header + 1) {
            matrix.line(*line, words, index == last)?;
        }
        Ok(matrix)
    }

    fn line(&mut self, line: usize, words: &[String], last: bool) -> Result<(), ImportError> {
        let file = self.file;
        let name = &words[0];
        if words.len() > 1 && is_header(words) {
            let message = format!(
                "a second matrix; the first begins in line {}; the matrix of one server is expected",
                self.header
            );
            return Err(file.error_at(line, message));
        }
        let Some(own) = self.columns.iter().position(|column| column == name) else {
            let cells = words[1..].iter().filter(|word| Cell::parse(word).is_some()).count();
            if is_gpu(name) && cells > 0 {
                let message =
                    format!("row {} has no column of that name in line {}", name, self.header);
                return Err(file.error_at(line, message));
            }
            self.note_names(words);
            return Ok(());
        };
        if let Some(other) = &self.rows[own] {
            let message = format!("row {name} stands in line {} already", other.line);
            return Err(file.error_at(line, message));
        }
        let mut cells = Vec::new();
        for (column, word) in self.columns.iter().zip(&words[1..]) {
            let Some(cell) = Cell::parse(word) else {
                // the end of what was pasted
                if last && cells.len() + 2 == words.len() {
                    break;
                }
                let near = crate::load::near_miss(word, WORDS);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                let message = format!(
                    "row {name}, column {column}: {} is none of X, NV#, PIX, PXB, PHB, NODE, SYS{near}",
                    quoted(word)
                );
                return Err(file.error_at(line, message));
            };
            if (cell == Cell::Own) != (column == name) {
                let message = format!(
                    "row {name} has {} in column {column}; X is expected in column {name} only",
                    cell.name()
                );
                return Err(file.error_at(line, message));
            }
            cells.push(cell);
        }
        if cells.len() < self.columns.len() && !last {
            let message = format!(
                "row {name} has {} cells; {} are expected, one for each of {} .. {}",
                cells.len(),
                self.columns.len(),
                self.columns[0],
                self.columns[self.columns.len() - 1]
            );
            return Err(file.error_at(line, message));
        }
        let rest = words.iter().skip(1 + cells.len()).cloned().collect();
        self.rows[own] = Some(Row { line, cells, rest });
        Ok(())
    }

    /// `NIC0: mlx5_0`, `NIC0=mlx5_0 (NUMA 0), NIC1=..`
    fn note_names(&mut self, words: &[String]) {
        let mut words = words.iter().map(|word| word.trim_end_matches(','));
        while let Some(word) = words.next() {
            let Some((label, name)) = word.split_once([':', '=']) else { continue };
            if !self.columns.iter().any(|column| column == label) || is_gpu(label) {
                continue;
            }
            let name = if name.is_empty() { words.next().unwrap_or("") } else { name };
            if !name.is_empty() {
                self.legend.push((label.to_owned(), name.to_owned()));
            }
        }
    }

    /// What two devices are to each other, from either row.
    fn cell(&self, a: usize, b: usize) -> Result<Option<Cell>, ImportError> {
        let of = |row: usize, column: usize| {
            let row = self.rows[row].as_ref()?;
            Some((*row.cells.get(column)?, row.line))
        };
        match (of(a, b), of(b, a)) {
            (Some((one, line)), Some((two, other))) if one != two => {
                let message = format!(
                    "{} and {} are {} here, but {} in line {other}; both rows are expected to agree",
                    self.columns[a],
                    self.columns[b],
                    one.name(),
                    two.name()
                );
                Err(self.file.error_at(line, message))
            }
            (one, two) => Ok(one.or(two).map(|(cell, _)| cell)),
        }
    }

    /// Rows may be missing where the other device of each pair has one, or at the end.
    fn missing_rows(&self, server: &mut Server) -> Result<(), ImportError> {
        let is_whole = |index: &usize| {
            self.rows[*index].as_ref().is_some_and(|row| row.cells.len() == self.columns.len())
        };
        let last = (0..self.columns.len()).rev().find(is_whole);
        let mut unknown = Vec::new();
        for a in 0..self.gpus {
            for b in 0..self.columns.len() {
                if a != b && self.cell(a, b)?.is_none() {
                    unknown.push((a, b));
                }
            }
        }
        let Some((a, b)) = unknown.first() else { return Ok(()) };
        let Some(last) = last.filter(|last| a > last) else {
            let (gpu, other) = (&self.columns[*a], &self.columns[*b]);
            let message = format!(
                "the row of {gpu} is missing, and no other says what it and {other} are to each other"
            );
            return Err(self.file.error_at(self.header, message));
        };
        let gpus: Vec<&str> = (0..self.gpus)
            .filter(|gpu| unknown.iter().any(|(a, _)| a == gpu))
            .map(|gpu| self.columns[gpu].as_str())
            .collect();
        let message = format!(
            "the matrix is cut off after row {}: SYS is taken for what {} would say",
            self.columns[last],
            gpus.join(", ")
        );
        server.warnings.push(self.file.error_at_end(message).to_string());
        Ok(())
    }

    fn what_joins_gpus(
        &self,
        server: &mut Server,
        user: Option<&'static Model>,
    ) -> Result<(), ImportError> {
        let mut all = Vec::new();
        for a in 0..self.gpus {
            let mut links = Links { to_switch: 0, to_gpus: vec![0; self.gpus] };
            for b in 0..self.gpus {
                if let Some(Cell::NvLinks(count)) = self.cell(a, b)? {
                    links.to_gpus[b] = count;
                }
            }
            all.push(links);
        }
        // more than a GPU has (18): each pair shows all links that go to the switches
        if all.iter().any(|links| links.to_gpus.iter().sum::<u32>() > 18) {
            for links in &mut all {
                links.to_switch =
                    links.to_gpus.iter().copied().filter(|n| *n > 0).min().unwrap_or(0);
            }
        }
        let most = |links: &Links| match links.to_switch {
            0 => links.to_gpus.iter().sum(),
            links => links,
        };
        let each = all.iter().map(most).max().unwrap_or(0);
        let place = format!("{}:{}", self.file.short_name(), self.header);
        let link_mbps = self.what_gpus_are(server, user, each, &place);
        server.joined = match server::join(&all, link_mbps, "NVLinks", &place) {
            _ if self.gpus == 1 => Joined::Alone,
            Some(joined) => joined,
            None => {
                let link = match server.architecture.as_ref().map(|told| told.value) {
                    Some("volta") => PcieLink::UNKNOWN,
                    Some("hopper" | "blackwell") => PcieLink { generation: 5, width: 16 },
                    _ => PcieLink { generation: 4, width: 16 },
                };
                let message =
                    format!("NVLink does not join all GPUs: they have PCIe, {link} is assumed");
                server.warnings.push(self.file.error_at(self.header, message).to_string());
                Joined::Pcie {
                    rate: link.payload(),
                    from: format!("{place}: no NVLink; {link} assumed"),
                }
            }
        };
        Ok(())
    }

    /// Says what the GPUs are, from the user or the number of links; returns the rate of a link.
    fn what_gpus_are(
        &self,
        server: &mut Server,
        user: Option<&'static Model>,
        links: u32,
        place: &str,
    ) -> u64 {
        if let Some(model) = user {
            server.model = Some(Told::new(model, format!("--gpu {}", model.name)));
            server.architecture = Some(Told::new(model.architecture, "follows from the GPU"));
            return model.link_mbps;
        }
        let name = match links {
            6 => "v100",
            12 => "a100",
            18 => "h100",
            _ => return gpus::LINK_MBPS,
        };
        let Some(model) = gpus::named(name) else { return gpus::LINK_MBPS };
        server.preset = Some(model.preset);
        let from = format!("{place}: {links} NVLinks a GPU, assumed {}", name.to_uppercase());
        server.architecture = Some(Told::new(model.architecture, from));
        let other =
            if links == 18 { ", or Blackwell, which doubles the rate: --gpu b200" } else { "" };
        let message = format!(
            "{links} NVLinks a GPU: {} is assumed{other}; a matrix does not say it",
            name.to_uppercase()
        );
        server.warnings.push(self.file.error_at(self.header, message).to_string());
        model.link_mbps
    }

    fn nic(&self, column: usize) -> Result<Nic, ImportError> {
        let label = self.columns[column].clone();
        let mut paths = Vec::new();
        for gpu in 0..self.gpus {
            match self.cell(gpu, column)? {
                Some(Cell::Path(path)) => paths.push(path),
                Some(cell) => {
                    let line = self.rows[gpu].as_ref().map_or(self.header, |row| row.line);
                    let message = format!(
                        "GPU{gpu} and {label} are {}; a path such as PIX or SYS is expected",
                        cell.name()
                    );
                    return Err(self.file.error_at(line, message));
                }
                // cut off: told before
                None => paths.push(PathType::Sys),
            }
        }
        let named = self.legend.iter().find(|(number, _)| *number == label);
        let name = named.map(|(_, name)| name.clone());
        let is_number = label.strip_prefix("NIC").is_some_and(|rest| rest.parse::<u32>().is_ok());
        let name = match (name, is_number) {
            (Some(name), _) => Some(name),
            (None, true) if self.legend.is_empty() => None,
            (None, _) => Some(label.clone()),
        };
        let mode = name.as_deref().map_or(NicMode::Rails, server::mode_of);
        let is_bond = mode == NicMode::Bond;
        Ok(Nic {
            line: self.rows[column].as_ref().map_or(self.header, |row| row.line),
            label,
            names: name.into_iter().collect(),
            ports: if is_bond { 2 } else { 1 },
            ports_assumed: is_bond,
            mode,
            link: None,
            paths,
            speed: None,
            numa: None,
        })
    }
}

/// The words of a line: the cells of a table of Markdown, or what blanks and tabs separate; without
/// what only makes it look well.
fn words(line: &str) -> Vec<String> {
    let plain = without_escapes(line);
    let line = plain.trim().trim_start_matches('\u{feff}');
    let is_rule =
        |word: &&str| !word.is_empty() && !word.chars().all(|c| matches!(c, '-' | ':' | '='));
    if line.starts_with('|') {
        let cells = line.trim_matches('|').split('|').flat_map(str::split_whitespace);
        return cells.filter(is_rule).map(str::to_owned).collect();
    }
    line.split_whitespace().filter(is_rule).map(str::to_owned).collect()
}

/// Without the sequences that underline the header on a terminal (`ESC [ 4 m`).
fn without_escapes(line: &str) -> String {
    let mut plain = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if chars.next_if_eq(&'[').is_some() {
            while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        }
    }
    plain
}

/// `GPU0 GPU1 NIC0 ..`: names of devices, and no cells.
fn is_header(words: &[String]) -> bool {
    words.first().is_some_and(|word| is_gpu(word))
        && words.get(1).is_none_or(|word| Cell::parse(word).is_none() && is_device_or_end(word))
}

fn is_device_or_end(word: &str) -> bool {
    is_device(word) || matches!(word, "CPU" | "NUMA" | "GPU")
}

/// `GPU12`
fn is_gpu(word: &str) -> bool {
    let number = word.strip_prefix("GPU");
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A GPU, or a NIC: `NIC0`, `mlx5_0`, `bnxt_re0`.
fn is_device(word: &str) -> bool {
    let ends = word.bytes().last().is_some_and(|byte| byte.is_ascii_digit());
    let starts = word.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    starts && ends && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}
