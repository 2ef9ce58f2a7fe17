// Arguments on their way through the key: read there, moved into the body, or neither.

use async_trait::async_trait;

use crate::support::{Locked, Order, pause};

#[redis_lock(key = "user-<id>")]
pub async fn mentioned_as_a_field(id: String, order: Order) -> Locked<u64> {
    pause().await;
    Ok(order.id)
}

#[redis_lock(key = "user-<id>")]
pub async fn mentioned_as_a_local(id: String) -> Locked<u64> {
    let id = 3;
    Ok(id)
}

#[redis_lock(key = "user-<id>")]
pub async fn mentioned_as_a_closures_argument(id: String) -> Locked<u64> {
    let same = |id: u64| id;
    Ok(same(1))
}

#[redis_lock(key = "user-<id>")]
pub async fn mentioned_in_a_string(id: String) -> Locked<()> {
    let width = 3;
    println!("{id:>width$} or not");
    Ok(())
}

#[redis_lock(key = "user-<id>", on_error = |_| id.len())]
pub async fn mentioned_in_on_error(id: String) -> usize {
    0
}

#[redis_lock(key = "<_1>-<_2>")]
#[allow(clippy::just_underscores_and_digits, clippy::used_underscore_binding)]
pub async fn names_like_constants((_1, _2): (String, String)) -> Locked<usize> {
    Ok(_1.len() + _2.len())
}

#[redis_lock(key = "<A>-<b>")]
#[allow(non_snake_case)]
pub async fn upper_case(A: String, b: String) -> Locked<usize> {
    Ok(A.len() + b.len())
}

#[redis_lock(key = "<id>-<b>")]
pub async fn twins(
    #[cfg(not(any()))] id: String,
    #[cfg(any())] id: u64,
    b: String,
) -> Locked<usize> {
    Ok(id.len() + b.len())
}

pub mod alias {
    use super::redis_lock;
    use crate::support::Locked;

    #[allow(non_camel_case_types)]
    type u64 = String;

    #[redis_lock(key = "<id>-<b>")]
    pub async fn not_a_primitive(id: u64, b: String) -> Locked<usize> {
        Ok(id.len() + b.len())
    }
}

#[redis_lock(key = "<b>-<c>")]
pub async fn mutable_parts(mut b: String, (mut c, d): (String, u32)) -> Locked<usize> {
    b.push('b');
    c.push('c');
    Ok(b.len() + c.len() + d as usize)
}

// What the attributes say, and in an `expect` promise, is about these variables.
#[redis_lock(key = "<b>-<camelCase>-<c>")]
pub async fn with_attributes(
    #[allow(unused_mut)] mut b: String,
    #[allow(non_snake_case)] camelCase: String,
    #[expect(unused_mut)] mut c: String,
) -> Locked<usize> {
    pause().await;
    Ok(b.len() + camelCase.len() + c.len())
}

#[redis_lock(key = "<ids.next().unwrap_or_default()>-<b>")]
pub async fn changed_by_the_key(mut ids: std::vec::IntoIter<u64>, b: String) -> Locked<usize> {
    pause().await;
    Ok(b.len() + ids.by_ref().count())
}

#[redis_lock(key = "<b.len()>-<c.as_mut_str()>-<&mut d>")]
pub async fn mutable_in_calls(mut b: String, mut c: String, mut d: String) -> Locked<usize> {
    pause().await;
    for text in [&mut b, &mut c, &mut d] {
        text.push('b');
    }
    Ok(b.len() + c.len() + d.len())
}

#[redis_lock(key = format!("{b}-{}", ids.next().unwrap_or_default()))]
pub async fn mutable_and_formatted(
    mut ids: impl Iterator<Item = u64>,
    b: String,
) -> Locked<Option<u64>> {
    Ok(ids.next().map(|id| id + b.len() as u64))
}

#[redis_lock(key = "<b>-<c>")]
pub async fn by_reference((ref b, ref mut c): (String, String)) -> Locked<usize> {
    pause().await;
    c.push('c');
    Ok(b.len() + c.len())
}

#[redis_lock(key = "<b.into_boxed_str()>-<c>")]
pub async fn consumed(b: String, c: String) -> Locked<usize> {
    Ok(c.len())
}

#[redis_lock(key = format!("{b}-{}", c.len()))]
pub async fn formatted(mut b: String, c: String) -> Locked<usize> {
    b.push('b');
    Ok(b.len() + c.len())
}

pub struct Shard {
    pub r#gen: u64,
}

impl Shard {
    pub fn r#gen(&self) -> u64 {
        self.r#gen
    }

    // A keyword from edition 2024 on, and only there.
    #[redis_lock(key = "shard-<self.gen>-<self.gen()>")]
    pub async fn keyword_of_another_edition(&self) -> Locked<u64> {
        Ok(self.r#gen)
    }

    #[redis_lock(key = "<self.gen>-<b>")]
    pub async fn lent_beside_self(&mut self, b: String) -> Locked<usize> {
        self.r#gen += 1;
        Ok(b.len())
    }

    #[redis_lock(key = "<self.gen>-<b>")]
    pub async fn lent_beside_owned_self(mut self, b: String) -> Locked<u64> {
        self.r#gen += b.len() as u64;
        Ok(self.r#gen)
    }
}

#[async_trait]
pub trait Formatted {
    async fn pattern(&self, pair: (u8, u8)) -> Locked<u8>;
    async fn only_in_the_key(&self, id: &str, name: String) -> Locked<()>;
}

#[async_trait]
impl Formatted for Order {
    #[redis_lock(key = format!("{a}-{b}-{}", self.id))]
    async fn pattern(&self, (a, b): (u8, u8)) -> Locked<u8> {
        Ok(a + b)
    }

    #[redis_lock(key = "<id>-<name>")]
    async fn only_in_the_key(&self, id: &str, name: String) -> Locked<()> {
        pause().await;
        Ok(())
    }
}
