//! One server: its keys, its clock, its scripts, and who listens to it.

use std::collections::BTreeMap;

use crate::arguments::integer;
use crate::commands::Refusal;
use crate::interpreter;
use crate::keyspace::Keyspace;
use crate::reply::Reply;
use crate::script::Script;

/// A model of one Redis server. It belongs to no thread.
#[derive(Debug)]
pub struct Server {
    pub(crate) data: Data,
    /// The scripts that anybody may call, and whether the server knows them now.
    scripts: Vec<(Script, bool)>,
}

/// What commands change.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) keyspace: Keyspace,
    /// What `TIME` shows, in microseconds.
    micros: u64,
    listeners: BTreeMap<Vec<u8>, i64>,
    published: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many items of lists were read.
    pub(crate) listed: usize,
    /// Commands, also those of scripts.
    pub(crate) carried_out: usize,
    /// The user may not touch keys that end like this.
    denied: Option<&'static [u8]>,
}

impl Server {
    /// An empty server that knows these scripts.
    pub fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts = scripts.into_iter().map(|script| (script, true)).collect();
        Self { data: Data::default(), scripts }
    }

    /// From now on `TIME` shows so many microseconds, and keys end by a clock that shows so many
    /// milliseconds. A real server has one clock; for tests one of them may stand still.
    pub fn set_clock(&mut self, micros: u64, millis: u64) {
        self.data.micros = micros;
        self.data.keyspace.now = millis;
    }

    /// The digests of all scripts that the server has ever known.
    pub fn digests(&self) -> impl Iterator<Item = &str> {
        self.scripts.iter().map(|(script, _)| &*script.digest)
    }

    /// Forgets its scripts, as `SCRIPT FLUSH` does.
    pub fn forget_scripts(&mut self) {
        for (_, is_known) in &mut self.scripts {
            *is_known = false;
        }
    }

    /// So many listen to a channel.
    pub fn set_listeners(&mut self, channel: &[u8], count: i64) {
        match self.data.listeners.get_mut(channel) {
            Some(known) => *known = count,
            None => drop(self.data.listeners.insert(channel.to_vec(), count)),
        }
    }

    /// What was published since the last call: channels and messages, also where nobody listens.
    pub fn take_published(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.data.published)
    }

    /// How many items of lists `LRANGE` has returned since the last call.
    pub fn take_listed(&mut self) -> usize {
        std::mem::take(&mut self.data.listed)
    }

    /// How many commands were carried out since the last call, also by scripts.
    pub fn take_carried_out(&mut self) -> usize {
        std::mem::take(&mut self.data.carried_out)
    }

    /// The user may not use keys that end like this any more; `None`: it may use all.
    pub fn deny_keys(&mut self, suffix: Option<&'static [u8]>) {
        self.data.denied = suffix;
    }

    /// Its keys.
    pub fn keyspace(&self) -> &Keyspace {
        &self.data.keyspace
    }

    /// Its keys, to be changed. The clock stays as it is.
    pub fn change(&mut self, change: impl FnOnce(&mut Keyspace)) {
        let now = self.data.keyspace.now;
        change(&mut self.data.keyspace);
        self.data.keyspace.now = now;
    }

    /// Carries out one command of a client: its words.
    pub fn execute(&mut self, words: &[&[u8]]) -> Reply {
        let done = match words {
            [name, script, count, words @ ..] if name.eq_ignore_ascii_case(b"EVALSHA") => {
                self.call(count, words, |server| server.known(script))
            }
            [name, text, count, words @ ..] if name.eq_ignore_ascii_case(b"EVAL") => {
                self.call(count, words, |server| Some(server.learn(text)))
            }
            words => self.data.command(words).map_err(|refusal| refusal.to_client()),
        };
        done.unwrap_or_else(|error| error)
    }

    /// Runs a script. `words`: its keys, so many, and its other arguments.
    fn call(
        &mut self,
        count: &[u8],
        words: &[&[u8]],
        find: impl FnOnce(&mut Self) -> Option<Script>,
    ) -> Result<Reply, Reply> {
        let count = usize::try_from(integer(count)?)
            .map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
        let (keys, arguments) = words.split_at_checked(count).ok_or_else(|| {
            Reply::error("ERR Number of keys can't be greater than number of args")
        })?;
        if keys.iter().any(|key| self.data.denies(key)) {
            return Err(Refusal::Denied.to_client());
        }
        let unknown = || Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        let script = find(self).ok_or_else(unknown)?;
        Ok(interpreter::run(&script, &mut self.data, keys, arguments))
    }

    fn known(&self, digest: &[u8]) -> Option<Script> {
        let mut scripts = self.scripts.iter();
        let known = scripts.find(|(script, _)| script.digest.as_bytes() == digest);
        known.filter(|(_, is_known)| *is_known).map(|(script, _)| script.clone())
    }

    fn learn(&mut self, text: &[u8]) -> Script {
        let is_it = |script: &Script| script.text.as_bytes() == text;
        let at = self.scripts.iter().position(|(script, _)| is_it(script)).unwrap_or_else(|| {
            self.scripts.push((Script::new(&String::from_utf8_lossy(text)), true));
            self.scripts.len() - 1
        });
        let (script, is_known) = &mut self.scripts[at];
        *is_known = true;
        script.clone()
    }
}

impl Data {
    pub(crate) fn time(&self) -> Reply {
        let parts = [self.micros / 1_000_000, self.micros % 1_000_000];
        Reply::Array(parts.map(|part| Reply::Bulk(part.to_string().into_bytes())).to_vec())
    }

    pub(crate) fn publish(&mut self, channel: &[u8], message: &[u8]) -> Reply {
        self.published.push((channel.to_vec(), message.to_vec()));
        Reply::Int(self.listeners_of(channel))
    }

    pub(crate) fn count_listeners(&self, channel: &[u8]) -> Reply {
        Reply::Array(vec![Reply::Bulk(channel.to_vec()), Reply::Int(self.listeners_of(channel))])
    }

    fn listeners_of(&self, channel: &[u8]) -> i64 {
        self.listeners.get(channel).copied().unwrap_or_default()
    }

    pub(crate) fn denies(&self, key: &[u8]) -> bool {
        self.denied.is_some_and(|denied| key.ends_with(denied))
    }
}

impl Refusal {
    fn to_client(&self) -> Reply {
        Reply::error(match self {
            Self::Unknown => "ERR unknown command",
            Self::Arity => "ERR wrong number of arguments",
            Self::Denied => {
                "NOPERM this user has no permissions to access one of the keys used as arguments"
            }
        })
    }

    pub(crate) fn to_script(&self) -> Reply {
        Reply::error(match self {
            Self::Unknown => "ERR Unknown Redis command called from script",
            Self::Arity => "ERR Wrong number of args calling Redis command from script",
            Self::Denied => {
                "ERR The user executing the script can't access at least one of the keys \
                 mentioned in the command arguments"
            }
        })
    }
}
