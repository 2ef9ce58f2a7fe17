//! What the attribute costs without a server: `cargo bench --bench attribute`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use redlock::{LockError, Redlock, redis_lock};
use tokio::runtime::{Builder, Runtime};

#[allow(clippy::unused_async, reason = "compared with functions that are")]
async fn plain(_locks: &Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id + 1)
}

#[redis_lock(key = "stock-<id>", client = locks)]
async fn annotated(locks: &Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id + 1)
}

/// Calls within a call: the lock is held already.
#[redis_lock(key = "stock-<id>", client = locks)]
async fn outer(locks: &Redlock, id: u64, calls: u64) -> Result<u64, LockError> {
    for _ in 0..calls {
        black_box(annotated(locks, black_box(id)).await?);
    }
    Ok(calls)
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn calls(c: &mut Criterion) {
    let runtime = runtime();
    let locks = runtime.block_on(Redlock::builder().memory().build()).expect("a client");
    let mut group = c.benchmark_group("attribute");
    group.bench_function("plain call", |b| {
        b.iter_custom(|calls| {
            runtime.block_on(async {
                let begin = std::time::Instant::now();
                for _ in 0..calls {
                    let _ = black_box(plain(&locks, black_box(42)).await);
                }
                begin.elapsed()
            })
        });
    });
    group.bench_function("re-entered call", |b| {
        b.iter_custom(|calls| {
            runtime.block_on(async {
                let begin = std::time::Instant::now();
                let _ = black_box(outer(&locks, 42, calls).await);
                begin.elapsed()
            })
        });
    });
    group.bench_function("cycle in memory", |b| {
        b.iter_custom(|calls| {
            runtime.block_on(async {
                let begin = std::time::Instant::now();
                for _ in 0..calls {
                    let _ = black_box(annotated(&locks, black_box(42)).await);
                }
                begin.elapsed()
            })
        });
    });
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
