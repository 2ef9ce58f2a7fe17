//! TLS, behind the feature `tls`.
//!
//! Both files define the same names, so that no caller depends on the feature.

#[cfg(feature = "tls")]
mod enabled;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
pub use enabled::Tls;
#[cfg(all(feature = "tls", feature = "cluster"))]
pub(super) use enabled::certify;
#[cfg(all(feature = "tls", feature = "sentinel"))]
pub(super) use enabled::of_server;
#[cfg(feature = "tls")]
pub(super) use enabled::{is_failure, provide, require, secure};

#[cfg(not(feature = "tls"))]
mod disabled;
#[cfg(not(feature = "tls"))]
pub(crate) use disabled::Tls;
#[cfg(all(not(feature = "tls"), feature = "cluster"))]
pub(super) use disabled::certify;
#[cfg(all(not(feature = "tls"), feature = "sentinel"))]
pub(super) use disabled::of_server;
#[cfg(not(feature = "tls"))]
pub(super) use disabled::{is_failure, provide, require, secure};
