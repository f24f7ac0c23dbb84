//! The token that all ranks of a replay share, and what it proves: HMAC-SHA256 (RFC 2104) over a
//! number that the other side has just made up.

use std::io::Read;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::error::ReplayError;

/// Bytes of a proof.
pub(super) const PROOF: usize = 32;

/// Number used once.
pub(super) type Nonce = [u8; 16];

/// What all ranks know.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// A token must have so many characters: who can reach the rendezvous may guess.
const SHORTEST: usize = 16;

impl Token {
    /// Takes a token that the user gives.
    pub fn new(text: &str) -> Result<Self, ReplayError> {
        let text = text.trim();
        if text.len() < SHORTEST {
            let message = format!(
                "the token has {} characters; at least {SHORTEST} are expected, such as those of \
                 `openssl rand -hex 16`",
                text.len()
            );
            return Err(ReplayError::Setting(message));
        }
        Ok(Token(text.as_bytes().to_vec()))
    }

    /// A new one, in hexadecimal digits.
    pub fn random() -> Result<String, ReplayError> {
        Ok(nonce()?.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        // any length of key will do
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!());
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }

    /// Proof that one knows the token.
    pub(super) fn prove(&self, parts: &[&[u8]]) -> [u8; PROOF] {
        self.mac(parts).finalize().into_bytes().into()
    }

    /// Whether a proof is right; takes the same time if it is not.
    pub(super) fn accepts(&self, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.mac(parts).verify_slice(proof).is_ok()
    }
}

/// A number that nobody can foresee.
pub(super) fn nonce() -> Result<Nonce, ReplayError> {
    let mut nonce = Nonce::default();
    let file = std::fs::File::open("/dev/urandom");
    file.and_then(|mut file| file.read_exact(&mut nonce))
        .map_err(ReplayError::io("/dev/urandom"))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_token_and_the_same_words_are_accepted() {
        let token = Token::new("0123456789abcdef").unwrap();
        let other = Token::new("0123456789abcdee").unwrap();
        let proof = token.prove(&[b"rank", b"1"]);
        assert!(token.accepts(&[b"rank", b"1"], &proof));
        assert!(!token.accepts(&[b"ran", b"k1"], &proof));
        assert!(!token.accepts(&[b"rank", b"1"], &proof[..31]));
        assert!(!other.accepts(&[b"rank", b"1"], &proof));
        assert!(Token::new("short").is_err());
    }

    /// RFC 4231, test case 2, but for the lengths before each part.
    #[test]
    fn it_is_hmac_sha256() {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let bytes = mac.finalize().into_bytes();
        assert_eq!(bytes[..4], [0x5b, 0xdc, 0xc1, 0x46]);
    }
}
