//! What the lock protects: read, then written, with nothing that would make the two one step.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Failure;

pub const CELL_BYTES: usize = 24;

#[derive(Debug, Clone)]
pub enum Cell {
    /// On keys that nobody else takes there is nothing to protect.
    None,
    /// Workers of one process. Loads and stores only: an increment is not atomic.
    Memory(Arc<[AtomicU64; 3]>),
    /// Workers of several processes.
    File(Arc<File>),
}

/// The contents of a cell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Content {
    pub counter: u64,
    /// Its number plus 1; 0: nobody yet.
    pub last_worker: u64,
    pub ended_at: u64,
}

impl Cell {
    pub fn memory() -> Cell {
        Cell::Memory(Arc::default())
    }

    pub fn open(path: &str) -> Result<Cell, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Cell::File(Arc::new(file)))
    }

    pub fn read(&self) -> Content {
        match self {
            Cell::None => Content::default(),
            Cell::Memory(words) => {
                let [counter, last_worker, ended_at] =
                    std::array::from_fn(|n| words[n].load(Ordering::Acquire));
                Content { counter, last_worker, ended_at }
            }
            Cell::File(file) => {
                let mut bytes = [0; CELL_BYTES];
                file.read_exact_at(&mut bytes, 0).expect("the cell can be read");
                let word = |n: usize| {
                    let word = bytes[8 * n..8 * n + 8].try_into();
                    u64::from_le_bytes(word.expect("eight bytes"))
                };
                Content { counter: word(0), last_worker: word(1), ended_at: word(2) }
            }
        }
    }

    pub fn write(&self, content: Content) {
        let words = [content.counter, content.last_worker, content.ended_at];
        match self {
            Cell::None => {}
            Cell::Memory(own) => {
                for (place, word) in own.iter().zip(words) {
                    place.store(word, Ordering::Release);
                }
            }
            Cell::File(file) => {
                let bytes = words.map(u64::to_le_bytes).concat();
                file.write_all_at(&bytes, 0).expect("the cell can be written");
            }
        }
    }
}
