//! Locks in OpenTelemetry traces: each locked body is a span `redlock` inside of the span of its
//! request, with the key, the fencing token and how long the call waited for the lock. Spans go to
//! standard output; a service puts the exporter of its collector in the place of this one.
//!
//! `cargo run --example opentelemetry`; `REDIS_URL=redis://127.0.0.1:6379` names a server. What a
//! service needs in its `Cargo.toml` for this, beside redlock, tokio and tracing:
//!
//! ```toml
//! tracing-opentelemetry = "0.34"
//! tracing-subscriber = "0.3"
//! opentelemetry = { version = "0.33", default-features = false, features = ["trace"] }
//! opentelemetry_sdk = { version = "0.33", default-features = false, features = ["trace"] }
//! # In its place `opentelemetry-otlp`, for the collector:
//! opentelemetry-stdout = { version = "0.33", default-features = false, features = ["trace"] }
//! ```

use std::error::Error;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redlock::{LockError, Redlock, redis_lock};
use tracing::Instrument;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

#[redis_lock(key = "stock-<id>", expire = "10s", wait = "5s")]
async fn deduct(id: u64, count: u32) -> Result<(), LockError> {
    // An event of the body's span.
    tracing::info!(count, "deducted");
    Ok(())
}

async fn request(id: u64) -> Result<(), LockError> {
    deduct(id, 2).await?;
    deduct(id, 1).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter).build();
    let traces = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    // The spans of locks have the level DEBUG.
    tracing_subscriber::registry().with(LevelFilter::DEBUG).with(traces).init();

    match std::env::var("REDIS_URL") {
        Ok(url) => redlock::init(url).await?,
        Err(_) => redlock::init(Redlock::builder().memory()).await?,
    };
    request(42).instrument(tracing::info_span!("request", path = "/stock/42")).await?;
    provider.shutdown()?;
    Ok(())
}
