//! The runtime of tokio.

use std::fs::File;
use std::io;

use tokio::runtime::{Builder, Runtime};

/// So many descriptors does a runtime with signals take.
const DESCRIPTORS: usize = 6;

/// Polls a future to its end on the thread of its caller. A look-up of a host name that is still
/// under way is not waited for, as the system gives it up late: it goes on until this process ends.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = on_this_thread()?;
    let output = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(output)
}

/// It is an error if the system has no descriptors left, where tokio would panic.
fn on_this_thread() -> io::Result<Runtime> {
    let spare = (0..DESCRIPTORS).map(|_| File::open("/dev/null"));
    drop(spare.collect::<io::Result<Vec<File>>>()?);
    Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Look-ups are such calls: tokio has other threads for them.
    #[test]
    fn a_call_that_blocks_is_not_waited_for() {
        let (end, awaited) = mpsc::channel::<()>();
        let output = block_on(async move {
            tokio::task::spawn_blocking(move || awaited.recv_timeout(Duration::from_secs(60)));
            7
        });
        assert_eq!(output.unwrap(), 7);
        end.send(()).expect("it is still under way");
    }
}
