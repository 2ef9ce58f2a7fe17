//! What the harness writes.
use std::path::Path;
use crate::Failure; use crate::harness::Results;
pub fn write(r:&Results, _root:&Path, out:&Path)->Result<(),Failure>{ std::fs::create_dir_all(out)?; std::fs::write(out.join("results.json"), serde_json::to_string_pretty(r)?)?; Ok(())}
