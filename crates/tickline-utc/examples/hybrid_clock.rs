//! A hybrid logical clock (Kulkarni, Demirbas and others, "Logical Physical Clocks", 2014) over
//! `Utc::now`, on three simulated machines.
//!
//! `cargo run --release --features mock --example hybrid_clock`
//!
//! Its output has: "300 messages", "30 messages", "the hybrid clock: never", "in the wrong order:
//! 0".
//!
//! The machines pass a message around. The program compares the sending of the message with each
//! receipt. Each machine's clock is a mock that the program moves; its offset from UTC is smaller
//! than the error that it claims. Production code uses `Utc::start` and its method
//! `wait_until_past`.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::time::Duration;

use tickline::UnixTime;
use tickline::mock::MockClock;
use tickline_utc::mock::MockUtc;
use tickline_utc::{Utc, UtcReading, UtcUnknown};

/// The offset of each machine's clock from UTC, ns, and the error that all of them claim.
const OFFSETS_NS: [i64; 3] = [0, 4_000_000, -4_000_000];
const ERROR: Duration = Duration::from_millis(5);

/// The width of a reading, ns: the error, to both sides.
const WIDTH_NS: u64 = 10_000_000;

/// The number of times that a machine sends the message at once, and then after a wait.
const AT_ONCE: usize = 300;
const AFTER_WAIT: usize = 30;

/// The delay of a message.
const DELAY: Duration = Duration::from_micros(50);

/// A time of the hybrid clock: a physical time, and a count of events at the same physical time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    ns: u64,
    count: u64,
}

/// An event on a machine.
#[derive(Debug, Clone, Copy)]
struct Event {
    stamp: Stamp,
    utc: UtcReading,
}

/// A machine with its hybrid clock.
#[derive(Debug)]
struct Machine {
    mock: MockClock,
    utc: Utc,
    last: Stamp,
}

impl Machine {
    fn new(offset_ns: i64) -> Self {
        let mock = MockClock::new();
        let utc_ns = mock.clock().unix_now().as_nanos(); // of each mock the same
        mock.set_unix_time(UnixTime::from_nanos(
            utc_ns.saturating_add_signed(offset_ns),
        ));
        Self {
            utc: MockUtc::new(&mock, ERROR).utc(),
            mock,
            last: Stamp::default(),
        }
    }

    /// An event, which may be the receipt of a message with the stamp `received`. Its stamp is
    /// greater than this machine's last stamp, than the message's stamp, and than UTC. No stamp is
    /// ahead of UTC by more than the width of a reading.
    fn event(&mut self, received: Stamp) -> Result<Event, UtcUnknown> {
        let utc = self.utc.now()?;
        let known = self.last.max(received);
        let physical = Stamp {
            ns: utc.latest().as_nanos(),
            count: 0,
        };
        self.last = physical.max(Stamp {
            count: known.count + 1,
            ..known
        });
        Ok(Event {
            stamp: self.last,
            utc,
        })
    }
}

/// Lets time pass on all machines.
fn pass(machines: &[Machine], time: Duration) {
    machines
        .iter()
        .for_each(|machine| machine.mock.advance(time));
}

/// Prints the order of sendings and receipts, for the messages that were sent in one way.
fn judge(way: &str, hops: &[[Event; 2]]) {
    let late = |hop: &&[Event; 2]| hop[1].utc.latest() <= hop[0].utc.latest();
    let by_latest = hops.iter().filter(late).count();
    let ordered = hops
        .iter()
        .filter(|[sent, received]| sent.utc.definitely_before(&received.utc))
        .count();
    let wrong = hops
        .iter()
        .filter(|[sent, received]| received.utc.definitely_before(&sent.utc))
        .count();
    let unknown = hops.len() - ordered - wrong;
    println!("{} messages, sent {way}:", hops.len());
    println!("  received before they were sent, by the latest times of both machines: {by_latest}");
    println!(
        "  readings that tell the order: {ordered}, in the wrong order: {wrong}; that overlap: {unknown}"
    );
    println!("  received before they were sent, by the hybrid clock: never");
}

fn main() -> Result<(), UtcUnknown> {
    let mut machines = OFFSETS_NS.map(Machine::new);
    let mut sent = machines[0].event(Stamp::default())?;
    let mut hops = Vec::new();
    for hop in 1..=AT_ONCE + AFTER_WAIT {
        pass(&machines, DELAY);
        let at = hop % machines.len();
        let received = machines[at].event(sent.stamp)?;
        hops.push([sent, received]);
        // A message contains a stamp, and the bounds of the sender's reading.
        let theirs = UtcReading::from_bounds(sent.utc.earliest(), sent.utc.latest());
        assert!(
            sent.stamp < received.stamp,
            "causality: {sent:?} {received:?}"
        );
        assert!(
            !received.utc.definitely_before(&theirs),
            "{sent:?} {received:?}"
        );
        let utc_ns = machines[0].mock.clock().unix_now().as_nanos(); // This machine's offset is 0.
        assert!(
            (utc_ns..=utc_ns + WIDTH_NS).contains(&received.stamp.ns),
            "{utc_ns} {received:?}"
        );
        sent = machines[at].event(Stamp::default())?;
        if hop >= AT_ONCE {
            // Commit wait: all later events, on any machine, have a larger `latest` than
            // `sent.utc`. `Utc::wait_until_past` would move only this mock.
            pass(&machines, machines[at].utc.time_until_past(&sent.utc)?);
        }
    }
    let (at_once, after_wait) = hops.split_at(AT_ONCE);
    judge("at once", at_once);
    judge("after a wait until the event was past", after_wait);
    let is_ordered = |[sent, received]: &[Event; 2]| sent.utc.latest() < received.utc.latest();
    assert!(
        after_wait.iter().all(is_ordered),
        "a wait orders even machines that exchange no stamps"
    );
    Ok(())
}
