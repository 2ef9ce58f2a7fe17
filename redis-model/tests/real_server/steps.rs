//! The steps of a sequence: calls of scripts, time, and what people and other clients do.

use fastrand::Rng;

use super::pair::Pair;

macro_rules! script {
    ($name:literal) => {
        include_str!(concat!(
            "../../../redlock-runtime/src/backend/redis/commands/exclusive/",
            $name,
            ".lua"
        ))
    };
}

macro_rules! shared {
    ($name:literal) => {
        include_str!(concat!(
            "../../../redlock-runtime/src/backend/redis/commands/shared/",
            $name,
            ".lua"
        ))
    };
}

const HEAD: &str = concat!(script!("hand_over"), shared!("holders"));
const LOCKS: [&str; 2] = ["lock:a", "lock:b"];
const OWNERS: [&str; 6] = ["o:1", "o:2", "o:3", "o:4", "o:5", "o:retained"];
const CHANNELS: [&str; 6] = ["-", "gone", "@box", "heard", "@lock:b", "-"];
/// Most of them good.
const LIVES: [&str; 9] = ["100", "1000", "5000", "30000", "7", "0", "x", "-5", "10000000000001"];
const TOKENS: [&str; 5] = ["1", "8", "64", "1", "0"];

fn one<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// A good value, mostly.
fn life(random: &mut Rng) -> &'static str {
    let most = if random.u8(..20) == 0 { LIVES.len() } else { 5 };
    one(random, &LIVES[..most])
}

/// The keys of a lock: itself, the mark, its counter, its line.
fn keys(lock: &str) -> [String; 4] {
    let name = &lock[5..];
    [lock.to_owned(), "mark".to_owned(), format!("fence:{name}"), format!("{name}:queue")]
}

pub(crate) async fn step(pair: &mut Pair, random: &mut Rng, place: &str) {
    let lock = one(random, &LOCKS);
    match random.u8(..60) {
        0..4 => acquire(pair, random, lock, place).await,
        4..6 => batch(pair, random, place).await,
        6..18 => in_line(pair, random, lock, place).await,
        18..28 => let_go(pair, random, lock, place).await,
        28..34 => others(pair, random, lock, place).await,
        34..40 => time(pair, random).await,
        40..58 => shared(pair, random, lock, place).await,
        _ => by_hand(pair, random, lock, place).await,
    }
}

async fn call(
    pair: &mut Pair,
    (name, text): (&str, &str),
    keys: &[String],
    args: &[&str],
    place: &str,
) {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let text = match name {
        "release_all" => [script!("quick_release_all"), HEAD, text].concat(),
        "release" => [script!("quick_release"), HEAD, text].concat(),
        "enqueue" | "rotate" | "nudge" => [HEAD, text].concat(),
        _ => text.to_owned(),
    };
    pair.run((name, &text), &keys, args, place).await;
}

async fn acquire(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    let args = [one(random, &OWNERS), life(random), "20000"];
    call(pair, ("acquire", script!("acquire")), &keys(lock)[..3], &args, place).await;
}

/// Releases and acquires of both locks, some of them of the same one.
async fn batch(pair: &mut Pair, random: &mut Rng, place: &str) {
    let (releases, acquires) = (random.usize(..3), random.usize(..4));
    let (count, mut batch, mut args) = (releases.to_string(), Vec::new(), Vec::new());
    for _ in 0..releases {
        let lock = one(random, &LOCKS);
        let [key, _, _, line] = keys(lock);
        batch.extend([key, line]);
        args.push(held(pair, random, lock).0);
    }
    for _ in 0..acquires {
        let [key, mark, counter, _] = keys(one(random, &LOCKS));
        batch.extend([key, mark, counter]);
        args.extend([one(random, &OWNERS), life(random)].map(str::to_owned));
    }
    let args: Vec<&str> = std::iter::once(&*count).chain(args.iter().map(String::as_str)).collect();
    call(pair, ("batch", script!("batch")), &batch, &args, place).await;
}

async fn in_line(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    // An empty channel: a look.
    let channel = if random.u8(..4) == 0 { "" } else { one(random, &CHANNELS) };
    let owner = one(random, &OWNERS);
    // Only a look heeds how many were ahead.
    let ahead = random.u8(..5).to_string();
    let args = [owner, life(random), life(random), one(random, &TOKENS), channel, &ahead];
    call(pair, ("enqueue", script!("enqueue")), &keys(lock), &args, place).await;
}

/// The keys of a lock whose holders are several.
fn shared_keys(lock: &str) -> [String; 5] {
    let [key, mark, counter, line] = keys(lock);
    [key, mark, counter, line, format!("{}:holders", &lock[5..])]
}

/// One of the holders of a lock of a shared kind, mostly.
fn one_of_holders(pair: &Pair, random: &mut Rng, lock: &str) -> String {
    let [.., holders] = shared_keys(lock);
    match pair.model.keyspace().get(holders.as_bytes()) {
        Some(redis_model::Content::Sorted(set)) if random.u8(..5) > 0 => {
            let members = set.in_order();
            let (member, _) = members[random.usize(..members.len())];
            String::from_utf8(member.to_vec()).unwrap()
        }
        _ => one(random, &OWNERS).to_owned(),
    }
}

async fn shared(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    let keys = shared_keys(lock);
    let kind = one(random, &["r", "r", "r", "p2", "p3"]);
    let marker = if kind == "r" { "<readers>" } else { "<permits>" };
    let (owner, holder) = (one(random, &OWNERS), one_of_holders(pair, random, lock));
    let head = [HEAD, shared!("join")].concat();
    match random.u8(..9) {
        0 | 1 => {
            let args = [owner, life(random), "20000", kind];
            let text = [shared!("quick_acquire"), &head, shared!("acquire")].concat();
            call(pair, ("acquire shared", &text), &keys, &args, place).await;
        }
        2..5 => {
            let channel = if random.u8(..3) == 0 { "" } else { one(random, &CHANNELS) };
            let ahead = random.u8(..5).to_string();
            let args = [owner, life(random), life(random), kind, channel, &ahead];
            let text = [&head, shared!("enqueue")].concat();
            call(pair, ("enqueue shared", &text), &keys, &args, place).await;
        }
        5 | 6 => {
            let args = [&holder, marker, one(random, &["", "leave", "1"])];
            let [lock, mark, counter, line, holders] = keys;
            let keys = [lock, holders, mark, counter, line];
            let count = if random.u8(..8) == 0 { 2 } else { 5 };
            let text = [shared!("quick_release"), HEAD, shared!("release")].concat();
            call(pair, ("release shared", &text), &keys[..count], &args, place).await;
        }
        7 => {
            let renewed = LOCKS.map(shared_keys);
            let keys: Vec<String> =
                renewed.into_iter().flat_map(|[lock, .., holders]| [lock, holders]).collect();
            let args = [&holder, life(random), marker, owner, life(random), "<readers>"];
            call(pair, ("renew shared", shared!("renew")), &keys, &args, place).await;
        }
        _ if random.bool() => {
            let (writer, ..) = held(pair, random, lock);
            let args = [&writer, owner, life(random), "20000"];
            let text = [&head, shared!("downgrade")].concat();
            call(pair, ("downgrade shared", &text), &keys, &args, place).await;
        }
        _ => {
            let [lock, mark, .., holders] = keys;
            let args = [&holder, "1795000000000000", marker];
            let text = shared!("raise");
            call(pair, ("raise shared", text), &[lock, mark, holders], &args, place).await;
        }
    }
}

/// The holder of a lock, mostly, and what stands in its counter.
fn held(pair: &Pair, random: &mut Rng, lock: &str) -> (String, String, String) {
    let text = |key: &str| match pair.model.keyspace().get(key.as_bytes()) {
        Some(redis_model::Content::Text(text)) => String::from_utf8(text.clone()).unwrap(),
        _ => "17".to_owned(),
    };
    let holder = text(lock);
    let owner = if random.u8(..4) == 0 { one(random, &OWNERS).to_owned() } else { holder };
    let reserved = text(&keys(lock)[2]);
    let used = reserved.parse().map_or(1, |last: u64| last.saturating_sub(random.u64(..9)));
    (owner, used.to_string(), reserved)
}

async fn let_go(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    if random.u8(..5) == 0 {
        let owners = LOCKS.map(|lock| held(pair, random, lock).0);
        let keys = LOCKS.map(keys).concat();
        let args = [owners[0].as_str(), owners[1].as_str()];
        return call(pair, ("release_all", script!("release_all")), &keys, &args, place).await;
    }
    let (owner, used, reserved) = held(pair, random, lock);
    let leave = one(random, &["", "leave", "1"]);
    let args = [owner.as_str(), leave, &used, &reserved, "20000"];
    let args = &args[..[1, 2, 5][random.usize(..3)]];
    let count = if random.u8(..8) == 0 { 1 } else { 4 };
    call(pair, ("release", script!("release")), &keys(lock)[..count], args, place).await;
}

async fn others(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    let keys = keys(lock);
    let (owner, used, reserved) = held(pair, random, lock);
    match random.u8(..8) {
        6 => {
            let keys = [keys[0].clone(), keys[3].clone()];
            let count = if random.u8(..8) == 0 { 1 } else { 2 };
            let args = [owner.as_str(), "o:retained", life(random)];
            call(pair, ("retain", script!("retain")), &keys[..count], &args, place).await;
        }
        0 | 1 => {
            let next = one(random, &OWNERS);
            let (expire, tokens) = (life(random), one(random, &TOKENS));
            let channel = one(random, &CHANNELS);
            let args = [&owner, &used, &reserved, next, expire, "20000", tokens, channel];
            call(pair, ("rotate", script!("rotate")), &keys, &args, place).await;
        }
        2 => call(pair, ("nudge", script!("nudge")), &keys, &[owner.as_str()], place).await,
        3 => {
            let args = [owner.as_str(), reserved.as_str(), "20000"];
            call(pair, ("raise", script!("raise")), &keys[..3], &args, place).await;
        }
        4 => {
            let keys = [keys[0].clone(), keys[3].clone()];
            let args = [owner.as_str(), one(random, &CHANNELS), one(random, &["0", "r", "p2"])];
            call(pair, ("release_hint", script!("release_hint")), &keys, &args, place).await;
        }
        5 => several(pair, random, &owner, place).await,
        _ => {
            let args = [&owner, life(random), one(random, &OWNERS), life(random)];
            let locks = LOCKS.map(str::to_owned);
            call(pair, ("renew", script!("renew")), &locks, &args, place).await;
        }
    }
}

/// Both locks at once.
async fn several(pair: &mut Pair, random: &mut Rng, owner: &str, place: &str) {
    let both: Vec<String> = LOCKS.iter().flat_map(|lock| keys(lock).into_iter().take(3)).collect();
    let args = [life(random), owner, one(random, &OWNERS)];
    call(pair, ("acquire_all", script!("acquire_all")), &both, &args, place).await;
}

async fn time(pair: &mut Pair, random: &mut Rng) {
    let millis = [0, 1, 50, 999, 5000, 61_000][random.usize(..6)];
    let micros = i64::try_from(millis * 1000).unwrap_or_default();
    let jump = if random.u8(..8) == 0 { -random.i64(0..3_000_000) } else { random.i64(0..999) };
    pair.pass(millis, micros + jump).await;
}

/// What a person or another client may do to the keys.
async fn by_hand(pair: &mut Pair, random: &mut Rng, lock: &str, place: &str) {
    let [lock, mark, counter, line] = keys(lock);
    let words: &[&[&str]] = &[
        &["DEL", &lock],
        &["DEL", &line, "box"],
        &["DEL", &counter],
        &["DEL", &mark, &counter],
        &["DEL", &lock, &mark, &counter, &line],
        &["SET", &lock, "somebody"],
        &["RPUSH", &line, "malformed", "0 0 0 @box o:9", "100 100 0 - o:9", "7 7 7 @box o:2"],
        &["RPUSH", "box", "message"],
        &["LREM", &line, "-2", "malformed"],
        &["LREM", "box", "0", "message"],
        // From here on, tokens or the line cannot be used.
        &["SET", &line, "no list"],
        &["SET", &counter, "no number"],
        &["SET", &counter, "9007199254740991"],
        &["SET", &mark, "9007199254740985"],
        &["SET", &mark, "-7"],
    ];
    let most = if pair.may_spoil { words.len() } else { 10 };
    pair.command(words[random.usize(..most)], place).await;
    if pair.may_spoil && random.u8(..4) == 0 {
        // A list where a string belongs.
        let key = [&lock, &counter, &mark][random.usize(..3)];
        pair.command(&["DEL", key], place).await;
        pair.command(&["RPUSH", key, "x"], place).await;
    }
}
