//! Which master has which slots, in the answer to CLUSTER SLOTS.

use deadpool_redis::redis::Value;

use crate::backend::redis::commands::reply::text;

/// The address of a server.
pub(super) type Address = (String, u16);

/// A master that has slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) address: Address,
    /// The first of its slots.
    pub(super) slot: u16,
}

/// How many slots the keys of a cluster have.
const SLOTS: i64 = 16_384;

/// A cluster, as one of its servers sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    /// In the order of their first slots: servers name them in orders of their own.
    pub(super) masters: Vec<Master>,
    /// The first slots in a row that no master has.
    pub(super) gap: Option<(i64, i64)>,
    /// The first slots whose master the server cannot name (`?`).
    pub(super) unnamed: Option<(i64, i64)>,
}

impl View {
    /// No master is known, not even one without an address.
    pub(super) fn is_empty(&self) -> bool {
        self.masters.is_empty() && self.unnamed.is_none()
    }
}

/// What is said of the slots whose master cannot be asked for their locks.
pub(super) fn without_address((first, last): (i64, i64)) -> String {
    format!(
        "the master of the slots {first} to {last} does not tell its address; set \
         `cluster-announce-hostname` there, or another `cluster-preferred-endpoint-type`"
    )
}

/// What an answer to CLUSTER SLOTS says. If a server does not know its host, it is the one that was
/// `asked`.
pub(super) fn parse(slots: &Value, asked: &str) -> View {
    let Value::Array(slots) = slots else { return View::default() };
    let mut ranges: Vec<_> = slots.iter().filter_map(|range| parse_range(range, asked)).collect();
    ranges.sort_unstable();
    let (mut masters, mut next) = (Vec::<Master>::new(), 0);
    let (mut gap, mut unnamed) = (None, None);
    for (first, last, master) in ranges {
        if first > next {
            gap = gap.or(Some((next, first - 1)));
        }
        next = next.max(last.saturating_add(1));
        if master.is_none() {
            unnamed = unnamed.or(Some((first, last)));
        }
        let is_new = |address: &Address| masters.iter().all(|known| known.address != *address);
        if let (Some(address), Ok(slot)) = (master.filter(is_new), u16::try_from(first)) {
            masters.push(Master { address, slot });
        }
    }
    let rest = (next < SLOTS).then_some((next, SLOTS - 1));
    View { masters, gap: gap.or(rest), unnamed }
}

/// One range: `{first slot, last, {host, port, ..}, replicas ..}`.
fn parse_range(range: &Value, asked: &str) -> Option<(i64, i64, Option<Address>)> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = text(host).filter(|host| !is_own(host)).unwrap_or_else(|| asked.to_owned());
    let master = (host, u16::try_from(*port).ok()?);
    Some((*first, *last, Some(master).filter(|(host, _)| host != UNKNOWN)))
}

/// The host of a server whose address is not known, in an answer to CLUSTER SLOTS.
const UNKNOWN: &str = "?";

/// Does a server say of itself that it does not know its host?
fn is_own(host: &str) -> bool {
    ["", "0.0.0.0", "::"].contains(&host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::{bulk, value};

    fn addresses(view: View) -> Vec<Address> {
        view.masters.into_iter().map(|master| master.address).collect()
    }

    fn range(first: u16, host: &str, port: u16) -> String {
        let replica = format!("*2\r\n{}\r\n:1", bulk("replica"));
        format!("*4\r\n:{first}\r\n:9\r\n*3\r\n{host}\r\n:{port}\r\n{}\r\n{replica}", bulk("id"))
    }

    #[test]
    fn the_masters_stand_first_in_each_range() {
        let ranges = [range(0, &bulk("a"), 1), range(5, &bulk("b"), 2), range(7, &bulk("a"), 1)]
            .join("\r\n");
        let slots = value(&format!("*3\r\n{ranges}")).unwrap();
        let master = |host: &str, port, slot| Master { address: (host.to_owned(), port), slot };
        assert_eq!(parse(&slots, "x").masters, [master("a", 1, 0), master("b", 2, 5)]);
    }

    #[test]
    fn servers_may_name_the_ranges_in_any_order() {
        let ranges = [range(0, &bulk("a"), 1), range(5, &bulk("b"), 2)];
        let of = |one: &str, other: &str| value(&format!("*2\r\n{one}\r\n{other}")).unwrap();
        let (one, other) = (of(&ranges[0], &ranges[1]), of(&ranges[1], &ranges[0]));
        assert_eq!(parse(&one, "x"), parse(&other, "x"));
    }

    #[test]
    fn slots_that_no_master_has_are_found() {
        let gap = |served: &[(i64, i64)]| {
            let master = || Value::Array(vec![Value::BulkString(b"a".into()), Value::Int(1)]);
            let range = |(first, last): &(i64, i64)| {
                Value::Array(vec![Value::Int(*first), Value::Int(*last), master()])
            };
            parse(&Value::Array(served.iter().map(range).collect()), "x").gap
        };
        assert_eq!(gap(&[(9, 16_383), (0, 8)]), None);
        assert_eq!(gap(&[(1, 16_383)]), Some((0, 0)));
        assert_eq!(gap(&[(0, 16_382)]), Some((16_383, 16_383)));
        assert_eq!(gap(&[(101, 16_383), (0, 8), (10, 99)]), Some((9, 9)));
    }

    #[test]
    fn a_server_that_does_not_know_its_host_is_the_one_that_was_asked() {
        for unknown in [bulk(""), bulk("0.0.0.0"), bulk("::"), "$-1".to_owned()] {
            let slots = value(&format!("*1\r\n{}", range(0, &unknown, 7))).unwrap();
            assert_eq!(parse(&slots, "seed").unnamed, None);
            assert_eq!(addresses(parse(&slots, "seed")), [("seed".to_owned(), 7)]);
        }
        let ranges = [range(0, &bulk("?"), 7), range(9, &bulk("b"), 2)].join("\r\n");
        let slots = value(&format!("*2\r\n{ranges}")).unwrap();
        let view = parse(&slots, "seed");
        assert_eq!((view.gap, view.unnamed), (Some((10, 16_383)), Some((0, 9))));
        assert_eq!(addresses(view), [("b".to_owned(), 2)]);
    }

    #[test]
    fn what_is_no_answer_names_no_master() {
        for odd in ["+OK", "*0", "*1\r\n:1", "*1\r\n*2\r\n:1\r\n:2"] {
            assert!(parse(&value(odd).unwrap(), "x").masters.is_empty(), "{odd}");
        }
    }
}
