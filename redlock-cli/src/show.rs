//! `redlock show`: one lock, its holder and those who wait.

use serde_json::{Value, json};

use crate::args::ShowArgs;
use crate::duration;
use crate::failure::{self, Failure};
use crate::holder::{Holder, Kind, Record};
use crate::locks::{Details, Waiter};
use crate::ls::{self, NO_END, time_left, time_left_unless_renewed};
use crate::output::{Paint, complain, json_line, plain, say};
use crate::owner_value::{client, retained_by};
use crate::servers::Servers;
use crate::survey::{Survey, View, undecided};

/// The exit code where nobody has the lock.
const FREE: u8 = 1;

pub(crate) async fn show(args: &ShowArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut survey = Survey::of_keys(servers)?;
    let redis_key = survey.keys(&args.key)?.lock;
    let (holder, views) = survey.holder(&args.key).await?;
    for error in views.iter().filter_map(|view| view.details.as_ref().err()) {
        complain(error);
    }
    if holder.is_none() {
        servers.advise(&args.key);
    }
    if args.json {
        say(&json_line(&as_json(&args.key, &redis_key, holder.as_ref(), &views)))?;
    } else {
        say(&as_text(&args.key, &redis_key, holder.as_ref(), &views))?;
    }
    let Some(holder) = holder else { return Ok(FREE) };
    match holder.is_held() {
        Some(is_held) => Ok(if is_held { 0 } else { FREE }),
        None => Err(Failure::new(failure::UNAVAILABLE, undecided(&args.key, &holder))),
    }
}

fn known(views: &[View]) -> impl Iterator<Item = &Details> {
    views.iter().filter_map(|view| view.details.as_ref().ok())
}

/// The longest queue: with several servers each has one, usually of the same processes.
/// `None`: this user may not see any.
fn queue(views: &[View]) -> Option<&[Waiter]> {
    let queues = known(views).filter_map(|details| details.queue.as_deref());
    queues.max_by_key(|queue| queue.len())
}

fn last_fencing_token(views: &[View]) -> Option<u64> {
    known(views).filter_map(|details| details.last_fencing_token).max()
}

fn as_json(key: &str, redis_key: &str, holder: Option<&Holder>, views: &[View]) -> Value {
    let waiter = |waiter: &Waiter| {
        json!({
            "owner": waiter.owner.text(),
            "client": client(waiter.owner.text()),
            "kind": waiter.kind.name(),
            "permits": waiter.permits,
        })
    };
    let server = |view: &View| match &view.details {
        Err(error) => json!({ "server": view.node, "error": error }),
        Ok(details) => json!({
            "server": view.node,
            "holders": details.record.as_ref().map(Record::owners).unwrap_or_default().iter()
                .map(|(owner, _)| owner.text()).collect::<Vec<_>>(),
            "left_ms": details.record.as_ref().and_then(|record| record.left)
                .map(|left| left.as_millis()),
        }),
    };
    json!({
        "key": key,
        "redis_key": redis_key,
        "is_held": holder.map_or(Some(false), Holder::is_held),
        "kind": holder.map(|holder| holder.kind().name()),
        "owner": holder.and_then(Holder::sole_owner),
        "client": holder.and_then(Holder::sole_owner).map(client),
        "is_retained": holder.is_some_and(|holder| retained_by(holder.value.text()).is_some()),
        "holders": holder.map(|holder| ls::as_json(&holder.owners)).unwrap_or_default(),
        "left_ms": holder.and_then(|holder| holder.left).map(|left| left.as_millis()),
        "last_fencing_token": last_fencing_token(views),
        "queue": queue(views).map(|queue| queue.iter().map(waiter).collect::<Vec<_>>()),
        "servers": views.iter().map(server).collect::<Vec<_>>(),
    })
}

fn as_text(key: &str, redis_key: &str, holder: Option<&Holder>, views: &[View]) -> String {
    let paint = Paint::for_stdout();
    let mut text = format!("{} {}\n", paint.bold(&plain(key)), paint.faint(&plain(redis_key)));
    let mut line =
        |what: &str, value: &str| text.extend(["  ", &format!("{what:<15}"), value, "\n"]);
    match holder {
        None => line("free", "nobody has this lock"),
        Some(holder) => {
            for (what, value) in of_holder(holder) {
                line(what, &value);
            }
        }
    }
    if let Some(highest) = last_fencing_token(views) {
        line("fencing token", &format!("at most {highest}"));
    }
    let queue = queue(views);
    let unknown = || "not known: this user may not read the queue".to_owned();
    line("waiting", &queue.map_or_else(unknown, |queue| queue.len().to_string()));
    for (position, waiter) in (1..).zip(queue.unwrap_or(&[])) {
        line("", &format!("{position:>3}  {}{}", plain(waiter.owner.text()), note(waiter)));
    }
    if views.len() > 1 {
        let votes = holder.map_or(0, |holder| holder.votes);
        let verdict = match holder.map(Holder::is_held) {
            Some(Some(true)) => "a majority",
            Some(Some(false)) => "no majority: not held",
            Some(None) => "perhaps more: perhaps held",
            None => "free",
        };
        line("servers", &format!("{votes} of {}, {verdict}", views.len()));
        for view in views {
            line("", &format!("{}  {}", view.node, of_server(view)));
        }
    }
    text
}

/// What is printed about who has a lock.
fn of_holder(holder: &Holder) -> Vec<(&'static str, String)> {
    if let Some(client) = retained_by(holder.value.text()) {
        let who = format!("nobody holds it; {} has let go of it", plain(client));
        return vec![
            ("retained", who),
            ("time left", format!("{}, until its min_hold is over", time_left(holder))),
        ];
    }
    if let Some(owner) = holder.sole_owner() {
        let left = time_left_unless_renewed(holder);
        return vec![("held by", plain(owner)), ("time left", left)];
    }
    let mut lines = vec![("held by", holder.shown())];
    for owner in &holder.owners {
        let left = owner.left.map_or_else(|| "no expiry".to_owned(), duration::show);
        lines.push(("", format!("     {}, {left}", plain(owner.value.text()))));
    }
    let last = |left| format!("{}, in the last of these leases", duration::show(left));
    lines.push(("time left", holder.left.map_or_else(|| NO_END.to_owned(), last)));
    lines
}

/// What is printed about one who waits.
fn note(waiter: &Waiter) -> String {
    let kind = match (waiter.kind, waiter.permits) {
        (Kind::Permits, Some(permits)) => format!(", wants one of {permits} permits"),
        (Kind::Read, _) => ", to read".to_owned(),
        _ => String::new(),
    };
    let told = if waiter.is_told { "" } else { ", asks now and then" };
    format!("{kind}{told}")
}

fn of_server(view: &View) -> String {
    match &view.details {
        Err(_) => "cannot be asked".to_owned(),
        Ok(Details { record: None, .. }) => "free".to_owned(),
        Ok(Details { record: Some(record), .. }) => {
            let left = record.left.map_or_else(|| "no expiry".to_owned(), duration::show);
            format!("{}, {left}", plain(&record.shown()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner_value::OwnerValue;

    fn view(details: Details) -> View {
        View { node: "a".to_owned(), details: Ok(details) }
    }

    /// A server may have missed the last token, and some of those who wait.
    #[test]
    fn of_several_servers_the_most_is_shown() {
        let waiter = |name: &str| Waiter {
            owner: name.into(),
            kind: Kind::Exclusive,
            permits: None,
            is_told: name != "b",
        };
        let details = |names: &[&str], last_fencing_token| Details {
            record: None,
            queue: Some(names.iter().map(|name| waiter(name)).collect()),
            last_fencing_token,
        };
        let views = [
            view(details(&["a"], Some(5))),
            view(details(&["a", "b"], Some(7))),
            view(details(&[], None)),
        ];
        let shown = as_json("k", "lock:k", None, &views);
        assert_eq!(
            (&shown["last_fencing_token"], &shown["queue"][1]["owner"]),
            (&7.into(), &"b".into())
        );
        let text = as_text("k", "lock:k", None, &views);
        assert!(text.contains("at most 7") && text.contains("  2  b, asks now and then"), "{text}");
        assert!(text.contains("0 of 3, free") && text.contains("  1  a\n"), "{text}");
    }

    #[test]
    fn what_has_no_majority_is_not_shown_as_held() {
        for (votes, unanswered, is_held, told) in [
            (2, 0, Some(true), "2 of 3, a majority\n"),
            (1, 0, Some(false), "1 of 3, no majority: not held\n"),
            (1, 1, None, "1 of 3, perhaps more: perhaps held\n"),
        ] {
            let (value, owners) = (OwnerValue::from("x"), Vec::new());
            let waiting = None;
            let holder = Holder { value, owners, left: None, votes, of: 3, unanswered, waiting };
            let views: Vec<View> = (0..3).map(|_| view(Details::default())).collect();
            let text = as_text("k", "lock:k", Some(&holder), &views);
            assert!(text.contains(told) && text.contains("waiting        not known"), "{text}");
            let shown = as_json("k", "lock:k", Some(&holder), &views);
            assert_eq!(shown["is_held"], serde_json::json!(is_held), "{shown}");
        }
    }
}
