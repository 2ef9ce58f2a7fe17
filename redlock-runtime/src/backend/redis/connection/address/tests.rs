use super::*;

fn message(url: &str) -> String {
    parse(url, None).map(|info| name(&info)).unwrap_err().to_string()
}

#[test]
fn the_name_of_a_node_has_no_credentials() {
    let info = parse("redis://user:s3cret@example.com:6380/2", None).unwrap();
    assert_eq!(name(&info), "redis://example.com:6380/2");
    assert!(!format!("{info:?}").contains("s3cret"));
}

#[cfg(any(feature = "sentinel", feature = "cluster"))]
#[test]
fn other_servers_are_spoken_to_as_a_known_one_is() {
    let at = |url: &str, tls: Option<&Tls>| {
        let known = parse(url, tls).unwrap();
        place(known.addr(), &("b".to_owned(), 7001))
    };
    assert_eq!(at("redis://u:p@a:1", None), ConnectionAddr::Tcp("b".to_owned(), 7001));
    #[cfg(feature = "tls")]
    for (tls, has_own) in [(None, false), (Some(Tls::new()), true)] {
        let ConnectionAddr::TcpTls { host, port, insecure, tls_params } =
            at("rediss://u:p@a:1", tls.as_ref())
        else {
            panic!("it is spoken to without TLS")
        };
        assert_eq!((host.as_str(), port, insecure), ("b", 7001, false));
        assert_eq!(tls_params.is_some(), has_own);
    }
}

#[test]
fn what_is_no_password_is_shown() {
    for shown in [
        "redis://h",
        "redis://h:6379",
        "redis://h:6379/2",
        "redis://h:65535",
        "redis://h:",
        "rediss://h:6379/#insecure",
        "redis://[::1]",
        "redis://[::1]:6379/2",
        "unix:///run/a:b.sock",
    ] {
        assert_eq!(without_credentials(shown), shown);
    }
    for (url, shown) in [
        ("redis://u:p@h:6379/2", "redis://***@h:6379/2"),
        ("redis://u:p@[::1]", "redis://***@[::1]"),
        ("u:secret", "***"),
        ("secret", "***"),
        ("redis://u:secret", "redis://u:***"),
        ("redis://:4711123", "redis://:***"),
        ("redis://:6379/2", "redis://:***/2"),
        ("redis://alice:12345678", "redis://alice:***"),
        ("redis://alice:+1234/2", "redis://alice:***/2"),
        ("redis://[::1]:65536", "redis://[::1]:***"),
        ("redis://h/secret", "redis://h/***"),
        ("redis://h#secret", "redis://h#***"),
        ("redis://h:1?x=secret", "redis://h:1?***"),
        ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock?***"),
        ("redis://cache:6379/0?password=p@ssw0rd", "redis://***"),
        ("unix:///run/redis.sock?user=u&pass=s3@cret&db=x", "unix://***"),
        ("unix://u:p?w@d@/run/redis.sock", "unix://***"),
        ("a-word://h", "***"),
        ("RedisS://u:secret@h", "rediss://***@h"),
    ] {
        assert_eq!(without_credentials(url), shown);
    }
}

#[test]
fn the_name_of_a_node_begins_with_its_scheme() {
    let name = |url| name(&parse(url, None).unwrap());
    assert_eq!(name("valkey://h"), "redis://h:6379");
    assert_eq!(name("REDIS://:p@h/2"), "redis://h:6379/2");
    assert_eq!(name("Unix:///run/redis.sock"), "unix:///run/redis.sock");
    assert_eq!(name("redis://[::1]:17399/2"), "redis://[::1]:17399/2");
    assert_eq!(name("redis+unix:///run/redis.sock"), "unix:///run/redis.sock");
    #[cfg(feature = "tls")]
    assert_eq!(name("valkeys://h"), "rediss://h:6379");
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_for_urls_with_tls() {
    let tls = Tls::new();
    assert!(parse("rediss://h", Some(&tls)).is_ok());
    let error = parse("redis://h", Some(&tls)).unwrap_err().to_string();
    assert!(error.contains("does not use TLS"), "{error}");
}

#[test]
fn bad_urls_say_what_to_write() {
    assert!(message("127.0.0.1:6379").contains("it needs a scheme"));
    assert!(message("http://127.0.0.1").contains("begins with `redis://`"));
    assert!(message("REDIS://h?db=2").contains("`redis://host:6379/2`"));
    let spaced = message(" redis://u:s3cret@h:1");
    assert!(spaced.contains("white space before the URL `redis://***@h:1`"), "{spaced}");
    assert!(message("redis://127.0.0.1:notaport").contains("is not a redis URL"));
    assert!(message("rediss://127.0.0.1/#insecure").contains("rediss://127.0.0.1"));
    assert!(message("redis://locks@127.0.0.1").contains("a user without a password"));
    assert!(message("unix:///run/redis.sock?user=locks").contains("a user without a password"));
    assert!(parse("redis://default@127.0.0.1", None).is_ok());
    for wildcard in ["redis://u:p@0.0.0.0:6379/2", "redis://[::]", "redis://[0:0::0]:6379"] {
        let message = message(wildcard);
        assert!(message.contains("name one of these addresses"), "{message}");
    }
}

#[test]
fn what_the_client_library_would_not_read_is_an_error() {
    for (url, named, advice) in [
        ("redis://h?db=2", "`db`", "`redis://host:6379/2`"),
        ("redis://h:1/?protocol=resp3&database=s3cret", "`database`", "6379/2`"),
        ("redis://h?password=s3cret&ssl=true", "`password`", "`redis://user:password@host"),
        ("redis://h?tls=true", "`tls`", "`rediss://`"),
        ("redis://h?timeout=5", "`timeout`", "on the builder"),
        ("redis://h?password=7@s3cret", "`password`", "`redis://user:password@host"),
        ("redis://h:1/0?db=1&pass=7@s3cret", "`db`", "`redis://host:6379/2`"),
        ("redis://u:7?x=@s3cret", "before its `@`", "`%3F`"),
        ("redis://h?protocol=s3cret", "its `protocol`", "`redis://user"),
        ("redis://h?s3cret=1", "a parameter", "leave it out"),
        ("redis://h?s3cret", "a parameter", "leave it out"),
        ("redis://h#2", "a `#`", "`redis://host:6379/2`"),
        ("redis://h/1#s3cret", "a `#`", "`%23`"),
        ("unix:///run/x?password=s3cret", "`password`", "?user=USER&pass=PASSWORD"),
        ("unix:///run/x?database=2", "`database`", "`?db=2`"),
        ("unix:///run/x#2", "a `#`", "`?db=2`"),
        ("unix:///run/x?user=u&pass=s3cret+b", "a `+`", "`%2B`"),
        ("redis://u:s3\tcret@h", "a tab", "`%09`"),
        ("redis://h/1\n2", "the end of a line", "`%0A`"),
        ("redis://ho\r\nst/2", "the end of a line", "`%0D`"),
    ] {
        let message = message(url);
        assert!(message.contains(named) && message.contains(advice), "{url}: {message}");
        assert!(!message.contains("s3cret"), "{url}: {message}");
    }
    for url in [
        "redis://h/2?protocol=resp3",
        "redis://h?",
        "redis://h#",
        "redis://u:p+q@h",
        "redis://u:%09%0A@h\n",
        "unix:///x+y?db=2&protocol=3",
    ] {
        assert!(parse(url, None).is_ok(), "{url}");
    }
    let info = parse("unix:///run/x?db=2&user=u&pass=p%2Bq%20r", None).unwrap();
    let settings = info.redis_settings();
    assert_eq!((settings.db(), settings.password()), (2, Some("p+q r")));
}

#[cfg(feature = "tls")]
#[test]
fn certificates_are_checked_whatever_stands_around_the_url() {
    for url in ["rediss://h/#insecure", "rediss://h/#insecure\n", "rediss://h/#insec\ture"] {
        let message = message(url);
        assert!(message.contains("switches certificate checks off"), "{url:?}: {message}");
    }
}

#[cfg(not(feature = "tls"))]
#[test]
fn tls_without_the_feature_says_which_one() {
    let message = message("rediss://127.0.0.1:6379");
    assert!(message.contains("features = [\"tls\"]"), "{message}");
}

/// Without a provider the first connection would panic.
#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_to_a_server_without_it_is_a_typed_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"-ERR no TLS\r\n").await;
    });
    let error = crate::client::Redlock::connect(format!("rediss://{address}")).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(&format!("rediss://{address}")), "{error}");
    server.await.unwrap();
}

#[test]
fn no_message_shows_a_password() {
    for url in [
        "redis://:s3cret@",
        "user:s3cret@host",
        "http://u:s3cret@host",
        "redis://u:s3cret@host:port",
        "redis://u:s3@cret@host:port",
        "unix:///run/x?pass=s3cret&db=x",
        "redis://:s3cret",
        "redis://u:s3cret/0",
        "u:s3cret",
        "u:s3cret://host",
        "redis://u:s3cret]",
        "redis://***@u:s3cret]",
        "redis://u:3/s3cret",
    ] {
        if let Err(error) = parse(url, None) {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("cret"), "{url}: {shown}");
        }
    }
}

/// Wherever a text contains a password, and whatever surrounds it.
#[test]
fn no_part_of_a_password_is_shown_whatever_surrounds_it() {
    const PIECES: [&str; 20] = [
        "s3cret",
        "s3cret",
        ":",
        "@",
        "/",
        "?",
        "#",
        ",",
        "://",
        "%",
        "%40",
        "[",
        "]",
        "=",
        "&",
        " ",
        "\\",
        "7",
        "#insecure",
        "redis://",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50_000 {
        let count = random.usize(1..6);
        let password: String = (0..count).map(|_| PIECES[random.usize(..20)]).collect();
        let user = ["", ":", "user:", "7:", "user"][random.usize(..5)];
        // If no `@` follows it, the part after an `@` in the password looks like a host, and so
        // does a password alone after a scheme.
        let is_cut = password.contains('@') || !user.contains(':');
        let host = ["@", "@h", "@h:1", "@h:1/0", "@[::1]:1", "@h:x", "@h/x", "", ":1"];
        let host = host[random.usize(..if is_cut { 7 } else { 9 })];
        let scheme = ["redis://", "rediss://", "http://", "redis:", ""][random.usize(..5)];
        assert_hidden(&format!("{scheme}{user}{password}{host}"));

        // Where other clients read it, or one of this library at a socket.
        let server = ["redis://h", "rediss://h:1/0", "unix:///x", "redis+unix:///x", "http://h"];
        let server = server[random.usize(..5)];
        let before = ["", "u:p@", "db=x&", "user=u&", "db=2&user=u&"][random.usize(..5)];
        let name = ["pass", "password", "protocol", "x"][random.usize(..4)];
        let after = ["", "&db=x", "&protocol=3", "#insecure", "@h", "@h:1/0"][random.usize(..6)];
        assert_hidden(&format!("{server}?{before}{name}={password}{after}"));
    }
}

fn assert_hidden(url: &str) {
    let shown = match parse(url, None) {
        Ok(info) => name(&info),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains("s3c") && !shown.contains("cret"), "{url}: {shown}");
}
