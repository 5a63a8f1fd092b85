//! A hybrid logical clock (Kulkarni, Demirbas and others, "Logical Physical Clocks", 2014) over
//! `Clock::utc`, on three simulated machines.
//!
//! `cargo run --release --features mock,utc --example hybrid_clock`
//!
//! Its output has: "300 messages", "30 messages", "the hybrid clock: never", "in the wrong order:
//! 0".
//!
//! A message goes round between the machines. The program compares each sending with its receipt.
//! It knows UTC, because each machine's clock is a mock that the program moves. Each clock is off
//! by less than the error that it claims. A program other than a test uses `Clock::global()`, and
//! its method `wait_until_past`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::time::Duration;

use tickline::Clock;
use tickline::mock::MockClock;
use tickline::utc::{UtcOrder, UtcReading, UtcUnknown};

/// The offset of each machine's clock from UTC, ns, and the error that all of them claim.
const OFFSETS_NS: [i64; 3] = [0, 4_000_000, -4_000_000];
const ERROR: Duration = Duration::from_millis(5);

/// The width of a reading, ns: the error, to both sides.
const WIDTH_NS: u64 = 10_000_000;

/// The message is sent so often at once, and then so often after a wait.
const AT_ONCE: usize = 300;
const AFTER_WAIT: usize = 30;

/// How long a message is on its way.
const WAY: Duration = Duration::from_micros(50);

/// A time of the hybrid clock: a physical time, and a count of events that have the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    ns: u64,
    count: u64,
}

/// What happened on a machine.
#[derive(Debug, Clone, Copy)]
struct Event {
    stamp: Stamp,
    utc: UtcReading,
    /// What no real machine knows: UTC, ns.
    true_ns: u64,
}

/// A machine with its hybrid clock.
#[derive(Debug)]
struct Machine {
    mock: MockClock,
    clock: Clock,
    last: Stamp,
}

impl Machine {
    fn new(offset_ns: i64) -> Self {
        let mock = MockClock::new();
        let clock = mock.clock();
        mock.step_unix_ns(offset_ns.saturating_sub_unsigned(clock.unix_now().as_nanos()));
        mock.set_utc_error(Ok(ERROR));
        Self { mock, clock, last: Stamp::default() }
    }

    /// The stamp of an event. It is greater than the last one, than that of the message that the
    /// event received, and than UTC. No stamp is ahead of UTC by more than the width of a reading.
    fn stamp(&mut self, received: Stamp) -> Result<(Stamp, UtcReading), UtcUnknown> {
        let utc = self.clock.utc()?;
        let known = self.last.max(received);
        let physical = Stamp { ns: utc.latest().as_nanos(), count: 0 };
        self.last = physical.max(Stamp { count: known.count + 1, ..known });
        Ok((self.last, utc))
    }
}

/// The machines, and UTC, ns.
struct World {
    machines: [Machine; 3],
    true_ns: u64,
}

impl World {
    fn pass(&mut self, time: Duration) {
        self.machines.iter().for_each(|machine| machine.mock.advance(time));
        self.true_ns += u64::try_from(time.as_nanos()).expect("less than 584 years");
    }

    /// An event on a machine, which may be the receipt of a message with this stamp.
    fn event(&mut self, machine: usize, received: Stamp) -> Result<Event, UtcUnknown> {
        let (stamp, utc) = self.machines[machine].stamp(received)?;
        Ok(Event { stamp, utc, true_ns: self.true_ns })
    }

    /// Commit wait: what was done at `utc` has a smaller `latest` than all that any machine does from
    /// now on. `Clock::wait_until_past` would move this machine's mock alone.
    fn wait_until_past(&mut self, machine: usize, utc: &UtcReading) -> Result<(), UtcUnknown> {
        let left = self.machines[machine].clock.time_until_past(utc)?;
        self.pass(left);
        Ok(())
    }
}

/// Prints what the messages show that were sent in one way.
fn judge(way: &str, hops: &[[Event; 2]]) {
    let count = |is_so: fn(&[Event; 2]) -> bool| hops.iter().filter(|hop| is_so(hop)).count();
    let by_latest = count(|[sent, received]| received.utc.latest() <= sent.utc.latest());
    let [ordered, unknown, wrong] = [
        count(|[sent, received]| sent.utc.order(&received.utc) == UtcOrder::Before),
        count(|[sent, received]| sent.utc.order(&received.utc) == UtcOrder::Unknown),
        count(|[sent, received]| sent.utc.order(&received.utc) == UtcOrder::After),
    ];
    println!("{} messages, sent {way}:", hops.len());
    println!("  received before they were sent, by the latest times of both machines: {by_latest}");
    println!(
        "  readings that tell the order: {ordered}, in the wrong order: {wrong}; that overlap: {unknown}"
    );
    println!("  received before they were sent, by the hybrid clock: never");
}

fn main() -> Result<(), UtcUnknown> {
    let mut world = World { machines: OFFSETS_NS.map(Machine::new), true_ns: 0 };
    world.pass(Duration::from_secs(1));
    let (mut sent, mut hops) = (world.event(0, Stamp::default())?, Vec::new());
    for hop in 1..=AT_ONCE + AFTER_WAIT {
        world.pass(WAY);
        let machine = hop % OFFSETS_NS.len();
        let received = world.event(machine, sent.stamp)?;
        hops.push([sent, received]);
        // The message has a stamp, and these two times.
        let theirs = UtcReading::from_bounds(sent.utc.earliest(), sent.utc.latest());
        assert!(sent.stamp < received.stamp, "causality: {sent:?} {received:?}");
        assert!(!received.utc.definitely_before(&theirs), "{sent:?} {received:?}");
        assert!(
            (received.true_ns..=received.true_ns + WIDTH_NS).contains(&received.stamp.ns),
            "{received:?}"
        );
        sent = world.event(machine, Stamp::default())?;
        if hop >= AT_ONCE {
            world.wait_until_past(machine, &sent.utc)?;
        }
    }
    let (at_once, after_wait) = hops.split_at(AT_ONCE);
    judge("at once", at_once);
    judge("after a wait until the event was past", after_wait);
    for [sent, received] in after_wait {
        assert!(received.true_ns > sent.true_ns + WIDTH_NS, "the wait lasts for the width of a reading");
        assert!(
            received.utc.latest() > sent.utc.latest(),
            "a wait orders even machines that exchange no stamps"
        );
    }
    Ok(())
}
