//! The report: one HTML file with drawings, nothing loaded from anywhere.

mod histogram;
mod page;
mod palette;
mod plane;
mod stock;
mod timeline;

pub(crate) use page::page;
