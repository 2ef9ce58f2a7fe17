//! How long a lease may be relied on. Pure arithmetic; `sent` is the moment *before* the command
//! left, because the server may have started the lease at any time after it.
//!
//! The rule is the one of Redis' distributed lock pattern (redis.io, "Distributed Locks with
//! Redis"): validity = expire - elapsed - drift, here counted from the send time and turned into a
//! deadline.

use std::time::Duration;

use super::clock::Moment;

/// How much clocks of different rates may disagree during one lease: 1 % of it and 2 ms.
pub(crate) fn drift(expire: Duration) -> Duration {
    expire / 100 + Duration::from_millis(2)
}

/// From here on a server may have given the lock to another owner.
pub(crate) fn deadline(sent: Moment, expire: Duration) -> Moment {
    sent.plus(expire.saturating_sub(drift(expire)))
}

/// From here on a server has no lease of length `expire` that began at `sent` or before.
pub(crate) fn server_end(sent: Moment, expire: Duration) -> Moment {
    sent.plus(expire).plus(drift(expire))
}

/// From here on the body is no longer polled: early enough to drop its locals and to run its
/// release while the lease still holds.
pub(crate) fn stop(sent: Moment, expire: Duration) -> Moment {
    deadline(sent, expire).minus(expire / 20)
}

/// From here on the body is no longer polled, however late its renewals were: as if each of them
/// had been sent when it was due.
pub(crate) fn longest_hold(granted: Moment, expire: Duration, max_renew: Option<u32>) -> Moment {
    max_renew.map_or(Moment::NEVER, |renewals| {
        let renewed = (expire * 2 / 3).saturating_mul(renewals);
        stop(granted.plus(renewed), expire)
    })
}

/// When the lease should be renewed.
pub(crate) fn renewal_due(sent: Moment, expire: Duration) -> Moment {
    sent.plus(expire * 2 / 3)
}

/// How much earlier than it is due a renewal may be sent if that saves commands: a tenth of the
/// way, so that nine renewals become ten at worst.
pub(crate) fn renewal_leeway(expire: Duration) -> Duration {
    expire / 15
}

/// How long one renewal may go unanswered: a third of the window between due and stop, so that
/// three tries fit, but never less than a busy machine needs to answer at all.
pub(crate) fn renewal_reply(expire: Duration, reply_timeout: Duration) -> Duration {
    (expire / 12).max(Duration::from_millis(20)).min(reply_timeout)
}

/// How long a claim of a lock that was handed over for `lease` may go unanswered. The claim is due
/// almost at once, so that two tries fit, each with time to connect to a server far away.
pub(crate) fn claim_reply(lease: Duration, reply_timeout: Duration) -> Duration {
    (lease / 2).min(reply_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MAX_EXPIRE;

    const SENT: Moment = Moment::from_nanos(1_000_000_000);

    fn after(moment: Moment) -> Duration {
        moment.since(SENT)
    }

    #[test]
    fn ten_seconds() {
        let expire = Duration::from_secs(10);
        assert_eq!(after(deadline(SENT, expire)), Duration::from_millis(9_898));
        assert_eq!(after(stop(SENT, expire)), Duration::from_millis(9_398));
        assert_eq!(after(renewal_due(SENT, expire)).as_millis(), 6_666);
        assert_eq!(renewal_reply(expire, Duration::from_secs(1)).as_millis(), 833);
    }

    #[test]
    fn the_order_holds_for_every_lease_that_is_allowed() {
        for millis in [10, 11, 50, 100, 300, 1_000, 30_000, 31_536_000_000] {
            let expire = Duration::from_millis(millis);
            let (due, stop, deadline) =
                (renewal_due(SENT, expire), stop(SENT, expire), deadline(SENT, expire));
            assert!(SENT < due && due < stop && stop < deadline, "{expire:?}");
            assert!(deadline < SENT.plus(expire), "{expire:?}");
        }
    }

    #[test]
    fn a_claim_has_half_of_its_window() {
        let (window, second) = (Duration::from_millis(500), Duration::from_secs(1));
        assert_eq!(claim_reply(window, second).as_millis(), 250);
        assert_eq!(claim_reply(window, second / 100), second / 100);
    }

    #[test]
    fn the_longest_hold_is_what_is_documented() {
        let expire = Duration::from_secs(10);
        // 2/3 of expire for each renewal, and 0.94 of it in the end.
        assert_eq!(after(longest_hold(SENT, expire, Some(5))).as_millis(), 33_333 + 9_398);
        assert_eq!(longest_hold(SENT, expire, Some(0)), stop(SENT, expire));
        assert_eq!(longest_hold(SENT, expire, None), Moment::NEVER);
        assert_eq!(longest_hold(SENT, MAX_EXPIRE, Some(u32::MAX)), stop(Moment::NEVER, MAX_EXPIRE));
    }

    #[test]
    fn a_lease_shorter_than_its_margins_is_over_at_once() {
        let tiny = Duration::from_millis(2);
        assert_eq!(deadline(SENT, tiny), SENT);
        assert!(stop(SENT, tiny) <= SENT);
    }
}
