//! How much `#[redis_lock]` adds to the size of a future, beside `#[tracing::instrument]`.
//! Sizes are decided by the compiler, the same in debug and release.

use redlock::LockError;

/// What the lock may add, in bytes a level of locked calls. Beside it, a level may add a copy of an
/// argument that the plain function does not keep across an `.await`.
const LIMIT_PER_LEVEL: usize = 100;

type Answer = Result<usize, LockError>;

/// An order with fields enough to see a copy of it.
#[derive(Debug)]
pub struct Order {
    pub id: u64,
    pub lines: [u64; 32],
}

#[allow(clippy::needless_pass_by_value, reason = "the size of an argument by value is measured")]
fn count(order: Order) -> usize {
    order.lines.len()
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

            $(#[$by_value])?
            pub async fn used_up(order: Order) -> Answer {
                let count = super::count(order);
                io().await;
                Ok(count)
            }

            $(#[$by_value])?
            pub async fn passed_on(order: Order) -> Answer {
                used_up(order).await
            }

            $(#[$tiny])?
            pub async fn not_read(_order: Order) -> Answer {
                io().await;
                Ok(1)
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

/// Name, levels of locked calls, copies of the order that they add, and the three sizes.
type Row = (&'static str, usize, usize, [usize; 3]);

macro_rules! row {
    ($levels:literal, $function:ident ( $($argument:expr),* )) => {
        row!($levels, 0, $function($($argument),*))
    };
    ($levels:literal, $copies:literal, $function:ident ( $($argument:expr),* )) => {
        (stringify!($function), $levels, $copies, [
            size_of_val(&plain::$function($($argument),*)),
            size_of_val(&locked::$function($($argument),*)),
            size_of_val(&instrumented::$function($($argument),*)),
        ])
    };
}

#[test]
fn a_lock_adds_little_to_the_size_of_a_future() {
    let order = || Order { id: 1, lines: [0; 32] };
    let rows: [Row; 9] = [
        row!(1, tiny()),
        row!(1, borrowed("", &mut 0)),
        row!(1, local()),
        row!(1, by_value(order())),
        row!(1, 1, used_up(order())),
        row!(2, 2, passed_on(order())),
        row!(1, 1, not_read(order())),
        row!(2, nested()),
        row!(3, deep()),
    ];
    for (name, levels, copies, [plain, locked, instrumented]) in rows {
        let added = locked.saturating_sub(plain);
        let limit = LIMIT_PER_LEVEL * levels + size_of::<Order>() * copies;
        assert!(
            added <= limit,
            "{name}: {plain} bytes, with a lock {locked}; a lock may add {limit} \
             (`tracing::instrument` makes it {instrumented})"
        );
    }
}
