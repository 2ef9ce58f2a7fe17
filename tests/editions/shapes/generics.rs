use std::fmt::{Debug, Display};

use crate::support::{Locked, pause};

#[redis_lock(key = "generic-<value>")]
pub async fn generic<T: Display>(value: T) -> Locked<String> {
    pause().await;
    Ok(value.to_string())
}

#[redis_lock(key = "where-<value>")]
pub async fn where_clause<T>(value: T) -> Locked<T>
where
    T: Display + Clone + Send,
{
    pause().await;
    Ok(value.clone())
}

#[redis_lock(key = "debug-<value:?>")]
pub async fn debug_bound<T: Debug>(value: &T) -> Locked<String> {
    let _ = value;
    Ok(String::new())
}

#[redis_lock(key = "const-<N>-<values.len()>")]
pub async fn const_generic<const N: usize>(values: [u8; N]) -> Locked<usize> {
    pause().await;
    Ok(values.len() + N)
}

#[redis_lock(key = "lower-<size>")]
#[allow(non_upper_case_globals)]
pub async fn lower_case_const_generic<const size: usize>() -> Locked<usize> {
    Ok(size)
}

#[redis_lock(key = "as-ref-<text.as_ref()>")]
pub async fn as_ref(text: impl AsRef<str>) -> Locked<usize> {
    pause().await;
    Ok(text.as_ref().len())
}

#[redis_lock(key = "higher-<n>")]
pub async fn higher_ranked<F>(n: u32, f: F) -> Locked<usize>
where
    for<'a> F: Fn(&'a str) -> &'a str,
{
    pause().await;
    Ok(f("text").len() + n as usize)
}

#[redis_lock(key = "unsized-<value>")]
pub async fn maybe_unsized<T: Display + ?Sized>(value: &T) -> Locked<String> {
    Ok(value.to_string())
}

#[redis_lock(key = "all-<name>-<N>")]
pub async fn everything<'a, T, const N: usize>(name: &'a str, values: &'a [T; N]) -> Locked<&'a T>
where
    T: Sync + 'a,
{
    let _ = name;
    Ok(&values[0])
}

#[redis_lock(key = "associated-<T::NAME>")]
pub async fn associated_constant<T: Named>(value: T) -> Locked<T> {
    Ok(value)
}

pub trait Named {
    const NAME: &'static str;
}

impl Named for u32 {
    const NAME: &'static str = "u32";
}
