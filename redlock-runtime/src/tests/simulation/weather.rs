//! How the way to the nodes and back is.

use fastrand::Rng;

use super::plan::Tick;

/// How often a command goes astray, per thousand, and how long one is on its way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weather {
    /// The longest way of a command or an answer where nothing goes wrong, and the shortest one.
    pub(super) latency: Tick,
    pub(super) shortest: Tick,
    pub(super) slow: u16,
    pub(super) lost_requests: u16,
    pub(super) lost_replies: u16,
    pub(super) resets: u16,
    pub(super) twice: u16,
    /// The same of connects.
    pub(super) slow_connects: u16,
    pub(super) silent_connects: u16,
    pub(super) cut_connects: u16,
}

impl Weather {
    /// Which kinds of faults come together; each is absent from half of the histories.
    pub(super) fn new(random: &mut Rng, is_calm: bool) -> Self {
        let mut some = |most: u16| if is_calm || random.bool() { 0 } else { random.u16(1..=most) };
        Self {
            latency: 0,
            shortest: 0,
            slow: some(80),
            lost_requests: some(60),
            lost_replies: some(60),
            resets: some(60),
            twice: some(60),
            slow_connects: some(400),
            silent_connects: some(200),
            cut_connects: some(200),
        }
    }

    /// For leases that are long: what fails is tried again for so long that it would be all that
    /// goes on.
    pub(super) fn ease(&mut self) {
        for share in [&mut self.lost_requests, &mut self.lost_replies, &mut self.resets] {
            *share /= 4;
        }
    }

    /// The same without faults.
    pub(super) fn cleared(self) -> Self {
        Self { latency: self.latency, shortest: self.shortest, ..Self::default() }
    }

    /// Do connections take time to be made?
    pub(super) fn has_connects(&self) -> bool {
        self.slow_connects + self.silent_connects + self.cut_connects > 0
    }
}
