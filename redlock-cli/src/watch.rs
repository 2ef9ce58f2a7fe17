//! `redlock watch`: a line whenever a lock changes hands, or its queue grows or shrinks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::args::WatchArgs;
use crate::failure::{self, Failure};
use crate::holder::{Holder, Kind};
use crate::locks::Waiter;
use crate::lookout::Lookout;
use crate::output::{Paint, check_reader, complain, json_line, plain, say};
use crate::owner_value::{OwnerValue, retained_by};
use crate::servers::Servers;
use crate::survey::View;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The lock at one look.
#[derive(Debug, Clone, Default)]
struct Look {
    kind: Option<Kind>,
    /// Who has the lock, and when its lease ends unless it is renewed.
    owners: BTreeMap<OwnerValue, Option<Instant>>,
    /// `None`: this user may not see it.
    queue: Option<Vec<OwnerValue>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Held,
    Free,
    Taken,
    HandedOver,
    Released,
    Expired,
    /// Its owner has let go of it, and it stays taken until its `min_hold` is over.
    Retained,
    /// The number of those who wait has changed, and nothing else.
    Waiting,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Free => "free",
            Self::Taken => "taken",
            Self::HandedOver => "handed over",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Retained => "retained",
            Self::Waiting => "waiting",
        }
    }

    /// What has happened between two looks, the second one of which was at `now`, and to whom.
    fn between<'a>(
        before: &'a Look,
        after: &'a Look,
        now: Instant,
    ) -> Vec<(Self, Option<&'a str>)> {
        let is_new = |owner: &&OwnerValue| !before.has(owner);
        let come: Vec<&OwnerValue> = after.owners.keys().filter(is_new).collect();
        let is_group = before.kind == after.kind && before.kind.is_some_and(Kind::is_shared);
        let mut events = Vec::new();
        // Of an end with a successor, who comes is enough.
        for (owner, ends) in before.owners.iter().filter(|_| is_group || come.is_empty()) {
            if !after.has(owner) {
                let event = match ends {
                    _ if retained_by(owner.text()).is_some() => Self::Free,
                    Some(ends) if *ends <= now => Self::Expired,
                    _ => Self::Released,
                };
                events.push((event, Some(owner.text())));
            }
        }
        for owner in come {
            let event = match owner {
                _ if retained_by(owner.text()).is_some() => Self::Retained,
                _ if before.queue.iter().flatten().any(|waiter| waiter == owner) => {
                    Self::HandedOver
                }
                _ => Self::Taken,
            };
            events.push((event, Some(owner.text())));
        }
        if events.is_empty() && before.waiting() != after.waiting() {
            events.push((Self::Waiting, after.sole_owner()));
        }
        events
    }
}

impl Look {
    /// Does this owner hold the lock, perhaps under another value of the same hold?
    fn has(&self, owner: &OwnerValue) -> bool {
        let is_same = |known: &OwnerValue| known.hold() == owner.hold();
        self.owners.contains_key(owner) || self.owners.keys().any(is_same)
    }

    /// How many hold the lock: nobody does who has let go of it.
    fn holders(&self) -> usize {
        self.owners.keys().filter(|owner| retained_by(owner.text()).is_none()).count()
    }

    /// How many wait.
    fn waiting(&self) -> Option<usize> {
        self.queue.as_ref().map(Vec::len)
    }

    fn sole_owner(&self) -> Option<&str> {
        let owners = self.owners.keys().filter(|_| self.kind == Some(Kind::Exclusive));
        owners.map(OwnerValue::text).next()
    }

    /// What is printed first.
    fn events(&self) -> Vec<(Event, Option<&str>)> {
        let event = |owner: &str| match retained_by(owner) {
            Some(_) => Event::Retained,
            None => Event::Held,
        };
        let held = self.owners.keys().map(|owner| (event(owner.text()), Some(owner.text())));
        let held: Vec<_> = held.collect();
        if held.is_empty() { vec![(Event::Free, None)] } else { held }
    }
}

/// Goes on until a signal ends this process, or the reader of stdout has gone.
pub(crate) async fn watch(args: &WatchArgs, servers: &Servers) -> Result<u8, Failure> {
    if args.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("--interval is too short; 10ms is the shortest"));
    }
    let mut lookout = Lookout::of(servers, &args.key)?;
    let asked = Instant::now();
    let mut before = look(lookout.look().await?, asked);
    if before.owners.is_empty() {
        servers.advise(&args.key);
    }
    for (event, owner) in before.events() {
        tell(args, event, owner, &before)?;
    }
    let mut outage = None;
    loop {
        tokio::time::sleep(args.interval).await;
        check_reader()?;
        let asked = Instant::now();
        let seen = match lookout.look().await {
            Ok(seen) => seen,
            Err(error) if matches!(error.code, failure::UNAVAILABLE | failure::SYSTEM) => {
                if outage.is_none() {
                    complain(&error.message);
                    outage = Some(Instant::now());
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(begin) = outage.take() {
            let lasted = crate::duration::show(begin.elapsed());
            complain(&format!("the servers answer again, after {lasted}"));
        }
        let after = look(seen, asked);
        for (event, owner) in Event::between(&before, &after, Instant::now()) {
            tell(args, event, owner, &after)?;
        }
        before = after;
    }
}

/// `asked`: a moment before the servers were. What they say is left of the lease counts from later,
/// so that a slow answer makes no lease that has ended look like one that was released.
fn look((holder, views): (Option<Holder>, Vec<View>), asked: Instant) -> Look {
    // Of a group without members the last one has just let go, unless this user may not see them.
    let hides_members = views.iter().any(View::hides_members);
    let is_seen = |holder: &Holder| hides_members || !holder.owners.is_empty();
    let holder = holder.filter(Holder::is_majority).filter(is_seen);
    let queues = views.iter().filter_map(|view| view.details.as_ref().ok());
    let queues = queues.filter_map(|details| details.queue.as_deref());
    let longest = queues.max_by_key(|queue| queue.len());
    let owner_of = |waiter: &Waiter| waiter.owner.clone();
    let ends = |left: Option<Duration>| left.and_then(|left| asked.checked_add(left));
    let mut owners = BTreeMap::new();
    if let Some(holder) = &holder {
        owners.extend(holder.owners.iter().map(|owner| (owner.value.clone(), ends(owner.left))));
        if owners.is_empty() {
            owners.insert(holder.value.clone(), ends(holder.left));
        }
    }
    Look {
        kind: holder.map(|holder| holder.kind()),
        owners,
        queue: longest.map(|queue| queue.iter().map(owner_of).collect()),
    }
}

/// `look`: the lock after the event.
fn tell(args: &WatchArgs, event: Event, owner: Option<&str>, look: &Look) -> Result<(), Failure> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = timestamp(time);
    let waiting = look.waiting();
    if args.json {
        let line = json!({
            "time": time, "key": args.key, "event": event.name(), "owner": owner,
            "kind": look.kind.map(Kind::name), "holders": look.holders(), "waiting": waiting,
        });
        return Ok(say(&json_line(&line))?);
    }
    let paint = Paint::for_stdout();
    let name = format!("{:<12}", event.name());
    let name = match event {
        Event::Expired => paint.red(&name),
        Event::Taken | Event::HandedOver | Event::Held => paint.green(&name),
        Event::Released | Event::Free | Event::Retained => paint.yellow(&name),
        Event::Waiting => name,
    };
    let owner = owner.map(plain).unwrap_or_default();
    let shared = look.kind.filter(|kind| kind.is_shared());
    let group = shared.map(|kind| format!("  {}", kind.group(look.holders())));
    let group = group.unwrap_or_default();
    let told = waiting.filter(|waiting| *waiting > 0 || event == Event::Waiting);
    let waiting = told.map(|waiting| format!("  waiting: {waiting}")).unwrap_or_default();
    let line = format!("{}  {name}{owner}{group}{waiting}", paint.faint(&time));
    Ok(say(&format!("{}\n", line.trim_end()))?)
}

/// The time in UTC, as in RFC 3339.
fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date of a day, counted from 1970: years are cut at the 1st of March, so that a leap day is
/// the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::Record;
    use crate::locks::Details;

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let at = |seconds: u64| timestamp(Duration::from_millis(seconds * 1_000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_795_374_000), "2026-11-22T19:00:00.007Z");
    }

    fn look(value: &str, owners: &[&str], ends: Instant, queue: &[&str]) -> Look {
        Look {
            kind: Some(Kind::of(value)),
            owners: owners.iter().map(|&owner| (owner.into(), Some(ends))).collect(),
            queue: Some(queue.iter().map(|&owner| owner.into()).collect()),
        }
    }

    #[test]
    fn changes_are_told_apart() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let held = |owner: &str, ends, queue: &[&str]| look(owner, &[owner], ends, queue);
        let free = Look { queue: Some(Vec::new()), ..Look::default() };
        let between = |before: &Look, after: &Look| {
            let events = Event::between(before, after, now);
            assert!(events.len() < 2, "{events:?}");
            events.first().map(|(event, _)| *event)
        };
        assert_eq!(between(&free, &held("a", later, &[])), Some(Event::Taken));
        assert_eq!(between(&held("a", later, &["b"]), &held("a", now, &["c"])), None);
        let waited_for = held("a", later, &["b"]);
        assert_eq!(between(&held("a", later, &[]), &waited_for), Some(Event::Waiting));
        assert_eq!(between(&waited_for, &held("a", later, &[])), Some(Event::Waiting));
        assert_eq!(between(&free, &free), None);
        assert_eq!(between(&held("a", later, &[]), &free), Some(Event::Released));
        assert_eq!(between(&held("a", now, &[]), &free), Some(Event::Expired));
        let next = held("b", later, &[]);
        assert_eq!(between(&held("a", later, &["b"]), &next), Some(Event::HandedOver));
        assert_eq!(between(&held("a", later, &[]), &next), Some(Event::Taken));
        let retained = held("a:retained:0123456789abcdef0123456789abcdef", now, &[]);
        assert_eq!(between(&held("a", later, &[]), &retained), Some(Event::Retained));
        assert_eq!(between(&retained, &free), Some(Event::Free));
    }

    /// The last of them may have gone while the lock was looked at.
    #[test]
    fn a_group_without_members_has_an_owner_only_where_they_are_hidden() {
        let seen = |hides_members| {
            let (left, answered) = (Some(Duration::from_secs(9)), Instant::now());
            let (value, members) = ("<readers>".into(), BTreeMap::new());
            let record = Record { value, left, members, hides_members, waiting: None, answered };
            let holder = Holder::among([&record].into_iter(), 1);
            let details = Details { record: Some(record), ..Details::default() };
            let views = vec![View { node: "a".to_owned(), details: Ok(details) }];
            super::look((holder, views), answered)
        };
        assert_eq!(seen(true).events(), [(Event::Held, Some("<readers>"))]);
        assert_eq!(seen(false).events(), [(Event::Free, None)]);
        assert_eq!(seen(false).kind, None);
    }

    /// What one of three servers has left over is no lock. A lease counts from the question.
    #[test]
    fn a_majority_makes_the_holder() {
        let nine = Duration::from_secs(9);
        let asked = Instant::now() + nine;
        let seen = |of| {
            let (value, members, answered) = ("a".into(), BTreeMap::new(), asked);
            let (left, hides_members) = (Some(nine), false);
            let record = Record { value, left, members, hides_members, waiting: None, answered };
            super::look((Holder::among([&record].into_iter(), of), Vec::new()), asked)
        };
        assert_eq!(seen(3).events(), [(Event::Free, None)]);
        assert_eq!(seen(1).owners, BTreeMap::from([("a".into(), Some(asked + nine))]));
    }

    #[test]
    fn of_a_group_everybody_is_told() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let read = |owners: &[&str], ends| look("<readers>", owners, ends, &["w"]);
        let between = |before: &Look, after: &Look| {
            let owned = |(event, owner): (Event, Option<&str>)| (event, owner.unwrap().to_owned());
            Event::between(before, after, now).into_iter().map(owned).collect::<Vec<_>>()
        };
        let told = |events: &[(Event, &str)]| -> Vec<(Event, String)> {
            events.iter().map(|&(event, owner)| (event, owner.to_owned())).collect()
        };
        let changes = between(&read(&["a", "b"], later), &read(&["b", "c"], later));
        assert_eq!(changes, told(&[(Event::Released, "a"), (Event::Taken, "c")]));
        let changes = between(&read(&["a", "b"], now), &read(&["b"], later));
        assert_eq!(changes, told(&[(Event::Expired, "a")]));
        let writer = look("w", &["w"], later, &["a", "b"]);
        let changes = between(&read(&["a", "b"], later), &writer);
        assert_eq!(changes, told(&[(Event::HandedOver, "w")]));
        let changes = between(&writer, &read(&["a", "b"], later));
        assert_eq!(changes, told(&[(Event::HandedOver, "a"), (Event::HandedOver, "b")]));
    }
}
