//! A 64-bit digest of results: equal runs share it, and a changed byte changes it.

/// FNV-1a over 64-bit words, with a final mix.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Folds one word in.
    pub fn add(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The digest as 16 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}
