use super::super::fake_server::fake_server;
use super::*;
use crate::backend::redis::connection::bulk;

const SENTINEL: &str = "*2\r\n$8\r\nsentinel\r\n*1\r\n$1\r\nm\r\n";
const MASTER: &str = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
const REPLICA: &str = "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n";

/// The only sentinel gives this answer to ROLE, and names a master with these flags, which gives
/// these answers to ROLE and INFO. Returns what becomes of the question, whether the sentinel's
/// naming was noted, and whether with its epoch.
async fn found(
    role: &'static str,
    flags: &'static str,
    server: [&'static str; 2],
) -> (Result<(), ErrorKind>, bool, bool) {
    let answer = move |command: &str| match command {
        asked if asked.contains("ROLE") => server[0].to_owned(),
        asked if asked.contains("INFO") => format!("{}\r\n", bulk(server[1])),
        _ => "+OK\r\n".to_owned(),
    };
    let port = fake_server(answer).await;
    let answer = move |command: &str| {
        let at = port.to_string();
        let one = |name, flags| {
            let told = ["name", name, "flags", flags, "ip", "127.0.0.1", "port", &at];
            let told = told.map(bulk).join("\r\n");
            format!("*10\r\n{told}\r\n{}\r\n{}", bulk("config-epoch"), bulk("7"))
        };
        match command {
            asked if asked.contains("MASTERS") => format!("*1\r\n{}\r\n", one("m", flags)),
            asked if asked.contains("ROLE") => role.to_owned(),
            _ => "+OK\r\n".to_owned(),
        }
    };
    let url = format!("redis://127.0.0.1:{}", fake_server(answer).await);
    let (sentinel, like) = (address::parse(&url, None).unwrap(), address::bare("m").unwrap());
    let (lookup, namings) = (HostLookup::default(), Namings::of(1));
    let (sentinel, like, lookup, namings) = (&sentinel, &like, &lookup, &namings);
    let question = SentinelQuestion { sentinel, number: 0, master: "m", like, lookup, namings };
    let found = question.answer().await.map(drop).map_err(|error| error.kind());
    let address = ("127.0.0.1".to_owned(), port);
    let (known, standing) = (Namings::of(1), namings.standing(&address));
    known.note(0, &Naming { address: address.clone(), epoch: 7, is_up: true });
    (found, standing.has_majority, standing == known.standing(&address))
}

#[tokio::test]
async fn only_a_server_that_says_that_it_is_one_is_taken_for_the_master() {
    let none = Err(ErrorKind::MasterNameNotFoundBySentinel);
    let denied = "-NOPERM this user\r\n";
    for (server, taken) in [
        ([MASTER, ""], Ok(())),
        ([REPLICA, ""], none),
        ([SENTINEL, ""], none),
        ([denied, "role:master"], Ok(())),
        ([denied, "role:slave"], none),
    ] {
        assert_eq!(found(SENTINEL, "master", server).await, (taken, true, true), "{server:?}");
    }
}

/// Its naming counts nevertheless: the master that it names has not been replaced.
#[tokio::test]
async fn a_master_that_its_sentinel_finds_down_is_noted_and_not_taken() {
    for flags in ["s_down,master", "master,o_down", "slave"] {
        let none = Err(ErrorKind::MasterNameNotFoundBySentinel);
        assert_eq!(found(SENTINEL, flags, [MASTER, ""]).await, (none, true, true), "{flags}");
    }
}

#[tokio::test]
async fn a_server_that_is_no_sentinel_names_no_master() {
    let refused = Err(ErrorKind::InvalidClientConfig);
    assert_eq!(found(MASTER, "master", [MASTER, ""]).await, (refused, false, false));
}
