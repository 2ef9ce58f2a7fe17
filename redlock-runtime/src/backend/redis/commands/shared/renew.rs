//! The renew command: renews many leases in one call. The reply is that of the exclusive kind.

use super::words;
use crate::backend::Claim;
use crate::backend::redis::commands::exclusive::arguments;
use crate::backend::redis::commands::{Script, ScriptCall};

pub(crate) static SCRIPT: Script = Script::new(include_str!("renew.lua"));

pub(crate) fn call(claims: &[&Claim]) -> ScriptCall {
    let holders: Vec<String> = claims.iter().map(|claim| claim.key.holders_key()).collect();
    let expires: Vec<String> = claims.iter().map(|claim| arguments::expire(claim)).collect();
    let keys: Vec<&str> = claims
        .iter()
        .zip(&holders)
        .flat_map(|(claim, holders)| [claim.key.redis_key(), holders.as_str()])
        .collect();
    let args: Vec<&str> = claims
        .iter()
        .zip(&expires)
        .flat_map(|(claim, expire)| {
            [claim.owner.as_str(), expire.as_str(), words::marker(claim.kind)]
        })
        .collect();
    ScriptCall::new(&SCRIPT, &keys, &args)
}
