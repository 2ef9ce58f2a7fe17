//! `redlock ls`: the locks that are held.

use serde_json::json;

use crate::args::LsArgs;
use crate::duration;
use crate::failure::Failure;
use crate::locks::{Holder, client};
use crate::output::{Paint, plain, say, table};
use crate::servers::Servers;
use crate::survey::Survey;

pub(crate) async fn ls(args: &LsArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut survey = Survey::of_servers(servers).await?;
    let locks = survey.list(&args.pattern).await?;
    if args.json {
        for (key, holder) in &locks {
            let line = json!({
                "key": key,
                "redis_key": format!("{}{key}", servers.prefix),
                "owner": holder.owner,
                "client": client(&holder.owner),
                "left_ms": holder.left.map(|left| left.as_millis()),
                "waiting": holder.waiting,
                "servers": holder.votes,
                "of_servers": holder.of,
                "is_held": holder.is_majority(),
            });
            say(&format!("{line}\n"))?;
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
            plain(client(&holder.owner)),
            time_left(holder),
            holder.waiting.to_string(),
            votes(holder),
        ];
        rows.push(cells[..shown].to_vec());
    }
    say(&table(Paint::for_stdout(), &rows))?;
    Ok(0)
}

/// For how long, unless the lease is renewed.
pub(crate) fn time_left(holder: &Holder) -> String {
    holder.left.map_or_else(|| "no expiry".to_owned(), duration::show)
}

fn votes(holder: &Holder) -> String {
    let note = if holder.is_majority() { "" } else { ", no majority" };
    format!("{} of {}{note}", holder.votes, holder.of)
}
