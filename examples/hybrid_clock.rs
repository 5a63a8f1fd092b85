//! A hybrid logical clock (Kulkarni, Demirbas and others, "Logical Physical Clocks", 2014) over
//! `Clock::utc`, in three processes that stand for three machines.
//!
//! `cargo run --release --features mock,utc --example hybrid_clock`
//!
//! Its output has: "300 messages", "30 messages", "the hybrid clock: never", "in the wrong order:
//! 0".
//!
//! A message goes round between the machines. An observer passes it on, and compares each sending
//! with its receipt. It knows the truth: UTC is here the monotonic clock of this computer. Each
//! machine's clock is a mock that follows it, with an offset within the error that it claims. A
//! program other than a test uses `Clock::global()`, and its method `wait_until_past`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tickline::mock::MockClock;
use tickline::utc::{UtcOrder, UtcReading, UtcUnknown};
use tickline::{Clock, UnixTime};

/// The offset of each machine's clock from UTC, ns, and the error that all of them claim.
const OFFSETS_NS: [i64; 3] = [0, 4_000_000, -4_000_000];
const ERROR: Duration = Duration::from_millis(5);

/// The message is sent so often at once, and then so often after a wait.
const AT_ONCE: usize = 300;
const AFTER_WAIT: usize = 30;

/// A time of the hybrid clock: a physical time, and a count of events that have the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    ns: u64,
    count: u64,
}

/// The hybrid clock of one machine.
#[derive(Debug)]
struct HybridClock {
    clock: Clock,
    last: Stamp,
}

impl HybridClock {
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

/// What happened on a machine.
#[derive(Debug, Clone, Copy)]
struct Event {
    stamp: Stamp,
    utc: UtcReading,
    /// What no real machine knows: UTC, ns.
    true_ns: u64,
}

impl Event {
    fn to_words(self) -> [u64; 5] {
        let [earliest_ns, latest_ns] = [self.utc.earliest(), self.utc.latest()].map(UnixTime::as_nanos);
        [self.stamp.ns, self.stamp.count, earliest_ns, latest_ns, self.true_ns]
    }

    fn from_words([ns, count, earliest_ns, latest_ns, true_ns]: [u64; 5]) -> Self {
        let [earliest, latest] = [earliest_ns, latest_ns].map(UnixTime::from_nanos);
        Self { stamp: Stamp { ns, count }, utc: UtcReading::from_bounds(earliest, latest), true_ns }
    }
}

struct Machine {
    mock: MockClock,
    hybrid: HybridClock,
    /// How far the mock has followed this computer's clock, ns.
    true_ns: u64,
}

impl Machine {
    fn new(offset_ns: i64) -> Self {
        let mock = MockClock::new();
        let clock = mock.clock();
        mock.step_unix_ns(offset_ns.saturating_sub_unsigned(clock.unix_now().as_nanos()));
        mock.set_utc_error(Ok(ERROR));
        Self { mock, hybrid: HybridClock { clock, last: Stamp::default() }, true_ns: 0 }
    }

    fn follow(&mut self) {
        // All processes have this timescale.
        let now_ns = tickline::now_ordered_ns().max(self.true_ns);
        self.mock.advance(Duration::from_nanos(now_ns - self.true_ns));
        self.true_ns = now_ns;
    }

    fn event(&mut self, received: Stamp) -> Result<Event, UtcUnknown> {
        self.follow();
        let (stamp, utc) = self.hybrid.stamp(received)?;
        Ok(Event { stamp, utc, true_ns: self.true_ns })
    }

    /// Commit wait: what was done at `utc` has a smaller `latest` than all that any machine does
    /// from now on. `Clock::wait_until_past` does this, but it would move the mock.
    fn wait_until_past(&mut self, utc: &UtcReading) -> Result<(), UtcUnknown> {
        loop {
            self.follow();
            let left = self.hybrid.clock.time_until_past(utc)?;
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left);
        }
    }
}

/// The numbers in a line.
fn numbers<const COUNT: usize>(line: &str) -> Result<[u64; COUNT], Box<dyn Error>> {
    let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    numbers.try_into().map_err(|_| format!("not {COUNT} numbers: '{line}'").into())
}

/// Each line is a message: whether to wait, and a stamp. The machine answers with a line for its
/// receipt, and one for the next sending.
fn run_machine(offset_ns: i64) -> Result<(), Box<dyn Error>> {
    let mut machine = Machine::new(offset_ns);
    for message in io::stdin().lines() {
        let [waits, ns, count] = numbers(&message?)?;
        let received = machine.event(Stamp { ns, count })?;
        let sending = machine.event(Stamp::default())?;
        if waits > 0 {
            machine.wait_until_past(&sending.utc)?;
        }
        for event in [received, sending] {
            println!("{}", event.to_words().map(|word| word.to_string()).join(" "));
        }
    }
    Ok(())
}

/// What the observer has learnt of the messages that were sent in one way.
fn judge(way: &str, hops: &[[Event; 2]]) {
    let count = |is_so: fn(&[Event; 2]) -> bool| hops.iter().filter(|hop| is_so(hop)).count();
    let backward = count(|[sent, received]| received.utc.latest() <= sent.utc.latest());
    let unordered = count(|[sent, received]| sent.utc.order(&received.utc) == UtcOrder::Unknown);
    let took_ns =
        hops.iter().map(|[sent, received]| received.true_ns.saturating_sub(sent.true_ns)).min().unwrap_or(0);
    println!(
        "{} messages, sent {way}, at least {:?} after the event:",
        hops.len(),
        Duration::from_nanos(took_ns)
    );
    println!("  received before the event, by the latest times of both machines: {backward}");
    println!("  readings that overlap, so that they do not tell which was first: {unordered}");
    for [sent, received] in hops {
        assert!(sent.stamp < received.stamp, "causality: {sent:?} {received:?}");
        assert!(!received.utc.definitely_before(&sent.utc), "{sent:?} {received:?}");
    }
    println!("  received before the event, by the hybrid clock: never");
}

fn observe() -> Result<(), Box<dyn Error>> {
    let mut machines = Vec::new();
    for offset_ns in OFFSETS_NS {
        let mut machine = Command::new(env::current_exe()?);
        let machine = machine.arg(offset_ns.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = machine.spawn()?;
        let input = process.stdin.take().ok_or("no pipe to a machine")?;
        let output = BufReader::new(process.stdout.take().ok_or("no pipe from a machine")?);
        machines.push((process, input, output));
    }
    let (mut hops, mut sent) = (Vec::new(), None);
    for hop in 0..=AT_ONCE + AFTER_WAIT {
        let (_, input, output) = &mut machines[hop % OFFSETS_NS.len()];
        // The first message is the observer's own, and no machine has sent it.
        let stamp = sent.map_or(Stamp::default(), |sent: Event| sent.stamp);
        writeln!(input, "{} {} {}", u8::from(hop >= AT_ONCE), stamp.ns, stamp.count)?;
        let mut event = || -> Result<Event, Box<dyn Error>> {
            let mut line = String::new();
            output.read_line(&mut line)?;
            Ok(Event::from_words(numbers(&line)?))
        };
        let received = event()?;
        hops.extend(sent.map(|sent| [sent, received]));
        sent = Some(event()?);
    }
    for (mut process, input, _) in machines {
        drop(input); // a machine ends with its input
        assert!(process.wait()?.success());
    }

    let (at_once, after_wait) = hops.split_at(AT_ONCE);
    judge("at once", at_once);
    judge("after a wait until the event was past", after_wait);
    let width_ns = 2 * u64::try_from(ERROR.as_nanos())?;
    for [sent, received] in after_wait {
        assert!(received.true_ns > sent.true_ns + width_ns, "the wait lasts for the width of a reading");
        assert!(
            received.utc.latest() > sent.utc.latest(),
            "a wait orders even machines that exchange no stamps"
        );
    }

    judge_readings(&hops.concat(), width_ns);
    Ok(())
}

/// Whether readings of different machines order events, and never wrongly.
fn judge_readings(events: &[Event], width_ns: u64) {
    let (mut ordered, mut unordered, mut wrong) = (0, 0, 0);
    for (at, one) in events.iter().enumerate() {
        let [earliest_ns, latest_ns] = [one.utc.earliest(), one.utc.latest()].map(UnixTime::as_nanos);
        assert!((earliest_ns..=latest_ns).contains(&one.true_ns), "a machine keeps its claim: {one:?}");
        assert!((one.true_ns..=one.true_ns + width_ns).contains(&one.stamp.ns), "{one:?}");
        for other in &events[at + 1..] {
            assert!(one.true_ns <= other.true_ns, "the message goes from event to event");
            match one.utc.order(&other.utc) {
                UtcOrder::Unknown => {
                    assert!(other.true_ns - one.true_ns <= 2 * width_ns, "{one:?} {other:?}");
                    unordered += 1;
                }
                UtcOrder::Before => ordered += 1,
                UtcOrder::After => wrong += 1,
            }
        }
    }
    println!(
        "pairs of events that their readings order: {ordered}, in the wrong order: {wrong}; others: {unordered}"
    );
    assert!(wrong == 0 && ordered > 0 && unordered > 0);
}

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1) {
        Some(offset_ns) => run_machine(offset_ns.parse()?),
        None => observe(),
    }
}
