use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use crate::support::{Locked, Order, pause};

#[derive(Clone, Debug, Default)]
pub struct Shop {
    pub id: u64,
    pub orders: Vec<Order>,
}

impl Shop {
    pub const KIND: &'static str = "shop";

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn owned(self) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn owned_mutable(mut self) -> Locked<Self> {
        self.id += 1;
        Ok(self)
    }

    #[redis_lock(key = "shop-<self.id>-<self.orders[n].id>")]
    pub async fn shared(&self, n: usize) -> Locked<&Order> {
        pause().await;
        Ok(&self.orders[n])
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn exclusive(&mut self, order: Order) -> Locked<&mut Order> {
        let n = self.orders.len();
        self.orders.push(order);
        pause().await;
        Ok(&mut self.orders[n])
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn named_lifetime<'a>(&'a self, other: &str) -> Locked<&'a [Order]> {
        let _ = other;
        Ok(&self.orders)
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn boxed(self: Box<Self>) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn counted(self: Rc<Self>) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn atomically_counted(self: Arc<Self>) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn borrowed_arc(self: &Arc<Self>) -> Locked<Arc<Self>> {
        pause().await;
        Ok(Arc::clone(self))
    }

    #[redis_lock(key = "shop-<self.id>")]
    pub async fn pinned(self: Pin<&mut Self>) -> Locked<u64> {
        pause().await;
        Ok(self.id)
    }

    #[redis_lock(key = "shop-<self.id>")]
    #[allow(clippy::needless_arbitrary_self_type)]
    pub async fn typed(self: &Self) -> Locked<u64> {
        Ok(self.id)
    }

    #[redis_lock(key = "<Self::KIND>-<Self::kind()>-<id>")]
    pub async fn associated(id: u64) -> Locked<Self> {
        Ok(Self { id, orders: Vec::new() })
    }

    pub fn kind() -> &'static str {
        Self::KIND
    }

    #[redis_lock(key = "shop-<self.method_in_key()>")]
    pub async fn method_in_key_used(&self) -> Locked<u64> {
        let value = self.method_in_key();
        let twice = || self.method_in_key() + value;
        Ok(twice())
    }

    fn method_in_key(&self) -> u64 {
        self.id
    }
}

pub struct Wrapper<'a, T>(pub &'a T);

impl<'a, T: std::fmt::Display + Sync> Wrapper<'a, T> {
    #[redis_lock(key = "wrapper-<self.0>-<other>")]
    pub async fn generic<U: std::fmt::Display + Send>(&self, other: U) -> Locked<(&'a T, U)> {
        pause().await;
        Ok((self.0, other))
    }
}

pub enum Choice {
    One(u64),
    Two,
}

impl Choice {
    #[redis_lock(key = "choice")]
    pub async fn of_enum(&self) -> Locked<u64> {
        match self {
            Self::One(id) => Ok(*id),
            Self::Two => Ok(2),
        }
    }
}
