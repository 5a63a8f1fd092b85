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
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tracing::{Instrument, Span, field, info, info_span, instrument};
use tracing_subscriber::layer::SubscriberExt;

/// Longer than this is slow. The one slow request takes 300 ms.
const SLOW: Duration = Duration::from_millis(250);

/// How far the file goes back.
const BEFORE: Duration = Duration::from_secs(5);

/// Clients that send requests at the same time, one after the other each.
const CLIENTS: usize = 4;

const REQUESTS: usize = 200;

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

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            tokio::spawn(async move {
                let mut answered = 0;
                for number in (client..REQUESTS).step_by(CLIENTS) {
                    let page = if number == 150 { "slow" } else { "item" };
                    let mut stream = TcpStream::connect(address).await?;
                    stream.write_all(format!("GET /{page}/{number} HTTP/1.0\r\n\r\n").as_bytes()).await?;
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).await?;
                    answered += u64::from(answer.starts_with("HTTP/1.0 200"));
                }
                Ok::<_, std::io::Error>(answered)
            })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        answered += client.await??;
    }
    server.abort();

    // The file of the slow request is written in the background. This one replaces it, with all.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let summary = recorder.write(&path)?;
    // ORDERING: Relaxed, as above.
    let slow = slow.load(Ordering::Relaxed);
    println!("{answered} requests, {slow} slow");
    println!(
        "{path}: {} spans, {} open, {} events, {} records overwritten",
        summary.written, summary.open, summary.events, summary.dropped
    );
    Ok(())
}

/// Answers a request, in a span of its own. With axum or hyper, a middleware does the same.
async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(&mut stream).read_line(&mut line).await?;
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let span = info_span!("request", path, status = field::Empty);
    let answer = async {
        let number = path.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let takes = if path.starts_with("/slow/") { SLOW + SLOW / 5 } else { Duration::from_millis(2) };
        let rows = query(number, takes).await;
        Span::current().record("status", 200);
        render(rows)
    };
    let text = answer.instrument(span).await;
    stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{text}").as_bytes()).await
}

/// Waits for a database.
#[instrument(skip(takes))]
async fn query(number: u64, takes: Duration) -> u64 {
    tokio::time::sleep(takes).await;
    let rows = 100 + number % 50;
    info!(rows, "answered");
    rows
}

#[instrument]
fn render(rows: u64) -> String {
    (0..rows).map(|row| format!("<li>row {row}: {:x}\n", row.wrapping_mul(0x9E37_79B9))).collect()
}
