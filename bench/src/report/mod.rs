//! What the harness writes: tables, plots, a file of figures.

mod document;
mod goals;
mod kinds;
mod number;
mod open;
mod plot;
mod table;
mod tables;

pub use document::write;
