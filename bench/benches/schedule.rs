//! The schedule of renewals with a million leases in it: `cargo bench --bench schedule`.
//!
//! It is private, so its source is a module of this program: what it measures is what runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};

#[allow(dead_code, unused_imports, reason = "the schedule needs its moments only")]
#[path = "../../redlock-runtime/src/clock.rs"]
mod clock;
#[allow(dead_code, unused_imports, reason = "not all of its operations are measured")]
#[path = "../../redlock-runtime/src/hold/schedule.rs"]
mod schedule;
#[allow(dead_code, unused_imports, reason = "the schedule needs one function only")]
#[path = "../../redlock-runtime/src/spare_memory.rs"]
mod spare_memory;

use clock::Moment;
use schedule::{HeapIndex, Schedule, Scheduled};

const LEASES: u64 = 1_000_000;
/// Renewal falls due at two thirds of 30 s.
const PERIOD_NS: u64 = 20_000_000_000;
/// Operations that are timed together.
const BATCH: u64 = 1_000;

#[derive(Default)]
struct Lease(HeapIndex);

impl Scheduled for Lease {
    fn heap_index(&self) -> &HeapIndex {
        &self.0
    }
}

/// A million leases, due at moments spread over one period, and what follows them.
struct Fixture {
    schedule: Schedule<Lease>,
    random: u64,
}

impl Fixture {
    fn new() -> Fixture {
        let mut fixture = Fixture { schedule: Schedule::new(), random: 0x9e37_79b9_7f4a_7c15 };
        for _ in 0..LEASES {
            fixture.insert(&Arc::default());
        }
        fixture
    }

    /// Xorshift.
    fn moment(&mut self) -> Moment {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        Moment::from_nanos(self.random % PERIOD_NS)
    }

    fn insert(&mut self, lease: &Arc<Lease>) {
        let at = self.moment();
        self.schedule.insert(at, Arc::clone(lease));
    }
}

/// Only the inserts, or only the removals, of batches that leave the schedule as it was.
fn batches(fixture: &mut Fixture, count: u64, is_insert: bool) -> Duration {
    let mut total = Duration::ZERO;
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        let leases: Vec<Arc<Lease>> = (0..batch).map(|_| Arc::default()).collect();
        let begin = Instant::now();
        for lease in &leases {
            fixture.insert(lease);
        }
        let inserted = begin.elapsed();
        let begin = Instant::now();
        for lease in &leases {
            fixture.schedule.remove(lease);
        }
        total += if is_insert { inserted } else { begin.elapsed() };
        left -= batch;
    }
    total
}

fn schedule(c: &mut Criterion) {
    let mut fixture = Fixture::new();
    let mut group = c.benchmark_group("schedule of 1,000,000");
    group.bench_function("insert", |b| {
        b.iter_custom(|count| batches(&mut fixture, count, true));
    });
    group.bench_function("remove", |b| {
        b.iter_custom(|count| batches(&mut fixture, count, false));
    });
    // What a renewal does: the entry that is due next moves to the end of the next period.
    let mut schedule = Schedule::new();
    for number in 0..LEASES {
        let at = Moment::from_nanos(number * (PERIOD_NS / LEASES));
        schedule.insert(at, Arc::<Lease>::default());
    }
    group.bench_function("fire", |b| {
        b.iter(|| {
            let (at, lease) = schedule.next().expect("nobody takes them out");
            let lease = Arc::clone(lease);
            schedule.reschedule(&lease, at.plus(Duration::from_nanos(PERIOD_NS)));
        });
    });
    group.finish();
}

criterion_group!(benches, schedule);
criterion_main!(benches);
