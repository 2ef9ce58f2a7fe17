//! Hash slots of a Redis Cluster, and keys that lie in a given one.

/// The number of hash slots.
const SLOTS: u16 = 1 << 14;
/// The octal digits of a tag that leads to a slot, before any of them is changed.
const ZEROS: &str = "000000";
const DIGITS: usize = ZEROS.len();
/// Which bits of the digits to turn in order to turn one bit of the slot. The checksum is linear:
/// to turn several bits of the slot, combine their entries by exclusive or.
const TURNS: [u32; SLOTS.ilog2() as usize] = [
    0o240_607, 0o061_230, 0o041_324, 0o042_553, 0o200_233, 0o201_162, 0o221_743, 0o041_320,
    0o001_104, 0o041_657, 0o240_717, 0o061_010, 0o041_764, 0o240_571,
];
/// The table of the checksum, byte by byte.
const TABLE: [u16; 256] = table();

/// The part of a key that Redis Cluster hashes, by the rule of the cluster specification: between
/// the first `{` and the first `}` after it, when that is not empty.
pub(super) fn hash_tag(key: &str) -> Option<&str> {
    // Byte by byte: keys are short, and each command hashes some.
    let start = key.bytes().position(|byte| byte == b'{')? + 1;
    let length = key[start..].bytes().position(|byte| byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

pub(super) fn slot(key: &str) -> u16 {
    checksum(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// Appends a key that begins with `prefix`, ends with `suffix`, and lies in the slot of `key`. That
/// key begins with `prefix`, too. It is the same key for all keys of the slot.
pub(super) fn push_neighbour(name: &mut String, key: &str, prefix: &str, suffix: &str) {
    push_in_slot(name, slot(key), prefix, suffix);
}

/// Appends a key that begins with `prefix`, ends with `suffix`, and lies in this slot; if the
/// prefix has a tag, in the slot of the prefix.
pub(super) fn push_in_slot(name: &mut String, wanted: u16, prefix: &str, suffix: &str) {
    let start = name.len();
    // Every command has such a key: formatting it would cost an eighth of a call's processor time.
    for part in [prefix, "{", ZEROS, "}", suffix] {
        name.push_str(part);
    }
    // If the prefix has a tag already, all of its keys are in one slot.
    let wrong = slot(&name[start..]) ^ wanted;
    let turned = TURNS.iter().enumerate().filter(|(bit, _)| wrong >> bit & 1 == 1);
    let digits = turned.fold(0, |digits, (_, turn)| digits ^ turn);
    name.truncate(start + prefix.len() + 1);
    for place in (0..DIGITS).rev() {
        name.push(char::from(b'0' + (digits >> (3 * place) & 7) as u8));
    }
    name.push('}');
    name.push_str(suffix);
}

/// CRC-16 (XMODEM).
fn checksum(text: &str) -> u16 {
    text.bytes().fold(0, |sum, byte| sum << 8 ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte: u16 = 0;
    while byte < 256 {
        let (mut sum, mut bits) = (byte << 8, 8);
        while bits > 0 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 };
            bits -= 1;
        }
        table[byte as usize] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(checksum("123456789"), 0x31c3);
        assert_eq!((slot("foo"), slot("{foo}:x"), slot("{}x")), (12182, 12182, slot("{}x")));
        assert_ne!(slot("{}x"), slot("{}y"));
    }

    fn neighbour(key: &str, prefix: &str, suffix: &str) -> String {
        let mut name = "before".to_owned();
        push_neighbour(&mut name, key, prefix, suffix);
        name.split_off("before".len())
    }

    /// Prefixes of all kinds: the digits follow a brace that may have been opened before.
    #[test]
    fn every_slot_has_one_neighbour() {
        for prefix in ["lock:", "", "{", "a}b", "}{b", "{{"] {
            let mut neighbours = HashMap::new();
            for number in 0..if prefix == "lock:" { 200_000 } else { 2_000 } {
                let key = format!("{prefix}{number}}}{{{number}}}");
                let neighbour = neighbour(&key, prefix, ":x");
                assert_eq!(slot(&neighbour), slot(&key), "{neighbour} for {key}");
                assert_eq!(*neighbours.entry(slot(&key)).or_insert(neighbour.clone()), neighbour);
            }
            assert!(prefix != "lock:" || neighbours.len() == usize::from(SLOTS));
        }
        assert_eq!(neighbour("{shop}:42", "{shop}:", ":x"), "{shop}:{000000}:x");
    }
}
