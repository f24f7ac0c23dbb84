//! Rank files, in the manner of mpirun: which GPU each rank has.
//!
//! A line is `host` (its next GPU), `host:3` (GPU 3), `host slots=8` (its next eight), or, of a
//! rankfile, `rank 5=host slot=3`. `#` begins a comment.

use std::path::Path as FsPath;

use models::BuildError;
use models::collective::CollectiveConfig;
use models::placement::{RankRef, Ranks};
use models::traffic::TrafficConfig;

use super::{Place, read_file};
use crate::load::{LoadError, Node, Path, Value, near_miss};
use crate::schema::Scenario;

/// A rank file of a section, and the line of each rank.
#[derive(Clone, Debug)]
pub(super) struct RankFile {
    section: usize,
    /// As messages call it.
    label: String,
    lines: Vec<u32>,
}

/// Reads the rank files of all sections; adds their names in a run directory and their texts to
/// `files`.
pub(super) fn inline_ranks(
    scenario: &mut Scenario,
    folder: Option<&FsPath>,
    place: &mut Place,
    files: &mut Vec<(String, String)>,
) -> Result<Vec<RankFile>, LoadError> {
    let mut found = Vec::new();
    for (section, traffic) in scenario.traffic.iter_mut().enumerate() {
        let Some(ranks) = ranks_of(traffic) else { continue };
        let Ranks::File(file) = &*ranks else { continue };
        let path = folder.unwrap_or(FsPath::new(".")).join(file);
        let key = format!("traffic[{section}].ranks");
        let fail = |why: String| place.locate(BuildError::new(&key, why));
        let text = read_file(&path).map_err(fail)?;
        let label = path.display().to_string();
        let seats =
            read_ranks(&text).map_err(|(line, why)| fail(format!("{label}:{line}: {why}")))?;
        let base = path.file_name().map_or(file.clone(), |n| n.to_string_lossy().into_owned());
        let plain = base.split_once('-').filter(|(number, _)| number.parse::<usize>().is_ok());
        let name = format!("inputs/{section}-{}", plain.map_or(base.as_str(), |(_, plain)| plain));
        let (lines, list) = seats.into_iter().unzip();
        *ranks = Ranks::List(list);
        let path = Path::parse(&key)?;
        let origin = place.tree.at(&path).map_or(place.tree.origin, |node| node.origin);
        place.tree.set(&path, Node::new(Value::Text(name.clone()), origin))?;
        files.push((name, text));
        found.push(RankFile { section, label, lines });
    }
    Ok(found)
}

fn ranks_of(traffic: &mut TrafficConfig) -> Option<&mut Ranks> {
    match traffic {
        TrafficConfig::Collective(CollectiveConfig { ranks, .. }) => ranks.as_mut(),
        TrafficConfig::Training(training) => training.ranks.as_mut(),
        TrafficConfig::Program(program) => program.ranks.as_mut(),
        _ => None,
    }
}

/// Names file and line where the model found an error in a rank of a file.
pub(super) fn in_file(error: BuildError, files: &[RankFile]) -> BuildError {
    let of = |file: &RankFile| {
        let prefix = format!("traffic[{}].ranks", file.section);
        let rank = error.key.strip_prefix(&prefix)?.strip_prefix('[')?.strip_suffix(']')?;
        let line = file.lines.get(rank.parse::<usize>().ok()?)?;
        Some(BuildError::new(prefix, format!("{}:{line}: {}", file.label, error.message)))
    };
    files.iter().find_map(of).unwrap_or(error)
}

/// The ranks of a file, in their order, each with its line; or the line of a mistake, and what it
/// is.
fn read_ranks(text: &str) -> Result<Vec<(u32, RankRef)>, (u32, String)> {
    let mut ranks: Vec<(u32, RankRef)> = Vec::new();
    // of a rankfile: the number of each
    let mut numbers: Vec<u32> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let fail = |why: String| (line, why);
        let (number, found) = read_line(content).map_err(fail)?;
        if number.is_some() != (numbers.len() == ranks.len() && !numbers.is_empty())
            && !ranks.is_empty()
        {
            let message = "lines with and without `rank N=` in one file: one kind is expected";
            return Err(fail(message.to_owned()));
        }
        if let Some(number) = number {
            if numbers.contains(&number) {
                return Err(fail(format!("rank {number} is there twice")));
            }
            numbers.push(number);
        }
        ranks.extend(found.into_iter().map(|rank| (line, rank)));
        if ranks.len() > 1 << 20 {
            return Err(fail("too many ranks".to_owned()));
        }
    }
    if ranks.is_empty() {
        return Err((1, "no ranks: a line such as `host0:3` is expected".to_owned()));
    }
    if numbers.is_empty() {
        return Ok(ranks);
    }
    let mut sorted: Vec<(u32, (u32, RankRef))> = numbers.into_iter().zip(ranks).collect();
    sorted.sort_by_key(|(number, _)| *number);
    for (expected, (number, (line, _))) in (0..).zip(&sorted) {
        if *number != expected {
            return Err((*line, format!("rank {expected} is missing: ranks count from 0")));
        }
    }
    Ok(sorted.into_iter().map(|(_, rank)| rank).collect())
}

/// The ranks of a line, and of a rankfile's the number.
fn read_line(content: &str) -> Result<(Option<u32>, Vec<RankRef>), String> {
    const FORMS: &str = "`host`, `host:gpu`, `host slots=n` or `rank n=host slot=gpu` is expected";
    let all: Vec<&str> = content.split_whitespace().collect();
    if let ["rank", rest @ ..] = &all[..] {
        let [seat, slot] = rest else { return Err(format!("{content:?}: {FORMS}")) };
        let Some((number, host)) = seat.split_once('=') else {
            return Err(format!("{seat:?}: {FORMS}"));
        };
        let count = |text: &str| text.parse::<u32>();
        let number =
            count(number).map_err(|_| format!("{number:?} is no number of a rank: {FORMS}"))?;
        let Some(gpu) = slot.strip_prefix("slot=") else {
            return Err(unknown(slot, "slot"));
        };
        let gpu = count(gpu)
            .map_err(|_| format!("{gpu:?} is no number of a GPU: slot=GPU is expected"))?;
        let RankRef { host, .. } = host.parse()?;
        return Ok((Some(number), vec![RankRef { host, gpu: Some(gpu) }]));
    }
    let (host, rest) = all.split_first().ok_or(FORMS)?;
    let rank: RankRef = host.parse()?;
    let mut slots = 1;
    for word in rest {
        match word.split_once('=') {
            Some(("slots", count)) if rank.gpu.is_none() => {
                slots = count.parse().ok().filter(|count| (1..=4096).contains(count)).ok_or_else(
                    || format!("slots={count} is out of range: 1 to 4096 is expected"),
                )?;
            }
            // how many more processes mpirun could start there
            Some(("max_slots" | "max-slots", _)) => {}
            Some(("slots", _)) => return Err(format!("{host:?} is one GPU, and has no slots")),
            _ => return Err(unknown(word, "slots")),
        }
    }
    Ok((None, vec![rank; slots]))
}

fn unknown(word: &str, expected: &str) -> String {
    let key = word.split('=').next().unwrap_or(word);
    match near_miss(key, ["slots", "slot", "max_slots"]) {
        Some(near) if near != expected => format!("{word:?}: `{expected}=` is expected here"),
        Some(near) => format!("{word:?}: did you mean `{near}=`?"),
        None => format!("{word:?}: `{expected}=` is expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, (u32, String)> {
        let word = |(line, rank): (u32, RankRef)| {
            let host = match rank.host {
                models::traffic::HostRef::Number(number) => number.to_string(),
                models::traffic::HostRef::Name(name) => name,
            };
            format!("{line} {host}:{}", rank.gpu.map_or("-".to_owned(), |gpu| gpu.to_string()))
        };
        Ok(read_ranks(text)?.into_iter().map(word).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn hostfiles_and_rankfiles_are_read() {
        let hosts = "# ours\nhost0 slots=2 max_slots=8\n\nhost3:1 # the second\n2\n";
        assert_eq!(read(hosts).unwrap(), "2 host0:-, 2 host0:-, 4 host3:1, 5 2:-");
        let ranks = "rank 1=host0 slot=3\nrank 0=host1 slot=0";
        assert_eq!(read(ranks).unwrap(), "2 host1:0, 1 host0:3");
    }

    #[test]
    fn mistakes_are_told_by_line() {
        for (text, line, word) in [
            ("", 1, "no ranks"),
            ("host0\nhost1:x", 2, "no number of a GPU"),
            ("host0 slot=2", 1, "`slots=` is expected"),
            ("host0 slotss=2", 1, "did you mean `slots=`"),
            ("host0 slots=0", 1, "1 to 4096"),
            ("host0:1 slots=2", 1, "is one GPU"),
            ("rank 0=host0 slot=0\nhost1", 2, "with and without"),
            ("host1\nrank 0=host0 slot=0", 2, "with and without"),
            ("rank 0=host0 slot=0\nrank 0=host0 slot=1", 2, "there twice"),
            ("rank 0=host0 slot=0\nrank 2=host0 slot=1", 2, "rank 1 is missing"),
            ("rank 0=host0 slot=0:1", 1, "slot=GPU is expected"),
            ("rank 0=host0", 1, "is expected"),
        ] {
            let (at, why) = read(text).unwrap_err();
            assert!(at == line && why.contains(word), "{text:?}: {at}: {why}");
        }
    }
}
