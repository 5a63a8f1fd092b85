//! The serving side of `--against`: a process that takes slices of one benchmark for another
//! process, on request.
//!
//! The driving process (`builds.rs`) starts this process with [`Role::Serve`] in a variable, and
//! with criterion's arguments for a test of one benchmark, which criterion therefore calls once.
//! The benchmark then takes a slice for each request, and returns when there are no more.
//!
//! | line | sent to | meaning |
//! |---|---|---|
//! | `{"iterations":5000,"iterations_per_pair":64}` | the serving process | a [`Request`] |
//! | `tickline-criterion: {"clock":"counter",..}` | the driving process | a [`ServedSlice`] |

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::arguments::{self, Role};
use crate::measurement::measured_by::MeasuredBy;
use crate::number::{count, index, random_below};
use crate::pairs::disturbance::Disturbances;
use crate::pairs::placement::HeapShift;
use crate::pairs::system_facts;

/// The beginning of a line for the driving process. criterion and the benchmark print other lines.
pub(crate) const MARK: &str = "tickline-criterion: ";

/// The largest number of compared pairs in a slice. Only slices of futures and of single iterations
/// have more.
const MAX_PAIRS: usize = 8_192;

/// A request for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The largest number of iterations.
    pub(crate) iterations: u64,
    /// The number of iterations in a pair; `None` if the serving process chooses it.
    pub(crate) iterations_per_pair: Option<u64>,
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedSlice {
    /// Two builds are comparable only if they measure by the same clock.
    pub(crate) clock: MeasuredBy,
    pub(crate) iterations_per_pair: u64,
    /// The number of disturbed pairs by disturbance.
    pub(crate) disturbances: Disturbances,
    /// The pairs that count, ticks.
    pub(crate) ticks: Vec<u64>,
}

/// The streams of requests and of replies, if they are not standard input and output.
static STREAMS: OnceLock<[File; 2]> = OnceLock::new();

/// Makes standard input and output the benchmark's own (Linux): a process that it starts, and that
/// inherits them, would take requests, and its lines would be among the replies.
pub(crate) fn take_streams() {
    if let Some(streams) = system_facts::take_standard_streams() {
        _ = STREAMS.set(streams);
    }
}

/// The state of a serving process.
#[derive(Debug)]
pub(crate) struct Serving {
    /// The duration of a tick, which the driving process knows.
    pub(crate) ns_per_tick: f64,
    heap: HeapShift,
}

impl Serving {
    /// `None` if this process does not serve.
    pub(crate) fn of_this_process() -> Option<Self> {
        (arguments::role() == Role::Serve)
            .then(|| Self::new(arguments::counter_ns_per_tick().unwrap_or(1.0)))
    }

    pub(crate) fn new(ns_per_tick: f64) -> Self {
        Self {
            ns_per_tick,
            heap: HeapShift::default(),
        }
    }

    /// Waits for a request. `None` if the driving process has ended, or needs no more slices.
    pub(crate) fn next_request(&mut self) -> Option<Request> {
        let mut line = String::new();
        // The next line comes after the reply to this one, so that the buffer is empty afterwards.
        _ = match STREAMS.get() {
            Some([requests, _]) => BufReader::new(requests).read_line(&mut line),
            None => io::stdin().read_line(&mut line),
        };
        let request = serde_json::from_str(&line).ok()?;
        self.heap.shift();
        Some(request)
    }

    /// Replies to the last request.
    pub(crate) fn reply(&mut self, mut slice: ServedSlice) {
        slice.ticks = evenly(&slice.ticks).collect();
        let reply = serde_json::to_string(&slice).unwrap_or_default();
        // It begins with a line break, because the benchmark may have printed an incomplete line.
        let line = format!("\n{MARK}{reply}\n");
        _ = match STREAMS.get() {
            Some([_, replies]) => {
                let mut replies = replies;
                replies.write_all(line.as_bytes())
            }
            None => io::stdout().write_all(line.as_bytes()),
        };
    }
}

/// All pairs, or one of each few neighbours, at random: of a routine whose every second call is
/// slow, every second pair would have all slow calls or none.
fn evenly(ticks: &[u64]) -> impl Iterator<Item = u64> {
    let step = ticks.len().div_ceil(MAX_PAIRS).max(1);
    ticks
        .chunks(step)
        .map(|neighbours| neighbours[index(random_below(count(neighbours.len())))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_8192_evenly_spaced_pairs_of_a_slice_are_compared() {
        let compared = |pairs: u64| evenly(&(0..pairs).collect::<Vec<_>>()).collect::<Vec<_>>();
        assert_eq!(compared(8_192).len(), 8_192);
        let pairs = compared(8_193);
        assert_eq!(pairs.len(), 4_097);
        let is_of_its_neighbours = |(place, pair): (u64, &u64)| pair / 2 == place;
        assert!((0..).zip(&pairs).all(is_of_its_neighbours), "{pairs:?}");
        assert!(compared(0).is_empty());
    }

    /// Symptom: if every second call was slow, all of the compared pairs were, or none.
    #[test]
    fn the_compared_pairs_of_a_slice_have_as_many_slow_calls_as_all() {
        let every_second_is_slow: Vec<u64> = (0..10_000).map(|pair| 100 + pair % 2).collect();
        let slow = evenly(&every_second_is_slow).filter(|ticks| *ticks > 100);
        let slow = slow.count();
        // Of 5,000, the standard deviation is 35.
        assert!((2_300..=2_700).contains(&slow), "{slow} of 5,000");
    }
}
