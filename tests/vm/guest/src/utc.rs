//! UTC with its error, where the true time is known. Debian's chronyd follows an NTP server of
//! ours, which serves a function of `CLOCK_MONOTONIC_RAW`, while threads compare each
//! `Clock::utc()` with the truth before and after it.

mod seen;
mod world;

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tickline::Clock;
use tickline::utc::UtcSource;

use crate::lab::wait_for;
use crate::system::{self, realtime_ns};
use crate::{machine, report};
use seen::Seen;
use world::{COVERED_NS, World};

/// The readings of each scenario, and the longest time for them.
const READINGS: u64 = 10_000_000;
const LONGEST: Duration = Duration::from_secs(40);

/// Readings between two looks at the flags.
const BATCH: u64 = 1_024;

/// The readers' niceness, nice(2): the clock's thread, chronyd and the server come first.
const NICE: i32 = 10;

/// The longest wait for chronyd's first update, and for its return after a disruption.
const PATIENCE: Duration = Duration::from_secs(30);

const LOG: &str = "/run/chronyd.log";

/// Four requests a second (chrony.conf(5)). The server is as good as the truth, so chronyd need not
/// doubt it for its jitter.
const SETTINGS: &str = "server 127.0.0.1 iburst minpoll -2 maxpoll -2\n\
                        pidfile /run/chronyd.pid\nmaxdistance 1000\n";

/// Runs the scenarios that the command line names.
///
/// # Errors
///
/// If there is no loopback, or chronyd cannot be started.
pub(crate) fn run(clock: &Clock) -> io::Result<()> {
    // if.h of Linux: IFF_UP.
    fs::write("/sys/class/net/lo/flags", "0x1")?;
    for folder in ["/run", "/etc", "/var/lib/chrony"] {
        fs::create_dir_all(folder)?;
    }
    fs::write("/etc/passwd", "root:x:0:0::/:/bin/sh\n")?;
    let world = World::at(realtime_ns().cast_signed());
    let names = machine::setting("tickline.utc").unwrap_or_default();
    thread::scope(|scope| {
        let server = scope.spawn(|| world.serve());
        let lab = Lab { clock, world: &world };
        let done = names.split(',').try_for_each(|name| lab.scenario(name));
        // ORDERING: Relaxed, a flag on its own.
        world.is_over.store(true, Ordering::Relaxed);
        done.and(server.join().unwrap_or_else(|_| Err(io::Error::other("the server panicked"))))
    })
}

/// A running chronyd.
struct Chronyd(Child);

impl Chronyd {
    fn start(settings: &str) -> io::Result<Self> {
        fs::write("/run/chrony.conf", format!("{SETTINGS}{settings}\n"))?;
        let log = fs::File::create(LOG)?;
        Command::new("/usr/sbin/chronyd")
            .args(["-d", "-u", "root", "-f", "/run/chrony.conf"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map(Self)
    }

    fn send(&self, signal: Signal) -> io::Result<()> {
        system::send(self.0.id(), signal)
    }
}

impl Drop for Chronyd {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

struct Lab<'a> {
    clock: &'a Clock,
    world: &'a World,
}

impl Lab<'_> {
    fn scenario(&self, name: &str) -> io::Result<()> {
        let pass = |seconds| {
            thread::sleep(Duration::from_secs(seconds));
            Ok(json!({}))
        };
        let lie = |ns| {
            // ORDERING: Relaxed, a setting on its own.
            self.world.lie_ns.store(ns, Ordering::Relaxed);
        };
        match name {
            "synchronised" => self.follow(name, 0, "", |_| pass(1)),
            "lies" => self.follow(name, 0, "", |_| {
                for share in [-9, 9, -9, 5, -5, 9, 0] {
                    lie(COVERED_NS / 10 * share);
                    pass(2)?;
                }
                Ok(json!({}))
            }),
            other => Err(io::Error::other(format!("'{other}' is no scenario"))),
        }
    }

    /// Starts a chronyd, which finds the clock ahead of the truth by `offset_ns`. Once it has
    /// synchronised, does `work`. Threads read all the time.
    fn follow(
        &self,
        name: &str,
        offset_ns: i64,
        settings: &str,
        work: impl FnOnce(&mut Chronyd) -> io::Result<Value>,
    ) -> io::Result<()> {
        self.set_clock(offset_ns)?;
        let mut chronyd = Chronyd::start(settings)?;
        self.phase(name, || {
            let reached = self.wait_for(UtcSource::Chronyd);
            let mut done = work(&mut chronyd)?;
            done["synchronised"] = reached;
            done["chronyd"] = fs::read_to_string(LOG)?.into();
            Ok(done)
        })
    }

    /// Makes the kernel's clock one that nobody has synchronised, ahead of the truth.
    fn set_clock(&self, ahead_ns: i64) -> io::Result<()> {
        system::adjust(|clock| {
            clock.modes = libc::ADJ_FREQUENCY | libc::ADJ_TICK | libc::ADJ_STATUS;
            (clock.freq, clock.tick, clock.status) = (0, 10_000, libc::STA_UNSYNC);
        })?;
        system::set_clock(self.world.now_ns() + ahead_ns)
    }

    fn wait_for(&self, source: UtcSource) -> Value {
        wait_for(PATIENCE, || self.clock.utc().is_ok_and(|reading| reading.source() == source))
    }

    /// Reads on all CPUs until `work` is done and there are enough readings, and reports both.
    fn phase(&self, name: &str, work: impl FnOnce() -> io::Result<Value>) -> io::Result<()> {
        let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
        let (start, start_ns) = (Instant::now(), self.world.now_ns());
        let (seen, done) = thread::scope(|scope| {
            let read = || {
                system::be_nice(NICE);
                let mut seen = Seen::default();
                // ORDERING: Relaxed, a flag on its own.
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..BATCH {
                        let before_ns = self.world.now_ns();
                        let reading = self.clock.utc();
                        let at_ms = (before_ns - start_ns).max(0).unsigned_abs() / 1_000_000;
                        seen.count(at_ms, [before_ns, self.world.now_ns()], reading);
                    }
                    // ORDERING: Relaxed, a count on its own.
                    count.fetch_add(BATCH, Ordering::Relaxed);
                }
                seen
            };
            let readers: Vec<_> = (0..machine::cpus()).map(|_| scope.spawn(read)).collect();
            let done = work();
            // ORDERING: Relaxed, as above.
            while count.load(Ordering::Relaxed) < READINGS && start.elapsed() < LONGEST {
                thread::sleep(Duration::from_millis(20));
            }
            // ORDERING: Relaxed, as above.
            stop.store(true, Ordering::Relaxed);
            let mut seen = Seen::default();
            for reader in readers {
                seen.add(&reader.join().unwrap_or_default());
            }
            (seen, done)
        });
        let mut report = seen.report(name);
        (report["ms"], report["work"]) = (((self.world.now_ns() - start_ns) / 1_000_000).into(), done?);
        report::line(&report);
        Ok(())
    }
}
