//! An open loop: arrivals by chance, which do not wait for each other. Each wants the one hot key,
//! and its wait counts from the moment for which it was scheduled.

mod arrivals;
mod batch;
mod idle;
mod pace;
mod perfect;
mod run;
mod servers;
mod summary;

pub use batch::measure as batch;
pub use pace::Pace;
pub use run::measure;
