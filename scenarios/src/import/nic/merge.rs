//! One value of each key.

use super::{ImportError, Reading};

/// The value of each key, in order of their first reading, and what differed.
///
/// What runs goes before what is stored. Of ports that differ the first one counts. Two values of
/// one port, from files of equal rank, are an error: one of them is not true.
pub(super) fn merge(readings: Vec<Reading>) -> Result<(Vec<Reading>, Vec<String>), ImportError> {
    let mut chosen: Vec<Reading> = Vec::new();
    let mut differences = Vec::new();
    for reading in &readings {
        if chosen.iter().any(|known| known.key == reading.key) {
            continue;
        }
        let mut all: Vec<&Reading> =
            readings.iter().filter(|other| other.key == reading.key).collect();
        all.sort_by_key(|reading| std::cmp::Reverse(reading.rank));
        contradiction(&all)?;
        let best = all[0];
        // one line for each other value
        let mut told = vec![&best.value];
        for other in &all[1..] {
            if !told.contains(&&other.value) {
                told.push(&other.value);
                differences.push(difference(best, other));
            }
        }
        chosen.push(best.clone());
    }
    Ok((chosen, differences))
}

/// Two values of the same port that cannot both hold.
fn contradiction(all: &[&Reading]) -> Result<(), ImportError> {
    for (index, one) in all.iter().enumerate() {
        let same = |other: &&&Reading| other.rank == one.rank && other.port == one.port;
        if let Some(two) = all[index + 1..].iter().find(|two| same(two) && two.value != one.value) {
            let message = format!(
                "{} is {} here, but {} at {}: both are {} of one port; leave out the file that does \
                 not hold",
                two.name,
                brief(&two.value),
                brief(&one.value),
                one.place.full(),
                one.key
            );
            return Err(two.place.error(message));
        }
    }
    Ok(())
}

fn difference(best: &Reading, other: &Reading) -> String {
    let named = |reading: &Reading| match &reading.port {
        Some(port) => format!("{} of {port}", reading.name),
        None => reading.name.clone(),
    };
    let why = match best.rank == other.rank {
        true => "ports differ, and the first is taken; `[[override]]` can set the other",
        false => "what runs is taken, not what is stored",
    };
    format!(
        "{}: {} is {}, but {} is {} ({}): {why}",
        other.place.full(),
        named(other),
        brief(&other.value),
        named(best),
        brief(&best.value),
        best.place.full()
    )
}

/// A value as it is told; of a long one only that it is one.
fn brief(value: &str) -> &str {
    if value.contains('\n') { "another map" } else { value }
}
