//! What rendering a key costs, as `#[redis_lock]` does it: `cargo bench --bench key`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use redlock::__private::{Render, display_key, literal_key};

fn render(c: &mut Criterion) {
    c.bench_function("key/literal", |b| b.iter(|| literal_key(black_box("nightly-report"))));
    c.bench_function("key/one number", |b| {
        b.iter(|| {
            let id = black_box(42_u64);
            Render::new().text("stock-").value("id", format_args!("{id}")).finish()
        });
    });
    c.bench_function("key/two texts, escaped", |b| {
        b.iter(|| {
            let (shop, item) = (black_box("north-7"), black_box("bolt-m8"));
            Render::injective("-")
                .text("stock-")
                .value("shop", format_args!("{shop}"))
                .text("-")
                .value("item", format_args!("{item}"))
                .finish()
        });
    });
    c.bench_function("key/expression", |b| b.iter(|| display_key(&black_box(42_u64))));
}

criterion_group!(benches, render);
criterion_main!(benches);
