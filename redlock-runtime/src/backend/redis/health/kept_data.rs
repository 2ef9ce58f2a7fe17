//! What a server that was restarted has of its data, by its INFO.

use super::info::field;

/// What a server has kept over a restart.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeptData {
    Nothing,
    /// The data that it had saved.
    Snapshot,
    /// The data in its append-only file.
    Log,
}

impl KeptData {
    pub(super) fn of(info: &str) -> Self {
        // Servers before 7.0 do not have the first field; keys may have been written since.
        let loaded_none = field(info, "rdb_last_load_keys_loaded") == Some("0");
        let has_log = field(info, "aof_enabled") == Some("1");
        let has_keys = info.lines().any(|line| line.starts_with("db") && line.contains(":keys="));
        match (has_log, has_keys) {
            (_, false) => Self::Nothing,
            (true, true) => Self::Log,
            (false, true) if loaded_none => Self::Nothing,
            (false, true) => Self::Snapshot,
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
        assert_eq!(KeptData::of(&format!("aof_enabled:0\r\n{keyspace}")), KeptData::Snapshot);
        let new = format!("rdb_last_load_keys_loaded:0\r\naof_enabled:0\r\n{keyspace}");
        assert_eq!(KeptData::of(&new), KeptData::Nothing);
    }
}
