use crate::support::{AppError, Locked, Order, pause};

#[redis_lock(key = "parse-<text>")]
pub async fn question_mark(text: &str) -> Locked<u32> {
    let n: u32 = text.parse()?;
    pause().await;
    Ok(n)
}

#[redis_lock(key = "early-<n>")]
pub async fn early_return(n: u32) -> Locked<u32> {
    if n == 0 {
        return Err(AppError::Empty);
    }
    pause().await;
    Ok(n)
}

#[redis_lock(key = "only-return")]
#[allow(clippy::needless_return)]
pub async fn only_return(n: u32) -> Locked<u32> {
    return Ok(n);
}

#[redis_lock(key = "empty", on_error = panic)]
pub async fn empty() {}

#[redis_lock(key = "diverges")]
pub async fn diverges() -> Locked<u32> {
    pause().await;
    std::process::abort()
}

#[redis_lock(key = "closure-<n>")]
pub async fn closures(n: u32) -> Locked<u32> {
    let add = |x: u32| x + n;
    let twice = move |x: u32| add(add(x));
    pause().await;
    Ok(twice(1))
}

#[redis_lock(key = "items-<n>")]
pub async fn nested_items(n: u32) -> Locked<u32> {
    struct Inner(u32);
    impl Inner {
        fn get(&self) -> u32 {
            self.0
        }
    }
    fn helper(inner: &Inner) -> u32 {
        inner.get()
    }
    Ok(helper(&Inner(n)))
}

#[redis_lock(key = "nested-<n>")]
pub async fn nested_locks(n: u32) -> Locked<u32> {
    #[redis_lock(key = "nested-inner-<n>")]
    async fn inner(n: u32) -> Locked<u32> {
        Ok(n)
    }
    inner(n).await
}

#[redis_lock(key = "blocks-<n>")]
pub async fn async_blocks(n: u32) -> Locked<u32> {
    let first = async { n + 1 };
    let second = async move { n + 2 };
    Ok(first.await + second.await)
}

#[redis_lock(key = "loop-<n>")]
pub async fn loops(n: u32) -> Locked<u32> {
    let mut total = 0;
    'outer: for i in 0..n {
        for j in 0..i {
            if j > 3 {
                continue 'outer;
            }
            pause().await;
            total += j;
        }
    }
    Ok(total)
}

#[redis_lock(key = "match-<n>")]
pub async fn match_tail(n: u32) -> Locked<u32> {
    match n {
        0 => Err(AppError::Empty),
        n => Ok(n),
    }
}

#[redis_lock(key = "if-<n>")]
pub async fn if_tail(n: u32) -> Locked<u32> {
    if n > 1 { Ok(n) } else { Err(AppError::Empty) }
}

#[redis_lock(key = "locals")]
pub async fn borrows_across_await() -> Locked<usize> {
    let text = String::from("text");
    let part = &text[1..];
    pause().await;
    Ok(part.len())
}

#[redis_lock(key = "tail")]
pub async fn tail_temporary(order: &std::sync::Mutex<Order>) -> Locked<u64> {
    Ok(order.lock().map_err(|_| AppError::Empty)?.id)
}

#[redis_lock(key = "macros-<n>")]
pub async fn macros(n: u32) -> Locked<String> {
    debug_assert!(n < 9, "{}", n + 1);
    Ok(vec![n].len().to_string())
}

#[redis_lock(key = "inner")]
pub async fn inner_attributes(n: u32) -> Locked<u32> {
    #![allow(unused_variables)]
    #![allow(unused_mut)]
    let unused = 1;
    Ok(n)
}

#[redis_lock(key = "coerced")]
pub async fn coerced() -> Locked<Box<dyn std::fmt::Debug + Send>> {
    Ok(Box::new(1))
}

#[redis_lock(key = "inferred")]
pub async fn inferred() -> Locked<Vec<u8>> {
    Ok(Vec::new().into_iter().collect())
}

/// Documented above.
#[allow(dead_code)]
#[inline]
#[must_use = "a reason"]
#[redis_lock(key = "attributes")]
/// Documented below.
#[cfg(not(any()))]
#[deprecated(note = "for the test")]
#[cold]
pub async fn attributes() -> Locked<()> {
    Ok(())
}

#[cfg(any())]
#[redis_lock(key = "nobody compiles this")]
pub async fn configured_out(_: Missing) -> Missing {}

#[redis_lock(key = "cfg-attr")]
#[cfg_attr(not(any()), allow(clippy::unused_async))]
pub async fn cfg_attribute() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "unsafe-<n>")]
/// # Safety
///
/// None needed.
pub async unsafe fn unsafe_function(n: u32) -> Locked<u32> {
    let pointer = std::ptr::addr_of!(n);
    Ok(unsafe { *pointer })
}

#[redis_lock(key = "extern-<n>")]
#[allow(improper_ctypes_definitions)]
pub async extern "C" fn extern_function(n: u32) -> Locked<u32> {
    Ok(n)
}

#[redis_lock(key = "recursion-<n>")]
pub async fn recursion(n: u32) -> Locked<u32> {
    if n == 0 {
        return Ok(0);
    }
    Box::pin(recursion(n - 1)).await
}

#[redis_lock(key = "private-<n>")]
async fn private(n: u32) -> Locked<u32> {
    Ok(n)
}

#[redis_lock(key = "crate-<n>")]
pub(crate) async fn crate_visible(n: u32) -> Locked<u32> {
    private(n).await
}

#[redis_lock(key = "outer-<n>")]
#[redis_lock(key = "inner-<n>")]
pub async fn two_locks(n: u32) -> Locked<u32> {
    Ok(n)
}

// An `allow` in the expansion would be an error here, of clippy.
#[redis_lock(key = "forbidding")]
#[forbid(clippy::implicit_return)]
#[allow(clippy::needless_return)]
pub async fn forbidding() -> Locked<u64> {
    pause().await;
    return Ok(1);
}
