//! Where the real server comes from: see `scripts/ensure-server`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The program the whole suite runs its servers with.
pub fn server_binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        find().unwrap_or_else(|| {
            panic!(
                "no redis-server or valkey-server found: run the tests through scripts/test, \
                 which installs one, or set REDLOCK_TEST_SERVER to its path"
            )
        })
    });
    &BINARY
}

/// Is there a server that this process could start?
pub fn has_server() -> bool {
    find().is_some()
}

fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("REDLOCK_TEST_SERVER") {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "REDLOCK_TEST_SERVER: there is no {}", named.display());
        return Some(named);
    }
    // Where scripts/ensure-server unpacks one: in the target directory that this program is in.
    let program = std::env::current_exe().unwrap_or_default();
    let unpacked = program.ancestors().map(|place| place.join("test-server"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path);
    places
        .chain(unpacked)
        .flat_map(|place| [place.join("redis-server"), place.join("valkey-server")])
        .find(|candidate| candidate.is_file())
}
