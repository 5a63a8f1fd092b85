//! UTC with its error, by tickline, by clock-bound's own client from the same segment in shared
//! memory, and by adjtimex(2). No daemon runs: in a mount namespace of its own the program writes
//! the segment where clock-bound's daemon would, once, for a day, or answers for chronyd.
//!
//! `--utc SOURCE` names tickline's source: `clock_bound` (the default), `clock_bound_2` for version
//! 2 of the segment, `chronyd`, or `kernel`, if a daemon synchronises this machine's.

use std::cell::RefCell;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use clock_bound::nix::sys::time::TimeValLike;
use clock_bound::{Client, SHM_DEFAULT_PATH, TimeWindow};
use tickline::Clock;
use tickline::utc::{UtcReading, UtcSource};
use tickline_core::counter::Counter;

use crate::args;
use crate::subject::{Subject, counter, same, subject};

/// Where clock-bound's daemon puts its segments, and the one of version 2.
const FOLDER: &str = "/var/run/clockbound";
const VERSION_2: &str = "/var/run/clockbound/shm0";

/// Set in the program that runs in the namespace.
const INSIDE: &str = "TICKLINE_BENCH_UTC";

/// Starts the program again in a mount namespace, with an empty folder for the segment, and in a
/// network namespace, for chronyd's port. Must come before any thread. Says so and returns where
/// that is not possible: there are no figures of UTC then.
#[expect(clippy::print_stderr, reason = "figures that are missing must not go unnoticed")]
pub fn enter_namespace() {
    if env::var_os(INSIDE).is_some() {
        return;
    }
    let inside = |then: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs utc /var/run && mkdir {FOLDER} && ip link set lo up && {then}");
        command.args(["--mount", "--net", "--map-root-user", "sh", "-c", &script]).env(INSIDE, "1");
        command
    };
    let why = match inside("true").output().map(|output| output.status.success()) {
        Ok(true) => env::current_exe()
            .map(|program| inside("exec \"$0\" \"$@\"").arg(program).args(env::args_os().skip(1)).exec())
            .unwrap_or_else(|error| error)
            .to_string(),
        Ok(false) => "no mount namespace may be made".to_owned(),
        Err(error) => format!("unshare(1): {error}"),
    };
    eprintln!("SKIPPED: UTC by tickline and by clock-bound's client: {why}");
}

/// UTC within 100 us, by 1 ppm more each second.
const BOUND_NS: u64 = 100_000;
const DRIFT_PPB: u32 = 1_000;

const DAY_S: u64 = 86_400;

/// Writes a segment of version 3, the only one that the client reads, or 2 (`ClockErrorBoundV3`,
/// `ClockErrorBoundV2` and `ShmHeader` of clock-bound).
fn write_segment(hz: u64, is_version_3: bool) -> std::io::Result<()> {
    const VERSION: u32 = 0x0303;
    const SYNCHRONISED: u32 = 1;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let header = |bytes, version| [pair(0x414D_5A4E, 0x4342_0200), pair(bytes, version | 2 << 16)];
    let time = |clock| {
        let ns = tickline_observe::clock_ns(clock);
        [ns / 1_000_000_000, ns % 1_000_000_000]
    };
    let (ticks, [now_s, now_ns]) = (counter().now_ordered(), time(libc::CLOCK_REALTIME));
    // The time of a tick, s, with 64 + shift binary places.
    let shift = hz.ilog2();
    let period = u64::try_from((1_u128 << (64 + shift)) / u128::from(hz)).unwrap_or(u64::MAX);
    let (end, status) = (now_s + DAY_S, pair(DRIFT_PPB, SYNCHRONISED));
    let version_3 =
        [ticks, now_s, now_ns, end, now_ns, period, 0, BOUND_NS, 0, status, u64::from(shift) << 8];
    let [as_of_s, as_of_ns] = time(libc::CLOCK_MONOTONIC);
    let version_2 = [as_of_s, as_of_ns, as_of_s + DAY_S, as_of_ns, BOUND_NS, 0, status, 0];
    let (path, words) = if is_version_3 {
        (SHM_DEFAULT_PATH, [&header(104, VERSION)[..], &version_3].concat())
    } else {
        (VERSION_2, [&header(80, 2)[..], &version_2].concat())
    };
    fs::write(path, words.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>())
}

/// Answers for chronyd: the OS clock is UTC, with a skew of 500 ppm (`RPY_Tracking` in `candm.h`).
fn answer() -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 323))?;
    std::thread::spawn(move || {
        let mut request = [0; 104];
        while let Ok((_, from)) = socket.recv_from(&mut request) {
            let mut reply = [0; 104];
            reply[..8].copy_from_slice(&[6, 2, 0, 0, 0, 33, 0, 5]);
            reply[16..20].copy_from_slice(&request[8..12]);
            // An address as the reference, and its family.
            reply[28..32].copy_from_slice(&[192, 0, 2, 1]);
            reply[49] = 1;
            // 500, with a weight of 2^(25 - 25).
            reply[88..92].copy_from_slice(&(25_u32 << 25 | 500).to_be_bytes());
            socket.send_to(&reply, from).ok();
        }
    });
    Ok(())
}

thread_local! {
    // A client serves one thread.
    static CLIENT: RefCell<Client> = RefCell::new(Client::new().expect("the segment is there"));
}

fn by_client() -> TimeWindow {
    CLIENT.with_borrow_mut(Client::now).expect("the segment is valid")
}

fn by_kernel() -> u64 {
    // SAFETY: adjtimex: all bits zero is a `timex`, which then asks for nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: adjtimex: the pointer is of a `timex`. Without a mode nothing is changed.
    unsafe { libc::adjtimex(&raw mut timex) };
    timex.maxerror.unsigned_abs()
}

/// The readings of UTC; none outside of the namespace. The global clock must have a thread, and
/// must have measured its counter.
///
/// # Panics
///
/// If the source is not the one that was asked for.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut subjects = vec![subject!(Time, "libc adjtimex (ntp_adjtime)", by_kernel, us same)];
    let hz = Clock::global().status().frequency_hz;
    let (Some(_), Some(hz)) = (env::var_os(INSIDE), hz) else { return subjects };
    let name = args::text("utc").unwrap_or_else(|| "clock_bound".to_owned());
    let source = match name.as_str() {
        "clock_bound" | "clock_bound_2" => {
            write_segment(hz, name == "clock_bound").expect("a folder in the namespace");
            UtcSource::ClockBound
        }
        "chronyd" => {
            answer().expect("a port in the namespace");
            UtcSource::Chronyd
        }
        "kernel" => UtcSource::Kernel,
        other => panic!("--utc {other} is no source"),
    };
    // The thread asks once a second; on a busy machine it comes late.
    let end = Instant::now() + Duration::from_secs(20);
    while Clock::global().utc().map(|utc| utc.source()) != Ok(source) {
        assert!(Instant::now() < end, "{name} should be the source: {:?}", Clock::global().utc());
        std::thread::sleep(Duration::from_millis(100));
    }
    subjects.push(
        subject!(Time, "tickline utc", || Clock::global().utc().ok(), ns |now: Option<UtcReading>| {
            now.map_or(0, |utc| utc.earliest().as_nanos())
        }),
    );
    if name == "clock_bound" {
        subjects.push(subject!(Time, "clock-bound client", by_client, ns |now: TimeWindow| {
            now.earliest.num_nanoseconds().unsigned_abs()
        }));
    }
    subjects
}
