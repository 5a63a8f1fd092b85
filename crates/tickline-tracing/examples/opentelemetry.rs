//! Spans for OpenTelemetry with tickline's times: `tracing-opentelemetry` exports the times of
//! tickline's other layers.
//!
//! `cargo run --release --example opentelemetry --features opentelemetry-0-33`
//!
//! Its output has: "request", "query", "rows read", "busy_ns".
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tickline::UnixTime;
use tickline_tracing::{SpanTimingLayer, otel};
use tracing::{Instrument, info, info_span, instrument};
use tracing_subscriber::layer::SubscriberExt;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _thread = tickline::start()?;
    // A program that sends its spans over the network uses the exporter of opentelemetry-otlp here.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();

    let layer =
        tracing_opentelemetry::layer().with_tracer(otel::tracer(provider.tracer("example")));
    // The timing layer is optional. It comes first, so that it provides `busy_ns` and `idle_ns`.
    let subscriber = tracing_subscriber::registry()
        .with(SpanTimingLayer::new())
        .with(otel::layer(layer));
    tracing::subscriber::set_global_default(subscriber)?;

    request(7).await;

    provider.force_flush()?;
    for span in exporter.get_finished_spans()? {
        let took = span.end_time.duration_since(span.start_time)?;
        println!(
            "{} from {:?}, {took:?}",
            span.name,
            UnixTime::try_from(span.start_time)?
        );
        for event in span.events.iter() {
            println!(
                "    {} after {:?}",
                event.name,
                event.timestamp.duration_since(span.start_time)?
            );
        }
        for attribute in span
            .attributes
            .iter()
            .filter(|attribute| attribute.key.as_str().ends_with("_ns"))
        {
            println!("    {} = {}", attribute.key, attribute.value);
        }
    }
    Ok(())
}

#[instrument]
async fn request(user: u64) {
    let rows = query().instrument(info_span!("query")).await;
    info!(rows, "answered");
}

async fn query() -> u64 {
    tokio::time::sleep(Duration::from_millis(2)).await;
    info!("rows read");
    3
}
