//! Certificate authorities of one test, and servers that speak TLS with their certificates.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use redlock::Tls;
use tempfile::TempDir;

use crate::support::Server;

/// Signs certificates; nobody else has heard of it.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate with its key, as texts and as files.
pub struct Certificate {
    pub chain: String,
    pub key: String,
    pub chain_file: PathBuf,
    pub key_file: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("ca.crt"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// A client that trusts this authority.
    pub fn trust(&self) -> Tls {
        Tls::new().ca_pem(self.pem())
    }

    /// For this machine's servers.
    pub fn certify(&self) -> Certificate {
        self.sign("server", &["127.0.0.1"], 4096)
    }

    /// For whoever has these names, until the end of the year.
    pub fn sign(&self, name: &str, hosts: &[&str], until: i32) -> Certificate {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = date_time_ymd(until, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let pair = KeyPair::generate().unwrap();
        let (chain, key) =
            (params.signed_by(&pair, &self.issuer).unwrap().pem(), pair.serialize_pem());
        let file = |end: &str| self.dir.path().join(format!("{name}.{end}"));
        let (chain_file, key_file) = (file("crt"), file("key"));
        std::fs::write(&chain_file, &chain).unwrap();
        std::fs::write(&key_file, &key).unwrap();
        Certificate { chain, key, chain_file, key_file }
    }

    /// A server that shows `certificate`, and asks clients for one of this authority if `mutual`.
    /// Its plain port is for assertions.
    pub async fn server(&self, certificate: &Certificate, mutual: bool) -> TlsServer {
        self.server_with(certificate, mutual, &[]).await
    }

    pub async fn server_with(
        &self,
        certificate: &Certificate,
        mutual: bool,
        config: &[&str],
    ) -> TlsServer {
        let port = free_port();
        let mut builder = Server::builder()
            .config(&format!("tls-port {port}"))
            .config(&format!("tls-cert-file {}", certificate.chain_file.display()))
            .config(&format!("tls-key-file {}", certificate.key_file.display()))
            .config(&format!("tls-ca-cert-file {}", self.file().display()))
            .config(&format!("tls-auth-clients {}", if mutual { "yes" } else { "no" }));
        for line in config {
            builder = builder.config(line);
        }
        TlsServer { plain: builder.start().await, port }
    }
}

/// A real server with two ports.
pub struct TlsServer {
    pub plain: Server,
    port: u16,
}

impl TlsServer {
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("rediss://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// By a name that its certificate does not have.
    pub fn url_by_name(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listener.local_addr().unwrap().port()
}
