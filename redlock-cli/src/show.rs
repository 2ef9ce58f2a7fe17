//! `redlock show`: one lock, its holder and those who wait.

use serde_json::{Value, json};

use crate::args::ShowArgs;
use crate::duration;
use crate::failure::Failure;
use crate::locks::{Details, Holder, Waiter, client};
use crate::ls::time_left;
use crate::output::{Paint, plain, say};
use crate::servers::Servers;
use crate::survey::{Survey, View};

/// The exit code where nobody has the lock.
const FREE: u8 = 1;

pub(crate) async fn show(args: &ShowArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut survey = Survey::of_keys(servers)?;
    let redis_key = survey.keys(&args.key)?.lock;
    let (holder, views) = survey.holder(&args.key).await?;
    if args.json {
        say(&format!("{}\n", as_json(&args.key, &redis_key, holder.as_ref(), &views)))?;
    } else {
        say(&as_text(&args.key, &redis_key, holder.as_ref(), &views))?;
    }
    Ok(if holder.is_some_and(|holder| holder.is_majority()) { 0 } else { FREE })
}

fn known(views: &[View]) -> impl Iterator<Item = &Details> {
    views.iter().filter_map(|view| view.details.as_ref().ok())
}

/// The longest queue: with several servers each has one, of mostly the same processes.
fn queue(views: &[View]) -> &[Waiter] {
    let queues = known(views).map(|details| &details.queue[..]);
    queues.max_by_key(|queue| queue.len()).unwrap_or(&[])
}

fn last_fencing_token(views: &[View]) -> Option<u64> {
    known(views).filter_map(|details| details.last_fencing_token).max()
}

fn as_json(key: &str, redis_key: &str, holder: Option<&Holder>, views: &[View]) -> Value {
    let waiter =
        |waiter: &Waiter| json!({ "owner": waiter.owner, "client": client(&waiter.owner) });
    let server = |view: &View| match &view.details {
        Err(error) => json!({ "server": view.node, "error": error }),
        Ok(details) => json!({
            "server": view.node,
            "owner": details.record.as_ref().map(|record| &record.owner),
            "left_ms": details.record.as_ref().and_then(|record| record.left)
                .map(|left| left.as_millis()),
        }),
    };
    json!({
        "key": key,
        "redis_key": redis_key,
        "is_held": holder.is_some_and(Holder::is_majority),
        "owner": holder.map(|holder| &holder.owner),
        "client": holder.map(|holder| client(&holder.owner)),
        "left_ms": holder.and_then(|holder| holder.left).map(|left| left.as_millis()),
        "last_fencing_token": last_fencing_token(views),
        "queue": queue(views).iter().map(waiter).collect::<Vec<_>>(),
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
            line("held by", &plain(&holder.owner));
            line("time left", &format!("{}, unless it is renewed", time_left(holder)));
        }
    }
    if let Some(highest) = last_fencing_token(views) {
        line("fencing token", &format!("at most {highest}"));
    }
    let queue = queue(views);
    line("waiting", &queue.len().to_string());
    for (position, waiter) in (1..).zip(queue) {
        let note = if waiter.is_told { "" } else { ", asks now and then" };
        line("", &format!("{position:>3}  {}{note}", plain(&waiter.owner)));
    }
    if views.len() > 1 {
        let votes = holder.map_or(0, |holder| holder.votes);
        let verdict = match holder {
            Some(holder) if holder.is_majority() => "a majority",
            Some(_) => "no majority: not held",
            None => "free",
        };
        line("servers", &format!("{votes} of {}, {verdict}", views.len()));
        for view in views {
            line("", &format!("{}  {}", view.node, of_server(view)));
        }
    }
    text
}

fn of_server(view: &View) -> String {
    match &view.details {
        Err(_) => "does not answer".to_owned(),
        Ok(Details { record: None, .. }) => "free".to_owned(),
        Ok(Details { record: Some(record), .. }) => {
            let left = record.left.map_or_else(|| "no expiry".to_owned(), duration::show);
            format!("{}, {left}", plain(client(&record.owner)))
        }
    }
}
