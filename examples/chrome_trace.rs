//! A program with several threads, traced to a file that <https://ui.perfetto.dev> opens.
//!
//! `cargo run --release --example chrome_trace [FILE [SPANS]]`
//!
//! Its output has: "trace.json", "6000 busy intervals", "0 dropped".
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::thread;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Chrome;
use tracing::{info_span, subscriber};
use tracing_subscriber::layer::SubscriberExt;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "trace.json".to_owned());
    let requests: u64 = arguments.next().map_or(Ok(2_000), |text| text.parse())?;

    let _clock = tickline::start()?;
    let (chrome, guard) = Chrome::builder().with_fields().flush_on_panic().create(&path)?;
    subscriber::set_global_default(
        tracing_subscriber::registry().with(SpanTimingLayer::new().with_sink(chrome)),
    )?;

    let workers: Vec<_> = (0..4)
        .map(|worker| {
            thread::Builder::new().name(format!("worker {worker}")).spawn(move || {
                for request in (worker..requests).step_by(4) {
                    handle(request);
                }
            })
        })
        .collect::<Result<_, _>>()?;
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }

    let summary = guard.finish()?;
    println!(
        "{path}: {} busy intervals, {} open, {} dropped",
        summary.written, summary.open, summary.dropped
    );
    Ok(())
}

fn handle(request: u64) {
    info_span!("request", number = request).in_scope(|| {
        let text = info_span!("render").in_scope(|| render(request));
        info_span!("checksum", bytes = text.len()).in_scope(|| checksum(&text));
    });
}

fn render(request: u64) -> String {
    (0..200 + request % 300).map(|line| format!("{line}: request {request}\n")).collect()
}

fn checksum(text: &str) -> u32 {
    let sum = text.bytes().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(byte));
    std::hint::black_box(sum)
}
