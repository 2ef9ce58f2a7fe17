//! Connections whose server is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::batching::Batching;
use super::source::{CONNECT, Source};
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::health::ServerIdentity;
use crate::backend::redis::health::info::InfoText;
use crate::clock::Moment;

/// A source that identifies the server of each new connection, and names the connection.
pub(crate) struct IdentifiedSource<S> {
    pub(crate) inner: S,
    /// The name that CLIENT LIST shows.
    name: Arc<str>,
    identity: Arc<ServerIdentity>,
    /// When the latest connection in use began to be made, in nanoseconds.
    last_made: AtomicU64,
}

impl<S: Source> IdentifiedSource<S> {
    pub(crate) fn new(inner: S, name: Arc<str>, identity: &Arc<ServerIdentity>) -> Self {
        let identity = Arc::clone(identity);
        Self { inner, name, identity, last_made: AtomicU64::default() }
    }

    /// A new connection, logged in. Cancel safe: a half-made connection is dropped.
    pub(crate) async fn connect(&self) -> RedisResult<Batching<S::Connection>> {
        let began = self.identity.begin();
        let mut connection = self.inner.connect().await?;
        if self.inner.may_be_named() {
            name(connection.clone(), &self.name);
        }
        let met = self.identity.meet(&mut connection, began).await?;
        let connection = Batching::new(connection, met);
        if S::LEADS_TO_ONE && !self.identity.is_asking() {
            tokio::spawn(recognize(&connection, Arc::clone(&self.identity)));
        }
        Ok(connection)
    }

    /// Notes that a connection is used. Not every one that was made is: one of several attempts to
    /// connect is enough.
    pub(crate) fn used(&self, connection: &Batching<S::Connection>) {
        self.last_made.fetch_max(connection.met().begun.nanos(), Ordering::AcqRel);
    }

    /// When the latest connection in use began to be made. It may lead to another server than one
    /// that began before.
    pub(crate) fn last_made(&self) -> Moment {
        Moment::from_nanos(self.last_made.load(Ordering::Acquire))
    }
}

/// Names a connection, and does not wait for the answer: a server that refuses the name is used
/// anyway.
fn name(mut connection: impl ConnectionLike + Send + 'static, name: &str) {
    let mut command = redis::cmd("CLIENT");
    command.arg("SETNAME").arg(name);
    tokio::spawn(async move {
        let _ = timeout(CONNECT, command.query_async::<Value>(&mut connection)).await;
    });
}

/// For how long the answer is awaited: this keeps a connection open that does not answer.
const RECOGNITION: Duration = Duration::from_secs(5);
/// When a server is asked again that cannot answer for now, as it runs a script or loads its data.
const ASKED_AGAIN: Duration = Duration::from_millis(200);
/// How often a connection is looked at whose server has not told who it is.
const LOOKED_AGAIN: Duration = Duration::from_secs(60);

/// Asks which process answers a connection. The commands of the connection do not wait for that:
/// if it leads to another process than a newer one does, it is left as soon as it has answered.
fn recognize<C: ConnectionLike + Clone + Send + Sync + 'static>(
    connection: &Batching<C>,
    identity: Arc<ServerIdentity>,
) -> impl Future<Output = ()> + Send + use<C> {
    let superseded = connection.met().superseded.clone();
    let connection = connection.downgrade();
    let first = connection.upgrade().filter(|_| identity.is_recognizing());
    async move {
        let mut info = match first {
            Some(connection) => ask(connection, &identity).await,
            None => None,
        };
        let (mut rounds, mut was_denied) = (0_u64, identity.info_denial.was_denied());
        let info = loop {
            if let Some(info) = info {
                break info;
            }
            sleep(LOOKED_AGAIN).await;
            let Some(connection) = connection.upgrade().filter(|_| !superseded.is_set()) else {
                return;
            };
            if !identity.is_recognizing() {
                continue;
            }
            rounds += 1;
            // More and more seldom, unless another connection has been answered since: a denial
            // leaves an entry in `ACL LOG`, and a server that has renamed INFO never answers.
            let is_allowed = was_denied && !identity.info_denial.was_denied();
            if is_allowed || rounds.is_power_of_two() {
                info = ask(connection, &identity).await;
                was_denied = identity.info_denial.was_denied();
            }
        };
        while let Some(pause) = identity.recognize(&info, &superseded) {
            sleep(pause).await;
        }
    }
}

/// What a server tells of itself. `None`: it does not, for now.
async fn ask(
    mut connection: impl ConnectionLike + Send,
    identity: &ServerIdentity,
) -> Option<String> {
    let mut command = redis::cmd("INFO");
    command.arg("server");
    let asked = async {
        loop {
            match command.query_async::<InfoText>(&mut connection).await {
                Err(error) if matches!(error.code(), Some("BUSY" | "LOADING")) => {
                    sleep(ASKED_AGAIN).await;
                }
                answer => return answer,
            }
        }
    };
    match timeout(RECOGNITION, asked).await.ok()? {
        Ok(InfoText(info)) => {
            identity.info_denial.allowed();
            Some(info)
        }
        // Another server behind this address may know INFO: an unknown command is no denial.
        Err(error) => {
            if error.code() == Some("NOPERM") {
                identity.info_denial.denied(CLOCK.now());
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::commands::exclusive::release;
    use crate::backend::redis::connection::{
        Scripted, SharedConnection, bulk, single_commands, unidentified,
    };
    use crate::mutex::Mutex;

    /// The first connect takes longer than the second one.
    #[derive(Default)]
    struct Overtaken(AtomicU64);

    impl Source for Overtaken {
        type Connection = Scripted;

        const LEADS_TO_ONE: bool = false;

        async fn connect(&self) -> RedisResult<Scripted> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 0 {
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            Ok(Scripted::default())
        }
    }

    /// A connection leads to the server that had the address when it began, as far as anybody
    /// knows.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_began_first_is_the_older_one() {
        let source = unidentified(Overtaken::default());
        let links = [(); 2].map(|()| SharedConnection::new(Arc::clone(&source)));
        let (first, second) = tokio::join!(links[0].borrow(), links[1].borrow());
        assert!(first.is_ok() && second.is_ok());
        let [older, newer] = links.each_ref().map(SharedConnection::made_at);
        assert!(older < newer && newer == source.last_made());
        links[0].discard_older(source.last_made());
        links[1].discard_older(source.last_made());
        assert_eq!(links.map(|link| link.is_connected()), [false, true]);
    }

    /// Another process has the address from the second connect on. It is busy at first.
    #[derive(Default)]
    struct Moved(AtomicU64);

    impl Source for Moved {
        type Connection = Scripted;

        async fn connect(&self) -> RedisResult<Scripted> {
            Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Scripted::new([&bulk("run_id:a")]),
                _ => Scripted::new(["-BUSY in a script", "-LOADING", &bulk("run_id:b")]),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_busy_is_asked_again_who_it_is() {
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(Moved::default(), "n".into(), &identity);
        let first = source.connect().await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let second = source.connect().await.unwrap();
        tokio::time::sleep(2 * RECOGNITION).await;
        assert!(first.met().superseded.is_set() && !second.met().superseded.is_set());
    }

    /// Connects, and answers, slowly, so that a second attempt to connect joins the first one.
    #[derive(Clone, Default)]
    struct Slow;

    impl Source for Slow {
        type Connection = Self;

        async fn connect(&self) -> RedisResult<Self> {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok(Self)
        }
    }

    impl ConnectionLike for Slow {
        fn req_packed_command<'a>(
            &'a mut self,
            _: &'a redis::Cmd,
        ) -> redis::RedisFuture<'a, Value> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(Value::Nil)
            })
        }

        single_commands!();
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_to_connect_that_is_not_used_makes_no_other_one_older() {
        let source = unidentified(Slow);
        let link = SharedConnection::of(Arc::clone(&source), &release::SCRIPT);
        assert!(link.borrow().await.is_ok());
        assert_eq!(link.made_at(), source.last_made());
        link.discard_older(source.last_made());
        assert!(link.is_connected());
    }

    /// The first of the servers behind an address does not know INFO.
    struct Odd(AtomicU64);

    impl Source for Odd {
        type Connection = Scripted;

        async fn connect(&self) -> RedisResult<Scripted> {
            Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Scripted::new(["-ERR unknown command 'INFO', with args beginning with: "]),
                1 => Scripted::new([&bulk("run_id:a")]),
                _ => Scripted::new([&bulk("run_id:b")]),
            })
        }
    }

    /// The user gets its permission back after the first connect, and the address moves after the
    /// second one.
    #[derive(Default)]
    struct DeniedAtFirst(AtomicU64);

    impl Source for DeniedAtFirst {
        type Connection = Scripted;

        async fn connect(&self) -> RedisResult<Scripted> {
            Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Scripted::new(["-NOPERM no permissions to run the 'info' command"]),
                1 => Scripted::new([&bulk("run_id:a")]),
                _ => Scripted::new([&bulk("run_id:b")]),
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_who_was_denied_info_asks_again_after_a_pause() {
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(DeniedAtFirst::default(), "n".into(), &identity);
        let connect = async || {
            let made = source.connect().await.unwrap();
            sleep(2 * RECOGNITION).await;
            made
        };
        connect().await;
        assert!(!identity.is_recognizing());
        // As if the denial were an hour old.
        identity.info_denial.allowed();
        identity.info_denial.denied(CLOCK.now().minus(Duration::from_secs(3600)));
        let [first, second] = [connect().await, connect().await];
        assert!(first.met().superseded.is_set() && !second.met().superseded.is_set());
        assert!(!identity.info_denial.was_denied());
    }

    /// A connection whose clones share the answers that are left.
    #[derive(Clone)]
    struct InOrder(Arc<Mutex<Scripted>>);

    impl ConnectionLike for InOrder {
        fn req_packed_command<'a>(
            &'a mut self,
            command: &'a redis::Cmd,
        ) -> redis::RedisFuture<'a, Value> {
            let answer = self.0.lock().answer(command);
            Box::pin(async { answer })
        }

        single_commands!();
    }

    /// The address moves after the first connect, while the user may not run INFO.
    #[derive(Default)]
    struct AllowedLater(AtomicU64);

    impl Source for AllowedLater {
        type Connection = InOrder;

        async fn connect(&self) -> RedisResult<InOrder> {
            let denied = "-NOPERM no permissions to run the 'info' command";
            let scripted = match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Scripted::new([denied, denied, &bulk("run_id:a")]),
                _ => Scripted::new([&bulk("run_id:b")]),
            };
            Ok(InOrder(Arc::new(Mutex::new(scripted))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_made_while_info_was_denied_is_asked_later() {
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(AllowedLater::default(), "n".into(), &identity);
        let first = source.connect().await.unwrap();
        sleep(RECOGNITION).await;
        let second = source.connect().await.unwrap();
        assert!(!first.met().superseded.is_set());
        for _ in 0..4 {
            // As if the denial were an hour old.
            identity.info_denial.allowed();
            identity.info_denial.denied(CLOCK.now().minus(Duration::from_secs(3600)));
            sleep(LOOKED_AGAIN).await;
        }
        assert!(first.met().superseded.is_set() && !second.met().superseded.is_set());
    }

    impl Source for InOrder {
        type Connection = Self;

        async fn connect(&self) -> RedisResult<Self> {
            Ok(self.clone())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_renamed_info_is_asked_more_and_more_seldom() {
        let server = Arc::new(Mutex::new(Scripted::new(["-ERR unknown command"; 99])));
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(InOrder(Arc::clone(&server)), "n".into(), &identity);
        let _connection = source.connect().await.unwrap();
        sleep(70 * LOOKED_AGAIN).await;
        let server = server.lock();
        let asked = server.asked().into_iter().filter(|asked| asked.starts_with("INFO"));
        assert_eq!(asked.count(), 8, "at once, and after 1, 2, 4, 8, 16, 32, 64 minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_given_up_is_asked_no_more() {
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(AllowedLater::default(), "n".into(), &identity);
        drop(source.connect().await.unwrap());
        sleep(2 * LOOKED_AGAIN).await;
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(alive, 0, "its task has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn one_server_without_info_does_not_hide_that_the_address_moves() {
        let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
        let source = IdentifiedSource::new(Odd(AtomicU64::new(0)), "n".into(), &identity);
        drop(source.connect().await.unwrap());
        sleep(2 * RECOGNITION).await;
        let first = source.connect().await.unwrap();
        sleep(2 * RECOGNITION).await;
        let second = source.connect().await.unwrap();
        sleep(2 * RECOGNITION).await;
        assert!(first.met().superseded.is_set() && !second.met().superseded.is_set());
    }
}
