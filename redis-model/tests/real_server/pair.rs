//! A real server and the model, which are asked the same.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;

use deadpool_redis::redis::{self, RedisResult, Value};
use fault_kit::{Raw, Server};
use redis_model::Content;

/// A user that may not touch the lines of locks.
pub(crate) const USER: &str =
    "lineless on >secret +@all ~lock:* ~mark ~fence:* ~*:holders ~box ~clock";

const STRETCH: &str = include_str!("stretch.lua");
const FACTOR: i64 = 100_000;
/// Lua rounds the longest lives.
const ROUNDING: i64 = 1000;
/// All keys with their types, times to live and values.
const DUMP: &str = "
    local lines = {}
    local names = redis.call('KEYS', '*')
    table.sort(names)
    for _, name in ipairs(names) do
        if name ~= 'clock' then
            local kind, value = redis.call('TYPE', name).ok, nil
            if kind == 'list' then
                value = redis.call('LRANGE', name, 0, -1)
            elseif kind == 'zset' then
                value = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES')
            else
                value = redis.call('GET', name)
            end
            lines[#lines + 1] = {name, redis.call('PTTL', name), value}
        end
    end
    return lines
";

/// How often each kind of answer was compared.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    pub(crate) handed_over: u64,
    pub(crate) told: u64,
    pub(crate) failed: u64,
    pub(crate) denied: u64,
}

impl Tally {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            granted: self.granted + other.granted,
            refused: self.refused + other.refused,
            handed_over: self.handed_over + other.handed_over,
            told: self.told + other.told,
            failed: self.failed + other.failed,
            denied: self.denied + other.denied,
        }
    }

    fn count(&mut self, name: &str, answer: &str) {
        let starts = |head: &str| answer.starts_with(head);
        self.granted += u64::from(name == "acquire" && starts("\"1"));
        self.refused += u64::from(name == "acquire" && starts("[0, "));
        self.handed_over += u64::from(name == "release" && answer == "2");
        self.denied += u64::from(answer.contains("NOPERM"));
        self.failed += u64::from(starts("error"));
    }
}

pub(crate) struct Pair {
    /// Sees everything.
    raw: Raw,
    /// Calls the scripts.
    user: Raw,
    pub(crate) model: redis_model::Server,
    /// Listens to the channel `heard`.
    _subscriber: TcpStream,
    is_lineless: bool,
    /// Keys may get values that scripts cannot use.
    pub(crate) may_spoil: bool,
    micros: u64,
    millis: u64,
    pub(crate) tally: Tally,
}

impl Pair {
    pub(crate) async fn new(server: &Server, is_lineless: bool, may_spoil: bool) -> Self {
        let raw = server.raw();
        raw.cmd(&["FLUSHALL"]).await;
        let mut model = redis_model::Server::new([]);
        let user = if is_lineless {
            Raw::new(&server.url_for("lineless", "secret"))
        } else {
            server.raw()
        };
        let (micros, millis) = (1_795_000_000_000_000, 0);
        model.set_listeners(b"heard", 1);
        let mut pair = Self {
            raw,
            user,
            model,
            _subscriber: subscriber(server),
            is_lineless,
            may_spoil,
            micros,
            millis,
            tally: Tally::default(),
        };
        pair.pass(0, 0).await;
        pair
    }

    /// Runs a script on both.
    pub(crate) async fn run(
        &mut self,
        (name, text): (&str, &str),
        keys: &[&str],
        args: &[&str],
        place: &str,
    ) {
        let count = keys.len().to_string();
        let words = |text| [&["EVAL", text, &count], keys, args].concat();
        let stretched = [STRETCH, text].concat();
        let real = shown(self.user.try_cmd(&words(&stretched)).await);
        self.model.deny_keys(self.is_lineless.then_some(b":queue".as_slice()));
        let model = shown(self.ask(&words(text)).await);
        self.model.deny_keys(None);
        let call = format!("{place}: {name} {keys:?} {args:?}");
        assert_eq!(model, real, "{call}");
        self.tally.count(name, &real);
        self.compare(&call).await;
    }

    /// Runs a script on both as it is.
    pub(crate) async fn evaluate(&mut self, text: &str) {
        let words = ["EVAL", text, "2", "key", "other", "argument", "7"];
        let real = shown(self.raw.try_cmd(&words).await);
        assert_eq!(shown(self.ask(&words).await), real, "{text}");
    }

    /// Sends one command to both, without an expiry.
    pub(crate) async fn command(&mut self, words: &[&str], place: &str) {
        let real = shown(self.raw.try_cmd(words).await);
        let model = shown(self.ask(words).await);
        assert_eq!(model, real, "{place}: {words:?}");
        self.compare(place).await;
    }

    /// Time passes for leases, and on the clock that the scripts read.
    pub(crate) async fn pass(&mut self, mut millis: u64, micros: i64) {
        let keys: Vec<Vec<u8>> = self.model.keyspace().keys().map(<[u8]>::to_vec).collect();
        let left = |key: &Vec<u8>| Some(self.model.keyspace().ends(key)? - self.millis);
        // What ends in this very millisecond cannot be written down on the real server.
        while keys.iter().filter_map(left).any(|left| left == millis) {
            millis += 1;
        }
        for key in &keys {
            let Some(left) = left(key) else { continue };
            let name = String::from_utf8_lossy(key);
            match left.checked_sub(millis) {
                Some(left) => {
                    let stretched = (i64::try_from(left).unwrap() * FACTOR).to_string();
                    self.raw.cmd(&["PEXPIRE", &name, &stretched]).await;
                }
                None => drop(self.raw.cmd(&["DEL", &name]).await),
            }
        }
        self.millis += millis;
        self.micros = self.micros.saturating_add_signed(micros);
        self.model.set_clock(self.micros, self.millis);
        let clock = format!("{} {}", self.micros / 1_000_000, self.micros % 1_000_000);
        self.raw.cmd(&["SET", "clock", &clock]).await;
    }

    async fn ask(&mut self, words: &[&str]) -> RedisResult<Value> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query_async(&mut self.model).await
    }

    async fn compare(&mut self, place: &str) {
        let real = self.raw.cmd(&["EVAL", DUMP, "0"]).await;
        let told = self.model.take_published().len();
        self.tally.told += u64::try_from(told).unwrap();
        let mut stands = String::new();
        if let Value::Array(keys) = real {
            for key in keys {
                let Value::Array(parts) = key else { panic!("{key:?}") };
                let [name, Value::Int(left), value] = &parts[..] else { panic!("{parts:?}") };
                let left = if *left < 0 { *left } else { (left - ROUNDING + FACTOR - 1) / FACTOR };
                let (name, value) = (text(name), text(value));
                writeln!(stands, "{name}, {left} ms: {value}").unwrap();
            }
        }
        assert_eq!(self.stands(), stands, "{place}");
    }

    /// What stands in the model.
    fn stands(&self) -> String {
        let keys = self.model.keyspace();
        let mut stands = String::new();
        for key in keys.keys() {
            let left = keys.ends(key).map_or(-1, |ends| i64::try_from(ends - self.millis).unwrap());
            let bulk = |bytes: &Vec<u8>| Value::BulkString(bytes.clone());
            let value = match keys.get(key).unwrap() {
                Content::Text(bytes) => bulk(bytes),
                Content::List(items) => Value::Array(items.iter().map(bulk).collect()),
                Content::Sorted(set) => {
                    let words = set.in_order().into_iter().flat_map(|(member, score)| {
                        [bulk(&member.to_vec()), bulk(&score.to_string().into_bytes())]
                    });
                    Value::Array(words.collect())
                }
            };
            let name = String::from_utf8_lossy(key);
            writeln!(stands, "{name:?}, {left} ms: {}", text(&value)).unwrap();
        }
        stands
    }
}

fn subscriber(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(b"SUBSCRIBE heard\r\n").unwrap();
    // It listens once it is answered.
    stream.read_exact(&mut [0; 8]).unwrap();
    stream
}

fn shown(reply: RedisResult<Value>) -> String {
    match reply {
        Ok(value) => text(&value),
        Err(error) => {
            let said = error.detail().unwrap_or_default();
            // A real server says in which script, and another line.
            let said = said.split(" script: ").next().unwrap_or_default();
            let said = said.find("attempt to").map_or(said, |at| &said[at..]);
            format!("error {}: {said}", error.code().unwrap_or_default())
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Int(number) => number.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}
