//! Where a RESP frame ends; enough of RESP2 and RESP3 to cut a stream at its boundaries.

/// The length of the first frame of `bytes`; `None` while it is incomplete.
///
/// A line that starts with no known mark counts as a frame: an inline command is one.
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut missing: usize = 1;
    while missing > 0 {
        let (mark, line, next) = line_at(bytes, at)?;
        at = next;
        missing -= 1;
        let count = || std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
        match mark {
            b'*' | b'~' | b'>' => missing += count().unwrap_or(0),
            b'%' => missing += 2 * count().unwrap_or(0),
            // An attribute stands before the value it describes.
            b'|' => missing += 2 * count().unwrap_or(0) + 1,
            // A null bulk has the length -1 and no body.
            b'$' | b'=' | b'!' => at += count().map_or(0, |length: usize| length + 2),
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// The first byte of a line, the rest of it, and where the next one starts.
fn line_at(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (&mark, line) = rest[..end].split_first().unwrap_or((&b'\r', &[]));
    Some((mark, line, at + end + 2))
}

/// The name of a request in capitals: the first word of an array or of an inline command.
pub fn command_name(frame: &[u8]) -> String {
    let word = if frame.first() == Some(&b'*') {
        let (_, _, length_line) = line_at(frame, 0).unwrap_or((0, &[], 0));
        let start = line_at(frame, length_line).map_or(0, |(_, _, next)| next);
        frame[start..].split(|&byte| byte == b'\r').next()
    } else {
        frame.split(u8::is_ascii_whitespace).next()
    };
    String::from_utf8_lossy(word.unwrap_or_default()).to_ascii_uppercase()
}
