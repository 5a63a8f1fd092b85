//! A server on tokio with a flight recorder that is always on: a slow request writes what happened
//! before it to a file for <https://ui.perfetto.dev>.
//!
//! `cargo run --release --example flight_recorder [FILE]`
//!
//! Its output has: "flight.json", "slow request", "200 requests".
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Tracks;
use tickline_tracing::flight::FlightRecorder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::{Instrument, Span, info, info_span, instrument};
use tracing_subscriber::layer::SubscriberExt;

/// Longer than this is slow. The one slow request takes 300 ms.
const SLOW: Duration = Duration::from_millis(250);

/// How far the file goes back.
const BEFORE: Duration = Duration::from_secs(5);

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
    let server = tokio::spawn(serve(listener));
    let clients = (0..200).map(|number| {
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let page = if number == 150 { "slow" } else { "item" };
            stream.write_all(format!("GET /{page}/{number} HTTP/1.0\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer.starts_with("HTTP/1.0 200"))
        })
    });
    let mut answered = 0;
    for client in clients.collect::<Vec<_>>() {
        answered += u64::from(client.await??);
    }
    server.abort();

    // The file of the slow request is written in the background. This one replaces it, with all.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let summary = recorder.write(&path)?;
    // ORDERING: Relaxed, as above.
    let slow = slow.load(Ordering::Relaxed);
    println!("{answered} requests, {slow} slow request(s)");
    println!(
        "{path}: {} spans, {} events, {} records overwritten",
        summary.written, summary.events, summary.overwritten
    );
    Ok(())
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, peer)) = listener.accept().await {
        let request = info_span!("request", port = peer.port(), path = tracing::field::Empty, status = 0);
        tokio::spawn(answer(stream).instrument(request));
    }
}

/// Reads a request, and answers it.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 1_024];
    let len = stream.read(&mut request).await?;
    let text = String::from_utf8_lossy(&request[..len]).into_owned();
    let path = text.split(' ').nth(1).unwrap_or("/");
    Span::current().record("path", path);
    let body = query(path).await;
    info!(bytes = body.len(), "answered");
    Span::current().record("status", 200);
    stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes()).await?;
    stream.shutdown().await
}

#[instrument]
async fn query(path: &str) -> String {
    let takes_ms = if path.starts_with("/slow") { 300 } else { 2 };
    tokio::time::sleep(Duration::from_millis(takes_ms)).await;
    info_span!("render").in_scope(|| format!("what {path} has\n").repeat(20))
}
