//! Base 32 (RFC 4648 §6) in lower case without padding: a token survives being read aloud, and a
//! double click selects all of it.

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(digit(bits >> count));
        }
    }
    if count > 0 {
        out.push(digit(bits << (5 - count)));
    }
    out
}

fn digit(bits: u32) -> char {
    char::from(ALPHABET[(bits & 31) as usize])
}

/// The bytes of `text`; `None` for a foreign character, or for a text that [`encode`] never gives.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let (mut bits, mut count) = (0_u32, 0);
    for character in text.bytes() {
        let value = match character.to_ascii_lowercase() {
            c @ b'a'..=b'z' => c - b'a',
            c @ b'2'..=b'7' => c - b'2' + 26,
            _ => return None,
        };
        bits = ((bits << 5) | u32::from(value)) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from((bits >> count) & 0xff).expect("masked to eight bits"));
        }
    }
    // What is left over is less than a character and zero.
    (count < 5 && bits & ((1 << count) - 1) == 0).then_some(out)
}
