//! The runtime of tokio.

use std::fs::File;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// So many descriptors does a runtime with signals take.
const DESCRIPTORS: usize = 6;

/// A runtime that polls on the thread of its caller. It is an error if the system has no
/// descriptors left, where tokio would panic.
pub(crate) fn on_this_thread() -> io::Result<Runtime> {
    let spare = (0..DESCRIPTORS).map(|_| File::open("/dev/null"));
    drop(spare.collect::<io::Result<Vec<File>>>()?);
    Builder::new_current_thread().enable_all().build()
}
