//! Servers that speak TLS, and clients that trust the authority of a test.

use redlock::Tls;

use crate::support::{Authority, Certificate, Server};

pub trait Trusted {
    /// A client that trusts this authority.
    fn trust(&self) -> Tls;

    /// A server that shows `certificate`, and asks clients for one of this authority if `mutual`.
    /// Its plain port is for assertions.
    async fn server(&self, certificate: &Certificate, mutual: bool) -> TlsServer;

    async fn server_with(
        &self,
        certificate: &Certificate,
        mutual: bool,
        config: &[&str],
    ) -> TlsServer;
}

impl Trusted for Authority {
    fn trust(&self) -> Tls {
        Tls::new().ca_pem(self.pem())
    }

    async fn server(&self, certificate: &Certificate, mutual: bool) -> TlsServer {
        self.server_with(certificate, mutual, &[]).await
    }

    async fn server_with(
        &self,
        certificate: &Certificate,
        mutual: bool,
        config: &[&str],
    ) -> TlsServer {
        let builder = Server::builder().tls(&self.settings(certificate, mutual));
        let builder = config.iter().fold(builder, |all, line| all.config(line));
        TlsServer { plain: builder.start().await }
    }
}

/// A real server with two ports.
pub struct TlsServer {
    pub plain: Server,
}

impl TlsServer {
    pub fn url(&self) -> String {
        self.plain.tls_url()
    }

    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("rediss://{user}:{password}@127.0.0.1:{}", self.plain.tls_port())
    }

    /// By a name that its certificate does not have.
    pub fn url_by_name(&self) -> String {
        format!("rediss://localhost:{}", self.plain.tls_port())
    }
}
