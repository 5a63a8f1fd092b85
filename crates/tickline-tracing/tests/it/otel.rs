//! Times of spans that tracing-opentelemetry exports, with each of its versions.
//!
//! The clock is moved by hand, from the first nanosecond of 2026 on, so a time by `SystemTime::now`
//! is seen.
#![expect(clippy::duplicate_mod, reason = "the same checks for each version")]

macro_rules! version {
    ($version:ident, $otel:ident, $sdk:ident, $layer:ident) => {
        #[path = "otel"]
        mod $version {
            use {$layer as otel_layer, $otel as otel, $sdk as sdk};

            #[path = "checks.rs"]
            mod checks;
        }
    };
}

version!(with_0_32, opentelemetry_0_32, opentelemetry_sdk_0_32, tracing_opentelemetry_0_33);
version!(with_0_33, opentelemetry, opentelemetry_sdk, tracing_opentelemetry);
