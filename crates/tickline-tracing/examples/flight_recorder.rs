//! A server with a flight recorder (on Unix). The server hangs in one of 50,000 requests, answers
//! all others, and is then killed. The recorder's file shows this request as open, and all others
//! as ended.
//!
//! `cargo run --release --example flight_recorder [TRACE]`
//!
//! Its output has: "flight.json", "50000 requests", "1 open", "reaches back".
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio, exit};
use std::sync::{Mutex, mpsc};
use std::{env, fs, thread};

use serde_json::Value;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::{self, FlightRecorder};
use tickline_tracing::trace_file::{TraceFormat, Tracks};
use tracing::{Span, info_span};
use tracing_subscriber::layer::SubscriberExt;

const REQUESTS: u64 = 50_000;

/// The number of the request that hangs. The records of all later requests fit into the rings.
const HANGS: u64 = 48_000;

fn main() -> Result<(), Box<dyn Error>> {
    let trace = env::args()
        .nth(1)
        .unwrap_or_else(|| "flight.json".to_owned());
    if let Ok(file) = env::var("BLACK_BOX") {
        return serve(&file);
    }
    let file = format!("{trace}.box");
    let mut server = Command::new(env::current_exe()?);
    let mut server = server
        .env("BLACK_BOX", &file)
        .stdout(Stdio::piped())
        .spawn()?;
    let answers = BufReader::new(server.stdout.take().ok_or("no output")?).lines();
    let answered = (1..REQUESTS).zip(answers.map_while(Result::ok)).count();
    server.kill()?; // SIGKILL: the server can't write anything more.
    server.wait()?;
    let mut bytes = Vec::new();
    let left = flight::convert(fs::File::open(&file)?, &mut bytes, TraceFormat::Json)?;
    fs::write(&trace, &bytes)?;
    fs::remove_file(file)?;

    let events: Vec<Value> = serde_json::from_slice(&bytes)?;
    let (mut open, mut ended) = (BTreeMap::new(), 0);
    for event in events.iter().filter(|event| event["name"] == "request") {
        match event["ph"].as_str() {
            Some("b") => {
                _ = open.insert(
                    event["id2"]["local"].as_str(),
                    event["args"]["number"].as_u64(),
                )
            }
            _ => {
                let number = open.remove(&event["id2"]["local"].as_str()).flatten();
                ended += u64::from(number > Some(HANGS))
            }
        }
    }
    let since_us = left
        .complete_since
        .ok_or("nothing was overwritten")?
        .as_nanos()
        / 1_000;
    let unended = left.unended_intervals;
    println!("{trace}: {REQUESTS} requests, {unended} open; it reaches back to {since_us} us");
    assert_eq!(answered, usize::try_from(REQUESTS - 1)?);
    assert_eq!((unended, ended), (1, REQUESTS - HANGS - 1));
    assert!(
        open.into_values().eq([Some(HANGS)]),
        "the open request is the one that hangs"
    );
    Ok(())
}

/// Serves requests with two threads, which answer them as fast as they can.
fn serve(file: &str) -> Result<(), Box<dyn Error>> {
    let _thread = tickline::start()?;
    let recorder = FlightRecorder::builder()
        .with_fields()
        .tracks(Tracks::Requests)
        .in_file(file)
        .threads(4)
        .build()?;
    let layer = SpanTimingLayer::new().with_sink(recorder);
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    let (requests, received) = mpsc::sync_channel(64);
    let received = Mutex::new(received);
    let next = || received.lock().ok()?.recv().ok();
    let work = || {
        while let Some((number, request)) = next() {
            answer(number, request);
        }
    };
    thread::scope(|scope| {
        let _workers = [(); 2].map(|()| scope.spawn(work));
        (0..REQUESTS).try_for_each(|number| requests.send((number, info_span!("request", number))))
    })?;
    Err("the parent has not killed the server".into())
}

/// Answers a request, which began on another thread and ends on this one.
fn answer(number: u64, request: Span) {
    let text = request.in_scope(|| {
        if number == HANGS {
            loop {
                thread::park();
            }
        }
        info_span!("render").in_scope(|| format!("{number}: ok\n"))
    });
    drop(request);
    if io::stdout().write_all(text.as_bytes()).is_err() {
        exit(1) // The client has ended.
    }
}
