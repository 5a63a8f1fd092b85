//! A server with a flight recorder that is always on: a slow request writes what happened
//! before it to a file for <https://ui.perfetto.dev>.
//!
//! `cargo run --release --example flight_recorder [FILE]`
//!
//! Its output has: "flight.json", "1 slow", "200 requests".
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Tracks;
use tickline_tracing::flight::FlightRecorder;
use tracing::{info, instrument};
use tracing_subscriber::layer::SubscriberExt;

/// Longer than this is slow. The one slow request takes 300 ms.
const SLOW: Duration = Duration::from_millis(250);

/// How far the file goes back.
const BEFORE: Duration = Duration::from_secs(5);

/// Clients that send requests at the same time, one after the other each.
const CLIENTS: u64 = 4;

const REQUESTS: u64 = 200;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "flight.json".to_owned());
    let _clock = tickline::start()?;
    let recorder = FlightRecorder::builder().with_fields().tracks(Tracks::ThreadsAndRequests).build();
    recorder.write_on_panic("panic.json");
    let slow = Arc::new(AtomicU64::new(0));
    let (on_slow, found, file) = (recorder.clone(), Arc::clone(&slow), path.clone());
    let layer = SpanTimingLayer::new().with_sink(recorder.clone()).with_callback(move |span| {
        if span.name() == "request" && span.times().total() > SLOW {
            // ORDERING: Relaxed, a count.
            found.fetch_add(1, Ordering::Relaxed);
            on_slow.write_in_background(&file, BEFORE);
        }
    });
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            tokio::spawn(async move {
                for number in (client..REQUESTS).step_by(usize::try_from(CLIENTS).unwrap_or(1)) {
                    request(number).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await?;
    }

    // The file of the slow request is written in the background. This one replaces it, with all.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let summary = recorder.write(&path)?;
    // ORDERING: Relaxed, as above.
    println!("{REQUESTS} requests, {} slow", slow.load(Ordering::Relaxed));
    println!(
        "{path}: {} spans, {} open, {} events, {} records overwritten",
        summary.written, summary.open, summary.events, summary.dropped
    );
    Ok(())
}

/// Answers a request. With axum or hyper, a middleware makes this span.
#[instrument]
async fn request(number: u64) -> String {
    let rows = query(number).await;
    render(rows)
}

/// Waits for a database, which one query finds busy.
#[instrument]
async fn query(number: u64) -> u64 {
    tokio::time::sleep(if number == 150 { SLOW + SLOW / 5 } else { Duration::from_millis(2) }).await;
    let rows = 100 + number % 50;
    info!(rows, "answered");
    rows
}

#[instrument]
fn render(rows: u64) -> String {
    (0..rows).map(|row| format!("<li>row {row}\n")).collect()
}
