//! Reads GOAL schedules as text: the input of LogGOPSim (spcl/LogGOPSim, txt2bin.re) and of what
//! was built on it.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 100 cpu 0
//!   l2: send 1000b to 1 tag 7 cpu 0 nic 0
//!   l2 requires l1
//! }
//! rank 1 { l1: recv 1000b from 0 tag 7 }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::super::text::quoted;
use super::Fault;
use crate::load::{near_miss, suggestion};

/// What one rank does, in the order of the file.
pub(super) type Rank = Vec<Task>;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// What it does.
    pub(super) kind: Kind,
    /// The processor that it is on.
    pub(super) cpu: u32,
    /// The NIC.
    pub(super) nic: u32,
    /// Tasks of this rank that must have finished before it begins (`requires`),
    pub(super) finished: Vec<u32>,
    /// and that must have begun (`irequires`).
    pub(super) begun: Vec<u32>,
    /// Line of the file.
    pub(super) line: u32,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Computes for so many units of time.
    Calc(u64),
    /// Sends bytes to a rank, under a tag.
    Send(u64, u32, u32),
    /// Receives bytes from a rank, under a tag.
    Recv(u64, u32, u32),
}

const RANKS_MAX: u32 = 65_536;
const TASKS_MAX: usize = 50_000_000;
/// Beyond this it is no message: 1000 TB.
const BYTES_MAX: u64 = 1_000_000_000_000_000;

/// A word, a number, or one of `:{}` and the end of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Mark(char),
    End,
}

impl Token<'_> {
    fn shown(self) -> String {
        match self {
            Token::Word(word) => quoted(word),
            Token::Mark(mark) => quoted(&mark.to_string()),
            Token::End => "the end of the line".to_owned(),
        }
    }
}

/// Cuts a text into tokens; comments are `// ...` and `/* ... */`. A line, or `;`, ends a statement.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    /// Looked at, and not taken.
    next: Option<(Token<'t>, u32)>,
}

impl<'t> Tokens<'t> {
    fn peek(&mut self) -> Result<Option<Token<'t>>, Fault> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        Ok(self.next.map(|(token, _)| token))
    }

    /// The line of what was looked at.
    fn line(&self) -> u32 {
        self.next.map_or(self.line, |(_, line)| line)
    }

    fn read(&mut self) -> Result<Option<(Token<'t>, u32)>, Fault> {
        loop {
            let rest = &self.text[self.at..];
            let line = self.line;
            let Some(first) = rest.chars().next() else { return Ok(None) };
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    return Err(Fault::at(
                        line as usize,
                        "this comment never ends: `*/` is expected",
                    ));
                };
                self.line += rest[..end].matches('\n').count() as u32;
                self.at += end + 2;
            } else if first == '\n' || first == ';' {
                self.line += u32::from(first == '\n');
                self.at += 1;
                return Ok(Some((Token::End, line)));
            } else if first.is_whitespace() {
                self.at += first.len_utf8();
            } else if "{}:".contains(first) {
                self.at += 1;
                return Ok(Some((Token::Mark(first), line)));
            } else {
                let ends = |c: char| c.is_whitespace() || "{}:;/".contains(c);
                let length = rest.find(ends).unwrap_or(rest.len()).max(first.len_utf8());
                self.at += length;
                return Ok(Some((Token::Word(&rest[..length]), line)));
            }
        }
    }
}

/// The ranks of a schedule.
pub(super) fn parse(text: &str) -> Result<Vec<Rank>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { tokens: Tokens { text, at: 0, line: 1, next: None }, tasks: 0 };
    reader.schedule()
}

struct Reader<'t> {
    tokens: Tokens<'t>,
    tasks: usize,
}

impl<'t> Reader<'t> {
    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::at(self.tokens.line() as usize, message)
    }

    /// Refuses the token at hand.
    fn refuse<T>(&mut self, expected: &str) -> Result<T, Fault> {
        let found = self.tokens.peek()?.map_or("the end of the file".to_owned(), Token::shown);
        Err(self.fault(format!("{found}; {expected} is expected")))
    }

    fn word(&mut self, expected: &str) -> Result<&'t str, Fault> {
        match self.tokens.peek()? {
            Some(Token::Word(word)) => {
                self.tokens.next = None;
                Ok(word)
            }
            _ => self.refuse(expected),
        }
    }

    fn number(&mut self, what: &str, most: u64) -> Result<u64, Fault> {
        let line = self.tokens.line();
        let word = self.word(&format!("{what}, a whole number,"))?;
        self.digits(word, what, most, line)
    }

    fn digits(&self, word: &str, what: &str, most: u64, line: u32) -> Result<u64, Fault> {
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        match word.parse::<u64>().ok().filter(|number| plain && *number <= most) {
            Some(number) => Ok(number),
            None => {
                let message = format!(
                    "{} is no {what}; a whole number of at most {most} is expected",
                    quoted(word)
                );
                Err(Fault::at(line as usize, message))
            }
        }
    }

    fn mark(&mut self, mark: char) -> Result<(), Fault> {
        match self.tokens.peek()? {
            Some(Token::Mark(found)) if found == mark => {
                self.tokens.next = None;
                Ok(())
            }
            _ => self.refuse(&format!("`{mark}`")),
        }
    }

    fn skip_ends(&mut self) -> Result<(), Fault> {
        while self.tokens.peek()? == Some(Token::End) {
            self.tokens.next = None;
        }
        Ok(())
    }

    fn schedule(&mut self) -> Result<Vec<Rank>, Fault> {
        let mut ranks: Vec<Option<(Rank, u32)>> = Vec::new();
        loop {
            self.skip_ends()?;
            let line = self.tokens.line();
            if self.tokens.peek()?.is_none() {
                break;
            }
            let word = self.word("`num_ranks` or `rank`")?;
            match word {
                "num_ranks" if ranks.is_empty() => {
                    let count = self.number("number of ranks", u64::from(RANKS_MAX))?;
                    if count == 0 {
                        return Err(Fault::at(
                            line as usize,
                            "num_ranks 0; at least 1 is expected",
                        ));
                    }
                    ranks = vec![None; count as usize];
                }
                "num_ranks" => {
                    return Err(Fault::at(line as usize, "`num_ranks` is there twice"));
                }
                "rank" if ranks.is_empty() => {
                    let message = "`num_ranks N` is expected before the first rank";
                    return Err(Fault::at(line as usize, message));
                }
                "rank" => {
                    let number = self.number("rank", ranks.len() as u64 - 1)? as usize;
                    if let Some((_, before)) = &ranks[number] {
                        let message = format!("rank {number} is there twice: see line {before}");
                        return Err(Fault::at(line as usize, message));
                    }
                    ranks[number] = Some((self.rank(number as u32, ranks.len() as u32)?, line));
                }
                other => {
                    let hint = suggestion(other, &["num_ranks", "rank"]);
                    return Err(Fault::at(
                        line as usize,
                        format!("unknown word {}{hint}", quoted(other)),
                    ));
                }
            }
        }
        if ranks.is_empty() {
            return Err(self.fault("no schedule: `num_ranks N` and ranks are expected"));
        }
        match ranks.iter().position(Option::is_none) {
            Some(missing) => {
                let message = format!("rank {missing} is missing: num_ranks is {}", ranks.len());
                Err(self.fault(message))
            }
            None => Ok(ranks.into_iter().flatten().map(|(rank, _)| rank).collect()),
        }
    }

    fn rank(&mut self, own: u32, ranks: u32) -> Result<Rank, Fault> {
        let begin = self.tokens.line();
        self.skip_ends()?;
        self.mark('{')?;
        let mut rank = Rank::new();
        let mut labels: BTreeMap<&str, u32> = BTreeMap::new();
        // dependencies may name labels that come later
        let mut waits: Vec<(&str, bool, &str, u32)> = Vec::new();
        loop {
            self.skip_ends()?;
            let line = self.tokens.line();
            match self.tokens.peek()? {
                Some(Token::Mark('}')) => break self.tokens.next = None,
                Some(Token::Word(_)) => {}
                Some(_) => return self.refuse("an operation, a label, or `}`"),
                None => {
                    let message = format!("rank {own} is never closed: `}}` is expected");
                    return Err(Fault::at(begin as usize, message));
                }
            }
            let word = self.word("an operation or a label")?;
            let operation = match word {
                "calc" | "send" | "recv" => word,
                label => match self.tokens.peek()? {
                    Some(Token::Mark(':')) => {
                        self.tokens.next = None;
                        if let Some(before) = labels.insert(label, rank.len() as u32) {
                            let line_before = rank[before as usize].line;
                            let message = format!(
                                "the label {} is there twice in rank {own}: see line {line_before}",
                                quoted(label)
                            );
                            return Err(Fault::at(line as usize, message));
                        }
                        self.word("`calc`, `send` or `recv`")?
                    }
                    Some(Token::Word(verb @ ("requires" | "irequires"))) => {
                        self.tokens.next = None;
                        waits.push((label, verb == "requires", self.word("a label")?, line));
                        self.end("the end of the line")?;
                        continue;
                    }
                    Some(Token::Word(verb)) => {
                        let hint = suggestion(verb, &["requires", "irequires"]);
                        let message = format!("unknown word {}{hint}", quoted(verb));
                        return Err(self.fault(message));
                    }
                    _ => return self.refuse("`:`, `requires` or `irequires`"),
                },
            };
            let task = self.task(operation, own, ranks, line)?;
            rank.push(task);
            self.tasks += 1;
            if self.tasks > TASKS_MAX {
                return Err(self.fault(format!("more than {TASKS_MAX} operations")));
            }
        }
        for (label, finished, other, line) in waits {
            let find = |label: &str| match labels.get(label) {
                Some(task) => Ok(*task),
                None => {
                    let known: Vec<&str> = labels.keys().copied().collect();
                    let hint = near(label, &known);
                    let message = format!("rank {own} has no label {}{hint}", quoted(label));
                    Err(Fault::at(line as usize, message))
                }
            };
            let (task, other) = (find(label)?, find(other)?);
            let task = &mut rank[task as usize];
            let list = if finished { &mut task.finished } else { &mut task.begun };
            list.push(other);
        }
        Ok(rank)
    }

    /// A statement ends here; `}` may follow at once.
    fn end(&mut self, expected: &str) -> Result<(), Fault> {
        match self.tokens.peek()? {
            None | Some(Token::End | Token::Mark('}')) => Ok(()),
            Some(_) => self.refuse(expected),
        }
    }

    fn task(&mut self, operation: &str, own: u32, ranks: u32, line: u32) -> Result<Task, Fault> {
        let (kind, keys): (Kind, &[&str]) = match operation {
            "calc" => (Kind::Calc(self.number("time", u64::MAX >> 1)?), &["cpu", "nic"]),
            "send" | "recv" => {
                let bytes = self.bytes()?;
                let towards = if operation == "send" { "to" } else { "from" };
                let found = self.word(&format!("`{towards}`"))?;
                if found != towards {
                    let message = format!("{}; `{towards}` is expected", quoted(found));
                    return Err(Fault::at(line as usize, message));
                }
                let peer = self.peer(own, ranks, line)?;
                let kind = match operation {
                    "send" => Kind::Send(bytes, peer, 0),
                    _ => Kind::Recv(bytes, peer, 0),
                };
                (kind, &["tag", "cpu", "nic"])
            }
            other => {
                let hint = suggestion(other, &["calc", "send", "recv"]);
                let message = format!("unknown operation {}{hint}", quoted(other));
                return Err(Fault::at(line as usize, message));
            }
        };
        let mut task = Task { kind, cpu: 0, nic: 0, finished: Vec::new(), begun: Vec::new(), line };
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(Token::Word(key)) = self.tokens.peek()? {
            if !keys.contains(&key) {
                let message = format!("unknown word {}{}", quoted(key), suggestion(key, keys));
                return Err(self.fault(message));
            }
            self.tokens.next = None;
            if !seen.insert(key) {
                return Err(Fault::at(line as usize, format!("`{key}` is there twice")));
            }
            if key == "tag" && self.tokens.peek()? == Some(Token::Word("-1")) {
                return Err(Fault::at(line as usize, any("tag")));
            }
            let number =
                self.number(key, if key == "tag" { u64::from(u32::MAX) } else { 255 })? as u32;
            match (key, &mut task.kind) {
                ("tag", Kind::Send(.., tag) | Kind::Recv(.., tag)) => *tag = number,
                ("cpu", _) => task.cpu = number,
                _ => task.nic = number,
            }
        }
        self.end("the end of the line")?;
        Ok(task)
    }

    /// `1000b`, `1000 b`.
    fn bytes(&mut self) -> Result<u64, Fault> {
        let line = self.tokens.line();
        let word = self.word("a size such as `1000b`")?;
        let what = "size in bytes such as 1000b";
        match word.strip_suffix('b') {
            Some(number) => self.digits(number, what, BYTES_MAX, line),
            None => {
                let number = self.digits(word, what, BYTES_MAX, line)?;
                match self.tokens.peek()? {
                    Some(Token::Word("b")) => {
                        self.tokens.next = None;
                        Ok(number)
                    }
                    _ => self.refuse("`b`, for bytes,"),
                }
            }
        }
    }

    fn peer(&mut self, own: u32, ranks: u32, line: u32) -> Result<u32, Fault> {
        let word = self.word("a rank")?;
        if word == "-1" {
            return Err(Fault::at(line as usize, any("rank")));
        }
        let peer = self.digits(word, "rank", u64::from(ranks) - 1, line)? as u32;
        if peer == own {
            let message = format!("rank {own} is this rank itself; another one is expected");
            return Err(Fault::at(line as usize, message));
        }
        Ok(peer)
    }
}

fn any(what: &str) -> String {
    format!(
        "-1 stands for any {what}: which message is taken would depend on their times; the {what} \
         itself is expected"
    )
}

/// The hint for a label: there may be very many of them.
fn near(label: &str, known: &[&str]) -> String {
    let known = known.iter().copied().take(1000);
    near_miss(label, known).map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}
