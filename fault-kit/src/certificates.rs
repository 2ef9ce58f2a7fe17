//! Certificate authorities of one test, for servers that speak TLS.

use std::fmt;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use crate::dir::Dir;

/// Signs certificates; nobody else has heard of it.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: Dir,
}

/// A certificate with its key, as texts and as files, which are there as long as the authority.
pub struct Certificate {
    /// PEM text.
    pub chain: String,
    /// PEM text.
    pub key: String,
    /// A file with `chain`.
    pub chain_file: PathBuf,
    /// A file with `key`.
    pub key_file: PathBuf,
}

impl Authority {
    /// A fresh one.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = Dir::new("authority");
        std::fs::write(dir.path().join("ca.crt"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    /// Its own certificate: what a client that trusts it is given.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A file with that.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// For the servers of this machine, whose address is 127.0.0.1.
    pub fn certify(&self) -> Certificate {
        self.sign("server", &["127.0.0.1"], 4096)
    }

    /// For whoever has these names, until the first day of this year.
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

    /// The lines for `ServerBuilder::tls` of a server that shows `certificate`, trusts this
    /// authority, and asks clients for a certificate of it if `mutual`.
    pub fn settings(&self, certificate: &Certificate, mutual: bool) -> Vec<String> {
        vec![
            format!("tls-cert-file {}", certificate.chain_file.display()),
            format!("tls-key-file {}", certificate.key_file.display()),
            format!("tls-ca-cert-file {}", self.file().display()),
            format!("tls-auth-clients {}", if mutual { "yes" } else { "no" }),
        ]
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("file", &self.chain_file).finish_non_exhaustive()
    }
}
