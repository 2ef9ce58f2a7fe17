//! The value of each option: what it may be, and the error if it is something else.

use std::fmt::Display;

use quote::ToTokens;
use syn::{Expr, ExprLit, ExprUnary, Lit, Path, UnOp};

use crate::diagnostics::Errors;
use crate::{control, duration};

pub(crate) enum Time {
    Millis(u64),
    Never,
    Forever,
    Value(Expr),
}

/// `mode = ..`
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Read,
}

/// `max_renew = ..` or `permits = ..`
pub(crate) enum Count {
    Known(u32),
    Value(Expr),
}

/// What to do with a lock failure.
pub(crate) enum OnError {
    Convert,
    Panic,
    With(Expr),
}

/// Values of `macro_rules!` fragments arrive wrapped in invisible groups.
pub(crate) fn ungroup(mut value: Expr) -> Expr {
    while let Expr::Group(group) = value {
        value = *group.expr;
    }
    value
}

/// `"stock"s`: rustc leaves it to macros what the suffix of a literal means.
pub(crate) fn without_suffix(value: Expr, errors: &mut Errors) -> Option<Expr> {
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if !text.suffix().is_empty() => {
            let suffix = text.suffix();
            let message = format!(
                "a string has no suffix such as `{suffix}`: leave it out, or write it before the \
                 closing quote"
            );
            refused(text, message, errors)
        }
        _ => Some(value),
    }
}

/// No value, with an error that says why.
fn refused<T>(at: impl ToTokens, problem: impl Display, errors: &mut Errors) -> Option<T> {
    errors.over(at, problem);
    None
}

pub(crate) fn expire(value: Expr, errors: &mut Errors) -> Option<Time> {
    time("expire", value, problem_as_expire, errors)
}

/// Why this is no `expire`.
fn problem_as_expire(time: &Time) -> Option<&'static str> {
    Some(match time {
        Time::Never => {
            "`expire` must be longer than zero: a lock that expires at once protects nothing"
        }
        Time::Millis(ms) if *ms < SHORTEST_EXPIRE_MS => {
            "`expire` must be at least 10ms: the margins for clock drift and for stopping the \
             body in time would leave nothing of a shorter lease"
        }
        Time::Millis(ms) if *ms > LONGEST_EXPIRE_MS => {
            "`expire` must be at most 365 days: nobody else gets the lock of a crashed process \
             before it expires. Choose a short one, it is renewed while the body runs"
        }
        Time::Forever => {
            "`expire` cannot be \"forever\": the lock of a crashed process would never be free \
             again. Choose a short one, it is renewed while the body runs"
        }
        _ => return None,
    })
}

/// Zero is allowed: the lock is free when it is released.
pub(crate) fn min_hold(value: Expr, errors: &mut Errors) -> Option<Time> {
    let time = time("min_hold", value, problem_as_min_hold, errors)?;
    Some(if matches!(time, Time::Never) { Time::Millis(0) } else { time })
}

/// Why this is no `min_hold`.
fn problem_as_min_hold(time: &Time) -> Option<&'static str> {
    Some(match time {
        Time::Millis(ms) if *ms > LONGEST_EXPIRE_MS => {
            "`min_hold` must be at most 365 days: nobody can have the lock before that, however \
             early its holder is done"
        }
        Time::Forever => {
            "`min_hold` cannot be \"forever\": the lock would never be free again. Write for how \
             long it stays taken at least, such as \"5s\""
        }
        _ => return None,
    })
}

pub(crate) fn wait(value: Expr, errors: &mut Errors) -> Option<Time> {
    time("wait", value, |_| None, errors)
}

pub(crate) fn max_renew(value: Expr, errors: &mut Errors) -> Option<Count> {
    count("max_renew", 5, value, errors)
}

pub(crate) fn permits(value: Expr, errors: &mut Errors) -> Option<Count> {
    let shown = value.to_token_stream();
    let count = count("permits", 3, value, errors)?;
    if matches!(count, Count::Known(0)) {
        let message = "`permits` must be at least 1: with 0 nobody could ever hold the lock";
        return refused(shown, message, errors);
    }
    Some(count)
}

fn count(name: &str, example: u32, value: Expr, errors: &mut Errors) -> Option<Count> {
    let problem = match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            match number.base10_parse().ok().filter(|_| matches!(number.suffix(), "" | "u32")) {
                Some(count) => return Some(Count::Known(count)),
                None => format!("`{name}` must be a whole number that fits in u32"),
            }
        }
        Expr::Lit(_) | Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => format!(
            "`{name}` must be a whole number such as {example}, or an expression of type `u32`"
        ),
        _ => return plain(name, value, errors).map(Count::Value),
    };
    refused(value, problem, errors)
}

pub(crate) fn mode(value: &Expr, errors: &mut Errors) -> Option<Mode> {
    let problem = "`mode` must be \"read\" (beside other readers) or \"write\" (alone, which is \
                   what a lock without `mode` is)";
    word(value, [("write", Mode::Write), ("read", Mode::Read)], problem, errors)
}

pub(crate) fn on_error(value: Expr, errors: &mut Errors) -> Option<OnError> {
    match value {
        Expr::Paren(inner) => on_error(ungroup(*inner.expr), errors),
        Expr::Path(path) if path.path.is_ident("panic") => Some(OnError::Panic),
        Expr::Closure(handler)
            if handler.asyncness.is_some() || matches!(&*handler.body, Expr::Async(_)) =>
        {
            let message = "`on_error` cannot be async: it gives what the function returns when \
                           there is no lock; write `|error| ..`, and await where the function is \
                           called";
            refused(handler, message, errors)
        }
        Expr::Closure(_) | Expr::Path(_) => Some(OnError::With(value)),
        other => {
            let message = "`on_error` takes `panic` (without quotes), a closure `|error| ..` or \
                           the path of a function";
            refused(other, message, errors)
        }
    }
}

/// `Some(true)`: the body is skipped where the lock is busy.
pub(crate) fn skips_busy(value: &Expr, errors: &mut Errors) -> Option<bool> {
    let problem = "`on_busy` must be \"error\" (a busy lock fails the call) or \"skip\" (the call \
                   returns without running the body); for anything else there is `on_error`";
    word(value, [("error", false), ("skip", true)], problem, errors)
}

/// `Some(true)`: the call waits for the answer to its release.
pub(crate) fn awaits_release(value: &Expr, errors: &mut Errors) -> Option<bool> {
    let problem = "`release` must be \"await\" (the lock is free when the call returns) or \
                   \"background\" (the call returns one round trip earlier)";
    word(value, [("await", true), ("background", false)], problem, errors)
}

/// What a string says that has to be one of these words.
fn word<T>(value: &Expr, words: [(&str, T); 2], problem: &str, errors: &mut Errors) -> Option<T> {
    let written = match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        _ => String::new(),
    };
    let known = words.into_iter().find(|(word, _)| *word == written);
    known.map(|(_, meaning)| meaning).or_else(|| refused(value, problem, errors))
}

pub(crate) fn reentrant(value: &Expr, errors: &mut Errors) -> Option<bool> {
    if let Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) = value {
        return Some(flag.value);
    }
    refused(value, "`reentrant` must be `true` or `false`", errors)
}

pub(crate) fn krate(value: Expr, errors: &mut Errors) -> Option<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Some(path.path),
        other => refused(other, "`crate` takes a path such as `crate = my_app::redlock`", errors),
    }
}

/// An expression that is evaluated where the key is: before the body, so it cannot leave it.
pub(crate) fn plain(name: &str, value: Expr, errors: &mut Errors) -> Option<Expr> {
    let Some((what, at)) = control::leaves(&value) else { return Some(value) };
    let message = format!(
        "{what} is not allowed in `{name}`, which is evaluated before the lock is taken; compute \
         the value before the call or inside a method"
    );
    refused(at, message, errors)
}

/// What to write instead of a word that is neither a duration nor a number.
pub(crate) fn instead_of_word(name: &str, word: &str) -> Option<String> {
    const ENDLESS: [&str; 6] = ["forever", "never", "always", "infinite", "unlimited", "none"];
    if !ENDLESS.contains(&word.to_lowercase().as_str()) {
        return None;
    }
    Some(match name {
        "wait" => format!(
            "`{word}` is not a duration; write `wait = \"forever\"` to wait without an end, or \
             `wait = \"0s\"` to try once"
        ),
        "min_hold" => format!(
            "`{word}` is not a duration: write for how long the lock stays taken at least, as in \
             `min_hold = \"5s\"`, or leave it out"
        ),
        "max_renew" => format!(
            "`{word}` is not a number; leave `max_renew` out: the lease is renewed for as long as \
             the body runs then, unless the client has a limit"
        ),
        _ => format!(
            "`{word}` is not a duration, and a lock has to expire: write `{name} = \"30s\"`. It is \
             renewed while the body runs"
        ),
    })
}

/// What keeps a duration from being the value of an option.
type Bounds = fn(&Time) -> Option<&'static str>;

fn time(name: &str, value: Expr, bounds: Bounds, errors: &mut Errors) -> Option<Time> {
    let problem = match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let written = text.value();
            let meant = match written.trim() {
                "forever" => Ok(Time::Forever),
                word => match instead_of_word(name, word) {
                    Some(message) => Err(message),
                    None => known(name, &written),
                },
            };
            match meant.and_then(|time| within(bounds, time)) {
                Ok(time) => return Some(time),
                Err(problem) => problem,
            }
        }
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => {
            let (digits, suffix) = (number.base10_digits(), number.suffix());
            unquoted(name, digits, suffix, bounds)
                .unwrap_or_else(|| without_unit(name, digits, bounds))
        }
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. }) => {
            format!("invalid `{name}`: a duration cannot be negative")
        }
        Expr::Lit(other) => {
            let unquoted = match &other.lit {
                Lit::Float(number) => {
                    unquoted(name, number.base10_digits(), number.suffix(), bounds)
                }
                _ => None,
            };
            unquoted.unwrap_or_else(|| {
                format!(
                    "`{name}` must be a duration such as \"10s\", or an expression of type \
                     `Duration`"
                )
            })
        }
        _ => return plain(name, value, errors).map(Time::Value),
    };
    refused(value, problem, errors)
}

/// What a text says, or what is wrong with it.
fn known(name: &str, written: &str) -> Result<Time, String> {
    match duration::parse_ms(written) {
        Ok(0) => Ok(Time::Never),
        Ok(ms) => Ok(Time::Millis(ms)),
        Err(problem) => Err(format!("invalid `{name}`: {problem}")),
    }
}

fn within(bounds: Bounds, time: Time) -> Result<Time, String> {
    match bounds(&time) {
        Some(problem) => Err(problem.to_owned()),
        None => Ok(time),
    }
}

/// What to write instead of `2m` without quotes, if it is within the bounds; none for a number
/// without a unit, or with the name of a type after it.
fn unquoted(name: &str, digits: &str, suffix: &str, bounds: Bounds) -> Option<String> {
    if suffix.is_empty() || suffix.starts_with(['i', 'u', 'f']) {
        return None;
    }
    let written = format!("{digits}{suffix}");
    Some(match known(name, &written).and_then(|time| within(bounds, time)) {
        Ok(_) => format!("`{name}` is written as a text: write `{name} = \"{written}\"`"),
        Err(problem) => problem,
    })
}

/// The same for a number without a unit.
fn without_unit(name: &str, digits: &str, bounds: Bounds) -> String {
    let mut proposed = Vec::new();
    let mut refusal = String::new();
    for written in [format!("{digits}s"), format!("{digits}ms")] {
        match known(name, &written).and_then(|time| within(bounds, time)) {
            Ok(_) => proposed.push(format!("`{name} = \"{written}\"`")),
            Err(problem) => refusal = problem,
        }
    }
    if proposed.is_empty() {
        return refusal;
    }
    format!("`{name}` needs a unit: write {}", proposed.join(" or "))
}

/// Below this the margins for drift (2 ms and 1 %) and for stopping the body (5 %) use up the
/// lease.
const SHORTEST_EXPIRE_MS: u64 = 10;
const LONGEST_EXPIRE_MS: u64 = 365 * 86_400_000;
