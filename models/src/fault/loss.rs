//! Which frames a cable loses.

use sim_core::rng::Stream;

use super::DropRule;

/// How frames are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameLoss {
    /// Each with this probability.
    Frame(f64),
    /// Those with a wrong bit; each bit is wrong with this probability.
    Bit(f64),
    /// Data packets of a NIC whose IPv4 identification ends in this byte.
    IpId(u8),
}

impl FrameLoss {
    /// That of a rule.
    pub fn of(rule: DropRule) -> Self {
        FrameLoss::IpId(rule.ip_id_low_byte)
    }
}

/// Probabilities that a frame has a wrong bit, by its length.
///
/// 1 - (1 - ber)^bits, over the bits that the FCS covers (the frame with its FCS, without preamble and
/// gap). It is put together of lengths of 2^k bytes, without a power function, so that small rates
/// keep their digits and all platforms agree.
#[derive(Clone, Copy, Debug)]
pub struct BitErrors {
    /// Of 2^k bytes.
    wrong: [f64; 16],
}

/// Either of two independent events.
fn either(a: f64, b: f64) -> f64 {
    a + b - a * b
}

impl BitErrors {
    /// Of bits that are wrong with this probability.
    pub fn new(ber: f64) -> Self {
        let mut wrong = [0.0; 16];
        // eight bits are a byte
        let mut length = (0..3).fold(ber, |wrong, _| either(wrong, wrong));
        for entry in &mut wrong {
            *entry = length;
            length = either(length, length);
        }
        BitErrors { wrong }
    }

    /// The probability that a frame of `len` bytes is lost.
    pub fn loss(&self, len: u16) -> f64 {
        let bits = (0..16).filter(|bit| len & (1 << bit) != 0);
        bits.fold(0.0, |sum, bit: usize| either(sum, self.wrong[bit]))
    }

    /// True if this frame is lost.
    pub fn hit(&self, len: u16, random: &mut Stream) -> bool {
        random.chance(self.loss(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_lost_by_any_of_its_bits() {
        // 4158 B at 1e-9: 33,264 bits; 33,264e-9 less 33,264 x 33,263 / 2 pairs of 1e-18 = 5.5323e-10
        let frame = BitErrors::new(1e-9).loss(4158);
        assert!((frame - (33_264e-9 - 5.532302e-10)).abs() < 1e-14, "{frame}");
        // 1e-15 is not lost in the last digits of a float: 64 B are 512 bits
        let tiny = BitErrors::new(1e-15).loss(64);
        assert!((tiny / 512e-15 - 1.0).abs() < 1e-9, "{tiny}");
        // half of all bits: a byte comes right once in 256
        assert_eq!(BitErrors::new(0.5).loss(1), 255.0 / 256.0);
        assert_eq!([BitErrors::new(0.0).loss(9000), BitErrors::new(1.0).loss(1)], [0.0, 1.0]);
    }
}
