//! Starts servers and workers, one after the other, and writes down what they did.

mod child;
mod compile_time;
mod figures;
mod idle;
mod lab;
mod machine;
mod measure;
mod options;
mod results;
mod rounds;
mod scenario;
mod stats;
mod subjects;
mod usage;

pub use machine::Machine;
pub use options::Options;
pub use results::{Results, Series, Summary};
pub use rounds::run;
pub use scenario::{SCENARIOS, Scenario};
pub use subjects::{SUBJECTS, Subject};
