//! Histograms of the spans of tokio's tasks, which tokio enters and exits many times, on different
//! threads. The output is a table of the spans' times.
//!
//! `cargo run --release --example tokio_histograms`
//!
//! Its output has: "total", "busy", "GET /item", "query".
#![expect(clippy::print_stdout, reason = "an example that prints a table")]

use std::time::Duration;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::histogram::{Histograms, Measure};
use tracing::{Instrument, info_span, instrument};
use tracing_subscriber::layer::SubscriberExt;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _thread = tickline::start()?;
    let busy = Histograms::new(Measure::Busy);
    let total = Histograms::new(Measure::Total);
    let subscriber = tracing_subscriber::registry().with(
        SpanTimingLayer::new()
            .with_sink(busy.clone())
            .with_sink(total.clone()),
    );
    tracing::subscriber::set_global_default(subscriber)?;

    let requests: Vec<_> = (0..2_000)
        .map(|number| tokio::spawn(serve(number).instrument(info_span!("GET /item", number))))
        .collect();
    for request in requests {
        request.await?;
    }

    println!("{total}\n\n{busy}");
    Ok(())
}

/// A handler, which makes a query, waits for it, and renders the result.
async fn serve(number: u64) -> usize {
    let rows = query(number).await;
    info_span!("render").in_scope(|| format!("{rows:?}").len())
}

#[instrument(skip_all)]
async fn query(number: u64) -> Vec<u64> {
    tokio::time::sleep(Duration::from_micros(500 + number % 7 * 100)).await;
    tokio::task::yield_now().await;
    (0..number % 50).collect()
}
