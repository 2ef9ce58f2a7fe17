//! The attribute of `redlock-runtime`: parses, checks and expands `#[redis_lock]`.
//!
//! The files are the pipeline: `args` (options) and `template` (the lock key), `item` and `shape`
//! (the function), `plan` (everything that needs both), `expand` (quoting only). `diagnostics`
//! collects the errors of all stages, so that one compile reports all of them.

mod args;
mod control;
mod delimiters;
mod diagnostics;
mod duration;
mod expand;
mod hygiene;
mod item;
mod keys;
mod lend;
mod macro_body;
mod option_names;
mod part;
mod plan;
mod quoting;
mod returns;
mod scan;
mod shape;
mod source_text;
mod spec;
mod template;
mod traps;
mod values;

use proc_macro2::TokenStream;

use diagnostics::Errors;

/// Runs the function under a distributed lock; documented where `redlock` re-exports it.
#[proc_macro_attribute]
pub fn redis_lock(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    lock(args.into(), item.into()).into()
}

fn lock(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = args::parse(args, &mut errors);
    let function = item::parse(item.clone(), &mut errors);
    let unlocked = function.as_ref().map_or(item, expand::unlocked);
    let plan = function.and_then(|function| plan::plan(args, function, &mut errors));
    match (plan, errors.into_compile_errors()) {
        (Some(plan), None) => expand::expand(&plan),
        (_, errors) => TokenStream::from_iter([unlocked, errors.unwrap_or_default()]),
    }
}
