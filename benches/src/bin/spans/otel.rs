//! tracing-opentelemetry, with and without tickline's times. The provider has no processor, so it
//! drops finished spans.

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tickline_tracing::otel;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

fn provider() -> SdkTracerProvider {
    SdkTracerProvider::builder().build()
}

/// The unchanged layer, with the times of `SystemTime`.
pub(crate) fn plain() -> impl Subscriber {
    registry().with(tracing_opentelemetry::layer().with_tracer(provider().tracer("spans")))
}

/// The layer with tickline's times.
pub(crate) fn timed() -> impl Subscriber {
    let tracer = otel::tracer(provider().tracer("spans"));
    registry().with(otel::layer(
        tracing_opentelemetry::layer().with_tracer(tracer),
    ))
}
