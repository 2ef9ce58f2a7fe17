// What the compile errors advise, followed.
#![expect(clippy::redundant_async_block, reason = "the body that is locked has an `.await`")]

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use redlock::{LockError, Redlock, Wait, redis_lock};

type Answer = Result<u64, LockError>;

// `"stock-{id}"`, `"{id}:{name}"`, `"k-<<id>>"`
#[redis_lock(key = "<id>:<name>")]
async fn placeholders(id: u64, name: &str) -> Answer {
    Ok(id + name.len() as u64)
}

const BRACES: &str = "stock-{id}";
const BRACKETS: &str = "stock-<id>";

#[redis_lock(key = BRACES)]
async fn braces_are_meant(id: u64) -> Answer {
    Ok(id)
}

#[redis_lock(key = BRACKETS)]
async fn brackets_are_meant(id: u64) -> Answer {
    Ok(id)
}

// A hash tag that has the name of an argument.
#[redis_lock(key = "{stock}-<id>")]
async fn hash_tag(stock: &mut u64, id: u64) -> Answer {
    *stock -= id;
    Ok(id)
}

// `"stock-:id"`, `"stock-$id"`, `"stock-#id"`
#[redis_lock(key = "stock-<id>")]
async fn signs(id: u64) -> Answer {
    Ok(id)
}

// Ordinary text that ends with the name of an argument.
#[redis_lock(keys = ["settings:id", "settings::id", "settings#id", "settings-:idea", "-:<id>:id"])]
async fn signs_are_meant(id: u64) -> Answer {
    Ok(id)
}

// Behind a hash tag, too.
#[redis_lock(key = "{<tenant>}:order-<id>")]
async fn signs_behind_hash_tag(tenant: &str, order: &u64, id: u64) -> Answer {
    Ok(tenant.len() as u64 + order + id)
}

// `format!("k-<id>")`
#[redis_lock(key = format!("<k>-{id}"))]
async fn formatted(id: u64) -> Answer {
    Ok(id)
}

// `<id > 3>`, `<id >> 3>`, `<<u8 as Default>::default()>`
#[redis_lock(key = "<(id > 3)>-<(id >> 3)>-<(<u8 as Default>::default())>")]
async fn parentheses(id: u64) -> Answer {
    Ok(id)
}

// `<id:>5>`
#[redis_lock(key = "<id:05>")]
async fn padded(id: u64) -> Answer {
    Ok(id)
}

// `release = await`, `"0.5s"`, `"10mins"`, `forever`
#[redis_lock(key = "k", release = "await", expire = "500ms", wait = "10m")]
async fn quoted() -> Answer {
    Ok(1)
}

#[redis_lock(key = "k", wait = "forever")]
async fn forever() -> Answer {
    Ok(1)
}

#[redis_lock(key = "k", wait = forever)]
async fn an_argument_of_that_name(forever: std::time::Duration) -> Answer {
    Ok(forever.as_secs())
}

const FOREVER: Wait = Wait::Forever;

#[redis_lock(key = "k", wait = FOREVER)]
async fn a_constant_of_that_name() -> Answer {
    Ok(1)
}

// `Result<u64, String>`
#[redis_lock(key = "k", on_error = |error: LockError| Err(error.to_string()))]
async fn reported() -> Result<u64, String> {
    Ok(1)
}

struct AppError;

impl From<LockError> for AppError {
    fn from(_: LockError) -> Self {
        AppError
    }
}

#[redis_lock(key = "k")]
async fn converted() -> Result<u64, AppError> {
    Ok(1)
}

// A stored future, and one that a method boxes.
#[redis_lock(key = "k-<id>")]
fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Answer>>> {
    let future = Box::pin(async move { Ok(id) });
    Box::pin(async move { future.await })
}

#[redis_lock(key = "k-<id>")]
async fn made_async(id: u64) -> Answer {
    boxed(id).await
}

// `return`, `?` and `.await` in an expression: inside of a function.
fn shard(id: u64) -> impl Display {
    if id == 0 {
        return 0;
    }
    id % 8
}

#[redis_lock(key = shard(id))]
async fn in_a_function(id: u64) -> Answer {
    Ok(id)
}

#[redis_lock(key = Some(id).map(|id| { if id == 0 { return 1; } id }).unwrap_or_default())]
async fn closures_return_for_themselves(id: u64) -> Answer {
    Ok(id)
}

// `key = ["acct-<from>", ..]`, `key = ids`, `keys = [ids]`, `key = id` with an `Option`
#[redis_lock(keys = ["acct-<from>", "acct-<to>", format!("order-{order:?}")])]
async fn listed(from: u64, to: u64, order: Option<u64>) -> Answer {
    Ok(from + to + order.unwrap_or_default())
}

#[redis_lock(keys = ids)]
async fn in_a_collection(ids: &[u64]) -> Answer {
    Ok(ids.iter().sum())
}

#[redis_lock(key = format!("stock-{id:?}"))]
async fn formatted_for_debug(id: Option<u64>) -> Answer {
    Ok(id.unwrap_or_default())
}

// `keys` beside `min_hold`: the job is locked first, by an attribute below.
#[redis_lock(keys = ["acct-<from>", "acct-<to>"], client = redlock)]
#[redis_lock(key = "job", min_hold = "10m", wait = "0s", client = redlock)]
async fn a_job_of_several_keys(redlock: &Redlock, from: u64, to: u64) -> Answer {
    Ok(from + to)
}

async fn locks_its_job_first() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    assert_eq!(a_job_of_several_keys(&redlock, 1, 2).await, Ok(3));
    // The accounts are not waited for while the job is busy: its `min_hold` is not over.
    let accounts = redlock.lock("acct-1").acquire().await.unwrap();
    match a_job_of_several_keys(&redlock, 1, 2).await {
        Err(LockError::Timeout { key, .. }) => assert_eq!(key, "job"),
        other => panic!("{other:?}"),
    }
    accounts.release().await.unwrap();
}

// `on_error = "panic"`
#[redis_lock(key = "k", on_error = panic)]
async fn panics() -> u64 {
    1
}

fn main() {
    drop(placeholders(1, "pen"));
    drop((signs(1), signs_are_meant(1), signs_behind_hash_tag("shop", &1, 1)));
    drop((braces_are_meant(1), brackets_are_meant(1), hash_tag(&mut 1, 1), formatted(1)));
    drop((parentheses(1), padded(1), quoted(), forever()));
    drop((an_argument_of_that_name(std::time::Duration::ZERO), a_constant_of_that_name()));
    drop(reported());
    drop((boxed(1), made_async(1), in_a_function(1), closures_return_for_themselves(1)));
    drop((listed(1, 2, None), in_a_collection(&[1]), formatted_for_debug(None), panics()));
    let _ = converted;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(locks_its_job_first());
}
