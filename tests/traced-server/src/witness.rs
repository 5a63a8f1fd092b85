//! The measurement: two layers, one before and one behind the layer that is tested, read the same
//! clock. On one thread its readings are in order. So the time in the trace must lie between the
//! readings of both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tickline::Instant;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::judge::Bracketed;

/// All intervals that the witness has observed.
#[derive(Debug, Default)]
pub struct Observed {
    pub busy: Vec<Bracketed>,
    pub whole: Vec<Bracketed>,
}

/// What happens to a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Act {
    New,
    Enter,
    Exit,
    Close,
}

/// The readings of one layer: for each act on a span, in their order.
type Readings = HashMap<(Act, u64), Vec<u64>>;

/// Two layers, and what they have read.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    readings: [Arc<Mutex<Readings>>; 2],
}

impl Witness {
    /// The layer that is called before the tested one.
    pub fn before(&self) -> Reader {
        Reader(Arc::clone(&self.readings[0]))
    }

    /// The layer that is called after the tested one.
    pub fn after(&self) -> Reader {
        Reader(Arc::clone(&self.readings[1]))
    }

    /// The intervals. A span is on one thread at a time, so its enters and exits alternate.
    pub fn observed(&self) -> Observed {
        let [before, after] = [0, 1].map(|layer| self.readings[layer].lock().expect("no panic"));
        let mut observed = Observed::default();
        for (&(act, span), first_ns) in before.iter() {
            let (end, list) = match act {
                Act::New => (Act::Close, &mut observed.whole),
                Act::Enter => (Act::Exit, &mut observed.busy),
                Act::Exit | Act::Close => continue,
            };
            let ends = &before[&(end, span)];
            for (index, &begin_ns) in first_ns.iter().enumerate() {
                list.push(Bracketed {
                    span,
                    begin_ns: [begin_ns, after[&(act, span)][index]],
                    end_ns: [ends[index], after[&(end, span)][index]],
                });
            }
        }
        observed
    }
}

/// A layer that reads the clock.
#[derive(Debug)]
pub struct Reader(Arc<Mutex<Readings>>);

impl Reader {
    fn read(&self, act: Act, span: u64) {
        let now_ns = Instant::now().as_nanos();
        self.0
            .lock()
            .expect("no panic")
            .entry((act, span))
            .or_default()
            .push(now_ns);
    }
}

/// The number of a span, which each span of the server has as a field.
struct Number(u64);

impl Visit for Number {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "number" {
            self.0 = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// A span's number, for the layers' later calls.
struct Numbered(u64);

fn number_of<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, context: &Context<'_, S>) -> u64 {
    let span = context.span(id).expect("a span of this registry");
    span.extensions()
        .get::<Numbered>()
        .expect("the first layer has stored it")
        .0
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Reader {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut number = Number(0);
        attributes.record(&mut number);
        let span = context.span(id).expect("a span of this registry");
        span.extensions_mut().replace(Numbered(number.0));
        self.read(Act::New, number.0);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.read(Act::Enter, number_of(id, &context));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.read(Act::Exit, number_of(id, &context));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.read(Act::Close, number_of(&id, &context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a witness has observed whose layers have read these times, ns: for each act on span 1,
    /// before and after the tested layer.
    fn observed(acts: &[(Act, [u64; 2])]) -> Observed {
        let witness = Witness::default();
        for (act, times_ns) in acts {
            for (readings, ns) in witness.readings.iter().zip(times_ns) {
                let mut readings = readings.lock().expect("no panic");
                readings.entry((*act, 1)).or_default().push(*ns);
            }
        }
        witness.observed()
    }

    fn times_ns(intervals: &[Bracketed]) -> Vec<[[u64; 2]; 2]> {
        let times_ns = |one: &Bracketed| [one.begin_ns, one.end_ns];
        intervals.iter().map(times_ns).collect()
    }

    #[test]
    fn a_span_is_whole_from_its_creation_to_its_end() {
        let observed = observed(&[(Act::New, [1, 2]), (Act::Close, [8, 9])]);
        assert_eq!(times_ns(&observed.whole), [[[1, 2], [8, 9]]]);
    }

    #[test]
    fn each_enter_goes_with_the_next_exit() {
        let acts = [
            (Act::Enter, [1, 2]),
            (Act::Exit, [3, 4]),
            (Act::Enter, [5, 6]),
            (Act::Exit, [7, 8]),
        ];
        let busy = times_ns(&observed(&acts).busy);
        assert_eq!(busy, [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]);
    }
}
