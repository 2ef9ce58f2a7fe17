//! `redlock ls`: the locks that are held.

use serde_json::{Value, json};

use crate::args::LsArgs;
use crate::duration;
use crate::failure::Failure;
use crate::holder::{Holder, Owner};
use crate::output::{Paint, json_line, plain, say, table};
use crate::owner_value::{client, retained_by};
use crate::servers::Servers;
use crate::survey::Survey;

pub(crate) async fn ls(args: &LsArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut survey = Survey::of_servers(servers)?;
    let locks = survey.list(&args.pattern).await?;
    if locks.is_empty() {
        servers.advise(&args.pattern);
    }
    if args.json {
        for (key, holder) in &locks {
            let line = json!({
                "key": key,
                "redis_key": format!("{}{key}", servers.prefix),
                "kind": holder.kind().name(),
                "owner": holder.sole_owner(),
                "client": holder.sole_owner().map(client),
                "is_retained": retained_by(holder.value.text()).is_some(),
                "holders": as_json(&holder.owners),
                "left_ms": holder.left.map(|left| left.as_millis()),
                "waiting": holder.waiting,
                "servers": holder.votes,
                "of_servers": holder.of,
                "is_held": holder.is_held(),
            });
            say(&json_line(&line))?;
        }
        return Ok(0);
    }
    if locks.is_empty() {
        return Ok(0);
    }
    let of_several = survey.masters() > 1;
    let heading = ["KEY", "HELD BY", "LEFT", "WAITING", "SERVERS"];
    let shown = if of_several { heading.len() } else { heading.len() - 1 };
    let mut rows = vec![heading[..shown].iter().map(|&cell| cell.to_owned()).collect()];
    for (key, holder) in &locks {
        let cells = [
            plain(key),
            plain(&holder.shown()),
            time_left(holder),
            holder.shown_waiting(),
            votes(holder),
        ];
        rows.push(cells[..shown].to_vec());
    }
    say(&table(Paint::for_stdout(), &rows))?;
    Ok(0)
}

/// Those who have a lock.
pub(crate) fn as_json(owners: &[Owner]) -> Vec<Value> {
    let object = |owner: &Owner| {
        json!({
            "owner": owner.value.text(),
            "client": client(owner.value.text()),
            "left_ms": owner.left.map(|left| left.as_millis()),
            "servers": owner.votes,
        })
    };
    owners.iter().map(object).collect()
}

/// For how long, unless the lease is renewed.
pub(crate) fn time_left(holder: &Holder) -> String {
    holder.left.map_or_else(|| "no expiry".to_owned(), duration::show)
}

/// The same in a sentence.
pub(crate) fn time_left_unless_renewed(holder: &Holder) -> String {
    match holder.left {
        Some(left) => format!("{}, unless it is renewed", duration::show(left)),
        None => NO_END.to_owned(),
    }
}

/// What is said of a key without an expiry.
pub(crate) const NO_END: &str = "no end; this is no lock of redlock, and stays until it is deleted";

fn votes(holder: &Holder) -> String {
    let note = match holder.is_held() {
        Some(true) => "",
        Some(false) => ", no majority",
        None => ", perhaps more",
    };
    format!("{} of {}{note}", holder.votes, holder.of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_without_a_majority_is_marked() {
        for (votes, unanswered, shown) in
            [(2, 1, "2 of 3"), (1, 0, "1 of 3, no majority"), (1, 1, "1 of 3, perhaps more")]
        {
            let (value, owners) = ("a".into(), Vec::new());
            let waiting = Some(0);
            let holder = Holder { value, owners, left: None, votes, of: 3, unanswered, waiting };
            assert_eq!(super::votes(&holder), shown);
        }
    }
}
