//! What the child processes do that end right after they let go of something.

use std::time::Duration;

use redlock::{LockError, Redlock, redis_lock};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::support::process::{Args, emit};
use crate::support::{Raw, time_passes};

const EXPIRE: Duration = Duration::from_secs(60);

/// Runs a child's work on a runtime of the flavor that is asked for: url, prefix, key, flavor. In
/// one with several threads, the work is a task.
fn run<F: Future<Output = ()> + Send + 'static>(args: &Args, work: fn(Redlock, Vec<String>) -> F) {
    let is_single = args.get(3) == "current";
    let mut builder =
        if is_single { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    let redlock = Redlock::builder().url(args.get(0)).prefix(args.get(1)).expire(EXPIRE);
    let words = args.all().to_vec();
    runtime.block_on(async {
        let redlock = redlock.build().await.expect("the server is there");
        if is_single {
            work(redlock, words).await;
        } else {
            tokio::spawn(work(redlock, words)).await.expect("it did not panic");
        }
    });
}

#[redis_lock(key = "<key>", client = redlock, release = "background")]
async fn call(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    Ok(())
}

async fn many_calls(redlock: &Redlock, words: &[String]) {
    for _ in 0..words[4].parse().expect("a number") {
        call(redlock, "warm").await.expect("it is free");
    }
}

/// Ends after a call: how many before that.
pub fn call_and_end(args: &Args) {
    run(args, |redlock, words| async move {
        many_calls(&redlock, &words).await;
        call(&redlock, &words[2]).await.expect("it is free");
    });
}

/// Ends after a call that was cancelled: how many calls before that, and after how many
/// milliseconds.
pub fn cancel_and_end(args: &Args) {
    run(args, |redlock, words| async move {
        many_calls(&redlock, &words).await;
        let time = Duration::from_millis(words[5].parse().expect("a number"));
        let _ = tokio::time::timeout(time, call(&redlock, &words[2])).await;
    });
}

/// Ends after a downgrade that was cancelled: after how many milliseconds.
pub fn downgrade_and_end(args: &Args) {
    run(args, |redlock, words| async move {
        let guard = redlock.lock(&words[2]).acquire().await.expect("it is free");
        let time = Duration::from_millis(words[4].parse().expect("a number"));
        let _ = tokio::time::timeout(time, guard.downgrade()).await;
    });
}

/// Ends after it has stood in the queue.
pub fn wait_and_end(args: &Args) {
    run(args, |redlock, words| async move {
        let raw = Raw::new(&words[0]);
        let waiting = async {
            while raw.keys(&format!("*{}*queue*", words[1])).await.is_empty() {
                time_passes(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = call(&redlock, &words[2]) => panic!("somebody else has it"),
            () = waiting => emit("waiting"),
        }
    });
}

/// Ends after it has dropped so many guards.
pub fn drop_many_and_end(args: &Args) {
    run(args, |redlock, words| async move {
        let mut acquires = JoinSet::new();
        for n in 0..words[4].parse::<usize>().expect("a number") {
            acquires.spawn(redlock.lock(format!("{}-{n}", words[2])).acquire());
        }
        let guards: Vec<_> =
            acquires.join_all().await.into_iter().map(|guard| guard.expect("it is free")).collect();
        drop(guards);
    });
}
