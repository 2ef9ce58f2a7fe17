//! The commands that the scripts and the client call.

use std::collections::VecDeque;

use crate::arguments::{integer, range};
use crate::keyspace::{Keyspace, WrongType};
use crate::reply::Reply;
use crate::server::Data;
use crate::sorted_set::{self, Bound, SortedSet};

/// The shortest and the longest form of a command, its name included, and the positions of its
/// keys.
struct Form {
    shortest: usize,
    longest: usize,
    keys: Keys,
}

enum Keys {
    None,
    First,
    All,
}

fn form(name: &[u8]) -> Option<Form> {
    let (shortest, longest, keys) = match name {
        b"GET" | b"PTTL" | b"LLEN" | b"LPOP" => (2, 2, Keys::First),
        b"MGET" | b"DEL" | b"EXISTS" => (2, usize::MAX, Keys::All),
        b"PEXPIRE" | b"LINDEX" | b"ZSCORE" => (3, 3, Keys::First),
        b"SET" => (3, 6, Keys::First),
        b"RPUSH" | b"ZREM" => (3, usize::MAX, Keys::First),
        b"LRANGE" | b"LREM" | b"SETRANGE" | b"ZCOUNT" | b"ZREMRANGEBYSCORE" => (4, 4, Keys::First),
        b"ZADD" => (4, usize::MAX, Keys::First),
        b"ZRANGE" => (4, 5, Keys::First),
        b"PUBLISH" | b"PUBSUB" => (3, 3, Keys::None),
        b"TIME" => (1, 1, Keys::None),
        _ => return None,
    };
    Some(Form { shortest, longest, keys })
}

/// Why a command was not carried out.
pub(crate) enum Refusal {
    Unknown,
    Arity,
    /// This user may not use one of its keys.
    Denied,
}

impl Data {
    /// Carries out one command, whose name is in capitals.
    pub(crate) fn command(&mut self, words: &[&[u8]]) -> Result<Reply, Refusal> {
        let Some((name, arguments)) = words.split_first() else { return Err(Refusal::Unknown) };
        let Form { shortest, longest, keys } = form(name).ok_or(Refusal::Unknown)?;
        if !(shortest..=longest).contains(&words.len()) {
            return Err(Refusal::Arity);
        }
        let keys = match keys {
            Keys::None => &[],
            Keys::First => &arguments[..1],
            Keys::All => arguments,
        };
        if keys.iter().any(|key| self.denies(key)) {
            return Err(Refusal::Denied);
        }
        self.carried_out += 1;
        let done = match (*name, arguments) {
            (b"TIME", _) => Ok(self.time()),
            (b"PUBLISH", [channel, message]) => Ok(self.publish(channel, message)),
            (b"PUBSUB", [b"NUMSUB", channel]) => Ok(self.count_listeners(channel)),
            (b"PUBSUB", _) => Err(Reply::error("ERR unknown subcommand")),
            (name, arguments) => carry_out(&mut self.keyspace, name, arguments),
        };
        if let (b"LRANGE", Ok(Reply::Array(items))) = (*name, &done) {
            self.listed += items.len();
        }
        Ok(done.unwrap_or_else(|failure| failure))
    }
}

impl From<WrongType> for Reply {
    fn from(WrongType: WrongType) -> Self {
        Self::error("WRONGTYPE Operation against a key holding the wrong kind of value")
    }
}

fn carry_out(keys: &mut Keyspace, name: &[u8], arguments: &[&[u8]]) -> Result<Reply, Reply> {
    Ok(match (name, arguments) {
        (b"GET", [key]) => Reply::or_nil(keys.text(key)?.map(<[u8]>::to_vec)),
        (b"MGET", names) => {
            let value = |key: &&[u8]| keys.text(key).ok().flatten().map(<[u8]>::to_vec);
            Reply::Array(names.iter().map(|key| Reply::or_nil(value(key))).collect())
        }
        (b"SET", [key, value, options @ ..]) => set(keys, key, value, options)?,
        (b"SETRANGE", [key, offset, value]) => set_range(keys, key, integer(offset)?, value)?,
        (b"DEL", names) => Reply::count(names.iter().filter(|key| keys.remove(key)).count()),
        (b"EXISTS", names) => {
            Reply::count(names.iter().filter(|key| keys.get(key).is_some()).count())
        }
        (b"PTTL", [key]) => Reply::Int(match (keys.get(key), keys.ends(key)) {
            (None, _) => -2,
            (Some(_), None) => -1,
            (Some(_), Some(ends)) => i64::try_from(ends - keys.now).unwrap_or(i64::MAX),
        }),
        (b"PEXPIRE", [key, life]) => pexpire(keys, key, integer(life)?),
        (b"LLEN", [key]) => Reply::count(keys.list(key)?.map_or(0, VecDeque::len)),
        (b"LINDEX", [key, at]) => {
            let at = integer(at)?;
            let list = keys.list(key)?;
            let found = list.and_then(|list| list.get(range(at, at, list.len()).next()?).cloned());
            Reply::or_nil(found)
        }
        (b"LRANGE", [key, start, end]) => {
            let (start, end) = (integer(start)?, integer(end)?);
            let items = keys.list(key)?.map(|list| list.range(range(start, end, list.len())));
            Reply::Array(items.into_iter().flatten().cloned().map(Reply::Bulk).collect())
        }
        (b"LPOP", [key]) => {
            let popped = keys.change_list(key, VecDeque::pop_front)?;
            Reply::or_nil(popped.flatten())
        }
        (b"LREM", [key, count, item]) => lrem(keys, key, integer(count)?, item)?,
        (b"RPUSH", [key, values @ ..]) => Reply::count(keys.push(key, values)?),
        (name, [key, arguments @ ..]) if name.starts_with(b"Z") => {
            sorted(keys, name, key, arguments)?
        }
        _ => Reply::error("ERR syntax error"),
    })
}

/// The commands of a sorted set.
fn sorted(
    keys: &mut Keyspace,
    name: &[u8],
    key: &[u8],
    arguments: &[&[u8]],
) -> Result<Reply, Reply> {
    Ok(match (name, arguments) {
        (b"ZADD", arguments) => {
            let (is_old_only, members) = match arguments {
                [option, members @ ..] if option.eq_ignore_ascii_case(b"XX") => (true, members),
                members => (false, members),
            };
            let (pairs, []) = members.as_chunks::<2>() else {
                return Err(Reply::error("ERR syntax error"));
            };
            let scores: Vec<i64> = pairs
                .iter()
                .map(|[score, _]| sorted_set::score(score))
                .collect::<Result<_, _>>()?;
            Reply::count(keys.change_sorted(key, |set| {
                let members = scores.iter().zip(pairs);
                members.filter(|(score, [_, member])| set.add(**score, member, is_old_only)).count()
            })?)
        }
        (b"ZREM", members) => Reply::count(keys.change_sorted(key, |set| {
            members.iter().filter(|member| set.remove(member)).count()
        })?),
        (b"ZREMRANGEBYSCORE", [least, most]) => {
            let (least, most) = (Bound::parse(least)?, Bound::parse(most)?);
            Reply::count(keys.change_sorted(key, |set| set.remove_range(least, most))?)
        }
        (b"ZCOUNT", [least, most]) => {
            let (least, most) = (Bound::parse(least)?, Bound::parse(most)?);
            Reply::count(keys.sorted(key)?.map_or(0, |set| set.count(least, most)))
        }
        (b"ZSCORE", [member]) => {
            let score = keys.sorted(key)?.and_then(|set| set.score(member));
            Reply::or_nil(score.map(|score| score.to_string().into_bytes()))
        }
        (b"ZRANGE", [start, end, options @ ..]) => {
            let has_scores = match options {
                [] => false,
                [option] if option.eq_ignore_ascii_case(b"WITHSCORES") => true,
                _ => return Err(Reply::error("ERR syntax error")),
            };
            let (start, end) = (integer(start)?, integer(end)?);
            let members = keys.sorted(key)?.map(SortedSet::in_order).unwrap_or_default();
            let mut items = Vec::new();
            for (member, score) in &members[range(start, end, members.len())] {
                items.push(Reply::Bulk(member.to_vec()));
                if has_scores {
                    items.push(Reply::Bulk(score.to_string().into_bytes()));
                }
            }
            Reply::Array(items)
        }
        _ => Reply::error("ERR syntax error"),
    })
}

/// `SET key value [PX ms] [NX]`, in any order.
fn set(keys: &mut Keyspace, key: &[u8], value: &[u8], options: &[&[u8]]) -> Result<Reply, Reply> {
    let (mut life, mut is_new_only) = (None, false);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => is_new_only = true,
            b"PX" if life.is_none() => {
                life = Some(options.next().ok_or_else(|| Reply::error("ERR syntax error"))?);
            }
            _ => return Err(Reply::error("ERR syntax error")),
        }
    }
    let life = life.map(|life| integer(life)).transpose()?;
    let wrong = || Reply::error("ERR invalid expire time in 'set' command");
    let ends = match life.map(u64::try_from) {
        None => None,
        Some(Ok(life)) if life > 0 => Some(end(keys.now, life).ok_or_else(wrong)?),
        Some(_) => return Err(wrong()),
    };
    if is_new_only && keys.get(key).is_some() {
        return Ok(Reply::Nil);
    }
    keys.set(key, value, ends);
    Ok(Reply::ok())
}

/// `SETRANGE key offset value`: writes over a part of a text, which keeps its expiry.
fn set_range(keys: &mut Keyspace, key: &[u8], offset: i64, value: &[u8]) -> Result<Reply, Reply> {
    let offset = usize::try_from(offset).map_err(|_| Reply::error("ERR offset is out of range"))?;
    let mut text = keys.text(key)?.map(<[u8]>::to_vec).unwrap_or_default();
    if !value.is_empty() {
        let end = offset + value.len();
        text.resize(text.len().max(end), 0);
        text[offset..end].copy_from_slice(value);
        let ends = keys.ends(key);
        keys.set(key, &text, ends);
    }
    Ok(Reply::count(text.len()))
}

fn pexpire(keys: &mut Keyspace, key: &[u8], life: i64) -> Reply {
    let is_there = match u64::try_from(life) {
        Ok(life) if life > 0 => match end(keys.now, life) {
            Some(ends) => keys.end_at(key, ends),
            None => return Reply::error("ERR invalid expire time in 'pexpire' command"),
        },
        _ => keys.remove(key),
    };
    Reply::Int(i64::from(is_there))
}

/// The last millisecond of what begins now. `None`: a number of Redis cannot hold it.
fn end(now: u64, life: u64) -> Option<u64> {
    now.checked_add(life).filter(|ends| i64::try_from(*ends).is_ok())
}

/// Takes as many items out as `count` says, from the end if it is negative, or all if it is 0.
fn lrem(keys: &mut Keyspace, key: &[u8], count: i64, item: &[u8]) -> Result<Reply, Reply> {
    let removed = keys.change_list(key, |list| {
        let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let matching = (0..list.len()).filter(|at| list[*at] == item);
        let mut matching: Vec<usize> = matching.collect();
        if count < 0 {
            matching.reverse();
        }
        matching.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        matching.sort_unstable_by(|one, other| other.cmp(one));
        for at in &matching {
            list.remove(*at);
        }
        matching.len()
    });
    Ok(Reply::count(removed?.unwrap_or_default()))
}
