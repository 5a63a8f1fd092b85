//! The clocks that are compared, each as a closure that is inlined into the loop that measures it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Serialize;

use tickline::{Clock, CpuState, CpuStatus, PerCpu, Reading};
use tickline_core::cell::{Bounds, Latch, Published, StateCell};
use tickline_core::control::MAX_WINDOW_TICKS;
use tickline_core::counter::{Counter, CpuCounter, HardwareCounter, HardwareCpuCounter};
use tickline_core::line::{Line, Slope};
use tickline_core::per_cpu;
use tickline_core::shared::Shared;
use tickline_core::word::Word;

use crate::handover::Count;
use crate::peers;

/// What a call is for; clocks are compared with their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// An instruction without a clock around it.
    Counter,
    /// The time in ns, or what the clock's users compare and subtract as such.
    Time,
    /// Ticks, to be converted later.
    Ticks,
    /// A time that may be milliseconds old.
    Coarse,
    /// No public call.
    Internal,
}

/// A clock, and what is done with it. The second loop waits for each result.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// What is called.
    pub name: &'static str,
    /// What it is compared with.
    pub group: Group,
    /// So many calls, as fast as they go.
    pub tight: fn(u32),
    /// So many calls, each complete before the next begins.
    pub awaited: fn(u32),
    /// A reading in ns, since a zero of the clock's own. The first call may set the clock up.
    pub now_ns: Option<fn() -> u64>,
    /// Hands readings over between threads for so long.
    pub hand_over: Option<HandOver>,
}

/// Handovers of one clock.
#[derive(Debug, Clone, Copy)]
pub struct HandOver {
    /// Hands over for so long.
    pub run: fn(Duration) -> Count,
    /// The unit of the readings.
    pub unit: &'static str,
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

/// A call, inlined into what measures it: its cost alone, or also as `ns` or `ticks` that can be compared.
macro_rules! subject {
    ($group:ident, $name:expr, $call:expr) => {
        $crate::clocks::Subject {
            name: $name,
            group: $crate::clocks::Group::$group,
            tight: |calls| {
                let call = $call;
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                }
            },
            awaited: |calls| {
                let (call, counter) = ($call, $crate::clocks::counter());
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                    ::tickline_core::counter::Counter::barrier(&counter);
                }
            },
            now_ns: None,
            hand_over: None,
        }
    };
    ($group:ident, $name:expr, $call:expr, ticks $value:expr) => {
        $crate::clocks::Subject {
            hand_over: Some($crate::clocks::HandOver {
                run: |time| {
                    let (value, call) = ($value, $call);
                    $crate::handover::between(time, || value(call()))
                },
                unit: "ticks",
            }),
            ..$crate::clocks::subject!($group, $name, $call)
        }
    };
    ($group:ident, $name:expr, $call:expr, ns $value:expr) => {
        $crate::clocks::Subject {
            now_ns: Some(|| {
                let (value, call) = ($value, $call);
                value(call())
            }),
            hand_over: Some($crate::clocks::HandOver {
                run: |time| {
                    let (value, call) = ($value, $call);
                    $crate::handover::between(time, || value(call()))
                },
                unit: "ns",
            }),
            ..$crate::clocks::subject!($group, $name, $call)
        }
    };
}
pub(crate) use subject;

/// What is a number already.
pub(crate) fn same(value: u64) -> u64 {
    value
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
    units: Vec<Shared<Latch>>,
    counter: HardwareCpuCounter,
}

#[cfg(target_arch = "x86_64")]
fn counter_without_rdpid() -> Option<HardwareCpuCounter> {
    Some(HardwareCpuCounter::detect()?.without_rdpid())
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_without_rdpid() -> Option<HardwareCpuCounter> {
    None
}

fn without_rdpid() -> Option<&'static WithoutRdpid> {
    static TABLE: OnceLock<Option<WithoutRdpid>> = OnceLock::new();
    let make = || {
        let counter = counter_without_rdpid()?;
        let (ticks, _) = counter.now_ordered()?;
        let cold = Word::default();
        let word = cold.next_published(ticks, 0)?;
        let line = Line { start_ticks: word.to_bits(), base_ns: 0, slope: Slope::from_hz(2_600_000_000)? };
        let published = Published { line, window_ticks: MAX_WINDOW_TICKS };
        let unit = || {
            let unit = Shared::new(Latch::new());
            unit.cell.publish(cold, word, &published, &Bounds::default());
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
        subject!(Counter, "rdtscp", {
            let counter = table().counter;
            move || loop {
                if let Some((ticks, _)) = counter.now_ordered() {
                    break ticks;
                }
            }
        }, ticks same),
        subject!(Time, "tickline per CPU now_ns", {
            let clock = clock();
            move || clock.now_ns()
        }, ns same),
        subject!(Time, "tickline per CPU now_ordered_ns", {
            let clock = clock();
            move || clock.now_ordered_ns()
        }, ns same),
        subject!(Internal, "core per CPU by rdtscp", {
            let table = table();
            move || per_cpu::read(&table.units, &table.counter)
        }),
    ]
}

/// Everything that is compared. The first two are the bare counter, plain and ordered.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let mut subjects = vec![
        subject!(Counter, HardwareCounter::NAME, || counter().now(), ticks same),
        subject!(Counter, HardwareCounter::ORDERED_NAME, || counter().now_ordered(), ticks same),
        subject!(Time, "tickline now_ns", tickline::now_ns, ns same),
        subject!(Time, "tickline now_ordered_ns", tickline::now_ordered_ns, ns same),
        subject!(Time, "tickline unix_ns", tickline::unix_ns, ns same),
        subject!(Time, "tickline Instant::now", tickline::Instant::now, ns {
            let epoch = peers::epoch!(tickline::Instant, tickline::Instant::now());
            move |now: tickline::Instant| peers::whole_ns(now.duration_since(*epoch))
        }),
        subject!(Time, "tickline reading", || tickline::Clock::global().reading(), ns |now: Reading<tickline::Instant>| now.at().as_nanos()),
        // Not handed over: stamps that the OS served while a line had run out cannot be compared with the counter's.
        subject!(Ticks, "tickline ticks", || tickline::Clock::global().ticks().to_bits()),
        subject!(Coarse, "tickline recent_ns", tickline::recent_ns, ns same),
    ];
    subjects.extend(per_cpu_subjects());
    subjects.extend(peers::subjects());
    subjects
}

/// Those that tell ns, set up. Coarse ones are as wrong as they are old.
#[must_use]
pub fn set_up_subjects_in_ns() -> Vec<(Subject, fn() -> u64)> {
    let told: Vec<_> =
        subjects().into_iter().filter_map(|subject| Some((subject, subject.now_ns?))).collect();
    for (_, now_ns) in &told {
        now_ns();
    }
    told
}
