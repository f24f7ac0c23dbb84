//! Packets that have come, by number, where those that come early are kept.

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    expected: u32,
    /// What is here beyond `expected`: ranges [from, to), in order, none next to another.
    early: Vec<(u32, u32)>,
}

impl Kept {
    /// The first that is missing.
    pub(super) fn expected(&self) -> u32 {
        self.expected
    }

    /// Something is here beyond the first that is missing.
    pub(super) fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    /// The first from `number` on that is missing.
    pub(super) fn next_gap(&self, number: u32) -> u32 {
        let number = number.max(self.expected);
        let inside = self.early.iter().find(|(from, to)| (*from..*to).contains(&number));
        inside.map_or(number, |(_, to)| *to)
    }

    /// All before `number` is here.
    pub(super) fn skip_to(&mut self, number: u32) {
        if number <= self.expected {
            return;
        }
        self.expected = number;
        let passed = self.early.partition_point(|(_, to)| *to <= number);
        self.early.drain(..passed);
        if let Some((_, to)) = self.early.first().filter(|(from, _)| *from <= number) {
            self.expected = *to;
            self.early.remove(0);
        }
    }

    /// A packet arrives; false if it was here before.
    pub(super) fn keep(&mut self, number: u32) -> bool {
        if number == self.expected && self.early.is_empty() {
            self.expected += 1;
            return true;
        }
        let known = self.early.iter().any(|(from, to)| (*from..*to).contains(&number));
        if number < self.expected || known {
            return false;
        }
        self.insert(number);
        true
    }

    fn insert(&mut self, number: u32) {
        let place = self.early.partition_point(|(_, to)| *to < number);
        match self.early.get_mut(place) {
            Some((_, to)) if *to == number => {
                *to += 1;
                let next = self.early.get(place + 1).copied();
                if let Some((_, end)) = next.filter(|(from, _)| *from == number + 1) {
                    self.early[place].1 = end;
                    self.early.remove(place + 1);
                }
            }
            Some((from, _)) if *from == number + 1 => *from = number,
            _ => self.early.insert(place, (number, number + 1)),
        }
        if let Some((_, end)) = self.early.first().filter(|(from, _)| *from == self.expected) {
            self.expected = *end;
            self.early.remove(0);
        }
    }
}
