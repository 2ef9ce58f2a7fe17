//! Every accepted function shape, in edition 2018.
#![cfg(test)]
#![deny(warnings, clippy::all, clippy::pedantic)]
// What the functions themselves, without the attribute, are full of.
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::unused_async
)]
// Allowed by default, and therefore easy for generated code to break unnoticed.
#![deny(
    absolute_paths_not_starting_with_crate,
    elided_lifetimes_in_paths,
    if_let_rescope,
    keyword_idents,
    let_underscore_drop,
    meta_variable_misuse,
    tail_expr_drop_order,
    trivial_casts,
    trivial_numeric_casts,
    unsafe_op_in_unsafe_fn,
    unused_extern_crates,
    unused_import_braces,
    unused_lifetimes,
    unused_results,
    variant_size_differences
)]

include!("../../shapes/crate.rs");
