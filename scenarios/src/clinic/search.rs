//! Which cases fit what an operator sees.

use std::collections::BTreeSet;

use super::Case;

/// What a word counts for where it is found.
const SYMPTOM: f64 = 4.0;
const KEYWORDS: f64 = 3.0;
const TITLE: f64 = 2.0;
const CAUSE: f64 = 1.0;

/// Cases that fit the worst are left out: those below this share of the best.
const SHARE_MIN: f64 = 0.4;

/// Words that say nothing about a symptom.
const STOP_WORDS: [&str; 33] = [
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "but", "by", "do", "does",
    "for", "from", "has", "have", "i", "in", "is", "it", "my", "of", "on", "one", "our", "s",
    "than", "that", "the", "to", "with",
];

/// Words that turn the next one round: "no drops".
const NEGATIONS: [&str; 6] = ["no", "not", "without", "never", "hardly", "nor"];

/// The cases that fit a symptom, the best first; none if no word of it is known.
///
/// A case scores for each word of the symptom that it has: the more the earlier the word stands in
/// the case (symptom, keywords and findings, title, cause), and the fewer other cases have it. The
/// sum counts as the share of the words that the case has.
pub fn matching<'a>(cases: &'a [Case], symptom: &str) -> Vec<&'a Case> {
    let asked = stems(symptom);
    let parts: Vec<[BTreeSet<String>; 4]> = cases.iter().map(parts).collect();
    let value = |parts: &[BTreeSet<String>; 4], word: &str| {
        let weights = [SYMPTOM, KEYWORDS, TITLE, CAUSE];
        let has = |part: &BTreeSet<String>| part.iter().any(|known| is_like(known, word));
        let found = parts.iter().zip(weights).find(|(part, _)| has(part));
        found.map_or(0.0, |(_, weight)| weight)
    };
    let mut scores = vec![0.0; cases.len()];
    let mut matched = vec![0usize; cases.len()];
    for word in &asked {
        let values: Vec<f64> = parts.iter().map(|parts| value(parts, word)).collect();
        let having = values.iter().filter(|value| **value > 0.0).count().max(1);
        let rare = (1.0 + cases.len() as f64 / having as f64).ln();
        for (case, value) in values.into_iter().enumerate() {
            scores[case] += value * rare;
            matched[case] += usize::from(value > 0.0);
        }
    }
    let share = |matched: &usize| *matched as f64 / asked.len().max(1) as f64;
    scores.iter_mut().zip(&matched).for_each(|(score, matched)| *score *= share(matched));
    let best = scores.iter().copied().fold(0.0, f64::max);
    let mut found: Vec<(f64, &Case)> = scores.iter().copied().zip(cases).collect();
    found.retain(|(score, _)| best > 0.0 && *score >= best * SHARE_MIN);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, case)| case).collect()
}

fn parts(case: &Case) -> [BTreeSet<String>; 4] {
    let clinic = &case.clinic;
    let known = [clinic.keywords.join(" "), case.findings.join(" ")].join(" ");
    let cause = [clinic.cause.as_str(), clinic.cure.as_str()].join(" ");
    [stems(&clinic.symptom), stems(&known), stems(case.title), stems(&cause)]
}

/// The words of a text without endings; what is negated begins with `!`.
fn stems(text: &str) -> BTreeSet<String> {
    let mut stems = BTreeSet::new();
    let mut negated = false;
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        let word = word.to_ascii_lowercase();
        if NEGATIONS.contains(&word.as_str()) {
            negated = true;
        } else if !word.is_empty() && !STOP_WORDS.contains(&word.as_str()) {
            let stem = stem(&word);
            stems.insert(if negated { format!("!{stem}") } else { stem });
            negated = false;
        }
    }
    stems
}

/// A word without its ending: `dropped`, `drops` and `dropping` are `drop`.
fn stem(word: &str) -> String {
    for ending in ["ings", "ing", "ed", "es", "s"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= 3
        {
            let mut letters = rest.bytes().rev();
            let doubled = ending != "s" && letters.next() == letters.next();
            let vowel_s = ["ss", "us", "is"].iter().any(|end| word.ends_with(end));
            match (ending, doubled && !rest.ends_with("ss") && !rest.ends_with("ll")) {
                ("s", _) if vowel_s => break,
                (_, true) => return rest[..rest.len() - 1].to_owned(),
                _ => return rest.trim_end_matches('e').to_owned(),
            }
        }
    }
    if word.len() > 4 { word.trim_end_matches('e').to_owned() } else { word.to_owned() }
}

/// The same word, or one that begins with the other: `retransmit`, `retransmits`, `congest`.
fn is_like(a: &str, b: &str) -> bool {
    a == b || (a.len().min(b.len()) >= 4 && (a.starts_with(b) || b.starts_with(a)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clinic::cases;

    #[test]
    fn words_are_told_by_their_stems() {
        for word in ["drop", "drops", "dropped", "dropping"] {
            assert_eq!(stem(word), "drop", "{word}");
        }
        for word in ["pause", "pauses", "paused", "pausing"] {
            assert_eq!(stem(word), "paus", "{word}");
        }
        assert_eq!(
            ["loss", "losses", "status", "slow"].map(stem),
            ["loss", "loss", "status", "slow"]
        );
    }

    #[test]
    fn what_is_not_there_is_another_word() {
        let words = |text: &str| stems(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(words("pauses, no drops and not one CNP"), "!cnp !drop paus");
        assert_eq!(words("no pauses"), words("without a pause"));
        let cases = cases();
        let found = matching(&cases, "pause drops");
        assert!(found.iter().all(|case| case.name != "gdr-off"), "it has neither");
    }

    #[test]
    fn each_case_is_the_first_that_its_own_symptom_finds() {
        let cases = cases();
        for case in &cases {
            let found = matching(&cases, &case.clinic.symptom);
            assert_eq!(found.first().map(|case| case.name), Some(case.name));
        }
        assert!(matching(&cases, "xylophone").is_empty());
        assert!(matching(&cases, "the of and").is_empty());
    }
}
