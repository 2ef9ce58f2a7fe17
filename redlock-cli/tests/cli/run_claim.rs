//! `redlock run` with a lock that was handed over: its lease is short until it is claimed.

use fault_kit::proxy::{Then, contains};
use fault_kit::{Proxy, Server, eventually, ms, unique_prefix};
use tokio::process::Child;

use crate::support::{Marks, SOON, ended, start, start_at};

/// A job that waits behind another one, and gets its lock from it.
struct Waiter {
    marks: Marks,
    key: String,
    proxy: Proxy,
    holder: Child,
    child: Child,
}

impl Waiter {
    async fn queued(args: &[&str]) -> Self {
        let server = Server::shared().await;
        let (marks, key) = (Marks::new(), unique_prefix());
        let script = "echo on >first; until [ -e free ]; do sleep 0.02; done";
        let holder = start(server, &marks, &["-k", &key, "sh", "-c", script]);
        marks.there("first").await;
        let proxy = Proxy::start(server);
        // It takes longer than the short lease.
        let script = "echo on >second; sleep 1";
        let own = ["-w", "forever", "-k", &key, "sh", "-c", script];
        let child = start_at(&proxy.url(), &marks, &[args, &own[..]].concat());
        let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
        eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
        Self { marks, key, proxy, holder, child }
    }

    /// The holder ends, and after it the command of this job, by itself.
    async fn runs_to_its_end(self) {
        self.marks.make("free");
        let (first, second) = (ended(self.holder).await, ended(self.child).await);
        assert_eq!((first.code, first.stderr.as_str()), (0, ""));
        assert_eq!(
            (second.code, second.stderr.as_str()),
            (0, ""),
            "{:?}",
            self.proxy.command_log()
        );
    }
}

/// The claim is no renewal: the command is not ended before the answer comes.
#[tokio::test]
async fn without_renewals_a_lock_that_was_handed_over_is_claimed() {
    let waiter = Waiter::queued(&["--max-renew", "0"]).await;
    waiter.proxy.always(contains(&waiter.key), Then::DelayReply(ms(200)));
    waiter.runs_to_its_end().await;
}

/// The first try of the claim is lost, and the second one succeeds.
#[tokio::test]
async fn a_claim_that_was_lost_is_tried_again_while_the_command_runs() {
    let waiter = Waiter::queued(&[]).await;
    waiter.proxy.when(contains(&waiter.key), Then::LoseRequest);
    waiter.proxy.always(contains(&waiter.key), Then::DelayReply(ms(100)));
    waiter.runs_to_its_end().await;
}
