use std::fmt::Display;
use std::rc::Rc;

use redlock::LockError;

use crate::support::{BoxFuture, LocalBoxFuture, Locked, pause};

#[redis_lock(key = "lock-error")]
pub async fn lock_error() -> Result<(), LockError> {
    pause().await;
    Ok(())
}

#[redis_lock(key = "boxed-error")]
pub async fn boxed_error(text: &str) -> Result<u32, Box<dyn std::error::Error>> {
    let n = text.parse()?;
    pause().await;
    Ok(n)
}

#[redis_lock(key = "boxed-error")]
pub async fn boxed_send_error(
    text: String,
) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let n = text.parse()?;
    pause().await;
    Ok(n)
}

#[redis_lock(key = "impl")]
pub async fn impl_in_result(n: u32) -> Locked<impl Display> {
    pause().await;
    Ok(n)
}

#[redis_lock(key = "impl")]
pub async fn impl_array_in_result(n: u32) -> Locked<[impl Display; 2]> {
    pause().await;
    Ok([n, n])
}

#[redis_lock(key = "impl")]
pub async fn impl_closure_in_result(n: u32) -> Locked<impl Fn(u32) -> u32 + Send> {
    Ok(move |x| x + n)
}

#[redis_lock(key = "impl", on_error = panic)]
pub async fn bare_impl(n: &u32) -> impl Display + '_ {
    pause().await;
    n
}

#[redis_lock(key = "impl", on_error = panic)]
pub async fn impl_iterator(values: &[u32]) -> impl Iterator<Item = &u32> {
    values.iter().filter(|value| **value > 1)
}

#[redis_lock(key = "unit", on_error = |_| ())]
pub async fn unit() {
    pause().await;
}

#[redis_lock(key = "explicit", on_error = panic)]
#[allow(clippy::unused_unit)]
pub async fn explicit_unit() -> () {}

#[redis_lock(key = "option", on_error = |_| None)]
pub async fn option() -> Option<u32> {
    Some(1)
}

#[redis_lock(key = "never", on_error = panic)]
pub async fn never() -> ! {
    loop {
        pause().await;
    }
}

#[redis_lock(key = "not-send")]
pub async fn not_send() -> Locked<Rc<u32>> {
    pause().await;
    Ok(Rc::new(1))
}

#[redis_lock(key = "dyn")]
pub async fn boxed_dyn<'a>(text: &'a str) -> Locked<Box<dyn Display + Send + 'a>> {
    Ok(Box::new(text))
}

#[redis_lock(key = "nested")]
pub async fn nested_result() -> Locked<Result<Option<u32>, String>> {
    Ok(Ok(None))
}

#[redis_lock(key = "tuple")]
pub async fn tuple() -> Locked<(u32, String, [u8; 4])> {
    Ok((1, String::new(), [0; 4]))
}

#[redis_lock(key = "pointer", on_error = panic)]
pub async fn function_pointer() -> fn(u32) -> u32 {
    |x| x
}

#[redis_lock(key = "uninhabited", on_error = panic)]
pub async fn uninhabited() -> std::convert::Infallible {
    pause().await;
    std::process::abort()
}

#[redis_lock(key = "uninhabited")]
pub async fn uninhabited_in_result() -> Locked<std::convert::Infallible> {
    pause().await;
    std::process::abort()
}

macro_rules! typed {
    ($name:ident, $type:ty) => {
        #[redis_lock(key = "typed", on_error = panic)]
        pub async fn $name() -> $type {
            pause().await;
            panic!("typed")
        }
    };
}

typed!(typed_never, !);
typed!(typed_number, u32);

pub type Parsed<'a> = BoxFuture<'a, Result<usize, Box<dyn std::error::Error>>>;

#[redis_lock(key = "alias-<text>")]
pub fn alias(text: &str) -> BoxFuture<'_, Result<usize, Box<dyn std::error::Error>>> {
    Box::pin(async move {
        let n: usize = text.parse()?;
        pause().await;
        Ok(n)
    })
}

#[redis_lock(key = "alias-<text>")]
pub fn alias_of_an_alias(text: &str) -> Parsed<'_> {
    Box::pin(async move {
        let n: usize = text.parse()?;
        pause().await;
        Ok(n)
    })
}

#[redis_lock(key = "alias-<n>", on_error = panic)]
pub fn local_alias<'a>(n: u32) -> LocalBoxFuture<'a, Rc<u32>> {
    Box::pin(async move {
        pause().await;
        Rc::new(n)
    })
}

pub trait Service {
    type Future: std::future::Future<Output = Result<usize, Box<dyn std::error::Error>>>;

    fn call(&self, text: String) -> Self::Future;
}

impl Service for u32 {
    type Future = Parsed<'static>;

    #[redis_lock(key = "service-<self>")]
    fn call(&self, text: String) -> Self::Future {
        Box::pin(async move {
            let n: usize = text.parse()?;
            pause().await;
            Ok(n)
        })
    }
}
