//! What the control handle and the connections of a proxy share.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::rules::Rules;

/// How a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// An orderly close.
    Fin,
    /// "Connection reset by peer".
    Rst,
}

#[derive(Debug)]
pub struct Shared {
    upstream: Mutex<SocketAddr>,
    rules: Mutex<Rules>,
    names: Mutex<Vec<String>>,
    /// Every change ends all connections that are open at that time.
    pub cut: watch::Sender<Cut>,
    /// False while the proxy is a black hole.
    pub flowing: watch::Sender<bool>,
    pub accepted: AtomicUsize,
    pub open: AtomicUsize,
    pub writes: AtomicUsize,
}

impl Shared {
    pub fn new(upstream: SocketAddr) -> Shared {
        Shared {
            upstream: Mutex::new(upstream),
            rules: Mutex::default(),
            names: Mutex::default(),
            cut: watch::Sender::new(Cut::Fin),
            flowing: watch::Sender::new(true),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        }
    }

    /// Where new connections lead.
    pub fn upstream(&self) -> MutexGuard<'_, SocketAddr> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the commands seen so far.
    pub fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
