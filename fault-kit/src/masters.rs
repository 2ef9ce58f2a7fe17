//! Several independent masters, as the RedLock algorithm needs them.

use std::ops::Deref;

use crate::server::{Server, ServerBuilder};

/// Servers that know nothing of each other; a slice of them.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let masters = fault_kit::Masters::start(3).await;
/// masters[0].kill9();
/// assert_eq!(masters.urls().len(), 3);
/// # });
/// ```
#[derive(Debug)]
pub struct Masters(Vec<Server>);

impl Masters {
    /// Servers with the default settings.
    pub async fn start(n: usize) -> Masters {
        Masters::start_with(n, |server| server).await
    }

    /// Servers that are all set up in the same way.
    pub async fn start_with(n: usize, setup: impl Fn(ServerBuilder) -> ServerBuilder) -> Masters {
        Masters::start_each(n, |_, server| setup(server)).await
    }

    /// Servers that are set up by their positions.
    pub async fn start_each(
        n: usize,
        setup: impl Fn(usize, ServerBuilder) -> ServerBuilder,
    ) -> Masters {
        let mut masters = Vec::new();
        for position in 0..n {
            masters.push(setup(position, Server::builder()).start().await);
        }
        Masters(masters)
    }

    /// The URLs of all, in order, dead ones included.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url_with_password).collect()
    }
}

impl Deref for Masters {
    type Target = [Server];

    fn deref(&self) -> &[Server] {
        &self.0
    }
}
