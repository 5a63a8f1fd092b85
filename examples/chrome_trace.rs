//! A program with several threads, traced to a file that <https://ui.perfetto.dev> opens.
//!
//! `cargo run --release --example chrome_trace [FILE]`
//!
//! Its output has: "trace.json", "6000 busy intervals", "0 dropped".
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::thread;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Chrome;
use tracing::{info_span, subscriber};
use tracing_subscriber::layer::SubscriberExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "trace.json".to_owned());

    let _clock = tickline::start()?;
    let (chrome, guard) = Chrome::builder().with_fields().flush_on_panic().create(&path)?;
    subscriber::set_global_default(
        tracing_subscriber::registry().with(SpanTimingLayer::new().with_sink(chrome)),
    )?;

    thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || (worker..2_000).step_by(4).for_each(handle));
        }
    });

    let summary = guard.finish()?;
    println!(
        "{path}: {} busy intervals, {} open, {} dropped",
        summary.written, summary.open, summary.dropped
    );
    Ok(())
}

fn handle(request: u64) {
    info_span!("request", number = request).in_scope(|| {
        let lines = 0..200 + request % 300;
        let text: String = info_span!("render").in_scope(|| lines.map(|line| format!("{line}\n")).collect());
        let sum = || text.bytes().map(u64::from).sum::<u64>();
        std::hint::black_box(info_span!("checksum", bytes = text.len()).in_scope(sum));
    });
}
