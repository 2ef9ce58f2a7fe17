//! How much `#[redis_lock]` adds to the size of a future, beside `#[tracing::instrument]`.
//!
//! `cargo run --manifest-path bench/Cargo.toml --bin future_sizes`
//!
//! Sizes are decided by the compiler, the same in debug and release. Exits with 1 when the lock
//! adds more than 100 bytes a level of locked calls.

use std::process::ExitCode;

use redlock::LockError;

const LIMIT_PER_LEVEL: usize = 100;

type Answer = Result<usize, LockError>;

/// An order with fields enough to see a copy of it.
pub struct Order {
    pub id: u64,
    pub lines: [u64; 32],
}

async fn io() {
    tokio::task::yield_now().await;
}

/// The same functions under another attribute.
macro_rules! functions {
    ($name:ident $(, $tiny:meta, $borrowed:meta, $by_value:meta)?) => {
        mod $name {
            use super::{Answer, Order, io};

            $(#[$tiny])?
            pub async fn tiny() -> Answer {
                Ok(1)
            }

            $(#[$borrowed])?
            pub async fn borrowed(id: &str, count: &mut usize) -> Answer {
                io().await;
                *count += id.len();
                io().await;
                Ok(*count)
            }

            $(#[$tiny])?
            pub async fn local() -> Answer {
                let buffer = [1_u8; 1024];
                io().await;
                Ok(buffer.len())
            }

            $(#[$by_value])?
            pub async fn by_value(order: Order) -> Answer {
                io().await;
                Ok(order.lines.len())
            }

            $(#[$tiny])?
            pub async fn nested() -> Answer {
                Ok(local().await? + local().await?)
            }

            $(#[$tiny])?
            pub async fn deep() -> Answer {
                nested().await
            }
        }
    };
}

functions!(plain);
functions!(
    locked,
    redlock::redis_lock(key = "bench"),
    redlock::redis_lock(key = "bench-<id>"),
    redlock::redis_lock(key = "bench-<order.id>")
);
functions!(
    instrumented,
    tracing::instrument,
    tracing::instrument(fields(id), skip(count)),
    tracing::instrument(fields(id = order.id), skip(order))
);

/// Name, levels of locked calls, and the three sizes.
type Row = (&'static str, usize, [usize; 3]);

macro_rules! row {
    ($levels:literal, $function:ident ( $($argument:expr),* )) => {
        (stringify!($function), $levels, [
            size_of_val(&plain::$function($($argument),*)),
            size_of_val(&locked::$function($($argument),*)),
            size_of_val(&instrumented::$function($($argument),*)),
        ])
    };
}

fn main() -> ExitCode {
    let order = || Order { id: 1, lines: [0; 32] };
    let rows: [Row; 6] = [
        row!(1, tiny()),
        row!(1, borrowed("", &mut 0)),
        row!(1, local()),
        row!(1, by_value(order())),
        row!(2, nested()),
        row!(3, deep()),
    ];
    println!("bytes       plain   redis_lock  tracing::instrument   added");
    let mut is_within = true;
    for (name, levels, [plain, locked, instrumented]) in rows {
        let added = locked.saturating_sub(plain);
        let verdict = if added <= LIMIT_PER_LEVEL * levels { "" } else { "  TOO MUCH" };
        is_within &= verdict.is_empty();
        println!("{name:<10} {plain:>6} {locked:>12} {instrumented:>20} {added:>7}{verdict}");
    }
    println!("limit: {LIMIT_PER_LEVEL} bytes a level of locked calls");
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
