//! Hash slots of a Redis Cluster, and keys that lie in a given one.

/// The number of hash slots.
const SLOTS: u16 = 1 << 14;
/// The octal digits of a tag, before any of them is changed.
const ZEROS: [u8; 6] = *b"000000";
/// The slot of that tag.
const SLOT_OF_ZEROS: u16 = checksum(&ZEROS) % SLOTS;
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
    let start = key.bytes().position(|byte| byte == b'{')? + 1;
    let length = key[start..].bytes().position(|byte| byte == b'}')?;
    (length > 0).then(|| &key[start..start + length])
}

/// The slot of a key, which has this hash tag.
pub(super) fn slot(key: &str, tag: Option<&str>) -> u16 {
    checksum(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// Appends a key that begins with `prefix`, which has no brace, ends with `suffix`, and lies in
/// this slot.
pub(super) fn push_in_slot(name: &mut String, slot: u16, prefix: &str, suffix: &str) {
    let wrong = SLOT_OF_ZEROS ^ slot;
    let turned = TURNS.iter().enumerate().filter(|(bit, _)| wrong >> bit & 1 == 1);
    let digits = turned.fold(0, |digits, (_, turn)| digits ^ turn);
    // Every command has such a key: formatting it would cost an eighth of a call's processor time.
    name.push_str(prefix);
    name.push('{');
    for (place, zero) in ZEROS.iter().rev().enumerate().rev() {
        name.push(char::from(zero + (digits >> (3 * place) & 7) as u8));
    }
    name.push('}');
    name.push_str(suffix);
}

/// CRC-16 (XMODEM).
const fn checksum(text: &[u8]) -> u16 {
    let (mut sum, mut place) = (0_u16, 0);
    while place < text.len() {
        sum = sum << 8 ^ TABLE[((sum >> 8) as u8 ^ text[place]) as usize];
        place += 1;
    }
    sum
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
    use std::collections::HashSet;

    use super::*;

    fn slot_of(key: &str) -> u16 {
        slot(key, hash_tag(key))
    }

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        let slots = ["foo", "{foo}:x", "{}x"].map(slot_of);
        assert_eq!(slots, [12182, 12182, checksum(b"{}x") % SLOTS]);
        assert_ne!(slot_of("{}x"), slot_of("{}y"));
    }

    #[test]
    fn every_slot_has_one_key() {
        for prefix in ["lock:", ""] {
            let mut names = HashSet::new();
            for slot in 0..SLOTS {
                let mut name = "before".to_owned();
                push_in_slot(&mut name, slot, prefix, ":x");
                let name = name.split_off("before".len());
                assert!(name.starts_with(prefix) && name.ends_with("}:x"), "{name}");
                assert_eq!(slot_of(&name), slot, "{name}");
                names.insert(name);
            }
            assert_eq!(names.len(), usize::from(SLOTS));
        }
    }
}
