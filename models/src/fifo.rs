//! A queue of small values in 24 bytes, so that what knows it fits beside it in a cache line.

use sim_core::prefetch;

/// First in, first out. Its room doubles when it is full and is kept.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    /// A power of two of them, or none.
    slots: Box<[T]>,
    head: u32,
    len: u32,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { slots: Box::default(), head: 0, len: 0 }
    }
}

impl<T: Copy + Default> Fifo<T> {
    /// How many values wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn place(&self, position: u32) -> usize {
        self.head.wrapping_add(position) as usize & (self.slots.len().wrapping_sub(1))
    }

    /// Adds a value at the end.
    #[inline]
    pub fn push(&mut self, value: T) {
        *self.add() = value;
    }

    /// Adds a value at the end, for the caller to set. (A value that is given by reference is then
    /// copied once.)
    #[inline]
    pub fn add(&mut self) -> &mut T {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let place = self.place(self.len);
        self.len += 1;
        &mut self.slots[place]
    }

    #[cold]
    fn grow(&mut self) {
        let room = (2 * self.slots.len()).max(16);
        let mut slots = Vec::with_capacity(room);
        slots.extend(self.iter().copied());
        slots.resize(room, T::default());
        (self.slots, self.head) = (slots.into_boxed_slice(), 0);
    }

    /// Gives its room back if none waits.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            *self = Fifo::default();
        }
    }

    /// The first value.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.slots.get(self.place(0)) }
    }

    /// The first value.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        let place = self.place(0);
        if self.is_empty() { None } else { self.slots.get_mut(place) }
    }

    /// The first value and its place: as long as both stay, none has been taken.
    pub fn mark(&self) -> Option<(u32, T)> {
        self.front().map(|value| (self.head, *value))
    }

    /// Asks for the memory of the first value.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(value) = self.slots.get(self.place(0)) {
            prefetch(value);
        }
    }

    /// Asks for the memory of the next value that will be pushed.
    #[inline]
    pub fn prefetch_end(&self) {
        if let Some(value) = self.slots.get(self.place(self.len)) {
            prefetch(value);
        }
    }

    /// Takes the first value.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let value = *self.front()?;
        self.advance();
        Some(value)
    }

    /// Forgets the first value, of which there is one.
    #[inline]
    pub fn advance(&mut self) {
        self.len -= 1;
        // a queue that was empty begins at the front again, whose memory is near
        self.head = if self.len == 0 { 0 } else { self.head.wrapping_add(1) };
    }

    /// The value behind so many others.
    pub fn get(&self, position: u32) -> Option<&T> {
        (position < self.len).then(|| &self.slots[self.place(position)])
    }

    /// The values, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|position| self.slots.get(self.place(position)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_in_the_order_in_which_they_came() {
        let mut fifo = Fifo::default();
        let (mut next, mut first) = (0, 0);
        for round in 0..200 {
            for _ in 0..round % 7 {
                fifo.push(next);
                next += 1;
            }
            assert!(fifo.iter().copied().eq(first..next), "round {round}");
            for _ in 0..(round % 5).min(fifo.len()) {
                assert_eq!(fifo.front(), Some(&first));
                assert_eq!(fifo.pop(), Some(first));
                first += 1;
            }
        }
        assert!(next - first > 100, "it grew");
        while fifo.pop().is_some() {}
        assert_eq!((fifo.len(), fifo.front(), fifo.is_empty()), (0, None, true));
    }
}
