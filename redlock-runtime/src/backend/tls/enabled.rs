//! Which authorities a TLS connection trusts, and the certificate that this client shows.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs, io};

#[cfg(feature = "cluster")]
use deadpool_redis::cluster::ClusterClientBuilder;
#[cfg(feature = "sentinel")]
use deadpool_redis::redis::ConnectionAddr;
use deadpool_redis::redis::{Client, ClientTlsConfig, ConnectionInfo, RedisError, TlsCertificates};
use rustls::crypto::{CryptoProvider, ring};

use super::pem;
use crate::error::LockError;

/// Settings of TLS connections: private certificate authorities (CAs) and client certificates, for
/// the `rediss://` URLs of one client, and the servers that sentinels or a cluster name to it.
/// Feature `tls`.
///
/// Without it, servers are checked against the roots of Mozilla. The checks cannot be switched off.
/// Every file is read once: a certificate that was replaced needs a new client.
///
/// The ciphers are those of rustls' default provider. If a process has none when it first connects
/// over TLS, *ring* becomes its default provider then. A program that wants another one, or
/// installs one and treats it as an error that there is one already, does so before.
///
/// ```no_run
/// # async fn demo() -> Result<(), redlock::LockError> {
/// use redlock::{Redlock, Tls};
///
/// let tls = Tls::new()
///     .ca_file("/etc/redis/ca.crt")?
///     .client_cert_files("/etc/redis/client.crt", "/etc/redis/client.key")?;
/// let redlock = Redlock::builder().url("rediss://redis.internal:6379").tls(tls).build().await?;
/// # drop(redlock);
/// # Ok(()) }
/// ```
#[must_use = "pass it to `RedlockBuilder::tls`"]
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Vec<u8>>,
    client: Option<Identity>,
}

#[derive(Clone)]
struct Identity {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Trusts the roots of Mozilla, and has no client certificate.
    ///
    /// ```
    /// let tls = redlock::Tls::new();
    /// assert_eq!(format!("{tls:?}"), "Tls { has_ca: false, has_client_cert: false }");
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only the certificate authorities in this PEM text, one or several, and no longer the
    /// roots of Mozilla. A second call adds to the first.
    ///
    /// ```no_run
    /// # fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = redlock::Tls::new().ca_pem(std::fs::read("/etc/redis/ca.crt")?);
    /// # drop(tls);
    /// # Ok(()) }
    /// ```
    pub fn ca_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        let ca = self.ca.get_or_insert_default();
        ca.extend_from_slice(pem.as_ref());
        // The next certificate has to begin on a line of its own.
        ca.push(b'\n');
        self
    }

    /// [`ca_pem`](Self::ca_pem) from a file, which is read now.
    ///
    /// # Errors
    /// [`LockError::Config`] when the file cannot be read.
    ///
    /// ```
    /// let error = redlock::Tls::new().ca_file("/nowhere/ca.crt").unwrap_err();
    /// assert!(error.to_string().contains("/nowhere/ca.crt"));
    /// ```
    pub fn ca_file(self, path: impl AsRef<Path>) -> Result<Self, LockError> {
        Ok(self.ca_pem(read(path.as_ref())?))
    }

    /// Shows this certificate to servers that require one (mTLS). `chain` is the certificate of the
    /// client and those between it and its CA, `key` its private key without a passphrase (PKCS#8,
    /// PKCS#1 or SEC1), both as PEM text.
    ///
    /// ```no_run
    /// # fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// let (chain, key) = (std::fs::read("client.crt")?, std::fs::read("client.key")?);
    /// let tls = redlock::Tls::new().client_cert_pem(chain, key);
    /// # drop(tls);
    /// # Ok(()) }
    /// ```
    pub fn client_cert_pem(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let (chain, key) = (chain.as_ref().to_vec(), key.as_ref().to_vec());
        self.client = Some(Identity { chain, key });
        self
    }

    /// [`client_cert_pem`](Self::client_cert_pem) from two files, which are read now.
    ///
    /// # Errors
    /// [`LockError::Config`] when one of the files cannot be read.
    ///
    /// ```
    /// let error = redlock::Tls::new().client_cert_files("/nowhere/a.crt", "/nowhere/a.key");
    /// assert!(error.unwrap_err().to_string().contains("/nowhere/a.crt"));
    /// ```
    pub fn client_cert_files(
        self,
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, LockError> {
        Ok(self.client_cert_pem(read(chain.as_ref())?, read_key(key.as_ref())?))
    }

    /// Reads the files that `REDLOCK_TLS_CA`, `REDLOCK_TLS_CERT` and `REDLOCK_TLS_KEY` name.
    pub(crate) fn from_variables(
        set: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, LockError> {
        let ca = set("REDLOCK_TLS_CA");
        let client = match (set("REDLOCK_TLS_CERT"), set("REDLOCK_TLS_KEY")) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some((chain, key)),
            _ => {
                return Err(LockError::config(
                    "REDLOCK_TLS_CERT and REDLOCK_TLS_KEY belong together; set both or none",
                ));
            }
        };
        if ca.is_none() && client.is_none() {
            return Ok(None);
        }
        let mut tls = Self::new();
        if let Some(path) = ca {
            tls = tls.ca_file(path)?;
        }
        if let Some((chain, key)) = client {
            tls = tls.client_cert_files(chain, key)?;
        }
        Ok(Some(tls))
    }

    /// The certificates for the Redis client. They are checked first: its own messages would not
    /// say which text is wrong, and might show a part of it.
    pub(crate) fn certificates(&self) -> Result<TlsCertificates, LockError> {
        pem::check(self.ca.as_deref(), self.client.as_ref().map(|own| (&*own.chain, &*own.key)))?;
        let client = self.client.clone();
        Ok(TlsCertificates {
            client_tls: client
                .map(|own| ClientTlsConfig { client_cert: own.chain, client_key: own.key }),
            root_cert: self.ca.clone(),
        })
    }
}

/// Shows no contents: one of them is secret.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("has_ca", &self.ca.is_some())
            .field("has_client_cert", &self.client.is_some())
            .finish()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LockError> {
    fs::read(path).map_err(|error| {
        let shown = path.display().to_string();
        // It may have the key as well.
        let is_pem = shown.contains("-----BEGIN");
        let shown = if is_pem { "a PEM text in the place of a file's name" } else { &shown };
        LockError::config(format!("{shown} cannot be read: {error}"))
    })
}

/// What stands in the place of the path may be the key itself, so that it is not shown.
fn read_key(path: &Path) -> Result<Vec<u8>, LockError> {
    fs::read(path).map_err(|error| {
        LockError::config(format!(
            "the file of the client's private key cannot be read: {error}; REDLOCK_TLS_KEY and \
             `client_cert_files` take the name of a file, `client_cert_pem` takes the key itself"
        ))
    })
}

/// Is there TLS for the URL that is `shown`? Here there is.
#[expect(clippy::unnecessary_wraps, reason = "without the feature this is an error")]
pub(in crate::backend) fn require(_: &str) -> Result<(), LockError> {
    Ok(())
}

/// Sees to it that the process has a provider of ciphers, before a connection is made: without one,
/// and with several to choose from, rustls would panic. It may be another one than this.
pub(in crate::backend) fn provide() {
    if CryptoProvider::get_default().is_none() {
        // An error means that the program has installed one meanwhile, which is just as good.
        let _ = ring::default_provider().install_default();
    }
}

/// `info` of a `rediss://` URL, with the certificates of `tls`.
pub(in crate::backend) fn secure(
    info: ConnectionInfo,
    tls: &Tls,
) -> Result<ConnectionInfo, LockError> {
    Client::build_with_tls(info, tls.certificates()?)
        .map(|client| client.get_connection_info().clone())
        // The message is dropped, because it may quote a PEM text.
        .map_err(|_| LockError::config("the certificates of `Tls` cannot be used"))
}

/// For the connections that the client of a cluster makes: it leaves out those of its first
/// servers.
#[cfg(feature = "cluster")]
pub(in crate::backend) fn certify(
    builder: ClusterClientBuilder,
    tls: Option<&Tls>,
) -> Result<ClusterClientBuilder, LockError> {
    Ok(match tls {
        Some(tls) => builder.certs(tls.certificates()?),
        None => builder,
    })
}

/// Did the handshake or a later record fail? Errors of the socket do not count.
pub(in crate::backend) fn is_failure(error: &RedisError) -> bool {
    cause(error).is_some()
}

fn cause(error: &RedisError) -> Option<&rustls::Error> {
    type Shared = Arc<dyn Error + Send + Sync>;
    let shared = error.source()?.downcast_ref::<Shared>()?;
    let inner = shared.downcast_ref::<io::Error>()?.get_ref()?;
    inner.downcast_ref().or_else(|| inner.downcast_ref::<AtServer>().map(|named| &named.error))
}

/// The same failure, with the address of the server that it is about.
#[cfg(feature = "sentinel")]
pub(in crate::backend) fn of_server(address: &ConnectionAddr, error: RedisError) -> RedisError {
    match cause(&error) {
        Some(cause) => {
            io::Error::other(AtServer { error: cause.clone(), at: address.to_string() }).into()
        }
        None => error,
    }
}

#[derive(Debug)]
struct AtServer {
    error: rustls::Error,
    at: String,
}

impl fmt::Display for AtServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.error, self.at)
    }
}

impl Error for AtServer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_the_place_of_a_file_is_not_shown() {
        let pem = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let told = |error: Result<Tls, LockError>| error.unwrap_err().to_string();
        let key = std::env::current_exe().unwrap();
        for told in [
            told(Tls::new().client_cert_files(&key, "c2VjcmV0")),
            told(Tls::new().client_cert_files(pem, &key)),
            told(Tls::new().client_cert_files(&key, pem)),
            told(Tls::new().ca_file(pem)),
        ] {
            assert!(!told.contains("c2VjcmV0") && told.contains("cannot be read"), "{told}");
        }
    }
}
