//! UTC with its error, in a guest whose true time is known. Debian's chronyd follows an NTP server
//! of this program, which serves a function of `CLOCK_MONOTONIC_RAW`. Meanwhile threads compare
//! each `Utc::now()` with the true time before and after it.

mod claims;
mod counts;
mod daemons;
mod steered;
mod stranger;
mod world;

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tickline::Clock;
use tickline_observe::wait_until;
use tickline_utc::{Utc, UtcSource};

use crate::agreed::{NTPD_RS_LIE, Request, Scenario, TENTH_NS, UTC_READINGS};
use crate::doctor::{diagnose, tickline};
use crate::lab::wait_for;
use crate::phase::{Daemon, Phase, Waited};
use crate::resume::suspend_for;
use crate::system::{self, Killed, realtime_ns, send};
use crate::{machine, report};
use counts::Counts;
use daemons::{LOG, SEGMENTS, start_chronyd, start_clock_bound, start_ntpd_rs};
pub(crate) use stranger::{STRANGER, answer};
use world::{SECOND_NS, World};

/// The longest wait for [`UTC_READINGS`] after the scenario's work.
const PATIENCE_READINGS: Duration = Duration::from_secs(60);
/// The longest wait for [`UTC_READINGS`] with a range. A quiet host needs less.
const LONGEST: Duration = Duration::from_secs(15);

/// The number of readings between two loads of the flag.
const BATCH: u64 = 1_024;

/// The readers' niceness, nice(2). The clock's thread, chronyd and the server preempt the readers.
const NICE: i32 = 10;

/// The longest wait for the first update of chronyd or ntpd-rs, and for chronyd's return after a
/// disruption.
const PATIENCE: Duration = Duration::from_secs(90);
/// The longest wait for clock-bound's first update. Its daemon measures each 16 s, and must measure
/// twice after the clock was set. It keeps the older measurement until it has a better one: in a
/// guest on a busy host it had one in 100 s.
const PATIENCE_CLOCK_BOUND: Duration = Duration::from_secs(300);

/// 20 s before the end of 2028, s since 1970. chronyd expects leap seconds only at the end of June
/// and December.
const BEFORE_LEAP_S: i64 = 1_861_919_980;

/// Runs the scenarios.
///
/// # Errors
///
/// If there is no loopback, or a thread or chronyd cannot be started.
pub(crate) fn run(clock: &Clock, scenarios: &[Scenario]) -> io::Result<()> {
    // The flag is IFF_UP (`if.h` of Linux).
    fs::write("/sys/class/net/lo/flags", "0x1")?;
    for folder in ["/run", "/etc", "/var/lib/chrony"] {
        fs::create_dir_all(folder)?;
    }
    fs::write("/etc/passwd", "root:x:0:0::/:/bin/sh\n")?;
    let now_ns = if scenarios.first() == Some(&Scenario::Leap) {
        BEFORE_LEAP_S * SECOND_NS
    } else {
        realtime_ns().cast_signed()
    };
    let world = World::new(now_ns);
    let utc = Utc::start(clock).map_err(io::Error::other)?;
    thread::scope(|scope| {
        let server = scope.spawn(|| world.serve());
        let lab = UtcLab {
            clock,
            utc: &utc,
            world: &world,
            counts: Mutex::default(),
        };
        let done = scenarios.iter().try_for_each(|one| lab.run(*one));
        // ORDERING: Relaxed: the flag orders no memory.
        world.is_over.store(true, Ordering::Relaxed);
        done.and(
            server
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the server panicked"))),
        )
    })
}

/// Lets time pass, and has nothing to report.
fn pass(seconds: u64) -> io::Result<Phase> {
    thread::sleep(Duration::from_secs(seconds));
    Ok(Phase::default())
}

/// Whether chronyd has removed its first offset.
fn is_steady() -> bool {
    // A tick that is 1 us longer adds 100 ppm.
    let rate_ppm = |state: libc::timex| (state.freq >> 16) + (state.tick - 10_000) * 100;
    system::adjust(|_| ()).is_ok_and(|state| rate_ppm(state).abs() < 100)
}

/// Whether the kernel makes a claim once chronyd is dead (`kernel.rs` in tickline).
fn kernel_claims() -> bool {
    is_steady() && system::adjust(|_| ()).is_ok_and(|state| state.maxerror % 500 != 0)
}

/// The attempts to run the program while chronyd leaves the clock's rate alone. On a busy host
/// chronyd's measurements are noisy, and it steers all the time.
const ATTEMPTS: u32 = 5;

/// The report of `run` from a time in which chronyd left the clock's rate alone. If there was none,
/// the last report.
fn report_while_steady(run: impl Fn() -> Phase) -> Phase {
    for _ in 1..ATTEMPTS {
        wait_until(PATIENCE, is_steady);
        let phase = run();
        if is_steady() {
            return phase;
        }
    }
    run()
}

/// Reports the output of the program `tickline` for a clock that chronyd steers.
fn report_by_program(scenario: Scenario) -> io::Result<()> {
    let run = || diagnose(&format!("{scenario}_by_program"), &mut tickline());
    let phase = if scenario == Scenario::ReportedSlewing {
        run()
    } else {
        report_while_steady(run)
    };
    report::send(Phase {
        kernel_synchronised: Some(system::adjust(|_| ())?.status & libc::STA_UNSYNC == 0),
        ..phase
    });
    Ok(())
}

struct UtcLab<'a> {
    clock: &'a Clock,
    utc: &'a Utc,
    world: &'a World,
    /// The counts of the phase so far.
    counts: Mutex<Counts>,
}

impl UtcLab<'_> {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until enough readings have a range, at most [`LONGEST`].
    fn wait_until_many_answered(&self) {
        wait_until(LONGEST, || self.counts().answered >= UTC_READINGS);
    }

    fn run(&self, scenario: Scenario) -> io::Result<()> {
        let name = scenario.to_string();
        let name = name.as_str();
        let daemon = match scenario {
            Scenario::Stranger => return self.run_stranger(name),
            Scenario::Kernel => return self.run_kernel(name),
            Scenario::Lies => self.follow(name, 0, "", |_| self.lie(&[-9, 9, -9, 5, -5, 9, 0], 2)),
            Scenario::LiesBeyond => self.follow(name, 0, "", |_| self.lie(&[200, 0], 8)),
            Scenario::Silent => self.follow(name, 0, "", |_| self.fall_silent()),
            Scenario::Reported => self.follow(name, 0, "", |_| pass(0)),
            Scenario::ReportedRtcsync => self.follow(name, 0, "rtcsync", |_| pass(0)),
            Scenario::ReportedSlewing => self.follow(name, -4 * SECOND_NS, "", |_| pass(0)),
            Scenario::Stepped => self.follow(name, -SECOND_NS, "makestep 0.1 3", |_| pass(5)),
            Scenario::Set => self.follow(name, 0, "", |_| self.step_clock()),
            Scenario::Killed => self.follow(name, 0, "", |chronyd| self.kill(chronyd, || true, 3)),
            Scenario::KilledRtcsync => self.follow(name, 0, "rtcsync", |chronyd| {
                self.kill(chronyd, kernel_claims, 3)
            }),
            // chronyd slews by a twelfth, for longer than this scenario, and beyond its death.
            Scenario::KilledSlewing => self.follow(name, -2 * SECOND_NS, "rtcsync", |chronyd| {
                self.kill(chronyd, || true, 25)
            }),
            Scenario::Paused => self.follow(name, -SECOND_NS, "", |chronyd| self.pause(chronyd)),
            Scenario::Restarted => {
                self.follow(name, -SECOND_NS, "", |chronyd| self.restart(chronyd))
            }
            Scenario::Steered20 => self.steer(name, 20, 0, 0),
            Scenario::Steered100 => self.steer(name, 100, 0, 0),
            Scenario::Steered400 => self.steer(name, 400, 0, 0),
            Scenario::SteeredByAdjtime => self.steer(name, 0, 500, 1_000),
            Scenario::SteeredEachSecond => self.steer_each_second(name),
            // The lie is within the server's stated error, and so long that ntpd-rs believes it.
            Scenario::NtpdRs => self.synchronise(name, 0, UtcSource::Kernel, start_ntpd_rs, |_| {
                self.lie(&[NTPD_RS_LIE, -NTPD_RS_LIE], 15)
            }),
            Scenario::Leap => self.follow(name, 0, "", |_| self.leap()),
            Scenario::Suspended => self.follow(name, 0, "", |_| self.suspend()),
            Scenario::Moved => self.follow(name, 0, "", |_| {
                [0, 10, -5]
                    .into_iter()
                    .try_for_each(|ahead_s| self.migrate(ahead_s))?;
                self.wait_until_back()
            }),
            Scenario::ClockBound => self.follow_clock_bound(name),
        }?;
        match scenario {
            // In these scenarios the source's promise was wrong for a time.
            Scenario::LiesBeyond | Scenario::Moved => {
                self.phase(&format!("{name}_after"), || self.wait_until_back())?;
            }
            Scenario::Reported | Scenario::ReportedRtcsync | Scenario::ReportedSlewing => {
                report_by_program(scenario)?;
            }
            _ => {}
        }
        drop(daemon);
        Ok(())
    }

    /// The clock-bound daemon is killed at the end.
    fn follow_clock_bound(&self, name: &str) -> io::Result<Killed> {
        let start = start_clock_bound;
        let daemon = self.synchronise(name, 0, UtcSource::ClockBound, start, |daemon| {
            thread::sleep(LONGEST);
            // The daemon's segment stays valid for the time that it states.
            send(&daemon.0, Signal::SIGKILL)?;
            Ok(Phase::default())
        });
        fs::remove_dir_all(SEGMENTS)?;
        daemon
    }

    /// Steps the clock ahead and back, while chronyd follows its server.
    fn step_clock(&self) -> io::Result<Phase> {
        for seconds in [1, -1, 3_600] {
            system::step_clock(seconds)?;
            pass(4)?;
        }
        self.wait_until_back()
    }

    /// Stops chronyd for some seconds.
    fn pause(&self, chronyd: &Killed) -> io::Result<Phase> {
        pass(1)?;
        self.mark();
        send(&chronyd.0, Signal::SIGSTOP)?;
        pass(5)?;
        send(&chronyd.0, Signal::SIGCONT)?;
        self.wait_until_back()
    }

    /// Ends chronyd and starts another one, twice.
    fn restart(&self, chronyd: &mut Killed) -> io::Result<Phase> {
        for _ in 0..2 {
            pass(2)?;
            send(&chronyd.0, Signal::SIGTERM)?;
            chronyd.0.wait()?;
            *chronyd = start_chronyd("")?;
            pass(2)?;
        }
        self.wait_until_back()
    }

    /// Suspends the machine.
    fn suspend(&self) -> io::Result<Phase> {
        self.run_while_silent(|| {
            self.pass_unseen(suspend_for(6)?.cast_signed());
            Ok(())
        })?;
        pass(6)?;
        self.wait_until_back()
    }

    /// Makes the server lie by each of these tenths of its stated error, for some seconds each.
    fn lie(&self, shares: &[i64], seconds: u64) -> io::Result<Phase> {
        for tenths in shares {
            // ORDERING: Relaxed: the setting orders no memory.
            self.world
                .lie_ns
                .store(TENTH_NS * tenths, Ordering::Relaxed);
            pass(seconds)?;
        }
        Ok(Phase::default())
    }

    /// Does `work` while the server does not answer.
    fn run_while_silent(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.world.is_silent.store(true, Ordering::Relaxed); // ORDERING: orders no memory
        let done = work();
        self.world.is_silent.store(false, Ordering::Relaxed); // ORDERING: orders no memory
        done
    }

    /// Measures the growth of the range while the server is silent.
    fn fall_silent(&self) -> io::Result<Phase> {
        pass(8)?; // The skew that chronyd states falls with the first samples.
        let mut grown_ns = 0;
        self.run_while_silent(|| {
            pass(2)?;
            let width_ns = || {
                wait_until(PATIENCE, || self.utc.now().is_ok());
                self.utc
                    .now()
                    .map_or(0, |reading| reading.width().as_nanos())
            };
            let before_ns = width_ns();
            pass(8)?;
            grown_ns = width_ns().saturating_sub(before_ns);
            Ok(())
        })?;
        Ok(Phase {
            grown_ns: Some(u64::try_from(grown_ns).unwrap_or(u64::MAX)),
            ..Phase::default()
        })
    }

    /// Kills the daemon once enough readings have a range, and the clock `is_ready`.
    fn kill(
        &self,
        daemon: &mut Killed,
        is_ready: impl FnMut() -> bool,
        left_s: u64,
    ) -> io::Result<Phase> {
        pass(2)?;
        self.wait_until_many_answered();
        wait_until(PATIENCE, is_ready);
        self.mark();
        send(&daemon.0, Signal::SIGKILL)?;
        pass(left_s)
    }

    /// Makes the server announce a leap second at the end of the day, and insert it.
    fn leap(&self) -> io::Result<Phase> {
        let day_ns = 86_400 * SECOND_NS;
        let leap_at_ns = (self.world.now_ns() / day_ns + 1) * day_ns;
        self.world.leap_at_ns.store(leap_at_ns, Ordering::Relaxed); // ORDERING: orders no memory
        self.world.leap.store(1, Ordering::Relaxed); // ORDERING: orders no memory
        while self.world.now_ns() < leap_at_ns - SECOND_NS {
            pass(1)?;
        }
        self.world.leap.store(0, Ordering::Relaxed); // ORDERING: orders no memory
        pass(8)?;
        self.wait_until_back()
    }

    /// Makes the host move the machine to another host, whose counter is ahead.
    fn migrate(&self, ahead_s: i64) -> io::Result<()> {
        self.run_while_silent(|| {
            let hz = self.clock.status().frequency_hz.unwrap_or(0).cast_signed();
            report::ask_host(Request::Migrate {
                cpu: None,
                ticks: hz * ahead_s,
            })?;
            self.pass_unseen(-ahead_s * SECOND_NS);
            Ok(())
        })?;
        pass(8).map(drop)
    }

    /// Waits until chronyd is the source again.
    fn wait_until_back(&self) -> io::Result<Phase> {
        Ok(Phase {
            waited: Some(self.wait_for(UtcSource::Chronyd)),
            ..Phase::default()
        })
    }

    /// No NTP daemon runs, and a program of user nobody answers in chronyd's place.
    fn run_stranger(&self, name: &str) -> io::Result<()> {
        self.set_clock(0)?;
        wait_until(PATIENCE, || self.utc.now().is_err());
        let _stranger = stranger::start()?;
        self.phase(name, || pass(4))?;
        report::send(diagnose(&format!("{name}_by_program"), &mut tickline()));
        Ok(())
    }

    /// No NTP daemon runs. Each second, this program states the error of the kernel's clock to the
    /// kernel, as a daemon does. First the error is at most 3 ms. Then it is 2 ms, which the kernel
    /// slews, and at most 1 ms more. A whole multiple of 500 us would be no claim (`kernel.rs` in
    /// tickline). After the clock was set, an update counts only if there was an update before it.
    fn run_kernel(&self, name: &str) -> io::Result<()> {
        self.phase(name, || {
            for (ahead_ns, offset_us, maxerror_us) in
                [(2_900_000, 0, 3_017), (2_900_000, -2_000, 1_017)]
            {
                self.set_clock(ahead_ns)?;
                system::adjust(|clock| {
                    clock.modes = libc::ADJ_OFFSET | libc::ADJ_STATUS;
                    clock.offset = offset_us;
                    clock.status = libc::STA_PLL;
                })?;
                for update in 0..6 {
                    system::adjust(|clock| {
                        clock.modes = libc::ADJ_MAXERROR;
                        clock.maxerror = maxerror_us - update;
                    })?;
                    thread::sleep(Duration::from_secs(1));
                }
                self.wait_until_many_answered();
            }
            // After the clock was set, the kernel reports it as unsynchronised.
            system::step_clock(1)?;
            thread::sleep(Duration::from_secs(3));
            Ok(Phase::default())
        })
    }

    /// Advances the true time by a time that `CLOCK_MONOTONIC_RAW` has missed.
    fn pass_unseen(&self, ns: i64) {
        // ORDERING: Relaxed: the setting orders no memory.
        self.world.missed_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Makes this the zero for the times in the report.
    fn mark(&self) {
        self.counts().marked_ns = self.world.now_ns();
    }

    /// Calls [`synchronise`](Self::synchronise) with chronyd.
    fn follow(
        &self,
        name: &str,
        ahead_ns: i64,
        settings: &str,
        work: impl FnOnce(&mut Killed) -> io::Result<Phase>,
    ) -> io::Result<Killed> {
        self.synchronise(
            name,
            ahead_ns,
            UtcSource::Chronyd,
            || start_chronyd(settings),
            work,
        )
    }

    /// Sets the clock ahead of the true time, starts a daemon, and does `work` once the daemon has
    /// synchronised. Threads read all the time.
    fn synchronise(
        &self,
        name: &str,
        ahead_ns: i64,
        source: UtcSource,
        start: impl FnOnce() -> io::Result<Killed>,
        work: impl FnOnce(&mut Killed) -> io::Result<Phase>,
    ) -> io::Result<Killed> {
        self.set_clock(ahead_ns)?;
        // Wait until the claim of an earlier daemon has ended.
        wait_until(PATIENCE, || self.utc.now().is_err());
        let mut daemon = start()?;
        self.phase(name, || {
            let synchronised = self.wait_for(source);
            let done = work(&mut daemon)?;
            let channel = self.utc.chronyd_channel();
            Ok(Phase {
                daemon: Some(Daemon {
                    synchronised,
                    log: fs::read_to_string(LOG)?,
                    channel: channel.map(|channel| channel.code().to_owned()),
                }),
                ..done
            })
        })?;
        Ok(daemon)
    }

    /// Makes the kernel's clock unsynchronised, and sets it ahead of the true time.
    fn set_clock(&self, ahead_ns: i64) -> io::Result<()> {
        system::adjust(|clock| {
            clock.modes = libc::ADJ_FREQUENCY | libc::ADJ_TICK | libc::ADJ_STATUS;
            clock.freq = 0;
            clock.tick = 10_000;
            clock.status = libc::STA_UNSYNC;
        })?;
        system::set_clock(self.world.now_ns() + ahead_ns)
    }

    fn wait_for(&self, source: UtcSource) -> Waited {
        let patience = if source == UtcSource::ClockBound {
            PATIENCE_CLOCK_BOUND
        } else {
            PATIENCE
        };
        wait_for(patience, || {
            self.utc
                .now()
                .is_ok_and(|reading| reading.source() == source)
        })
    }

    /// Reads on all CPUs until `work` is done and there are enough readings, and reports both.
    fn phase(&self, name: &str, work: impl FnOnce() -> io::Result<Phase>) -> io::Result<()> {
        let stop = AtomicBool::new(false);
        let start_ns = self.world.now_ns();
        *self.counts() = Counts::default();
        self.mark();
        let done = thread::scope(|scope| {
            let read = || {
                system::be_nice(NICE);
                // ORDERING: Relaxed: the flag orders no memory.
                while !stop.load(Ordering::Relaxed) {
                    let mut counts = Counts::default();
                    for _ in 0..BATCH {
                        let before_ns = self.world.now_ns();
                        let reading = self.utc.now();
                        counts.count([before_ns, self.world.now_ns()], reading);
                    }
                    self.counts().add(&counts);
                }
            };
            for _ in 0..machine::cpus() {
                scope.spawn(read);
            }
            let done = work();
            self.wait_until_many_answered();
            wait_until(PATIENCE_READINGS, || self.counts().readings >= UTC_READINGS);
            // ORDERING: Relaxed: the flag orders no memory.
            stop.store(true, Ordering::Relaxed);
            done
        });
        let utc = self.counts().report();
        let ms = (self.world.now_ns() - start_ns) / 1_000_000;
        report::send(Phase {
            name: name.to_owned(),
            ms: Some(ms.unsigned_abs()),
            utc: Some(utc),
            ..done?
        });
        Ok(())
    }
}
