//! Checks that PEM texts hold what they should. No message shows a part of them: if line breaks are
//! lost, as happens in environment variables, the wrong line is the whole key.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::LockError;

const CA: &str = "the CA of `Tls`";
const CHAIN: &str = "the client certificate of `Tls`";
const KEY: &str = "the client key of `Tls`";

pub(super) fn check(ca: Option<&[u8]>, client: Option<(&[u8], &[u8])>) -> Result<(), LockError> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.map(|pem| certificates(CA, pem)).transpose()?.into_iter().flatten() {
        roots.add(certificate).map_err(|_| not_a_certificate(CA))?;
    }
    let Some((chain, key)) = client else { return Ok(()) };
    let chain = certificates(CHAIN, chain)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| explain(KEY, &error, "PRIVATE KEY", "; a passphrase is not supported"))?;
    // No provider is installed for a check.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| {
            LockError::config(
                "the default provider of rustls in this process knows neither TLS 1.2 nor 1.3; \
             install one that does",
            )
        })?
        .with_root_certificates(roots);
    config.with_client_auth_cert(chain, key).map(drop).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            LockError::config(format!("{KEY} does not belong to {CHAIN}"))
        }
        rustls::Error::InvalidCertificate(_) => not_a_certificate(CHAIN),
        _ => LockError::config(format!("{KEY} is not one that TLS can use: RSA, ECDSA or Ed25519")),
    })
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, LockError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = match found {
        Ok(found) if found.is_empty() => Err(Error::NoItemsFound),
        found => found,
    };
    found.map_err(|error| explain(what, &error, "CERTIFICATE", ""))
}

fn explain(what: &str, error: &Error, label: &str, more: &str) -> LockError {
    let why = match error {
        Error::NoItemsFound => {
            return LockError::config(format!(
                "{what} holds no `-----BEGIN {label}-----`; give PEM text{more}"
            ));
        }
        Error::MissingSectionEnd { .. } | Error::IllegalSectionStart { .. } => {
            "its `-----BEGIN` and `-----END` do not stand on lines of their own"
        }
        Error::Base64Decode(_) => "what stands between its lines is not base64",
        _ => "it cannot be read",
    };
    LockError::config(format!("{what} is not good PEM text: {why}"))
}

fn not_a_certificate(what: &str) -> LockError {
    LockError::config(format!("{what} is PEM text, but not of an X.509 certificate"))
}
