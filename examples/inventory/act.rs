//! The six runs of the five acts.

use crate::shop::Mishap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Unlocked,
    Locked,
    Killed,
    Hung,
    Zombie,
    FencedZombie,
}

impl Act {
    pub(crate) const ALL: [Self; 6] =
        [Self::Unlocked, Self::Locked, Self::Killed, Self::Hung, Self::Zombie, Self::FencedZombie];

    /// As in `--act`: both zombies are act 5.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Unlocked => 1,
            Self::Locked => 2,
            Self::Killed => 3,
            Self::Hung => 4,
            Self::Zombie | Self::FencedZombie => 5,
        }
    }

    /// As in the report.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unlocked => "1",
            Self::Locked => "2",
            Self::Killed => "3",
            Self::Hung => "4",
            Self::Zombie => "5a",
            Self::FencedZombie => "5b",
        }
    }

    /// A word without spaces, for worker arguments and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unlocked => "no-lock",
            Self::Locked => "locked",
            Self::Killed => "holder-killed",
            Self::Hung => "hung-task",
            Self::Zombie => "zombie",
            Self::FencedZombie => "zombie-fenced",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.name() == name)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Unlocked => "no lock",
            Self::Locked => "#[redis_lock]",
            Self::Killed => "holder killed",
            Self::Hung => "hung task",
            Self::Zombie => "frozen holder",
            Self::FencedZombie => "frozen, fencing",
        }
    }

    /// What the act shows, for the report.
    pub(crate) fn story(self) -> &'static str {
        match self {
            Self::Unlocked => {
                "Every customer reads the stock, pays, and writes one less. Without a lock many \
                 read the same number, and the same unit is sold again and again."
            }
            Self::Locked => {
                "The same function with one attribute. Customers queue, and each reads what the \
                 one before wrote."
            }
            Self::Killed => {
                "The holder dies between its read and its write and releases nothing. Its lease \
                 runs out after expire = 1 s, and the next customer goes on."
            }
            Self::Hung => {
                "The holder's payment never ends. Its lease is renewed max_renew = 2 times, then \
                 the body is stopped and the lock released: the next customer goes on at once."
            }
            Self::Zombie => {
                "The holder freezes between its read and its write, longer than its lease. Others \
                 sell on. Then it wakes up and writes a stock of long ago: no lock can prevent \
                 that, because its write is on the way already."
            }
            Self::FencedZombie => {
                "The same accident, but every holder first claims the row with its fencing token. \
                 The late write carries an old token, and the database refuses it."
            }
        }
    }

    pub(crate) fn mishap(self) -> Mishap {
        match self {
            Self::Unlocked | Self::Locked => Mishap::None,
            Self::Killed => Mishap::Dies,
            Self::Hung => Mishap::Hangs,
            Self::Zombie | Self::FencedZombie => Mishap::Freezes,
        }
    }

    /// Must not sell a unit twice. The other acts show why one wants that.
    pub(crate) fn must_be_exact(self) -> bool {
        !matches!(self, Self::Unlocked | Self::Zombie)
    }
}
