//! The acts: changes to the kernel and to the machine, while the guest watches tickline.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tickline::{Clock, ClockBuilder, ClockState, Event, Reason};
use tickline_observe::Bracket;

use crate::agreed::{Act, INTERVAL_MS, Request, Trust};
use crate::brackets::comparison;
use crate::doctor::{diagnose, tickline};
use crate::lab::{Lab, PATIENCE, wait_for};
use crate::phase::{self, Limited, Noticed, Phase};
use crate::readers::{Counts, Readers};
use crate::resume::{suspend_for, watch_resumed};
use crate::settings::{Settings, Waive};
use crate::{cost, machine, migrate, report, served, system, utc, who};

/// The length of a quiet phase: four default intervals, so that the clock publishes several lines.
const QUIET: Duration = Duration::from_secs(2);

/// The length of a suspend to RAM at the default interval, s: longer than the validity of a line (2
/// s). At another interval the machine sleeps for one interval, which is within a line's window.
const SLEEP_S: u64 = 6;

/// The number of times that a CPU goes offline and comes back in a row, and the pause after each
/// change.
const REPEATS: u32 = 20;
const APART: Duration = Duration::from_millis(100);

/// The lead of one CPU's counter over the other's: one or two seconds, at 2 to 4 GHz.
const AHEAD_TICKS: i64 = 1 << 32;

/// Runs the guest from its start to its end.
///
/// # Errors
///
/// If a setting is wrong, the clock cannot be made, or the act fails.
pub(crate) fn run() -> io::Result<()> {
    report::send(machine::facts());
    let settings = Settings::read()?;
    let act = settings.act;
    let clock = builder(&settings).build().map_err(io::Error::other)?;
    let readers = if act == Act::Migrate {
        Readers::also_of_os_clock()
    } else {
        Readers::default()
    };
    let cpus = machine::cpus();
    thread::scope(|scope| {
        readers.start(scope, &clock, cpus);
        let lab = Lab {
            clock: &clock,
            readers: &readers,
            awaits: settings.awaits,
        };
        lab.watch_until_settled(phase::START);
        lab.watch(phase::BEFORE, QUIET);
        let done = perform(&lab, &settings);
        lab.watch(phase::AFTER, QUIET);
        set_clock(&lab, &[1]);
        readers.stop();
        report::send(diagnose("program", &mut tickline()));
        match act {
            Act::AskProgram => done.and(ask_program(&lab)),
            Act::Serve => done.and(served::serve_caller()),
            Act::Utc => done.and_then(|()| utc::run(&clock, &settings.utc)),
            Act::Who => done.and(who::watch_asker()),
            Act::Limiter => done.and(limit()),
            _ => done,
        }
    })?;
    report::send(Phase {
        comparison: Some(comparison(clock.status().comparison)),
        readers: Some(readers.counts().since(&Counts::default())),
        cost: Some(cost::measure(&clock)),
        ..Phase::named(phase::END)
    });
    Ok(())
}

/// Runs the program with bad clocksources, without `/sys`, and without the right to read the
/// counter.
fn ask_program(lab: &Lab<'_>) -> io::Result<()> {
    let first = machine::clocksource();
    for (name, phase) in [("hpet", "program_hpet"), ("acpi_pm", "program_acpi_pm")] {
        machine::choose_clocksource(name)?;
        report::send(diagnose(phase, &mut tickline()));
    }
    // The program repairs the present clocksource.
    let mended = report::output(
        "program_mended",
        tickline().args(["doctor", "--fix", "--yes"]).output(),
    );
    report::send(Phase {
        clocksource: Some(machine::clocksource()),
        ..mended
    });
    machine::choose_clocksource(&first)?;
    system::unmount(c"/sys")?;
    report::send(diagnose("program_masked", &mut tickline()));
    system::mount(c"sysfs", c"/sys")?;
    report::send(diagnose(
        "program_denied",
        system::without_counter(&mut tickline()),
    ));
    lab.watch_until_settled("again");
    Ok(())
}

/// Runs governor's limiter (`tests/vm/limiter`) over quanta. Then moves the machine to a host on
/// which the second CPU's counter is ahead, and runs the limiter over quanta and over tickline, and
/// the program `tickline`.
fn limit() -> io::Result<()> {
    let run_limiter = |name: &str, over: &str| {
        let output = Command::new(format!("/limiter-{over}")).output();
        let phase = report::output(name, output);
        report::send(Phase {
            limited: report::parsed::<Limited>(&phase),
            ..phase
        });
    };
    run_limiter("limiter_before", "quanta");
    report::ask_host(Request::Migrate {
        cpu: Some(1),
        ticks: AHEAD_TICKS,
    })?;
    run_limiter("limiter_quanta", "quanta");
    run_limiter("limiter_tickline", "tickline");
    report::send(diagnose("program_ahead", &mut tickline()));
    Ok(())
}

/// The builder of the clock under test.
fn builder(settings: &Settings) -> ClockBuilder {
    let interval = settings
        .interval
        .unwrap_or(Duration::from_millis(INTERVAL_MS));
    let builder = Clock::builder()
        .interval(interval)
        .trust(match settings.trust {
            Trust::Kernel => tickline::Trust::Kernel,
            Trust::Auto => tickline::Trust::Auto,
            Trust::Measured => tickline::Trust::Measured,
        });
    match settings.waive {
        Some(Waive::Invariant) => builder.assume_invariant(),
        None => builder,
    }
}

fn perform(lab: &Lab<'_>, settings: &Settings) -> io::Result<()> {
    match settings.act {
        // The programs of these acts run after the readers have stopped.
        Act::None | Act::AskProgram | Act::Utc | Act::Who | Act::Serve | Act::Limiter => Ok(()),
        Act::Switch => switch(lab),
        Act::Reject => reject_tsc(lab),
        Act::SetClock => {
            set_clock(lab, &[3_600, -3_600, -1, 1]);
            Ok(())
        }
        Act::Adjtimex => adjust(lab),
        Act::Hotplug => hotplug(lab),
        Act::Pause => {
            stand_still(lab, Request::Pause);
            Ok(())
        }
        Act::Save => {
            stand_still(lab, Request::Save);
            Ok(())
        }
        Act::Migrate => migrate::move_around(lab),
        Act::Suspend => suspend(lab, settings.interval),
        act @ (Act::Programs | Act::Systemd) => {
            Err(io::Error::other(format!("'{act}' is an act on Debian")))
        }
    }
}

/// Makes the host stop the machine, or save and load it.
fn stand_still(lab: &Lab<'_>, request: Request) {
    lab.phase("host", || outcome(report::ask_host(request)));
    lab.watch_until_settled("again");
}

/// The phase of an act that could be done, or could not.
fn outcome(result: io::Result<()>) -> Phase {
    Phase {
        done: Some(result.is_ok()),
        error: result.err().map(|error| error.to_string()),
        ..Phase::default()
    }
}

/// Switches the clocksource and switches it back while readers run; tsc stays available. Each time
/// the line over the former reference must end, and the clock must judge the gates again.
fn switch(lab: &Lab<'_>) -> io::Result<()> {
    let first = machine::clocksource();
    for name in ["hpet", "acpi_pm"] {
        lab.phase("switched", || {
            act_until_line_ends(lab, || machine::choose_clocksource(name))
        });
        lab.watch_until_settled("judged");
        lab.watch("switched_steady", QUIET);
        lab.phase("back", || {
            act_until_line_ends(lab, || machine::choose_clocksource(&first))
        });
        lab.watch_until_settled("judged");
        lab.watch("back_steady", QUIET);
    }
    Ok(())
}

/// Makes the kernel reject the TSC while readers run.
fn reject_tsc(lab: &Lab<'_>) -> io::Result<()> {
    lab.phase("rejected", || {
        act_until(
            lab,
            || machine::unbind_clocksource("tsc"),
            |state| state == ClockState::Fallback(Reason::KernelRejected),
        )
    });
    Ok(())
}

/// The time from `act` until the line has ended; if a gate was closed, until the gate has opened.
fn act_until_line_ends(lab: &Lab<'_>, act: impl FnOnce() -> io::Result<()>) -> Phase {
    let closed = || lab.clock.status().events.get(Event::GateClosed);
    let is_fallback = |state| matches!(state, ClockState::Fallback(_));
    let before = closed();
    let was_closed = is_fallback(lab.clock.status().state);
    act_until(lab, act, |state| {
        closed() > before || (was_closed && !is_fallback(state))
    })
}

/// The time from `act` until the clock has a state for which `is_reached` is true.
fn act_until(
    lab: &Lab<'_>,
    act: impl FnOnce() -> io::Result<()>,
    is_reached: impl Fn(ClockState) -> bool,
) -> Phase {
    if let Err(error) = act() {
        return failed(&error);
    }
    let waited = wait_for(PATIENCE, || is_reached(lab.clock.status().state));
    let status = lab.clock.status();
    let noticed = Noticed {
        // tickline promises one interval, so `cargo xtask vm` judges the time beyond the interval.
        beyond_interval_us: waited.after_us.saturating_sub(INTERVAL_MS * 1_000),
        state: status.state.code().to_owned(),
        reason: status.reason().map(|reason| reason.code().to_owned()),
    };
    Phase {
        waited: Some(waited),
        noticed: Some(noticed),
        ..Phase::default()
    }
}

/// The phase of an act that has failed, so that there is no result to wait for.
fn failed(error: &io::Error) -> Phase {
    Phase {
        error: Some(error.to_string()),
        ..Phase::default()
    }
}

/// Sets the clock by each of the steps, s, and reports the time until Unix time follows.
fn set_clock(lab: &Lab<'_>, steps: &[i64]) {
    for seconds in steps {
        lab.phase(phase::SET_CLOCK, || {
            if let Err(error) = system::step_clock(*seconds) {
                return failed(&error);
            }
            // A step is at least a second, so half a second distinguishes the old time from the
            // new, for any width of the bracket.
            let waited = wait_for(PATIENCE, || {
                let bracket = Bracket::by(libc::CLOCK_REALTIME, || lab.clock.unix_now().as_nanos());
                bracket.ahead_ns().max(bracket.behind_ns()) < 500_000_000
            });
            Phase {
                waited: Some(waited),
                text: Some(format!("by {seconds} s")),
                ..Phase::default()
            }
        });
    }
}

/// Sets the largest rates that an NTP daemon sets.
fn adjust(lab: &Lab<'_>) -> io::Result<()> {
    for (ppm, turn, steady) in [
        (500, "rate_up", "steady_up"),
        (-500, "rate_down", "steady_down"),
        (0, "rate_zero", "steady_zero"),
    ] {
        // The unit of `freq` is 2^-16 ppm (adjtimex(2)).
        let set = system::adjust(|clock| {
            clock.modes = libc::ADJ_FREQUENCY;
            clock.freq = ppm << 16;
        });
        let set = outcome(set.map(|_| ()));
        lab.phase(turn, || {
            thread::sleep(QUIET);
            set
        });
        lab.watch(steady, QUIET);
    }
    Ok(())
}

/// Takes the last CPU offline and brings it back: once, and then many times in a row.
fn hotplug(lab: &Lab<'_>) -> io::Result<()> {
    let last = machine::cpus().saturating_sub(1);
    let file = format!("/sys/devices/system/cpu/cpu{last}/online");
    lab.phase("offline", || outcome(fs::write(&file, "0")));
    lab.watch("without", QUIET);
    lab.phase("online", || outcome(fs::write(&file, "1")));
    lab.readers.pin_again();
    lab.watch_until_settled("again");
    lab.phase("repeated", || {
        outcome((0..REPEATS).try_for_each(|_| {
            fs::write(&file, "0")?;
            thread::sleep(APART);
            fs::write(&file, "1")?;
            thread::sleep(APART);
            Ok(())
        }))
    });
    lab.readers.pin_again();
    Ok(())
}

/// Suspends the machine to RAM. The real-time clock wakes it.
fn suspend(lab: &Lab<'_>, interval: Option<Duration>) -> io::Result<()> {
    if !fs::read_to_string("/sys/power/state")?
        .split_whitespace()
        .any(|state| state == "mem")
    {
        let what = "this kernel has no suspend to RAM";
        report::send(Phase::unavailable(what, None));
        return Ok(());
    }
    let mut sleep_s = SLEEP_S;
    if let Some(interval) = interval {
        sleep_s = interval.as_secs();
        // While the maximum drift is large, the interval is shorter.
        let nearly_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX) / 4 * 3;
        lab.phase("grown", || {
            let waited = wait_for(6 * PATIENCE, || {
                lab.clock.status().interval_ns >= Some(nearly_ns)
            });
            Phase {
                waited: Some(waited),
                ..Phase::default()
            }
        });
    }
    lab.phase("suspend", || {
        let slept = suspend_for(sleep_s);
        let resumed = watch_resumed(lab.clock);
        Phase {
            done: Some(slept.is_ok()),
            slept_ms: Some(slept.map_or(0, |ns| ns / 1_000_000)),
            resumed: Some(resumed),
            ..Phase::default()
        }
    });
    lab.readers.pin_again();
    lab.watch_until_settled("again");
    Ok(())
}
