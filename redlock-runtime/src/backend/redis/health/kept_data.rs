//! What a server that was restarted has of its data, by its INFO.

use super::info::field;

/// What a server has kept over a restart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptData {
    Nothing,
    /// What it had saved, or what had reached it while it was a replica.
    Part,
    /// The data in its append-only file.
    Log,
}

impl KeptData {
    pub(super) fn of(info: &str) -> Self {
        // Servers before 7.0 do not have the first field; keys may have been written since.
        let loaded_none = field(info, "rdb_last_load_keys_loaded") == Some("0");
        let has_log = field(info, "aof_enabled") == Some("1");
        let has_keys = info.lines().any(|line| line.starts_with("db") && line.contains(":keys="));
        // The history of which the server's own is the continuation; only zeros: there is none. A
        // promoted replica has one, and the data that had reached it, whatever it loaded or logs. A
        // master that has loaded a snapshot with a history looks the same.
        let history = field(info, "master_replid2").unwrap_or_default();
        let goes_on = history.bytes().any(|byte| byte != b'0');
        match (has_log, has_keys) {
            (_, false) => Self::Nothing,
            (_, true) if goes_on => Self::Part,
            (true, true) => Self::Log,
            (false, true) if loaded_none => Self::Nothing,
            (false, true) => Self::Part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restarted_server_kept_shows_in_what_it_tells() {
        let keyspace = "db0:keys=1,expires=1\r\n";
        assert_eq!(KeptData::of("aof_enabled:1\r\n"), KeptData::Nothing);
        assert_eq!(KeptData::of(&format!("aof_enabled:1\r\n{keyspace}")), KeptData::Log);
        assert_eq!(KeptData::of(&format!("aof_enabled:0\r\n{keyspace}")), KeptData::Part);
        let new = format!("rdb_last_load_keys_loaded:0\r\naof_enabled:0\r\n{keyspace}");
        assert_eq!(KeptData::of(&new), KeptData::Nothing);
        let never = format!("{new}master_replid2:{}\r\n", "0".repeat(40));
        assert_eq!(KeptData::of(&never), KeptData::Nothing);
        let replid2 = "master_replid2:9f0c000000000000000000000000000000000000\r\n";
        for promoted in [new, format!("aof_enabled:1\r\n{keyspace}")] {
            assert_eq!(KeptData::of(&format!("{promoted}{replid2}")), KeptData::Part);
        }
    }
}
