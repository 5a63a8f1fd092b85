//! The clocks that are compared, each as a closure that is inlined into the loop that measures it.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tickline::{Clock, CpuState, CpuStatus, PerCpu};
use tickline_core::cell::{Envelope, NativeCell, StateCell};
use tickline_core::counter::{Counter, CpuCounter, HardwareCounter, HardwareCpuCounter};
use tickline_core::line::{Line, Slope};
use tickline_core::per_cpu;
use tickline_core::shared::Shared;
use tickline_core::word::{MAX_EXPONENT, Slot, Word};

/// A loop of so many calls; the second one waits for each result.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// What is called.
    pub name: &'static str,
    /// So many calls, as fast as they go.
    pub tight: fn(u32),
    /// So many calls, each complete before the next begins.
    pub awaited: fn(u32),
}

/// The counter of this machine.
///
/// # Panics
///
/// If there is none: nothing here can be compared then.
#[must_use]
pub fn counter() -> HardwareCounter {
    HardwareCounter::if_present().expect("this target has no counter")
}

macro_rules! subject {
    ($name:expr, $call:expr) => {
        Subject {
            name: $name,
            tight: |calls| {
                let call = $call;
                for _ in 0..calls {
                    black_box(call());
                }
            },
            awaited: |calls| {
                let (call, counter) = ($call, counter());
                for _ in 0..calls {
                    black_box(call());
                    counter.barrier();
                }
            },
        }
    };
}

/// `CLOCK_MONOTONIC` by libc, ns.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The CPU time of the calling thread, ns.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[expect(clippy::cast_sign_loss, reason = "these clocks are not negative")]
    {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// What minstant needs to tell ns: its instants hold ticks.
fn minstant_anchor() -> &'static minstant::Anchor {
    static ANCHOR: OnceLock<minstant::Anchor> = OnceLock::new();
    ANCHOR.get_or_init(minstant::Anchor::new)
}

/// What fastant needs to tell ns: its instants hold ticks.
fn fastant_anchor() -> &'static fastant::Anchor {
    static ANCHOR: OnceLock<fastant::Anchor> = OnceLock::new();
    ANCHOR.get_or_init(fastant::Anchor::new)
}

/// A clock that the peers, too, make once: quanta's, shared.
pub fn quanta_clock() -> &'static quanta::Clock {
    static CLOCK: OnceLock<quanta::Clock> = OnceLock::new();
    CLOCK.get_or_init(quanta::Clock::new)
}

/// A clock with a line for each CPU; `None` where there cannot be one.
#[must_use]
pub fn per_cpu_clock() -> Option<&'static Clock> {
    static CLOCK: OnceLock<Option<Clock>> = OnceLock::new();
    let make = || {
        let clock = Clock::builder().per_cpu(PerCpu::On).start().ok()?;
        let end = Instant::now() + Duration::from_secs(3);
        let waiting = |cpu: &CpuStatus| cpu.state != CpuState::Fast;
        while Instant::now() < end && clock.status().per_cpu.iter().any(waiting) {
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(clock)
    };
    CLOCK.get_or_init(make).as_ref()
}

/// Lines as of processors without `rdpid`. One line for all CPUs that stays valid for hours: only its cost is of interest.
#[derive(Debug)]
struct WithoutRdpid {
    units: Vec<Shared<NativeCell>>,
    counter: HardwareCpuCounter,
}

fn without_rdpid() -> Option<&'static WithoutRdpid> {
    static TABLE: OnceLock<Option<WithoutRdpid>> = OnceLock::new();
    let make = || {
        let counter = HardwareCpuCounter::detect()?.without_rdpid();
        let (ticks, _) = counter.now_ordered()?;
        let word = Word::live(ticks, MAX_EXPONENT, Slot::B, false);
        let line = Line { start_ticks: word.ticks(), base_ns: 0, slope: Slope::from_hz(2_600_000_000)? };
        let unit = || {
            let unit = Shared::new(NativeCell::new());
            unit.cell.publish(unit.cell.load_whole(), word, &line, &Envelope::default());
            unit
        };
        Some(WithoutRdpid { units: (0..64).map(|_| unit()).collect(), counter })
    };
    TABLE.get_or_init(make).as_ref()
}

/// What is compared of lines for each CPU, where there can be such.
fn per_cpu_subjects() -> Vec<Subject> {
    if per_cpu_clock().is_none() || without_rdpid().is_none() {
        return Vec::new();
    }
    fn clock() -> &'static Clock {
        per_cpu_clock().expect("looked at before")
    }
    fn table() -> &'static WithoutRdpid {
        without_rdpid().expect("looked at before")
    }
    vec![
        subject!("rdtscp", {
            let counter = table().counter;
            move || counter.now_ordered()
        }),
        subject!("tickline per CPU now_ns", {
            let clock = clock();
            move || clock.now_ns()
        }),
        subject!("tickline per CPU now_ordered_ns", {
            let clock = clock();
            move || clock.now_ordered_ns()
        }),
        subject!("core per CPU by rdtscp", {
            let table = table();
            move || per_cpu::read(&table.units, &table.counter)
        }),
    ]
}

/// Everything that is compared. The first two are the bare counter, plain and ordered.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut subjects = vec![
        subject!(HardwareCounter::NAME, || counter().now()),
        subject!(HardwareCounter::ORDERED_NAME, || counter().now_ordered()),
        subject!("tickline now_ns", tickline::now_ns),
        subject!("tickline now_ordered_ns", tickline::now_ordered_ns),
        subject!("tickline unix_ns", tickline::unix_ns),
        subject!("tickline Instant::now", tickline::Instant::now),
        subject!("tickline reading", || tickline::Clock::global().reading()),
        subject!("tickline ticks only", || tickline::Clock::global().ticks()),
        subject!("tickline recent_ns", tickline::recent_ns),
        subject!("libc clock_gettime MONOTONIC", monotonic_ns),
        subject!("std Instant::now", std::time::Instant::now),
        subject!("std SystemTime::now", std::time::SystemTime::now),
        subject!("quanta Instant::now", quanta::Instant::now),
        subject!("quanta Clock::now", || quanta_clock().now()),
        subject!("minstant now, in ns", || minstant::Instant::now().as_unix_nanos(minstant_anchor())),
        subject!("fastant now, in ns", || fastant::Instant::now().as_unix_nanos(fastant_anchor())),
        subject!("quanta raw ticks", || quanta_clock().raw()),
        subject!("minstant now, ticks only", minstant::Instant::now),
        subject!("fastant now, ticks only", fastant::Instant::now),
        subject!("coarsetime Instant::now", coarsetime::Instant::now),
    ];
    subjects.extend(per_cpu_subjects());
    subjects
}
