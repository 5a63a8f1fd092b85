//! The traits of each version of OpenTelemetry: the same few lines for each.

use super::call::{self, Call};
use super::{Offset, TimedSpan, TimedTracer};

/// The attributes that a span's builder has until OpenTelemetry starts the span. No sampler and no
/// exporter sees them.
const CREATED: &str = "tickline.created_ns";
const SPAN: &str = "tickline.span";

macro_rules! version {
    ($otel:ident) => {
        const _: () = {
            use std::borrow::Cow;
            use std::time::SystemTime;

            use $otel::trace::{Event, Span, SpanBuilder, SpanContext, Status, Tracer};
            use $otel::{Context, KeyValue, Value};

            impl<T: Tracer> Tracer for TimedTracer<T> {
                type Span = TimedSpan<T::Span>;

                /// The layer calls this when a `tracing` span is created. It then sets the time of
                /// its own clock, so tickline's goes into an attribute.
                fn span_builder<N: Into<Cow<'static, str>>>(&self, name: N) -> SpanBuilder {
                    let mut builder = self.tracer.span_builder(name);
                    let created = call::find(|call| match call {
                        Call::Create { span, ns } => {
                            Some((i64::try_from(*ns).ok()?, i64::try_from(*span).ok()?))
                        }
                        _ => None,
                    });
                    if let Some((ns, span)) = created {
                        let attributes = builder.attributes.get_or_insert_with(|| Vec::with_capacity(16));
                        attributes.extend([KeyValue::new(CREATED, ns), KeyValue::new(SPAN, span)]);
                    }
                    builder
                }

                fn build_with_context(&self, mut builder: SpanBuilder, parent: &Context) -> Self::Span {
                    let created_ns = take(&mut builder, CREATED);
                    let offset = created_ns.map(|created_ns| {
                        let offset = self.offset();
                        builder.start_time = Some(offset.unix(created_ns));
                        offset
                    });
                    if let Some((offset, span)) = offset.zip(take(&mut builder, SPAN)) {
                        let times_ns = self.shared.take_waiting(span);
                        set_times(builder.events.as_deref_mut().unwrap_or_default(), &times_ns, offset);
                    }
                    TimedSpan { span: self.tracer.build_with_context(builder, parent), offset }
                }
            }

            /// Takes one of the two attributes out.
            fn take(builder: &mut SpanBuilder, key: &str) -> Option<u64> {
                let attributes = builder.attributes.as_mut()?;
                let place = attributes.iter().position(|attribute| attribute.key.as_str() == key)?;
                match attributes.remove(place).value {
                    Value::I64(number) => u64::try_from(number).ok(),
                    _ => None,
                }
            }

            /// Sets the times of the events that the layer made. Each of them begins with the
            /// level and the target; those of others keep their times.
            fn set_times(events: &mut [Event], times_ns: &[u64], offset: Offset) {
                let is_of_layer = |event: &&mut Event| {
                    let mut keys = event.attributes.iter().map(|attribute| attribute.key.as_str());
                    keys.next() == Some("level") && keys.next() == Some("target")
                };
                // None at all if one is missing: it would shift the others.
                if events.iter_mut().filter(is_of_layer).count() == times_ns.len() {
                    for (event, ns) in events.iter_mut().filter(is_of_layer).zip(times_ns) {
                        event.timestamp = offset.unix(*ns);
                    }
                }
            }

            impl<S: Span> Span for TimedSpan<S> {
                fn add_event_with_timestamp<N>(
                    &mut self,
                    name: N,
                    timestamp: SystemTime,
                    attributes: Vec<KeyValue>,
                ) where
                    N: Into<Cow<'static, str>>,
                {
                    let ns = call::find(|call| match call {
                        Call::Event { ns } => Some(*ns),
                        _ => None,
                    });
                    let own = self.offset.zip(ns).map(|(offset, ns)| offset.unix(ns));
                    self.span.add_event_with_timestamp(name, own.unwrap_or(timestamp), attributes);
                }

                fn span_context(&self) -> &SpanContext {
                    self.span.span_context()
                }

                fn is_recording(&self) -> bool {
                    self.span.is_recording()
                }

                fn set_attribute(&mut self, mut attribute: KeyValue) {
                    let times = call::find(|call| match call {
                        Call::Close { times, .. } => *times,
                        _ => None,
                    });
                    if let Some(times) = times {
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
                    let ns = call::find(|call| match call {
                        Call::Close { end_ns, .. } => Some(*end_ns),
                        _ => None,
                    });
                    let own = self.offset.zip(ns).map(|(offset, ns)| offset.unix(ns));
                    self.span.end_with_timestamp(own.unwrap_or(timestamp));
                }
            }
        };
    };
}

#[cfg(feature = "opentelemetry-0-32")]
version!(opentelemetry_0_32);
#[cfg(feature = "opentelemetry-0-33")]
version!(opentelemetry);
