//! The sources under test, included as they are: they are private to their crates, and none of
//! them should have a door for a fuzzer. What they refer to as `crate::..` stands here.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::all)]

// A crate of macros has it without a word.
extern crate proc_macro;

#[path = "../../redlock-macros/src/args.rs"]
mod args;
mod attribute;
mod backend;
#[path = "../../redlock-macros/src/control.rs"]
mod control;
#[path = "../../redlock-macros/src/delimiters.rs"]
mod delimiters;
#[path = "../../redlock-macros/src/diagnostics.rs"]
mod diagnostics;
#[path = "../../redlock-macros/src/duration.rs"]
mod duration;
#[path = "../../redlock-runtime/src/error/mod.rs"]
mod error;
#[path = "../../redlock-macros/src/expand.rs"]
mod expand;
#[path = "../../redlock-runtime/src/fencing.rs"]
mod fencing;
#[path = "../../redlock-runtime/src/foreign_text.rs"]
mod foreign_text;
#[path = "../../redlock-macros/src/hygiene.rs"]
mod hygiene;
mod input;
#[path = "../../redlock-macros/src/item.rs"]
mod item;
#[path = "../../redlock-runtime/src/key/mod.rs"]
mod key;
#[path = "../../redlock-macros/src/keys.rs"]
mod keys;
#[path = "../../redlock-runtime/src/kind.rs"]
mod kind;
#[path = "../../redlock-macros/src/lend.rs"]
mod lend;
mod lengths;
#[path = "../../redlock-macros/src/macro_body.rs"]
mod macro_body;
#[path = "../../redlock-macros/src/option_names.rs"]
mod option_names;
mod options;
mod owner;
#[path = "../../redlock-macros/src/part.rs"]
mod part;
#[path = "../../redlock-macros/src/plan.rs"]
mod plan;
#[path = "../../redlock-macros/src/quoting.rs"]
mod quoting;
mod rendering;
mod replies;
#[path = "../../redlock-macros/src/returns.rs"]
mod returns;
#[path = "../../redlock-macros/src/scan.rs"]
mod scan;
#[path = "../../redlock-macros/src/shape.rs"]
mod shape;
#[path = "../../redlock-runtime/src/shared_text.rs"]
mod shared_text;
#[path = "../../redlock-macros/src/source_text.rs"]
mod source_text;
#[path = "../../redlock-macros/src/spec.rs"]
mod spec;
#[path = "../../redlock-runtime/src/state.rs"]
mod state;
#[path = "../../redlock-macros/src/template.rs"]
mod template;
#[path = "../../redlock-macros/src/traps.rs"]
mod traps;
#[path = "../../redlock-macros/src/values.rs"]
mod values;

pub use attribute::check as attribute;
pub use lengths::check as duration;
pub use rendering::check as key;
pub use replies::check as reply;
