//! UTC with its error, by tickline, by clock-bound's own client from the same segment in shared
//! memory, and by adjtimex(2). No daemon runs: in a mount namespace of its own, the program writes
//! clock-bound's segment itself, once, with a validity of a day. Only the thread of `Utc` queries
//! the source, so a reading costs the same with another source.

use std::cell::RefCell;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use std::{env, fs};

use clock_bound::nix::sys::time::TimeValLike;
use clock_bound::{Client, SHM_DEFAULT_PATH, TimeWindow};
use tickline::Clock;
use tickline_core::counter::Counter;
use tickline_observe::{clock_ns, wait_until};
use tickline_utc::{Utc, UtcReading, UtcSource};

use crate::subject::{ClockSubject, counter, same, subject};

/// The folder of clock-bound's segments.
const FOLDER: &str = "/var/run/clockbound";

/// The variable that is set in the program in the namespace.
const INSIDE: &str = "TICKLINE_BENCH_UTC";

/// Starts the program again in a mount namespace, with an empty folder for the segment. Call this
/// before any thread is started. If this fails, prints the reason; UTC is then not measured.
#[expect(
    clippy::print_stderr,
    reason = "figures that are missing must not go unnoticed"
)]
pub fn enter_namespace() {
    if env::var_os(INSIDE).is_some() {
        return;
    }
    let inside = |command_line: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs utc /var/run && mkdir {FOLDER} && {command_line}");
        command
            .args(["--mount", "--map-root-user", "sh", "-c", &script])
            .env(INSIDE, "1");
        command
    };
    let reason = match inside("true")
        .output()
        .map(|output| output.status.success())
    {
        Ok(true) => env::current_exe()
            .map(|program| {
                inside("exec \"$0\" \"$@\"")
                    .arg(program)
                    .args(env::args_os().skip(1))
                    .exec()
            })
            .unwrap_or_else(|error| error)
            .to_string(),
        Ok(false) => "no mount namespace may be made".to_owned(),
        Err(error) => format!("unshare(1): {error}"),
    };
    eprintln!("SKIPPED: UTC by tickline and by clock-bound's client: {reason}");
}

/// The error of UTC: 100 us, and 1 ppm more each second.
const BOUND_NS: u64 = 100_000;
const DRIFT_PPB: u32 = 1_000;

const DAY_S: u64 = 86_400;

/// Writes a segment of version 3, the only one that the client reads (`ClockErrorBoundV3` and
/// `ShmHeader` of clock-bound).
fn write_segment(hz: u64) -> std::io::Result<()> {
    const BYTES: u32 = 104;
    const VERSION: u32 = 0x0303;
    const SYNCHRONISED: u32 = 1;
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let header = [
        pair(0x414D_5A4E, 0x4342_0200),
        pair(BYTES, VERSION | 2 << 16),
    ];
    let ticks = counter().now_ordered();
    let realtime_ns = clock_ns(libc::CLOCK_REALTIME);
    let now_s = realtime_ns / 1_000_000_000;
    let now_ns = realtime_ns % 1_000_000_000;
    // The duration of a tick, s, with 64 + shift binary digits after the point.
    let shift = hz.ilog2();
    let period = u64::try_from((1_u128 << (64 + shift)) / u128::from(hz)).unwrap_or(u64::MAX);
    let end_s = now_s + DAY_S;
    let status = pair(DRIFT_PPB, SYNCHRONISED);
    let body = [
        ticks,
        now_s,
        now_ns,
        end_s,
        now_ns,
        period,
        0,
        BOUND_NS,
        0,
        status,
        u64::from(shift) << 8,
    ];
    let words = header.into_iter().chain(body);
    fs::write(
        SHM_DEFAULT_PATH,
        words.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>(),
    )
}

thread_local! {
    // A client serves one thread.
    static CLIENT: RefCell<Client> = RefCell::new(Client::new().expect("the segment is there"));
}

/// The global clock's UTC. Its thread starts with the first reading.
static UTC: LazyLock<Utc> =
    LazyLock::new(|| Utc::start(Clock::global()).expect("the thread of UTC"));

fn by_client() -> TimeWindow {
    CLIENT
        .with_borrow_mut(Client::now)
        .expect("the segment is valid")
}

fn by_kernel() -> u64 {
    // SAFETY: all bits zero are a valid `timex`, whose mode 0 changes nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `timex`. Mode 0 changes nothing.
    unsafe { libc::adjtimex(&raw mut timex) };
    timex.maxerror.unsigned_abs()
}

/// The readings of UTC; none outside of the namespace. The global clock must have a thread, and
/// must have measured its counter.
///
/// # Panics
///
/// If clock-bound does not become the source.
#[must_use]
pub fn subjects() -> Vec<ClockSubject> {
    let mut subjects = vec![subject!(Time, "libc adjtimex (ntp_adjtime)", by_kernel, us same)];
    let hz = Clock::global().status().frequency_hz;
    let (Some(_), Some(hz)) = (env::var_os(INSIDE), hz) else {
        return subjects;
    };
    write_segment(hz).expect("a folder in the namespace");
    // The thread queries the source once a second, and may be late on a busy machine.
    let source = || UTC.now().map(|utc| utc.source());
    let is_there = wait_until(Duration::from_secs(20), || {
        source() == Ok(UtcSource::ClockBound)
    });
    assert!(is_there, "clock-bound should be the source: {:?}", source());
    subjects.push(
        subject!(Time, "tickline utc", || UTC.now().ok(), ns |now: Option<UtcReading>| {
            now.map_or(0, |utc| utc.earliest().as_nanos())
        }),
    );
    subjects.push(
        subject!(Time, "clock-bound client", by_client, ns |now: TimeWindow| {
            now.earliest.num_nanoseconds().unsigned_abs()
        }),
    );
    subjects
}
