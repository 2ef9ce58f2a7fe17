//! A server whose wall clock a test can set. Linux only: the server is preloaded with a library.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

const SOURCE: &str = include_str!("clock.c");
const SECOND: i64 = 1_000_000_000;

/// The offset of one server's wall clock, kept in a file that the server has mapped.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    offset_ns: AtomicI64,
}

impl Clock {
    /// Builds the library below `dir`, with the C compiler that a Rust toolchain links with.
    pub fn new(dir: &Path) -> Clock {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        std::fs::write(&source, SOURCE).expect("the source is written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        let build = compiler.arg(&library).arg(&source).output().expect("there is a cc");
        assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
        let path = dir.join("clock");
        let file = File::create(&path).expect("the offset has a file");
        let clock = Clock { library, path, file, offset_ns: AtomicI64::new(0) };
        clock.shift(0);
        clock
    }

    /// What the server is to be started with.
    pub fn envs(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().expect("a temp directory is text").to_owned();
        vec![
            ("LD_PRELOAD".to_owned(), text(&self.library)),
            ("REDLOCK_CLOCK".to_owned(), text(&self.path)),
        ]
    }

    /// A written page is seen by whoever has mapped it.
    pub fn shift(&self, secs: i64) {
        let shift_ns = secs * SECOND;
        let offset_ns = self.offset_ns.fetch_add(shift_ns, Ordering::SeqCst) + shift_ns;
        self.file.write_all_at(&offset_ns.to_ne_bytes(), 0).expect("the offset is written");
    }
}
