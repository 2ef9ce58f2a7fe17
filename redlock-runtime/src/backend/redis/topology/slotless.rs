//! The masters of a cluster that have no slots, in the answer to CLUSTER NODES.
//!
//! CLUSTER SLOTS leaves them out. While the first slot of such a master is moved to it, it has the
//! keys of that slot that were moved already.

use super::slots::{Address, Master};

/// The masters without slots, named as those with slots (`masters`) are: clients are told the IP
/// addresses of all servers, or the names of all, or to go where they `asked`.
pub(super) fn slotless(nodes: &str, masters: &[Master], asked: &str) -> Vec<Address> {
    let lines: Vec<Line<'_>> = nodes.lines().filter_map(Line::read).collect();
    let told = |host: &str| masters.iter().any(|master| master.address.0 == host);
    let are_named = lines.iter().any(|line| told(line.hostname));
    let have_addresses = lines.iter().any(|line| told(line.ip));
    let address = |line: &Line<'_>| {
        let host = match line.hostname {
            hostname if are_named && !hostname.is_empty() => hostname,
            _ if are_named || have_addresses => line.ip,
            _ => asked,
        };
        // A server that does not know its own address is the one that was asked.
        let host = if host.is_empty() { asked } else { host };
        (host.to_owned(), line.port)
    };
    lines.iter().filter(|line| line.is_slotless_master).map(address).collect()
}

/// What a line says: `<id> <ip>:<port>@<bus port>[,<hostname>] <flags> <master> <ping> <pong>
/// <epoch> <link> <slots ..>`.
struct Line<'a> {
    ip: &'a str,
    port: u16,
    /// Empty: it has none, or the server is older than Redis 7.0.
    hostname: &'a str,
    /// It is a master, can be connected to as far as the others know, and has no slots.
    is_slotless_master: bool,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, flags, _, _, _, _, _, slots @ ..] = &words[..] else { return None };
        let (address, names) = place.split_once(',').unwrap_or((place, ""));
        let (address, _) = address.split_once('@').unwrap_or((address, ""));
        // An address of IPv6 has colons, too.
        let (ip, port) = address.rsplit_once(':')?;
        let hostname = names.split(',').next().filter(|name| !name.contains('='));
        let has = |flag: &str| flags.split(',').any(|word| word == flag);
        // A slot that is on its way stands in brackets. A master that failed without slots was
        // replaced, or emptied before.
        let has_slots = slots.iter().any(|range| !range.is_empty() && !range.starts_with('['));
        let is_out = ["fail", "handshake", "noaddr"].into_iter().any(has);
        Some(Self {
            ip,
            port: port.parse().ok()?,
            hostname: hostname.unwrap_or_default(),
            is_slotless_master: has("master") && !is_out && !has_slots,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses of masters without slots, beside one that clients know by this host.
    fn found(nodes: &[&str], known: &str) -> Vec<String> {
        let masters = [Master { address: (known.to_owned(), 7001), slot: 0 }];
        let found = slotless(&nodes.join("\n"), &masters, "seed");
        found.into_iter().map(|(host, port)| format!("{host} {port}")).collect()
    }

    #[test]
    fn a_master_without_slots_is_named_as_the_others_are() {
        // As Redis 5, and as Redis 7 does that was told names.
        let old = [
            "a1 10.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-16383",
            "a2 10.0.0.2:7002@17002 master - 0 1 0 connected",
        ];
        assert_eq!(found(&old, "10.0.0.1"), ["10.0.0.2 7002"]);
        assert_eq!(found(&old, "seed"), ["seed 7002"], "clients are not told any address");
        let named = [
            "a1 10.0.0.1:7001@17001,one master - 0 1 1 connected 0-16383",
            "a2 10.0.0.2:7002@17002,two,nodename=x master - 0 1 0 connected",
            "a3 10.0.0.3:7003@17003 master - 0 1 0 connected",
        ];
        assert_eq!(found(&named, "one"), ["two 7002", "10.0.0.3 7003"]);
        assert_eq!(found(&named, "10.0.0.1"), ["10.0.0.2 7002", "10.0.0.3 7003"]);
    }

    #[test]
    fn its_address_may_be_of_any_kind() {
        let nodes = [
            "a1 ::1:7001@17001 master - 0 1 1 connected 0-5460 5462 [5461->-a2]",
            "a2 2001:db8::2:7002@17002 master - 0 1 0 connected",
            "a3 :7003@17003 myself,master - 0 1 0 connected [5461-<-a1]",
            "a4 ::4:7004@17004,shard-id=x master - 0 1 0 connected",
        ];
        assert_eq!(found(&nodes, "::1"), ["2001:db8::2 7002", "seed 7003", "::4 7004"]);
    }

    #[test]
    fn only_masters_without_slots_that_are_there_are_found() {
        let nodes = [
            "a1 10.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-16383",
            "a2 10.0.0.2:7002@17002 slave a1 0 1 1 connected",
            "a3 10.0.0.3:7003@17003 master,fail - 0 1 0 disconnected",
            "a4 10.0.0.4:7004@17004 handshake - 0 1 0 connected",
            "a5 10.0.0.5:7005@17005 master,noaddr - 0 1 0 disconnected",
            "a6 10.0.0.6:7006@17006 master,fail? - 0 1 0 connected",
            "a7 10.0.0.7:x@y master - 0 1 0 connected",
            "no such line",
            "",
        ];
        assert_eq!(found(&nodes, "10.0.0.1"), ["10.0.0.6 7006"], "a suspicion is no failure");
        assert_eq!(found(&[], "10.0.0.1"), [""; 0]);
    }
}
