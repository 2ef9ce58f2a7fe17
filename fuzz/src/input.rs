//! Takes the fuzzer's bytes apart. What is missing at the end reads as zero.

pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// Small numbers are likely: they are the ones with a meaning.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            0 => {
                let mut bytes = [0; 8];
                let found = self.take(8);
                bytes[..found.len()].copy_from_slice(found);
                i64::from_le_bytes(bytes)
            }
            byte => i64::from(byte as i8),
        }
    }

    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte());
        self.take(length)
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
