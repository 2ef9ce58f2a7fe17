//! The files of the project.

use std::fs;
use std::path::Path;

/// A text file; its path is relative to the project's root and uses `/`.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn has_ext(&self, ext: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|own| own == ext)
    }

    /// Programs that are to be refused by the compiler need not follow the rules.
    pub(crate) fn is_bad_on_purpose(&self) -> bool {
        self.path.split('/').any(|part| part == "ui" || part == "fixtures")
    }
}

pub(crate) fn all() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    walk(root, root, &mut found);
    assert!(found.iter().any(|source| source.path == "Cargo.toml"), "the walk finds the project");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

pub(crate) fn rust() -> Vec<Source> {
    let mut found = all();
    found.retain(|source| source.has_ext("rs") && !source.is_bad_on_purpose());
    found
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(dir).expect("a directory can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if [".git", "target"].contains(&name.as_str()) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let path = path.strip_prefix(root).expect("below the root").to_string_lossy();
            found.push(Source { path: path.replace('\\', "/"), text });
        }
    }
}
