//! Starts servers and workers, one after the other, and writes down what they did.

mod child;
mod compile_time;
mod cores;
mod figures;
mod idle;
mod lab;
mod machine;
mod measure;
mod open;
mod options;
mod readers;
mod results;
mod rounds;
mod scenario;
mod stats;
mod subjects;
mod usage;

pub use options::Options;
pub use results::Results;
pub use rounds::run;
pub use scenario::{Kind, SCENARIOS, Scenario};
pub use stats::Spread;
pub use subjects::{Program, Role, SUBJECTS, Subject};
