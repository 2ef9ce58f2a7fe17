//! `redlock release --force`: takes a lock away from its holder.

use std::io::{self, IsTerminal, Write};

use redlock::__operator as operator;
use redlock::deadpool_redis::redis;

use crate::args::ReleaseArgs;
use crate::failure::{self, Failure};
use crate::locks::Holder;
use crate::ls::time_left;
use crate::output::{complain, plain, say};
use crate::servers::Servers;
use crate::survey::Survey;

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
    let (holder, _) = survey.holder(&args.key).await?;
    let Some(holder) = holder else {
        say(&format!("lock {key} is free; there is nothing to release\n"))?;
        return Ok(LEFT_ALONE);
    };
    if args.owner.as_ref().is_some_and(|owner| *owner != holder.owner) {
        complain(&format!("lock `{key}` is held by {}, and was left alone", plain(&holder.owner)));
        return Ok(LEFT_ALONE);
    }
    if !args.yes && !is_confirmed(&key, &holder)? {
        complain(&format!("lock `{key}` was left alone"));
        return Ok(LEFT_ALONE);
    }
    let done = take_away(&mut survey, &args.key, &holder.owner).await?;
    let owner = plain(&holder.owner);
    match done {
        Done::LeftAlone => {
            complain(&format!("lock `{key}` had changed hands, and was left alone"));
            return Ok(LEFT_ALONE);
        }
        Done::Released => say(&format!("lock {key} was taken from {owner}, and is free\n"))?,
        Done::HandedOver => {
            say(&format!(
                "lock {key} was taken from {owner}, and given to the next in its queue\n"
            ))?;
        }
    }
    complain("the holder learns of it at its next renewal, and may work on until then");
    Ok(0)
}

fn is_confirmed(key: &str, holder: &Holder) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "lock `{key}` is held by {}; stdin is no terminal on which to ask: add --yes",
            plain(&holder.owner)
        )));
    }
    let mut stderr = io::stderr();
    write!(
        stderr,
        "lock {key} is held by {}\n  {} left unless it is renewed; waiting: {}\n\
         Its holder may be at work: two would work at once. Take the lock away? [y/N] ",
        plain(&holder.owner),
        time_left(holder),
        holder.waiting
    )?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Releases the lock on every server where this owner has it.
async fn take_away(survey: &mut Survey, name: &str, owner: &str) -> Result<Done, Failure> {
    let keys = survey.keys(name)?;
    let mut command = redis::cmd("EVAL");
    command.arg(operator::release_script()).arg(4);
    command.arg(&keys.lock).arg(&keys.mark).arg(&keys.counter).arg(&keys.queue).arg(owner);
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for node in survey.nodes() {
        match node.query::<i64>(&command).await {
            Ok(2) => done.push(Done::HandedOver),
            Ok(1) => done.push(Done::Released),
            Ok(_) => done.push(Done::LeftAlone),
            Err(error) => errors.push(error.to_string()),
        }
    }
    match done.into_iter().max() {
        None => Err(Failure::new(failure::UNAVAILABLE, errors.join("\nredlock: "))),
        Some(done) => {
            for error in &errors {
                complain(error);
            }
            Ok(done)
        }
    }
}
