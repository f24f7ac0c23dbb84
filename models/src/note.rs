//! What frames carry beside their headers: time stamps, in-band telemetry, congestion marks of paths.
//!
//! A frame is small and copied by value; the few that carry more have the number of a *note* in the
//! slab of their shard. A note belongs to one frame: it moves from a data packet to its
//! acknowledgement, leaves with a frame for another shard, and is freed with the frame.

use sim_core::{Delta, Rate, Time};

/// Switches that can write into one note. HPCC's header has room for five.
pub const HOPS_MAX: usize = 8;

/// What a switch writes when a packet leaves it (HPCC: Li et al., SIGCOMM 2019, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hop {
    /// The port: another one means another way (HPCC's pathID).
    pub port: u32,
    /// When the packet began to leave.
    pub at: Time,
    /// Wire bytes that the port had sent before it.
    pub tx_bytes: u64,
    /// Bytes that it left behind in the queues of the port.
    pub queue_bytes: u64,
    /// Rate of the port.
    pub rate: Rate,
}

/// What switches are to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: the sender wants its time stamp back.
    #[default]
    Stamp,
    /// A [`Hop`] each.
    Hops,
    /// The largest utilisation on the way (HPCC-PINT: Ben Basat et al., SIGCOMM 2020).
    Utilisation,
}

/// Marks of CONGA (Alizadeh et al., SIGCOMM 2014, section 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMarks {
    /// The leaf that it entered by, as number of the switch, plus 1; 0 if it has no marks.
    pub from: u32,
    /// The uplink that it took there.
    pub uplink: u8,
    /// The most congested link on its way, 0 to 7.
    pub congestion: u8,
    /// Feedback for the leaf that it goes to: one of that leaf's uplinks and the congestion met by it.
    pub feedback: Option<(u8, u8)>,
}

/// What one frame carries.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// What switches are to write; `None` if the sender wants nothing back.
    pub wanted: Option<Wanted>,
    /// When the data packet began to leave its NIC.
    pub sent_at: Time,
    /// When it reached the NIC of its receiver,
    pub arrived_at: Time,
    /// and how long it then waited for memory.
    pub waited: Delta,
    /// The largest utilisation on its way.
    pub utilisation: f64,
    /// Marks of its path.
    pub path: PathMarks,
    pub(crate) count: u8,
    pub(crate) hops: [Hop; HOPS_MAX],
}

impl Note {
    /// What the switches on its way have written, the first one's first.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }

    /// Adds what a switch writes; beyond [`HOPS_MAX`] there is no room.
    pub fn push(&mut self, hop: Hop) {
        if let Some(slot) = self.hops.get_mut(usize::from(self.count)) {
            *slot = hop;
            self.count += 1;
        }
    }
}

/// The notes of the frames of one shard, by number from 1 on.
#[derive(Debug, Default)]
pub struct Notes {
    notes: Vec<Note>,
    free: Vec<u32>,
    /// In use in other shards.
    elsewhere: usize,
}

impl Notes {
    /// Keeps a note; returns its number.
    pub fn add(&mut self, note: Note) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.notes[number as usize - 1] = note;
                number
            }
            None => {
                self.notes.push(note);
                let number = self.notes.len() as u32;
                assert!(number < 1 << 24, "frames number notes with 24 bits");
                number
            }
        }
    }

    /// The note with this number.
    pub fn get(&self, number: u32) -> &Note {
        &self.notes[number as usize - 1]
    }

    /// The note with this number.
    pub fn get_mut(&mut self, number: u32) -> &mut Note {
        &mut self.notes[number as usize - 1]
    }

    /// Its frame is gone. Nothing happens for 0.
    #[inline]
    pub fn free(&mut self, number: u32) {
        if number != 0 {
            self.free.push(number);
        }
    }

    /// Takes a note out: its frame goes to another shard. `None` for 0.
    pub fn take(&mut self, number: u32) -> Option<Box<Note>> {
        let note = Box::new(self.notes.get(number.checked_sub(1)? as usize)?.clone());
        self.free(number);
        Some(note)
    }

    /// Notes in use.
    pub fn in_use(&self) -> usize {
        self.notes.len() - self.free.len() + self.elsewhere
    }

    /// Counts those of another shard as well; both have run.
    pub fn absorb(&mut self, other: &Notes) {
        self.elsewhere += other.in_use();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_a_note_holds_eight_hops() {
        let mut notes = Notes::default();
        let stamp = |us| Note { sent_at: Time::from_ps(us), ..Note::default() };
        assert_eq!([notes.add(stamp(1)), notes.add(stamp(2))], [1, 2]);
        notes.free(1);
        notes.free(0);
        assert_eq!((notes.in_use(), notes.add(stamp(3)), notes.get(1).sent_at.ps()), (1, 1, 3));
        let taken = notes.take(2).unwrap();
        assert_eq!((taken.sent_at.ps(), notes.take(0).is_none(), notes.in_use()), (2, true, 1));
        let note = notes.get_mut(1);
        (0..10).for_each(|at| note.push(Hop { at: Time::from_ps(at), ..Hop::default() }));
        assert_eq!((note.hops().len(), note.hops()[7].at.ps()), (8, 7));
    }
}
