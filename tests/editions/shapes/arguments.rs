use crate::support::{Locked, NotSend, NotSync, Order, pause};

#[redis_lock(key = "none")]
pub async fn nothing() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "stock-<id>", expire = "10s", wait = "5s", max_renew = 5)]
pub async fn by_value(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "stock-<order.id>")]
pub async fn by_reference(order: &Order) -> Locked<u64> {
    pause().await;
    Ok(order.id)
}

#[redis_lock(key = "stock-<order.id>")]
pub async fn by_mutable_reference(order: &mut Order, add: &u64) -> Locked<u64> {
    order.id += add;
    pause().await;
    Ok(order.id)
}

#[redis_lock(key = "stock-<text>")]
pub async fn named_lifetime<'a>(text: &'a str, seen: &mut Vec<&'a str>) -> Locked<&'a str> {
    seen.push(text);
    pause().await;
    Ok(text)
}

#[redis_lock(key = "stock-<text>")]
pub async fn elided_lifetime(text: &str) -> Locked<&str> {
    pause().await;
    Ok(text)
}

#[redis_lock(key = "stock-<a>-<b>")]
pub async fn two_lifetimes<'a, 'b>(a: &'a str, b: &'b str) -> Locked<(&'a str, &'b str)> {
    Ok((a, b))
}

#[redis_lock(key = "stock-<a>")]
pub async fn outlives<'a, 'b: 'a>(a: &'a str, b: &'b str) -> Locked<&'a str> {
    Ok(if a.is_empty() { b } else { a })
}

#[redis_lock(key = "count-<count>")]
pub async fn mutable(mut count: u32) -> Locked<u32> {
    count += 1;
    pause().await;
    Ok(count)
}

#[redis_lock(key = "pair-<a>-<b>")]
pub async fn tuple_pattern((a, b): (u32, u32)) -> Locked<u32> {
    Ok(a + b)
}

#[redis_lock(key = "order-<id>-<y>")]
pub async fn struct_pattern(Order { id, items, pair: (_, y) }: Order) -> Locked<u64> {
    Ok(id + items.len() as u64 + u64::from(y))
}

#[redis_lock(key = "slice-<first>")]
pub async fn slice_pattern([first, .., last]: [u8; 3]) -> Locked<u8> {
    Ok(first + last)
}

#[redis_lock(key = "reference-<id>")]
pub async fn reference_pattern(&id: &u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "binding-<whole.id>")]
pub async fn at_pattern(ref whole @ Order { .. }: Order) -> Locked<u64> {
    Ok(whole.id)
}

#[redis_lock(key = "wild-<id>")]
pub async fn wild_pattern(id: u64, _: String) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "unused-<id>")]
pub async fn unused(id: u64, _unused: Order) -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "key-<id>")]
pub async fn only_in_the_key(id: u64) -> Locked<()> {
    pause().await;
    Ok(())
}

#[redis_lock(key = "raw-<r#type>-<r#fn.id>")]
pub async fn raw_identifiers(r#type: u32, r#fn: &Order) -> Locked<u64> {
    Ok(u64::from(r#type) + r#fn.id)
}

#[redis_lock(key = "cfg-<id>")]
pub async fn cfg_parameters(
    #[cfg(not(any()))] id: u64,
    #[cfg(any())] id: String,
    #[allow(unused_variables)] spare: u32,
) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "impl-<name>")]
pub async fn impl_trait_argument(name: impl std::fmt::Display + Send + Sync) -> Locked<String> {
    pause().await;
    Ok(name.to_string())
}

#[redis_lock(key = "impl-<id>")]
pub async fn impl_closure(id: u32, f: impl FnOnce(u32) -> u32) -> Locked<u32> {
    pause().await;
    Ok(f(id))
}

#[redis_lock(key = "dyn-<name>")]
pub async fn dyn_argument(name: &(dyn std::fmt::Display + Send + Sync)) -> Locked<String> {
    Ok(name.to_string())
}

#[redis_lock(key = "boxed-<name>")]
pub async fn boxed_dyn(name: Box<dyn std::fmt::Display>) -> Locked<String> {
    pause().await;
    Ok(name.to_string())
}

#[redis_lock(key = "cell")]
pub async fn send_not_sync(cell: NotSync) -> Locked<u32> {
    cell.set(cell.get() + 1);
    pause().await;
    Ok(cell.get())
}

#[redis_lock(key = "rc-<rc>")]
pub async fn not_send(rc: NotSend) -> Locked<u32> {
    pause().await;
    Ok(*rc)
}

#[redis_lock(key = "cell-<cell.get()>")]
pub async fn reference_to_not_sync(cell: &NotSync) -> Locked<u32> {
    pause().await;
    Ok(cell.get())
}

#[redis_lock(key = "fn-<id>")]
pub async fn function_pointer(id: u32, f: fn(u32) -> u32) -> Locked<u32> {
    Ok(f(id))
}

#[redis_lock(key = "big-<buffer[0]>")]
pub async fn by_value_array(buffer: [u8; 256]) -> Locked<usize> {
    pause().await;
    Ok(buffer.len())
}

#[redis_lock(key = "many-<a>-<b>-<c>-<d>-<e>-<f>-<g>")]
#[allow(clippy::many_single_char_names)]
pub async fn many(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) -> Locked<u8> {
    Ok(a + b + c + d + e + f + g)
}

#[redis_lock(key = "stock-<id>")]
pub async fn alternatives((Ok(mut id) | Err(mut id)): Result<String, String>) -> Locked<String> {
    id.push('!');
    pause().await;
    Ok(id)
}
