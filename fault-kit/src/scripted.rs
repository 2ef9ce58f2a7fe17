//! A server that gives chosen replies to chosen commands and is a real one for all others.

use crate::proxy::{Hits, Proxy, Then, command};
use crate::server::Server;

/// A reply that a healthy server does not give, as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The error code, or a name for what is not an error reply.
    pub name: &'static str,
    /// The bytes.
    pub wire: &'static str,
    /// Whether a real server closes the connection behind it.
    pub closes: bool,
}

const fn error(name: &'static str, wire: &'static str) -> Reply {
    Reply { name, wire, closes: false }
}

/// The server reads its data from disk.
pub const LOADING: Reply = error("LOADING", "-LOADING Redis is loading the dataset in memory\r\n");
/// A script runs for too long.
pub const BUSY: Reply = error(
    "BUSY",
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
);
/// The memory is full.
pub const OOM: Reply = error("OOM", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
/// The disk is full.
pub const MISCONF: Reply = error(
    "MISCONF",
    "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist\r\n",
);
/// Fewer replicas than `min-replicas-to-write`.
pub const NOREPLICAS: Reply =
    error("NOREPLICAS", "-NOREPLICAS Not enough good replicas to write.\r\n");
/// A write to a replica.
pub const READONLY: Reply =
    error("READONLY", "-READONLY You can't write against a read only replica.\r\n");
/// A read from a replica that has lost its master.
pub const MASTERDOWN: Reply = error(
    "MASTERDOWN",
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
);
/// An unknown digest.
pub const NOSCRIPT: Reply = error("NOSCRIPT", "-NOSCRIPT No matching script. Please use EVAL.\r\n");
/// Another node of the cluster has the slot.
pub const MOVED: Reply = error("MOVED", "-MOVED 3999 127.0.0.1:6381\r\n");
/// The slot is on its way to another node.
pub const ASK: Reply = error("ASK", "-ASK 3999 127.0.0.1:6381\r\n");
/// Some keys of the slot have moved, others have not.
pub const TRYAGAIN: Reply =
    error("TRYAGAIN", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
/// Keys of several slots.
pub const CROSSSLOT: Reply =
    error("CROSSSLOT", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
/// Some slots have no node.
pub const CLUSTERDOWN: Reply = error("CLUSTERDOWN", "-CLUSTERDOWN The cluster is down\r\n");
/// No password was given.
pub const NOAUTH: Reply = error("NOAUTH", "-NOAUTH Authentication required.\r\n");
/// A wrong password was given.
pub const WRONGPASS: Reply =
    error("WRONGPASS", "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
/// The ACL does not allow it.
pub const NOPERM: Reply =
    error("NOPERM", "-NOPERM this user has no permissions to run the command\r\n");
/// The key is a list, say.
pub const WRONGTYPE: Reply =
    error("WRONGTYPE", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
/// A command of the transaction was refused.
pub const EXECABORT: Reply =
    error("EXECABORT", "-EXECABORT Transaction discarded because of previous errors.\r\n");
/// An error without a code of its own.
pub const PLAIN_ERR: Reply = error("ERR", "-ERR something new went wrong\r\n");
/// What a proxy says whose connection to the server broke.
pub const UPSTREAM_FAILURE: Reply = error("upstream", "-upstream failure\r\n");
/// What an older server says to a new command.
pub const UNKNOWN_COMMAND: Reply = error("ERR", "-ERR unknown command\r\n");
/// No connection is free.
pub const MAX_CLIENTS: Reply =
    Reply { name: "ERR", wire: "-ERR max number of clients reached\r\n", closes: true };
/// A server of another protocol.
pub const GARBAGE: Reply =
    Reply { name: "garbage", wire: "HTTP/1.1 400 Bad Request\r\n\r\n", closes: true };
/// A well-formed reply of a kind that no lock command gives.
pub const WRONG_SHAPE: Reply = error("wrong shape", "*2\r\n:1\r\n*1\r\n$4\r\nwhat\r\n");
/// The null reply.
pub const NIL: Reply = error("nil", "$-1\r\n");

/// All error replies that carry a code of their own.
pub const CODED: &[Reply] = &[
    LOADING,
    BUSY,
    OOM,
    MISCONF,
    NOREPLICAS,
    READONLY,
    MASTERDOWN,
    NOSCRIPT,
    MOVED,
    ASK,
    TRYAGAIN,
    CROSSSLOT,
    CLUSTERDOWN,
    NOAUTH,
    WRONGPASS,
    NOPERM,
    WRONGTYPE,
    EXECABORT,
];

impl From<Reply> for Then {
    fn from(reply: Reply) -> Then {
        let wire = reply.wire.as_bytes().to_vec();
        if reply.closes { Then::AnswerAndCut(wire) } else { Then::Answer(wire) }
    }
}

/// A proxy seen from its script; its faults stay at hand in `proxy`.
#[derive(Debug)]
pub struct Scripted {
    /// For faults other than replies.
    pub proxy: Proxy,
}

impl Scripted {
    /// In front of `server`, passing everything.
    pub fn start(server: &Server) -> Scripted {
        Scripted { proxy: Proxy::start(server) }
    }

    /// The server's URL by way of the script.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The next command with one of these names is not executed and gets this reply.
    pub fn answer_next(&self, commands: &[&str], reply: Reply) -> Hits {
        self.proxy.when(command(commands), reply.into())
    }

    /// The same for the next `n` of them.
    pub fn answer_times(&self, n: usize, commands: &[&str], reply: Reply) -> Hits {
        self.proxy.when_times(n, command(commands), reply.into())
    }

    /// The same for all of them, until `proxy.pass()`.
    pub fn answer_always(&self, commands: &[&str], reply: Reply) -> Hits {
        self.proxy.always(command(commands), reply.into())
    }

    /// The next one *is* executed, and gets this reply in place of the true one.
    pub fn replace_next(&self, commands: &[&str], reply: Reply) -> Hits {
        let wire = reply.wire.as_bytes().to_vec();
        self.proxy.when(command(commands), Then::Replace(wire))
    }
}
