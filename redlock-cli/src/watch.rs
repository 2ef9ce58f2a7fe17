//! `redlock watch`: a line whenever a lock changes hands.

use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use crate::args::WatchArgs;
use crate::failure::{self, Failure};
use crate::locks::{Holder, Waiter};
use crate::output::{Paint, complain, plain, say};
use crate::servers::Servers;
use crate::survey::{Survey, View};

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The lock at one look.
#[derive(Debug, Clone, Default)]
struct Look {
    owner: Option<String>,
    /// When its lease ends unless it is renewed.
    ends: Option<Instant>,
    queue: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Held,
    Free,
    Taken,
    HandedOver,
    Released,
    Expired,
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
        }
    }

    /// What has happened between two looks, the second one of which was at `now`.
    fn between(before: &Look, after: &Look, now: Instant) -> Option<Self> {
        let was_over = before.ends.is_some_and(|ends| ends <= now);
        match (&before.owner, &after.owner) {
            (before, after) if before == after => None,
            (Some(_), None) if was_over => Some(Self::Expired),
            (Some(_), None) => Some(Self::Released),
            (Some(_), Some(next)) if before.queue.contains(next) => Some(Self::HandedOver),
            (_, Some(_)) => Some(Self::Taken),
            (None, None) => None,
        }
    }
}

/// Goes on until a signal ends this process.
pub(crate) async fn watch(args: &WatchArgs, servers: &Servers) -> Result<u8, Failure> {
    if args.interval < SHORTEST_INTERVAL {
        return Err(Failure::usage("--interval is too short; 10ms is the shortest"));
    }
    let mut survey = Survey::of_keys(servers)?;
    let mut before = look(survey.holder(&args.key).await?);
    let first = if before.owner.is_some() { Event::Held } else { Event::Free };
    tell(args, first, &before)?;
    let mut outage = None;
    loop {
        tokio::time::sleep(args.interval).await;
        let seen = match survey.holder(&args.key).await {
            Ok(seen) => seen,
            Err(error) if error.code == failure::UNAVAILABLE => {
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
        let after = look(seen);
        if let Some(event) = Event::between(&before, &after, Instant::now()) {
            // Of an end without a successor it is told who had the lock.
            let of = if after.owner.is_some() { &after } else { &before };
            tell(args, event, &Look { queue: after.queue.clone(), ..of.clone() })?;
        }
        before = after;
    }
}

fn look((holder, views): (Option<Holder>, Vec<View>)) -> Look {
    let holder = holder.filter(Holder::is_majority);
    let queues = views.iter().filter_map(|view| view.details.as_ref().ok());
    let longest = queues.map(|details| &details.queue[..]).max_by_key(|queue| queue.len());
    let owner_of = |waiter: &Waiter| waiter.owner.clone();
    let left = holder.as_ref().and_then(|holder| holder.left);
    Look {
        ends: left.and_then(|left| Instant::now().checked_add(left)),
        owner: holder.map(|holder| holder.owner),
        queue: longest.unwrap_or(&[]).iter().map(owner_of).collect(),
    }
}

fn tell(args: &WatchArgs, event: Event, look: &Look) -> Result<(), Failure> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = timestamp(time);
    let waiting = look.queue.len();
    if args.json {
        let line = json!({
            "time": time, "key": args.key, "event": event.name(), "owner": look.owner,
            "waiting": waiting,
        });
        return Ok(say(&format!("{line}\n"))?);
    }
    let paint = Paint::for_stdout();
    let name = format!("{:<12}", event.name());
    let name = match event {
        Event::Expired => paint.red(&name),
        Event::Taken | Event::HandedOver | Event::Held => paint.green(&name),
        Event::Released | Event::Free => paint.yellow(&name),
    };
    let owner = look.owner.as_deref().map(plain).unwrap_or_default();
    let waiting = if waiting == 0 { String::new() } else { format!("  waiting: {waiting}") };
    let line = format!("{}  {name}{owner}{waiting}", paint.faint(&time));
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

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let at = |seconds: u64| timestamp(Duration::from_millis(seconds * 1_000 + 7));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_795_374_000), "2026-11-22T19:00:00.007Z");
    }

    #[test]
    fn changes_are_told_apart() {
        let now = Instant::now();
        let later = now + Duration::from_secs(9);
        let held = |owner: &str, ends, queue: &[&str]| Look {
            owner: Some(owner.to_owned()),
            ends: Some(ends),
            queue: queue.iter().map(|&owner| owner.to_owned()).collect(),
        };
        let free = Look::default();
        let between = |before: &Look, after: &Look| Event::between(before, after, now);
        assert_eq!(between(&free, &held("a", later, &[])), Some(Event::Taken));
        assert_eq!(between(&held("a", later, &[]), &held("a", later, &["b"])), None);
        assert_eq!(between(&held("a", later, &[]), &free), Some(Event::Released));
        assert_eq!(between(&held("a", now, &[]), &free), Some(Event::Expired));
        let next = held("b", later, &[]);
        assert_eq!(between(&held("a", later, &["b"]), &next), Some(Event::HandedOver));
        assert_eq!(between(&held("a", later, &[]), &next), Some(Event::Taken));
    }
}
