//! TLS against real servers: whom a client trusts, who it is, and what it says when it refuses.

use redlock::{LockError, NodeErrorKind, Redlock, Released, Tls, Wait};
use rustls::crypto::CryptoProvider;

use crate::certificates::{TlsServer, Trusted};
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::{Authority, Server, eventually, secs, within};

/// Over TLS, and by the server's own account.
async fn whole_life(server: &TlsServer, redlock: &Redlock) {
    let guard = redlock.lock("stock-42").expire(secs(6)).acquire().await.unwrap();
    let owner = server.plain.raw().get("lock:stock-42").await;
    assert_eq!(owner.as_deref(), Some(guard.lease().owner()));
    assert!(redlock.lock("stock-42").try_acquire().await.unwrap().is_none());
    eventually(secs(20), || async { guard.renewals() >= 1 }).await;
    guard.check().unwrap();
    assert_eq!(guard.release().await, Ok(Released::Released));
    assert_eq!(server.plain.raw().get("lock:stock-42").await, None);
}

async fn connect(url: String, tls: Tls) -> Result<Redlock, LockError> {
    Redlock::builder().url(url).tls(tls).build().await
}

/// Refused at startup, and by a client that was built without asking: at once, as waiting does
/// not help.
async fn refusal(url: String, tls: Tls) -> String {
    let builder = Redlock::builder().url(&url).tls(tls);
    let early = builder.clone().build().await.unwrap_err();
    let lazy = builder.lazy().build().await.unwrap();
    let acquire = lazy.lock("k").wait(Wait::Forever).acquire();
    let late = within(secs(60), acquire).await.map(drop).unwrap_err();
    for error in [&early, &late] {
        let LockError::Unavailable { nodes, .. } = error else { panic!("{error:?}") };
        assert_eq!(nodes[0].kind(), NodeErrorKind::Tls, "{error}");
        assert_eq!(nodes[0].node(), url);
        assert!(error.to_string().contains("a certificate for this host name"), "{error}");
    }
    early.to_string()
}

async fn config_error(tls: Tls) -> String {
    let error = connect("rediss://127.0.0.1:1".to_owned(), tls).await.unwrap_err();
    let LockError::Config { message, .. } = error else { panic!("{error:?}") };
    message
}

/// Says whether this process has a TLS provider before and after a client first connects.
pub fn watch_the_provider(_: &Args) {
    block_on(async {
        let ours = Authority::new("ours");
        let own = ours.sign("client", &["client"], 4096);
        let tls = ours.trust().client_cert_pem(&own.chain, &own.key);
        let redlock = Redlock::builder().url("rediss://127.0.0.1:1").tls(tls).lazy();
        let redlock = redlock.build().await.unwrap();
        emit(&format!("built {}", CryptoProvider::get_default().is_some()));
        redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
        emit(&format!("connected {}", CryptoProvider::get_default().is_some()));
    });
}

/// The program may install one of its own until then.
#[tokio::test]
async fn a_process_has_no_tls_provider_of_the_library_before_it_connects() {
    let mut child = Process::spawn("watch-the-tls-provider", &[]);
    assert_eq!(child.event("built").await, "false");
    assert_eq!(child.event("connected").await, "true");
    assert!(child.wait(secs(15)).await.success());
}

#[tokio::test]
async fn a_private_authority_is_trusted_once_it_is_named() {
    let ours = Authority::new("ours");
    let server = ours.server(&ours.certify(), false).await;
    let redlock = connect(server.url(), ours.trust()).await.unwrap();
    whole_life(&server, &redlock).await;
    let from_file = Tls::new().ca_file(ours.file()).unwrap();
    connect(server.url(), from_file).await.unwrap();
}

#[tokio::test]
async fn two_authorities_are_trusted_side_by_side() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.server(&ours.certify(), false).await;
    // Without the line break at the end, as a secret store may hand it out.
    let tls = Tls::new().ca_pem(theirs.pem().trim_end()).ca_pem(ours.pem().trim_end());
    connect(server.url(), tls).await.unwrap();
}

#[tokio::test]
async fn an_unknown_authority_is_refused() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.server(&ours.certify(), false).await;
    let text = refusal(server.url(), theirs.trust()).await;
    assert!(text.contains("invalid peer certificate: UnknownIssuer"), "{text}");
    // Neither is it one of Mozilla's.
    let text = refusal(server.url(), Tls::new()).await;
    assert!(text.contains("UnknownIssuer"), "{text}");
    assert!(
        Redlock::connect(server.url()).await.unwrap_err().to_string().contains("UnknownIssuer")
    );
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let ours = Authority::new("ours");
    let server = ours.server(&ours.certify(), false).await;
    let text = refusal(server.url_by_name(), ours.trust()).await;
    assert!(text.contains("certificate not valid for name \"localhost\""), "{text}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let ours = Authority::new("ours");
    let server = ours.server(&ours.sign("old", &["127.0.0.1"], 2020), false).await;
    let text = refusal(server.url(), ours.trust()).await;
    assert!(text.contains("certificate expired"), "{text}");
}

/// It waits for the rest of what it takes for a command.
#[tokio::test]
async fn a_server_without_tls_is_an_error_that_asks_for_tls() {
    let server = Server::start().await;
    let builder = Redlock::builder().url(format!("rediss://{}", server.addr()));
    let early = builder.clone().build().await.unwrap_err();
    let lazy = builder.lazy().build().await.unwrap();
    let late = lazy.lock("k").wait(Wait::Never).acquire().await.map(drop).unwrap_err();
    for error in [early, late] {
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
        let kind = nodes[0].kind();
        assert!(matches!(kind, NodeErrorKind::Tls | NodeErrorKind::NoReply), "{error}");
        assert!(error.to_string().contains("does the server speak TLS at this port"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_one() {
    let ours = Authority::new("ours");
    let server = ours.server(&ours.certify(), true).await;
    let own = ours.sign("client", &["client"], 4096);
    let tls = ours.trust().client_cert_pem(&own.chain, &own.key);
    whole_life(&server, &connect(server.url(), tls).await.unwrap()).await;
    let from_files = ours.trust().client_cert_files(&own.chain_file, &own.key_file).unwrap();
    connect(server.url(), from_files).await.unwrap();
}

/// The handshake of TLS 1.3 is over for the client before the server has read its certificate:
/// it may hear of the refusal, or find the connection closed.
#[tokio::test]
async fn a_server_that_asks_for_a_certificate_refuses_clients_without_a_good_one() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.server(&ours.certify(), true).await;
    let stranger = theirs.sign("client", &["client"], 4096);
    let strange = ours.trust().client_cert_pem(&stranger.chain, &stranger.key);
    for tls in [ours.trust(), strange] {
        let error = connect(server.url(), tls).await.unwrap_err();
        let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
        let kind = nodes[0].kind();
        assert!(matches!(kind, NodeErrorKind::Tls | NodeErrorKind::Unreachable), "{error}");
    }
}

#[tokio::test]
async fn a_user_logs_in_over_tls() {
    let ours = Authority::new("ours");
    let user = "user shop on >secret ~lock:* ~{lock:*}:fence -@all +evalsha +eval +get +mget +set \
                +del +pexpire +pttl +time +info";
    let server = ours.server_with(&ours.certify(), false, &[user]).await;
    let redlock = connect(server.url_for("shop", "secret"), ours.trust()).await.unwrap();
    whole_life(&server, &redlock).await;
    let error = connect(server.url_for("shop", "wrong"), ours.trust()).await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::Authentication);
    assert_eq!(nodes[0].node(), server.url());
}

#[tokio::test]
async fn a_lock_outlives_a_restart_of_its_tls_server() {
    let ours = Authority::new("ours");
    let server = ours.server_with(&ours.certify(), false, &["appendonly yes"]).await;
    let redlock = connect(server.url(), ours.trust()).await.unwrap();
    let guard = redlock.lock("k").expire(secs(30)).acquire().await.unwrap();
    server.plain.kill9();
    server.plain.start_again().await;
    assert_eq!(guard.release().await, Ok(Released::Released));
    whole_life(&server, &redlock).await;
}

#[tokio::test]
async fn several_servers_are_asked_over_tls() {
    let ours = Authority::new("ours");
    let certificate = ours.certify();
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(ours.server(&certificate, false).await);
    }
    let builder = Redlock::builder().urls(servers.iter().map(TlsServer::url)).tls(ours.trust());
    let guard = builder.build().await.unwrap().lock("k").acquire().await.unwrap();
    servers[0].plain.kill9();
    assert_eq!(guard.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn tls_without_a_secure_url_is_refused() {
    let ours = Authority::new("ours");
    let builder = || Redlock::builder().tls(ours.trust()).lazy();
    let pool = deadpool_redis::Config::from_url("redis://127.0.0.1:1").create_pool(None).unwrap();
    for (builder, why) in [
        (
            builder().url("redis://u:s3cret@127.0.0.1:1"),
            "`redis://***@127.0.0.1:1` does not use TLS",
        ),
        (builder().urls(["rediss://127.0.0.1:1", "redis://127.0.0.1:2"]), "`redis://127.0.0.1:2`"),
        (builder().url("unix:///run/redis.sock"), "write `rediss://`"),
        (builder().url("rediss://127.0.0.1:1/#insecure"), "switches certificate checks off"),
        (builder().pool(pool), "a pool connects with settings of its own"),
        (builder().memory(), "`memory` not at all"),
    ] {
        let error = builder.build().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test]
async fn certificates_that_cannot_be_used_say_which_one_and_why() {
    let ours = Authority::new("ours");
    let own = ours.sign("client", &["client"], 4096);
    let other = ours.sign("other", &["other"], 4096);
    let (ca, chain, key) = (ours.pem(), &*own.chain, &*own.key);
    let flat = |pem: &str| pem.replace('\n', "");
    let with = |chain: &str, key: &str| Tls::new().client_cert_pem(chain, key);
    let cut = |pem: &str| pem[..pem.len() / 2].to_owned();
    let relabelled = key.replace("PRIVATE KEY", "CERTIFICATE");
    for (tls, which, why) in [
        (Tls::new().ca_pem(""), "the CA", "no `-----BEGIN CERTIFICATE-----`"),
        (Tls::new().ca_pem("not PEM"), "the CA", "no `-----BEGIN CERTIFICATE-----`"),
        (Tls::new().ca_pem(cut(&ca)), "the CA", "do not stand on lines"),
        (Tls::new().ca_pem(&relabelled), "the CA", "not of an X.509 certificate"),
        (Tls::new().ca_pem(key), "the CA", "no `-----BEGIN CERTIFICATE-----`"),
        (with("", key), "the client certificate", "no `-----BEGIN CERTIFICATE-----`"),
        (with(key, chain), "the client certificate", "no `-----BEGIN CERTIFICATE-----`"),
        (with(&relabelled, key), "the client certificate", "not of an X.509 certificate"),
        (with(chain, ""), "the client key", "no `-----BEGIN PRIVATE KEY-----`"),
        (with(chain, &flat(key)), "the client key", "do not stand on lines"),
        (with(chain, &cut(key)), "the client key", "do not stand on lines"),
        (with(chain, &key.replace("\nM", "\n*")), "the client key", "not base64"),
        (with(chain, &ca.replace("CERTIFICATE", "PRIVATE KEY")), "the client key", "not one that"),
        (with(chain, &other.key), "the client key", "does not belong to the client certificate"),
        (with(chain, &key.replace("PRIVATE", "ENCRYPTED PRIVATE")), "the client key", "passphrase"),
    ] {
        let message = config_error(tls).await;
        assert!(message.contains(which) && message.contains(why), "{which}, {why}: {message}");
    }
}

#[tokio::test]
async fn a_key_never_shows() {
    let ours = Authority::new("ours");
    let own = ours.sign("client", &["client"], 4096);
    let secrets: Vec<&str> = own.key.lines().filter(|line| !line.starts_with("---")).collect();
    let assert_hidden = |shown: String| {
        let is_shown = secrets.iter().any(|line| shown.contains(&line[..16]));
        // As numbers, which is how a list of bytes is shown.
        let numbers = format!("{:?}", &secrets[0].as_bytes()[..8]);
        assert!(!is_shown && !shown.contains(numbers.trim_matches(['[', ']'])), "{shown}");
    };
    let flat = own.key.replace('\n', "");
    for key in [&own.key, &flat, &own.key[..100], &own.key.replace("PRIVATE", "STRANGE")] {
        let tls = ours.trust().client_cert_pem(&own.chain, key);
        assert_hidden(format!("{tls:?} {tls:#?}"));
        let builder = Redlock::builder().url("rediss://127.0.0.1:1").tls(tls);
        assert_hidden(format!("{builder:?} {builder:#?}"));
        let error = builder.build().await.unwrap_err();
        assert_hidden(format!("{error} {error:?}"));
    }
}
