//! The copy of the project that is broken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of what is under version control in `root`, at `copy`. Files that are as they were are
/// not written again, for cargo goes by the time.
pub fn copy(root: &Path, copy: &Path) {
    let list = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git runs");
    assert!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
    for name in list.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        if let Ok(content) = fs::read(root.join(&name)) {
            write(&copy.join(&name), &content);
            let permissions = fs::metadata(root.join(&name)).expect("it was read").permissions();
            fs::set_permissions(copy.join(&name), permissions).expect("the copy is ours");
        }
    }
}

pub fn write(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|old| old == content) {
        return;
    }
    fs::create_dir_all(path.parent().expect("a file is somewhere")).expect("a directory");
    fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
