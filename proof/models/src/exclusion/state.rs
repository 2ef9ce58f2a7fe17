//! What there is: nodes with their keys, owners with what they believe, messages on their way.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State<const N: usize, const A: usize> {
    pub(super) nodes: [Node<A>; N],
    pub(super) owners: [Owner; A],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node<const A: usize> {
    pub(super) owner: Option<u8>,
    /// How long the key lives at most; it may go `2 * DRIFT` earlier.
    pub(super) left: u8,
    /// How long it has no vote.
    pub(super) quarantine: u8,
    pub(super) legs: [Leg; A],
}

/// What is between one owner and one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Leg {
    /// An acquire is on its way, or lost.
    pub(super) is_asked: bool,
    /// The node has voted for what its owner is asking for now, and the owner knows.
    pub(super) is_counted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) phase: Phase,
    /// How long it believes to hold; while asking: would believe, were it granted now.
    pub(super) left: u8,
    /// The same, once the renewal that is under way is confirmed.
    pub(super) next: Option<u8>,
    /// A renewal was sent, so that one may land.
    pub(super) has_renewed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Idle,
    Asking,
    Holding,
    Over,
}

impl Owner {
    pub(super) const IDLE: Self =
        Self { phase: Phase::Idle, left: 0, next: None, has_renewed: false };

    pub(super) fn is_holding(&self) -> bool {
        self.phase == Phase::Holding
    }

    pub(super) fn is_renewed(&self) -> bool {
        self.is_holding() && self.has_renewed && self.next.is_none()
    }
}

impl Leg {
    pub(super) const NONE: Self = Self { is_asked: false, is_counted: false };
}

impl<const A: usize> Node<A> {
    pub(super) const EMPTY: Self =
        Self { owner: None, left: 0, quarantine: 0, legs: [Leg::NONE; A] };

    pub(super) fn free(&mut self) {
        (self.owner, self.left) = (None, 0);
    }

    pub(super) fn take(&mut self, owner: usize, left: u8) {
        (self.owner, self.left) = (Some(number(owner)), left);
    }

    pub(super) fn is_of(&self, owner: usize) -> bool {
        self.owner == Some(number(owner))
    }
}

impl<const N: usize, const A: usize> State<N, A> {
    pub(super) fn votes(&self, owner: usize) -> usize {
        self.nodes.iter().filter(|node| node.legs[owner].is_counted).count()
    }

    pub(super) fn forget_votes(&mut self, owner: usize) {
        self.nodes.iter_mut().for_each(|node| node.legs[owner].is_counted = false);
    }

    pub(super) fn end(&mut self, owner: usize) {
        self.forget_votes(owner);
        let has_renewed = self.owners[owner].has_renewed;
        self.owners[owner] = Owner { phase: Phase::Over, has_renewed, ..Owner::IDLE };
    }

    pub(super) fn tick(&mut self) {
        for node in &mut self.nodes {
            node.quarantine = node.quarantine.saturating_sub(1);
            node.left = node.left.saturating_sub(1);
            if node.left == 0 {
                node.owner = None;
            }
        }
        for owner in 0..A {
            let this = &mut self.owners[owner];
            this.left = this.left.saturating_sub(1);
            this.next = this.next.map(|next| next.saturating_sub(1));
            if this.left == 0 && matches!(this.phase, Phase::Asking | Phase::Holding) {
                self.end(owner);
            }
        }
    }

    /// The same state, whatever its nodes and owners are called.
    pub(super) fn sorted(mut self) -> Self {
        let mut order: [usize; A] = std::array::from_fn(|owner| owner);
        order.sort_by_key(|owner| {
            let nodes = self.nodes.iter().filter(|node| node.is_of(*owner));
            (self.owners[*owner], nodes.map(|node| u32::from(node.left)).sum::<u32>())
        });
        if !order.is_sorted() {
            self.owners = order.map(|owner| self.owners[owner]);
            for node in &mut self.nodes {
                let is_of = |owner: usize| node.is_of(owner);
                node.owner = order.iter().position(|owner| is_of(*owner)).map(number);
                node.legs = order.map(|owner| node.legs[owner]);
            }
        }
        self.nodes.sort_unstable();
        self
    }
}

/// Owners are few.
fn number(owner: usize) -> u8 {
    u8::try_from(owner).unwrap_or(u8::MAX)
}
