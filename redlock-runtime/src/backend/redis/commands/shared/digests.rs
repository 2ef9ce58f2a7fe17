//! Pins the digests of the scripts to those in docs/protocol.md.

use super::{acquire, downgrade, enqueue, raise, release, renew};
use crate::backend::redis::commands::Script;

/// All scripts.
static SCRIPTS: [(&Script, &str); 6] = [
    (&acquire::SCRIPT, "330ef7c04bef68d0755be08624556183ac6474a2"),
    (&enqueue::SCRIPT, "d2e2326954c28a79775897e7bd9ffd1419bd72fc"),
    (&release::SCRIPT, "e71ac2ea3972c4e219036f83acddf7d7d6511bee"),
    (&renew::SCRIPT, "cfaebf5519e0b24d721eb2705f1aa75fd21a173a"),
    (&raise::SCRIPT, "76dba025d78573595649350e715e72f817988543"),
    (&downgrade::SCRIPT, "d9bd652e7cdbad682f318161ad44c667a153b721"),
];

/// The texts of all scripts.
pub(crate) fn scripts() -> [&'static str; 6] {
    SCRIPTS.map(|(script, _)| script.text())
}

#[test]
fn the_digests_are_pinned() {
    for (script, digest) in SCRIPTS {
        assert_eq!(script.digest(), digest, "{}", script.text());
    }
}
