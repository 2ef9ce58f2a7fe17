//! TLS through rustls, with a provider installed where the program has not chosen one.

/// Without a process-wide provider the first TLS connection would panic.
#[cfg(feature = "tls")]
pub(super) fn install_provider() {
    // An error means that one is installed already, which is just as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Never called: TLS URLs are refused before.
#[cfg(not(feature = "tls"))]
pub(super) fn install_provider() {}
