//! What `ls`, `show` and `watch` say to a user who may not see all of a lock.

use fault_kit::{Server, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::operators::json;
use crate::support::{SOON, ended, tool};

/// Nobody who waits and nobody to be seen are not the same.
#[tokio::test]
async fn a_queue_that_a_user_may_not_see_is_not_taken_for_an_empty_one() {
    let user = "ops on >secret ~lock:* &* +@all";
    let server = Server::builder().acl(user).start().await;
    let raw = server.raw();
    raw.cmd(&["SET", "lock:k", "web-3:x", "PX", "600000"]).await;
    raw.cmd(&["RPUSH", "{lock:k}:queue", "10000 20000 64 - web-4:y"]).await;
    for (url, waiting, shown) in
        [(server.url_for("ops", "secret"), None, "?"), (server.url_with_password(), Some(1), "1")]
    {
        let run = async |args: &[&str]| ended(tool(&url, args).spawn().unwrap()).await;
        let listed = run(&["ls"]).await;
        let row = listed.stdout.lines().nth(1).map(str::to_owned);
        assert_eq!(row.unwrap().split_whitespace().last(), Some(shown), "{listed:?}");
        let waiting = Value::from(waiting);
        assert_eq!(json(&run(&["ls", "--json"]).await.stdout)["waiting"], waiting);
        let queue = json(&run(&["show", "k", "--json"]).await.stdout)["queue"].clone();
        assert_eq!(queue.as_array().map(Vec::len).map_or(Value::Null, Value::from), waiting);
        let text = run(&["show", "k"]).await.stdout;
        assert_eq!(text.contains("not known: this user may not"), waiting.is_null(), "{text}");
        let mut watch = tool(&url, &["watch", "k", "--json"]).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let first = within(SOON, lines.next_line()).await.unwrap().unwrap();
        assert_eq!((&json(&first)["event"], &json(&first)["waiting"]), (&"held".into(), &waiting));
        watch.kill().await.unwrap();
    }
}
