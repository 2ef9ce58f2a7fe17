use crate::support::{Locked, Order, pause};

pub const SHARD: u32 = 7;
pub static REGION: &str = "eu";

pub fn shard_of(id: u64) -> u64 {
    id % 8
}

#[redis_lock(key = "<order.id>-<order.pair.0>-<order.items[0]>-<order.name()>")]
pub async fn fields(order: &Order) -> Locked<u64> {
    Ok(order.id)
}

#[redis_lock(key = "<SHARD>-<REGION>-<u8::MAX>-<crate::support::Order::default().id>")]
pub async fn constants() -> Locked<()> {
    Ok(())
}

#[redis_lock(key = "<shard_of(id)>-<shard_of(id + 1)>")]
pub async fn function_calls(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "<id:05>-<id:#x>-<id:?>-<ratio:.3>-<id:+>")]
pub async fn formats(id: u64, ratio: f64) -> Locked<f64> {
    Ok(ratio * if id == 0 { 0.5 } else { 1.5 })
}

#[redis_lock(key = "<id + 1>-<-offset>-<(id > 3)>-<offset as u8>-<!flag>-<&id>-<*text>")]
pub async fn operators(id: u64, offset: i64, flag: bool, text: &&str) -> Locked<u64> {
    let _ = (offset, flag, text);
    Ok(id)
}

#[redis_lock(key = "<hash[..n]>-<hash[n..]>-<hash[n..n + m]>-<hash[n..=m]>-<hash[..]>")]
pub async fn ranges(hash: String, n: usize, m: usize) -> Locked<usize> {
    Ok(hash.len() + n + m)
}

#[redis_lock(key = "<ids.iter().sum::<u64>()>-<ids.len()>")]
pub async fn turbofish(ids: &[u64]) -> Locked<usize> {
    Ok(ids.len())
}

#[redis_lock(key = "<text.replace(\">\", \":\")>-<text.replace('>', \"'\")>")]
pub async fn quotes(text: &str) -> Locked<usize> {
    Ok(text.len())
}

#[redis_lock(key = r#"<text.trim_matches('"')>"#)]
pub async fn raw_string(text: &str) -> Locked<usize> {
    Ok(text.len())
}

#[redis_lock(key = "{stock}-<<id>>-{{}}-<id>")]
pub async fn literal_brackets(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = "<a><b>AB<c>%<a>")]
pub async fn adjacent(a: &str, b: &str, c: &str) -> Locked<usize> {
    Ok(a.len() + b.len() + c.len())
}

#[redis_lock(key = "schlüssel-<id>-鍵")]
pub async fn unicode(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = format!("stock-{}", order.id))]
pub async fn format_expression(order: &Order) -> Locked<u64> {
    Ok(order.id)
}

#[redis_lock(key = name)]
pub async fn argument_expression(name: &str) -> Locked<usize> {
    Ok(name.len())
}

#[redis_lock(key = SHARD)]
pub async fn constant_expression() -> Locked<u32> {
    Ok(SHARD)
}

#[redis_lock(key = match id { 0 => "zero", _ => "many" })]
pub async fn match_expression(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(key = { let half = id / 2; half.to_string() })]
pub async fn block_expression(id: u64) -> Locked<u64> {
    Ok(id)
}

#[redis_lock(keys = ["acct-<from>", "acct-<to>"])]
pub async fn two_keys(from: u64, to: u64) -> Locked<u64> {
    Ok(from + to)
}

#[redis_lock(keys = ["<order.id>-<order.name()>", REGION, format!("day-{}", day)], wait = "0s")]
pub async fn mixed_keys(order: Order, day: u32) -> Locked<u64> {
    Ok(order.id + u64::from(day))
}

#[redis_lock(keys = ids.iter().map(|id| id + 1), expire = "5s")]
pub async fn iterated_keys(ids: Vec<u64>) -> Locked<usize> {
    Ok(ids.len())
}

#[redis_lock(keys = names)]
pub async fn moved_keys(names: [String; 2]) -> Locked<()> {
    Ok(())
}

#[redis_lock(keys = [SHARD])]
pub async fn one_key_in_a_list() -> Locked<u32> {
    Ok(SHARD)
}

#[redis_lock(key = "captured-<format!(\"{id:>5}\").trim()>-<format!(\"{}{name}\", id)>")]
pub async fn captured_by_a_macro(id: u64, name: &str) -> Locked<usize> {
    pause().await;
    Ok(name.len() + usize::from(id > 0))
}

#[redis_lock(key = "captured-<format!(\"{name}\")>")]
pub async fn captured_and_moved(name: String) -> Locked<String> {
    pause().await;
    Ok(name)
}

macro_rules! captured {
    ($name:ident, $argument:ident) => {
        #[redis_lock(key = "captured-<format!(\"{id}\")>")]
        pub async fn $name($argument: u64) -> Locked<u64> {
            Ok($argument)
        }
    };
}

captured!(captured_in_a_macro, id);
