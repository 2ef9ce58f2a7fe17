//! The names of the options, and what other words mean.

use proc_macro2::Ident;
use syn::ext::IdentExt;

use crate::diagnostics::{Errors, closest};

/// The option that `name` means; reports unknown and repeated options. `listed`, once, is what the
/// options are.
pub(crate) fn known(
    name: &Ident,
    seen: &mut Vec<&str>,
    listed: &mut String,
    errors: &mut Errors,
) -> Option<&'static str> {
    let written = name.unraw().to_string();
    let Some(known) = KNOWN.into_iter().find(|known| *known == written) else {
        let elsewhere = ELSEWHERE.into_iter().find(|(other, _)| *other == written);
        let meant = elsewhere.map(|(_, ours)| ours).or_else(|| closest(&written, KNOWN));
        let hint = match meant {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None if listed.is_empty() => String::new(),
            None => String::from("."),
        };
        let listed = std::mem::take(listed);
        errors.at(name.span(), format!("unknown option `{written}`{hint}{listed}"));
        // A misspelt key is one mistake, not also a missing key.
        seen.extend(meant.filter(|meant| *meant == "key"));
        return None;
    };
    if seen.contains(&known) {
        errors.at(name.span(), format!("option `{known}` is given twice"));
        return None;
    }
    seen.push(known);
    Some(known)
}

/// Why `known` cannot stand beside another option.
pub(crate) fn excluded(known: &str, seen: &[&str]) -> Option<&'static str> {
    let is_beside = |(one, other, _): &&(&str, &str, _)| {
        [*one, *other].contains(&known) && seen.contains(one) && seen.contains(other)
    };
    EXCLUSIVE.iter().find(is_beside).map(|(.., message)| *message)
}

pub(crate) const KNOWN: [&str; 14] = [
    "key",
    "keys",
    "expire",
    "wait",
    "max_renew",
    "min_hold",
    "mode",
    "permits",
    "on_error",
    "on_busy",
    "client",
    "release",
    "reentrant",
    "crate",
];

/// Options that exclude each other, and what to do.
const EXCLUSIVE: [(&str, &str, &str); 2] = [
    (
        "key",
        "keys",
        "`key` and `keys` exclude each other: `key` is for one lock, `keys` for several that are \
         taken together; put all of them into `keys = [..]`",
    ),
    (
        "keys",
        "permits",
        "`keys` and `permits` exclude each other: several keys are locked together as exclusive \
         locks only; take permits one by one, in one order everywhere",
    ),
];

/// Words that other lock libraries use for the same option; too far apart for a spelling check.
const ELSEWHERE: [(&str, &str); 20] = [
    ("ttl", "expire"),
    ("ttl_ms", "expire"),
    ("lease", "expire"),
    ("lease_time", "expire"),
    ("timeout", "wait"),
    ("wait_time", "wait"),
    ("max_renewals", "max_renew"),
    ("renew", "max_renew"),
    ("lock_at_least_for", "min_hold"),
    ("at_least", "min_hold"),
    ("kind", "mode"),
    ("access", "mode"),
    ("max_holders", "permits"),
    ("concurrency", "permits"),
    ("name", "key"),
    ("fallback", "on_error"),
    ("if_busy", "on_busy"),
    ("skip_if_locked", "on_busy"),
    ("redlock", "client"),
    ("pool", "client"),
];
