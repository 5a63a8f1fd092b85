//! The tracer inside the OpenTelemetry layer, and its spans: they put the times in.

use core::time::Duration;
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Span, SpanBuilder, SpanContext, Status, Tracer};
use opentelemetry::{Context, KeyValue, Value};

use super::OtelTimes;
use super::layers::{Call, find};

/// The attribute that a span's builder has until OpenTelemetry starts the span. No sampler and no
/// exporter sees it.
const CREATED: &str = "tickline.created_ns";

/// A tracer whose spans have tickline's times; made by [`OtelTimes::tracer`].
#[derive(Debug, Clone)]
pub struct TimedTracer<T> {
    pub(super) tracer: T,
    pub(super) times: OtelTimes,
}

/// A span of a [`TimedTracer`].
#[derive(Debug)]
pub struct TimedSpan<S> {
    span: S,
    /// Of Unix time from monotonic time, ns. `None` if the span did not come from a layer that
    /// [`OtelTimes`] knows.
    offset: Option<i64>,
}

impl<S> TimedSpan<S> {
    /// The time that `read` finds in the present call, or else `time`.
    fn own_or(&self, time: SystemTime, read: impl FnOnce(Call) -> Option<u64>) -> SystemTime {
        self.offset.zip(find(read)).map_or(time, |(offset, ns)| unix(ns, offset))
    }
}

fn unix(monotonic_ns: u64, offset_ns: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(monotonic_ns.saturating_add_signed(offset_ns))
}

impl<T: Tracer> Tracer for TimedTracer<T> {
    type Span = TimedSpan<T::Span>;

    /// The layer calls this when a `tracing` span is created. It then sets the time of its own
    /// clock, so tickline's goes into an attribute.
    fn span_builder<N: Into<Cow<'static, str>>>(&self, name: N) -> SpanBuilder {
        let mut builder = self.tracer.span_builder(name);
        let created = find(|call| i64::try_from(call.created_ns?).ok());
        if let Some(ns) = created {
            let attributes = builder.attributes.get_or_insert_with(|| Vec::with_capacity(16));
            attributes.push(KeyValue::new(CREATED, ns));
        }
        builder
    }

    fn build_with_context(&self, mut builder: SpanBuilder, parent: &Context) -> Self::Span {
        let offset = take_created(&mut builder).map(|created_ns| {
            let OtelTimes { clock, offset } = &self.times;
            let offset = offset.get(clock.now_ns(), || clock.unix_offset_ns());
            builder.start_time = Some(unix(created_ns, offset));
            offset
        });
        TimedSpan { span: self.tracer.build_with_context(builder, parent), offset }
    }
}

/// Takes the attribute [`CREATED`] out.
fn take_created(builder: &mut SpanBuilder) -> Option<u64> {
    let attributes = builder.attributes.as_mut()?;
    let index = attributes.iter().position(|attribute| attribute.key.as_str() == CREATED)?;
    match attributes.remove(index).value {
        Value::I64(ns) => u64::try_from(ns).ok(),
        _ => None,
    }
}

impl<S: Span> Span for TimedSpan<S> {
    fn add_event_with_timestamp<N>(&mut self, name: N, timestamp: SystemTime, attributes: Vec<KeyValue>)
    where
        N: Into<Cow<'static, str>>,
    {
        let timestamp = self.own_or(timestamp, |call| call.event_ns);
        self.span.add_event_with_timestamp(name, timestamp, attributes);
    }

    fn span_context(&self) -> &SpanContext {
        self.span.span_context()
    }

    fn is_recording(&self) -> bool {
        self.span.is_recording()
    }

    fn set_attribute(&mut self, mut attribute: KeyValue) {
        if let Some(times) = find(|call| call.times) {
            let ns = match attribute.key.as_str() {
                "busy_ns" => Some(times.busy()),
                "idle_ns" => Some(times.idle()),
                _ => None,
            };
            if let Some(ns) = ns.and_then(|time| i64::try_from(time.as_nanos()).ok()) {
                attribute.value = Value::I64(ns);
            }
        }
        self.span.set_attribute(attribute);
    }

    fn set_status(&mut self, status: Status) {
        self.span.set_status(status);
    }

    fn update_name<N: Into<Cow<'static, str>>>(&mut self, name: N) {
        self.span.update_name(name);
    }

    fn add_link(&mut self, context: SpanContext, attributes: Vec<KeyValue>) {
        self.span.add_link(context, attributes);
    }

    fn end_with_timestamp(&mut self, timestamp: SystemTime) {
        self.span.end_with_timestamp(self.own_or(timestamp, |call| call.end_ns));
    }
}
