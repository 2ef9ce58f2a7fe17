//! `redlock release --force`: takes a lock away from its holder.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use redlock::__operator::{self as operator, LockKeys};
use redlock::NodeError;
use redlock::deadpool_redis::redis;

use crate::args::ReleaseArgs;
use crate::failure::{self, Failure, told};
use crate::holder::{Holder, Kind, Owner};
use crate::ls::{time_left, time_left_unless_renewed};
use crate::node::Node;
use crate::output::{complain, plain, say, write_stderr};
use crate::owner_value::{LONGEST, OwnerValue, retained_by};
use crate::servers::Servers;
use crate::survey::{Survey, View};

/// The exit code where the lock was not taken away.
const LEFT_ALONE: u8 = 1;

/// What a server did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    LeftAlone,
    Released,
    HandedOver,
}

pub(crate) async fn release(args: &ReleaseArgs, servers: &Servers) -> Result<u8, Failure> {
    let mut survey = Survey::of_keys(servers)?;
    let key = plain(&args.key);
    let (holder, views) = survey.holder(&args.key).await?;
    let Some(holder) = holder else {
        servers.advise(&args.key);
        say(&format!("lock {key} is free; there is nothing to release\n"))?;
        return Ok(LEFT_ALONE);
    };
    if holder.owners.is_empty() && !views.iter().any(View::hides_members) {
        complain(&format!("lock `{key}` was left alone: nobody who shares it is seen"));
        return Ok(LEFT_ALONE);
    }
    if holder.owners.is_empty() {
        return Err(Failure::new(
            failure::UNAVAILABLE,
            format!(
                "lock `{key}` is held by {}, and this user may not see by whom; grant +zrange and \
                 ~{{<prefix>*}}:holders",
                holder.shown()
            ),
        ));
    }
    if holder.value.may_be_cut() {
        complain(&format!(
            "lock `{key}` was left alone: its value has {LONGEST} bytes or more, and was not \
             written by redlock; delete its key"
        ));
        return Ok(LEFT_ALONE);
    }
    let owners = chosen(&holder, args.owner.as_deref());
    if owners.is_empty() {
        let who = plain(holder.sole_owner().unwrap_or(&holder.shown()));
        complain(&format!("lock `{key}` is held by {who}, and was left alone"));
        return Ok(LEFT_ALONE);
    }
    if !args.yes && !is_confirmed(&key, &holder, &owners)? {
        complain(&format!("lock `{key}` was left alone"));
        return Ok(LEFT_ALONE);
    }
    take_from_all(&mut survey, &args.key, &holder, &owners).await
}

/// Takes a lock from some of those who have it, and says of each what has happened. After an error
/// of the servers the others are left alone; if nobody reads what is said, the others follow.
async fn take_from_all(
    survey: &mut Survey<'_>,
    name: &str,
    holder: &Holder,
    owners: &[&Owner],
) -> Result<u8, Failure> {
    let (key, kind) = (plain(name), holder.kind());
    let (mut code, mut failed, mut said) = (LEFT_ALONE, None, Ok(()));
    for (others, owner) in (0..holder.owners.len()).rev().zip(owners) {
        let who = plain(owner.value.text());
        if failed.is_some() {
            complain(&format!("{who} was left alone, and may have lock `{key}` still"));
            continue;
        }
        match take_away(survey, name, kind, &holder.value, owner).await {
            Ok(done) => {
                if done != Done::LeftAlone {
                    code = 0;
                }
                said = said.and(tell(&key, kind, &who, done, others));
            }
            Err(Failure { code, message }) => {
                complain(&format!(
                    "it is not confirmed that lock `{key}` was taken from {who}: {message}"
                ));
                // The message above has said it.
                failed = Some(Failure::new(code, ""));
            }
        }
    }
    if code == 0 && failed.is_none() && survey.masters() > 1 {
        check_not_won_back(survey, name, owners).await?;
    }
    if code == 0 && retained_by(holder.value.text()).is_none() {
        complain("the holder learns of it at its next renewal, and may work on until then");
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(said.map(|()| code)?),
    }
}

/// Fails if one of `owners` has a majority again: a renewal that comes while only some of several
/// servers have released the lock takes it back on these.
async fn check_not_won_back(
    survey: &mut Survey<'_>,
    name: &str,
    owners: &[&Owner],
) -> Result<(), Failure> {
    let (holder, _) = survey.holder(name).await?;
    let Some(holder) = holder.filter(Holder::is_majority) else { return Ok(()) };
    let was_released = |now: &Owner| owners.iter().any(|one| one.value.hold() == now.value.hold());
    if !holder.owners.iter().any(was_released) {
        return Ok(());
    }
    let key = plain(name);
    Err(Failure::unavailable(format!(
        "the holder of lock `{key}` renewed it meanwhile, and has it still; release it once more"
    )))
}

/// From whom the lock is to be taken: from its owner, or all who share it, or the one that was
/// named.
fn chosen<'a>(holder: &'a Holder, named: Option<&OsStr>) -> Vec<&'a Owner> {
    let has = |owner: &Owner, named: &OsStr| {
        owner.values.iter().any(|value| value.bytes() == named.as_bytes())
    };
    let owners = holder.owners.iter();
    owners.filter(|owner| named.is_none_or(|named| has(owner, named))).collect()
}

/// Says what has happened to an owner that shared the lock with `others` other owners.
fn tell(key: &str, kind: Kind, owner: &str, done: Done, others: usize) -> io::Result<()> {
    let what = match done {
        Done::LeftAlone => {
            complain(&format!("{owner} had let go of lock `{key}`, which was left alone"));
            return Ok(());
        }
        Done::HandedOver => ", and given to the next in its queue".to_owned(),
        Done::Released if !kind.is_shared() => ", and is free".to_owned(),
        // Somebody may share it since it was looked at.
        Done::Released if others == 0 => ", the last of those who were seen".to_owned(),
        Done::Released => format!("; others have it still: {others}"),
    };
    say(&format!("lock {key} was taken from {owner}{what}\n"))
}

fn is_confirmed(key: &str, holder: &Holder, owners: &[&Owner]) -> Result<bool, Failure> {
    let owners: Vec<String> = owners.iter().map(|owner| plain(owner.value.text())).collect();
    let (who, left, danger) = match retained_by(holder.value.text()) {
        Some(client) => (
            format!("retained: nobody holds it; {} has let go of it", plain(client)),
            format!("{}, until its min_hold is over", time_left(holder)),
            "A job that is to run once may run again.",
        ),
        None => (
            format!("held by {}", owners.join(", ")),
            time_left_unless_renewed(holder),
            "Its holder may be at work: two would work at once.",
        ),
    };
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "lock `{key}` is {who}; stdin is no terminal on which to ask: add --yes"
        )));
    }
    write_stderr(&format!(
        "lock {key} is {who}\n  time left: {left}; waiting: {}\n\
         {danger} Take the lock away? [y/N] ",
        holder.shown_waiting()
    ))?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Releases the lock on every server where this owner has it, by whichever of its values.
/// `value`: what stands in the lock.
async fn take_away(
    survey: &mut Survey<'_>,
    name: &str,
    kind: Kind,
    value: &OwnerValue,
    owner: &Owner,
) -> Result<Done, Failure> {
    let LockKeys { lock, mark, counter, queue, holders } = &survey.keys(name)?;
    let command = |owner: &OwnerValue| {
        let mut command = redis::cmd("EVAL");
        if kind.is_shared() {
            command.arg(operator::shared_release_script()).arg(5);
            command.arg(lock).arg(holders).arg(mark).arg(counter).arg(queue);
            command.arg(owner.bytes()).arg(value.bytes());
        } else {
            command.arg(operator::release_script()).arg(4);
            command.arg(lock).arg(mark).arg(counter).arg(queue).arg(owner.bytes());
        }
        command
    };
    let of = survey.masters();
    let mut done = Vec::new();
    let mut errors = Vec::new();
    let take = async |node: &mut Node| {
        // A server may have a reader under two of its values.
        let mut best = 0;
        for owner_value in &owner.values {
            best = best.max(node.query::<i64>(&command(owner_value)).await?);
        }
        Ok::<_, NodeError>(best)
    };
    // Every server that can be told is waited for: a majority is enough to see, and not to release.
    for reply in survey.ask(Duration::MAX, take).await {
        match reply {
            Ok(2) => done.push(Done::HandedOver),
            Ok(1) => done.push(Done::Released),
            Ok(_) => done.push(Done::LeftAlone),
            Err(error) => errors.push(told(&error)),
        }
    }
    // These may have it still, and make a majority.
    if errors.len() > of / 2 {
        if !done.is_empty() {
            let name = plain(name);
            let still = format!("lock `{name}` may be held still: {} of {of}", errors.len());
            errors.push(format!("{still} servers were not told to release it"));
        }
        return Err(Failure::unavailable(errors.join("\nredlock: ")));
    }
    for error in &errors {
        complain(error);
    }
    Ok(done.into_iter().max().unwrap_or(Done::LeftAlone))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A server that was asked again has the owner under another value.
    #[test]
    fn an_owner_is_named_by_each_of_its_values() {
        let owner = |values: [&str; 2]| {
            let values = BTreeSet::from(values.map(OwnerValue::from));
            Owner { value: values.first().unwrap().clone(), values, left: None, votes: 2 }
        };
        let owners = vec![owner(["a:0", "a:1"]), owner(["b:0", "b:1"])];
        let value = OwnerValue::from("<readers>");
        let holder =
            Holder { value, owners, left: None, votes: 2, of: 3, unanswered: 0, waiting: None };
        let named = |name: Option<&str>| {
            let found = chosen(&holder, name.map(OsStr::new));
            found.into_iter().map(|owner| owner.value.text().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(named(Some("b:0")), ["b:0"]);
        assert_eq!(named(Some("b:1")), ["b:0"]);
        assert_eq!(named(Some("b")), [""; 0]);
        assert_eq!(named(None), ["a:0", "b:0"]);
    }
}
