//! Debian's chronyd steers this guest's clock, and the program `tickline` reports what it finds.
//! This process gives chronyd the time, over the socket of its driver "SOCK".

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tickline_observe::clock_ns;

use crate::acts::{program, tickline};
use crate::lab::wait_for;
use crate::report;
use crate::system::{self, realtime_ns};

const CHRONYD: &str = "/usr/sbin/chronyd";
const SOCKET: &str = "/run/time.sock";
const SETTINGS: &str = "/run/chrony.conf";

/// The settings of all runs of chronyd (chrony.conf(5)): an update each second, from two samples,
/// and no network. Without `makestep` chronyd slews every offset.
const COMMON: &str = "refid TIME poll 0 filter 2 precision 1e-6\n\
                      cmdport 0\nport 0\npidfile /run/chronyd.pid\n";

/// The time from one sample to the next.
const SAMPLES: Duration = Duration::from_millis(500);

/// How much faster than the guest's counter the true time runs, ppm.
const FASTER_PPM: i64 = 30;

/// An offset, ns, that chronyd is still removing when the program runs: chronyd slews by at most a
/// twelfth (chrony.conf(5), `maxslewrate`).
const OFFSET_NS: i64 = 1_000_000_000;

/// The longest time for chronyd's first update. It takes four samples, or some more on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The maximum error that a kernel states while no daemon sets it, us (`NTP_PHASE_LIMIT` in
/// `include/linux/timex.h`).
const NOT_SET_US: i64 = 16_000_000;

/// A correction above this rate, ppm, means that chronyd is slewing. No crystal needs as much.
const SLEW_PPM: i64 = 200;

/// A sample for chronyd: `struct sock_sample` in chrony's `refclock_sock.c`, on a machine of 64
/// bits.
fn sample(now_ns: u64, offset_ns: i64) -> [u8; 40] {
    const MAGIC: i32 = 0x534f_434b;
    let mut sample = [0; 40];
    let mut put = |at: usize, bytes: &[u8]| sample[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(now_ns / 1_000_000_000).to_ne_bytes());
    put(8, &(now_ns % 1_000_000_000 / 1_000).to_ne_bytes());
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of seconds")]
    put(16, &(offset_ns as f64 / 1e9).to_ne_bytes());
    put(36, &MAGIC.to_ne_bytes());
    sample
}

/// `CLOCK_MONOTONIC_RAW`, ns: no daemon changes its rate.
fn raw_ns() -> i128 {
    clock_ns(libc::CLOCK_MONOTONIC_RAW).into()
}

/// The true time: a Unix time, and the time since then by `CLOCK_MONOTONIC_RAW`, [`FASTER_PPM`]
/// faster.
struct Truth {
    unix_ns: i128,
    raw_ns: i128,
}

impl Truth {
    /// A true time that is ahead of the guest's Unix time by `offset_ns`.
    fn ahead(offset_ns: i64) -> Self {
        Self { unix_ns: i128::from(realtime_ns()) + i128::from(offset_ns), raw_ns: raw_ns() }
    }

    /// Sends a sample. Fails until chronyd has made its socket.
    fn send(&self, socket: &UnixDatagram) -> io::Result<()> {
        let (now_ns, raw_ns) = (realtime_ns(), raw_ns());
        let elapsed_ns = raw_ns - self.raw_ns;
        let true_ns = self.unix_ns + elapsed_ns + elapsed_ns * i128::from(FASTER_PPM) / 1_000_000;
        let offset_ns = i64::try_from(true_ns - i128::from(now_ns)).map_err(io::Error::other)?;
        socket.send_to(&sample(now_ns, offset_ns), SOCKET).map(|_| ())
    }
}

/// Runs chronyd without `rtcsync`, with it, and with a large offset to be slewed, and the program
/// beside each.
///
/// # Errors
///
/// If chronyd cannot be started.
pub(crate) fn follow() -> io::Result<()> {
    for folder in ["/run", "/etc", "/var/lib/chrony"] {
        fs::create_dir_all(folder)?;
    }
    fs::write("/etc/passwd", "root:x:0:0::/:/bin/sh\n")?;
    // At its start chronyd claims for a moment to have no error.
    let is_steered = |state: &libc::timex| state.maxerror < NOT_SET_US && rate_ppm(state) != 0;
    with_chronyd("chrony_plain", "", 0, is_steered)?;
    with_chronyd("chrony_rtcsync", "rtcsync\n", 0, is_synchronised)?;
    with_chronyd("chrony_slewing", "", OFFSET_NS, |state| rate_ppm(state).abs() > SLEW_PPM)
}

fn is_synchronised(state: &libc::timex) -> bool {
    state.status & libc::STA_UNSYNC == 0
}

/// The correction of the rate, ppm. It includes the tick's: a microsecond more or less in a
/// hundredth of a second is 100 ppm.
fn rate_ppm(state: &libc::timex) -> i64 {
    (state.freq >> 16) + (state.tick - 10_000) * 100
}

/// Runs chronyd with these settings and a time that is ahead by an offset, until the kernel's state
/// `is_wanted`, and then runs the program.
fn with_chronyd(
    phase: &str,
    settings: &str,
    offset_ns: i64,
    is_wanted: impl Fn(&libc::timex) -> bool,
) -> io::Result<()> {
    fs::write(SETTINGS, format!("refclock SOCK {SOCKET} {COMMON}{settings}"))?;
    let chronyd = Command::new(CHRONYD)
        .args(["-d", "-u", "root", "-f", SETTINGS])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stop = AtomicBool::new(false);
    let (truth, socket) = (Truth::ahead(offset_ns), UnixDatagram::unbound()?);
    let (waited, seen) = thread::scope(|scope| {
        scope.spawn(|| {
            // ORDERING: Relaxed, a flag on its own.
            while !stop.load(Ordering::Relaxed) {
                truth.send(&socket).ok();
                thread::sleep(SAMPLES);
            }
        });
        let waited = wait_for(PATIENCE, || system::adjust(|_| ()).is_ok_and(|state| is_wanted(&state)));
        let seen = program(phase, &mut tickline());
        // ORDERING: as above.
        stop.store(true, Ordering::Relaxed);
        (waited, seen)
    });
    report::line(&with(seen, waited, chronyd)?);
    Ok(())
}

/// The program's report, with the kernel's state, and with chronyd's messages.
fn with(mut seen: Value, waited: Value, chronyd: Child) -> io::Result<Value> {
    seen["work"] = waited;
    let state = system::adjust(|_| ())?;
    seen["timex"] = json!({
        "synchronised": is_synchronised(&state),
        "rate_ppm": rate_ppm(&state),
        "maximum_error_us": state.maxerror,
    });
    system::send(chronyd.id(), Signal::SIGTERM)?;
    let output = chronyd.wait_with_output()?;
    seen["chronyd"] = String::from_utf8_lossy(&output.stderr).into_owned().into();
    Ok(seen)
}
