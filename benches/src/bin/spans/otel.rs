//! tracing-opentelemetry, with and without tickline's times. The exporter drops its spans.

use std::hint::black_box;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use tickline_tracing::otel::OtelTimes;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// An exporter that drops finished spans.
#[derive(Debug)]
struct Drops;

impl SpanProcessor for Drops {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        black_box(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn provider() -> SdkTracerProvider {
    SdkTracerProvider::builder().with_span_processor(Drops).build()
}

/// The layer as it is, with the times of `SystemTime`.
pub(crate) fn plain() -> impl Subscriber {
    registry().with(tracing_opentelemetry::layer().with_tracer(provider().tracer("spans")))
}

/// The same layer with tickline's times.
pub(crate) fn timed() -> impl Subscriber {
    let times = OtelTimes::new();
    let tracer = times.tracer(provider().tracer("spans"));
    registry().with(times.layer(tracing_opentelemetry::layer().with_tracer(tracer)))
}
