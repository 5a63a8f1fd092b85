//! A hybrid logical clock (Kulkarni, Demirbas and others, "Logical Physical Clocks", 2014) over
//! `Clock::utc`, in three processes that stand for three machines.
//!
//! `cargo run --release --features mock,utc --example hybrid_clock`
//!
//! Its output has: "300 messages", "30 messages", "the hybrid clock: never", "in the wrong order:
//! 0".
//!
//! A message goes round between the machines. An observer learns of each sending and each receipt,
//! and compares. It knows the truth: UTC is here the monotonic clock of this computer. Each
//! machine's clock is a mock that follows it, with an offset within the error that it claims. A
//! program other than a test uses `Clock::global()`, and its method `wait_until_past`.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::env;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tickline::mock::MockClock;
use tickline::utc::{UtcOrder, UtcReading, UtcUnknown};
use tickline::{Clock, UnixTime};

/// The offset of each machine's clock from UTC, ns, and the error that all of them claim.
const OFFSETS_NS: [i64; 3] = [0, 4_000_000, -4_000_000];
const ERROR: Duration = Duration::from_millis(5);

/// The message is sent so often at once, and then so often after a wait.
const AT_ONCE: u64 = 300;
const AFTER_WAIT: u64 = 30;

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

fn socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(socket)
}

fn send(socket: &UdpSocket, to: SocketAddr, words: &[u64]) -> io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    socket.send_to(&bytes, to).map(drop)
}

fn receive<const WORDS: usize>(socket: &UdpSocket) -> io::Result<(Option<[u64; WORDS]>, SocketAddr)> {
    let mut bytes = [0; 128];
    let (length, from) = socket.recv_from(&mut bytes)?;
    let (words, _) = bytes[..length].as_chunks();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok((words.try_into().ok(), from))
}

/// A machine passes on the message until it receives one without words.
fn run_machine(offset_ns: i64, observer: SocketAddr) -> Result<(), Box<dyn Error>> {
    let (socket, mut machine) = (socket()?, Machine::new(offset_ns));
    send(&socket, observer, &[])?;
    let (Some([next]), _) = receive(&socket)? else { return Err("no port of the next machine".into()) };
    let next = SocketAddr::from(([127, 0, 0, 1], u16::try_from(next)?));
    while let (Some(message), _) = receive::<6>(&socket)? {
        let [hop, sent @ ..] = message;
        let received = machine.event(Event::from_words(sent).stamp)?;
        send(&socket, observer, &[&message[..], &received.to_words()].concat())?;
        let sending = machine.event(Stamp::default())?;
        if hop >= AT_ONCE {
            machine.wait_until_past(&sending.utc)?;
        }
        send(&socket, next, &[&[hop + 1][..], &sending.to_words()].concat())?;
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
    let socket = socket()?;
    let (program, port) = (env::current_exe()?, socket.local_addr()?.to_string());
    let start = |offset_ns: i64| Command::new(&program).args([&offset_ns.to_string(), &port]).spawn();
    let mut processes = OFFSETS_NS.map(start).into_iter().collect::<io::Result<Vec<_>>>()?;
    let mut machines = Vec::new();
    for _ in &processes {
        machines.push(receive::<0>(&socket)?.1);
    }
    for (machine, next) in machines.iter().zip(machines.iter().cycle().skip(1)) {
        send(&socket, *machine, &[next.port().into()])?;
    }

    // The observer's own message is the first, and no machine has sent it.
    send(&socket, machines[0], &[0; 6])?;
    let mut hops = Vec::new();
    while hops.len() < usize::try_from(AT_ONCE + AFTER_WAIT)? {
        let (Some([hop, words @ ..]), _) = receive::<11>(&socket)? else { return Err("no report".into()) };
        let [sent, received] =
            [&words[..5], &words[5..]].map(|words| words.try_into().map(Event::from_words));
        if hop > 0 {
            hops.push([sent?, received?]);
        }
    }
    for machine in machines {
        send(&socket, machine, &[])?;
    }
    for process in &mut processes {
        assert!(process.wait()?.success());
    }

    let (at_once, after_wait) = hops.split_at(usize::try_from(AT_ONCE)?);
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
            let truly = one.true_ns.cmp(&other.true_ns);
            match one.utc.order(&other.utc) {
                UtcOrder::Unknown => {
                    assert!(one.true_ns.abs_diff(other.true_ns) <= 2 * width_ns, "{one:?} {other:?}");
                    unordered += 1;
                }
                UtcOrder::Before if truly.is_gt() => wrong += 1,
                UtcOrder::After if truly.is_lt() => wrong += 1,
                _ => ordered += 1,
            }
        }
    }
    println!(
        "pairs of events that their readings order: {ordered}, in the wrong order: {wrong}; others: {unordered}"
    );
    assert!(wrong == 0 && ordered > 0 && unordered > 0);
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [offset_ns, observer] => run_machine(offset_ns.parse()?, observer.parse()?),
        _ => observe(),
    }
}
