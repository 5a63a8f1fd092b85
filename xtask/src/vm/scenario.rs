//! A guest's definition: machine, kernel, what is done to it, and what is expected. `guests` has
//! the list.

use std::collections::BTreeSet;

use super::check::{Check, Rule, When};
use super::packages::Program;

mod guests;

pub(super) use guests::{PROCESSOR, all};

/// Why a counter with which the kernel does not keep time is not used at first: it has not been
/// compared yet, or the kernel, which takes seconds to decide, does not offer it yet.
const NOT_YET: &[&str] = &["untested", "kernel_rejected"];

/// The possible results of a comparison.
const COMPARED: &[&str] = &["single", "synchronised", "unsynchronised"];

/// How soon after a resume readings are within their bounds again, or the status says that they
/// are not, ms. The kernel wakes the clock's thread at once (`timerfd_resume`).
const RESUMED_MS: u64 = 100;

/// How long a line goes on after the counter has jumped within its window, ms: until the next
/// iteration, one interval later at most, and until the thread is scheduled.
const NOTICED_MS: u64 = 500 + PROMPT_US / 1_000;

/// The window of a line, ns: two intervals.
const WINDOW_NS: u64 = 1_000_000_000;

/// The time that a clock may take to follow an event, us: 50 ms is tickline's promise for Unix
/// time. It is used wherever a thread has to be scheduled in a guest whose CPUs are busy.
const PROMPT_US: u64 = 50_000;

/// A line that is fitted to brackets may be off by 1.5 of their width at the end of its window
/// (DESIGN.md, "Discipline and intervals"), rounded up; in brackets.
const BRACKETS: u64 = 2;

/// A change of the kernel's rate by 1,000 ppm (from +500 to -500), 1 ns a us, goes unnoticed for
/// one interval of 0.5 s at most and until the thread is scheduled. The line is that far off
/// then, ns.
const RATE_CHANGE_NS: u64 = 500_000 + PROMPT_US;

/// A guest: what it is, what is done to it, what is expected.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// QEMU's `-cpu`.
    pub(super) processor: &'static str,
    pub(super) cpus: u8,
    /// For the kernel's command line.
    kernel: &'static str,
    /// An act of the guest (`tests/vm/guest/src/acts.rs`).
    act: &'static str,
    trust: Trust,
    /// The state before the act.
    awaits: &'static str,
    interval_ms: Option<u32>,
    pub(super) pace: Pace,
    readers: Readers,
    /// A program of the distribution that the guest needs.
    pub(super) program: Option<Program>,
    pub(super) checks: Vec<Check>,
    pub(super) findings: Vec<Expected>,
}

/// The first finding that the program `tickline` is to print in a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    pub(super) phase: &'static str,
    /// What is special about the phase.
    pub(super) about: &'static str,
    pub(super) code: &'static str,
}

/// What the guest's clock trusts (`Trust`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The default.
    Auto,
    /// The kernel's alone.
    Kernel,
    /// That of the comparison.
    Measured,
    /// The same, and CPUID does not call the counter invariant.
    Waived,
}

impl Trust {
    /// For the guest's command line.
    const fn settings(self) -> &'static str {
        match self {
            Self::Auto => "tickline.trust=auto",
            Self::Kernel => "tickline.trust=kernel",
            Self::Measured => "tickline.trust=measured",
            Self::Waived => "tickline.trust=measured tickline.waive=invariant",
        }
    }
}

/// How fast the guest's clocks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As fast as the host's. If a guest's do not, they were calibrated wrong, and it is booted
    /// again.
    Real,
    Any,
}

/// What the readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// The OS clock, too.
    Greedy,
    /// Only tickline. Where CPUs meet at hpet, the kernel gives those that wait the value that
    /// another has read (`read_hpet` in `arch/x86/kernel/hpet.c`), perhaps before they asked:
    /// stale by as long as that CPU was stopped by the machine below. Such a clock proves nothing
    /// about a counter, so only the brackets read it.
    Sparing,
}

/// What serves the readings in a quiet phase.
#[derive(Debug, Clone, Copy)]
enum Serves {
    /// The counter, or the OS clock if the comparison has found two CPUs' counters
    /// unsynchronised. The emulator's counters never step back, whoever reads them, so that
    /// should never be found.
    Counter,
    /// The OS clock, for one of these reasons.
    Os(&'static [&'static str]),
}

impl Serves {
    const fn state(self) -> &'static str {
        match self {
            Self::Counter => "fast",
            Self::Os(_) => "fallback",
        }
    }
}

impl Scenario {
    fn new(name: &'static str, about: &'static str, processor: &'static str, kernel: &'static str) -> Self {
        Self {
            name,
            about,
            processor,
            cpus: 2,
            kernel,
            act: "none",
            trust: Trust::Auto,
            awaits: "fast",
            interval_ms: None,
            pace: Pace::Real,
            readers: Readers::Greedy,
            program: None,
            checks: always(),
            findings: Vec::new(),
        }
    }

    fn processor(mut self, processor: &'static str) -> Self {
        self.processor = processor;
        self
    }

    fn one_cpu(mut self) -> Self {
        self.cpus = 1;
        // There is nobody to exchange readings with.
        self.checks.retain(|check| check.path != "readers.exchanges");
        self
    }

    /// The guest's time runs faster than the host's, so the host is not expected to be prompt.
    fn slow(mut self) -> Self {
        self.pace = Pace::Any;
        self.checks.retain(|check| check.path != "work.after_us");
        self
    }

    fn sparing(mut self) -> Self {
        self.readers = Readers::Sparing;
        self
    }

    fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    fn needs(mut self, program: Program) -> Self {
        self.program = Some(program);
        self
    }

    fn act(mut self, act: &'static str) -> Self {
        self.act = act;
        self
    }

    /// The clocksource before the act.
    fn clocksource(mut self, name: &'static str) -> Self {
        self.check("before", "clocksource", Rule::Is(name), "the guest is the one that was wanted");
        self
    }

    /// What serves before the act, and after it, when the program `tickline` is asked, too.
    fn serves(mut self, before: Serves, after: Serves) -> Self {
        // The program has the default trust.
        if self.trust == Trust::Auto {
            let why = "the program tickline says the same";
            match after {
                Serves::Counter => {
                    self.unless_unsynchronised("program", "serves", Rule::Is("counter"), why);
                    self.if_unsynchronised("program", "exit_code", Rule::Exactly(1), why);
                }
                Serves::Os(_) => self.check("program", "exit_code", Rule::Exactly(1), why),
            }
            let why = "the exit code is 1 if a clock is slow or wrong, or the OS clock serves";
            self.check("program", "exit_as_said", Rule::True, why);
        }
        self.awaits = before.state();
        self.quiet("before", before).quiet("after", after)
    }

    /// A phase in which nothing is done.
    fn quiet(mut self, phase: &'static str, serves: Serves) -> Self {
        self.state(phase, serves);
        if matches!(serves, Serves::Counter) {
            self.unless_unsynchronised(
                phase,
                "fast_percent",
                Rule::AtLeast(50),
                "the counter serves most of the time",
            );
            self.unless_unsynchronised(
                phase,
                "bounded_percent",
                Rule::AtLeast(50),
                "reading() gives the line's limits",
            );
        }
        self.check(phase, "bound_violated", Rule::AtMost(0), "the OS clock is within the stated limits");
        self.check(phase, "unix_bound_violated", Rule::AtMost(0), "Unix time is, too");
        for path in ["ahead_ns", "behind_ns"] {
            let rule = Rule::AtMostTimes(BRACKETS, "narrowest_bracket_ns");
            self.check(phase, path, rule, "a line leaves its brackets by 1.5 of them at most");
        }
        // The difference of Unix time and monotonic time is known within the time of one read of
        // each.
        let rule = Rule::AtMostTimesPlus(BRACKETS, "narrowest_bracket_ns", "unix_widest_bound_ns");
        self.check(phase, "unix_outside_ns", rule, "Unix time does by its own bound more");
        self
    }

    /// A suspend in which the counter runs on. Readings may be ahead of the OS clock by the rest
    /// of a window, because nobody knows which readings there were, and are slewed back. But soon
    /// after the resume their bounds hold, or the status says that they do not.
    fn suspended(self, name: &'static str) -> Self {
        self.act("suspend")
            .serves(Serves::Counter, Serves::Counter)
            .done(name)
            .expect(name, "work.unsaid_ms", Rule::AtMost(RESUMED_MS), "it is off, and does not say so")
            .expect(name, "work.outside_ms", Rule::AtMost(RESUMED_MS), "the bounds hold again")
            .expect("again", "work.reached", Rule::True, "the counter is used again, and is back")
    }

    /// Another interval than the default one.
    fn interval_ms(mut self, interval_ms: u32) -> Self {
        self.interval_ms = Some(interval_ms);
        self
    }

    /// What serves at the end of a phase.
    fn state(&mut self, phase: &'static str, serves: Serves) {
        match serves {
            Serves::Counter => {
                self.unless_unsynchronised(phase, "state", Rule::Is("fast"), "what serves");
                self.unless_unsynchronised(phase, "reason", Rule::Nothing, "no gate is closed");
                self.unused_if_apart(phase);
            }
            Serves::Os(reasons) => {
                self.check(phase, "state", Rule::Is("fallback"), "what serves");
                self.check(phase, "reason", Rule::OneOf(reasons), "why the counter does not");
            }
        }
    }

    /// The counter is used where its rate changes all the time, as the emulator's does beside
    /// another clock if two CPUs read it: lines then last for a fraction of a millisecond, and
    /// there may be none at any one moment.
    fn used_though_it_jumps(&mut self, phase: &'static str) {
        self.unless_unsynchronised(phase, "reason", Rule::Nothing, "no gate is closed");
        self.unless_unsynchronised(
            phase,
            "fast_percent",
            Rule::AtLeast(10),
            "the counter serves now and then",
        );
        self.unused_if_apart(phase);
    }

    fn unused_if_apart(&mut self, phase: &'static str) {
        self.if_unsynchronised(phase, "state", Rule::Is("fallback"), "unsynchronised counters are not used");
        self.if_unsynchronised(phase, "reason", Rule::Is("unsynchronised"), "and that is the reason");
    }

    /// After each switch the counter is judged by what is known of it: the kernel would accept
    /// it, and the comparison decides.
    fn judged_anew(mut self) -> Self {
        self.unless_unsynchronised("judged", "work.reached", Rule::True, "the counter is used again");
        self.used_though_it_jumps("switched_steady");
        let why = "the counters were compared";
        self.check("switched_steady", "comparison.found", Rule::OneOf(COMPARED), why);
        self.quiet("back_steady", Serves::Counter)
    }

    /// Only that the counter is used. With two CPUs and another clock, nothing more can be
    /// judged.
    fn used(mut self) -> Self {
        self.used_though_it_jumps("before");
        self.used_though_it_jumps("after");
        self
    }

    /// Only the comparison speaks for the counter: without its result the counter is not used.
    fn untested_at_first(self) -> Self {
        self.expect("start", "reasons", Rule::Lists(NOT_YET), "what nobody has compared is not used").expect(
            "before",
            "comparison.found",
            Rule::OneOf(COMPARED),
            "the counters were compared",
        )
    }

    /// In this phase the OS clock itself steps back: it is computed from a counter that jumps back,
    /// and forgets what it has not yet added up. Readings by tickline are in order only where the OS
    /// clock is (DESIGN.md, "Order"), and must step back by no more than that.
    fn in_order_as_the_os_clock_is(mut self, phase: &'static str) -> Self {
        self.checks.retain(|check| !check.path.starts_with("readers.backward"));
        let phases: BTreeSet<&'static str> = self.checks.iter().map(|check| check.phase).collect();
        for other in phases.into_iter().filter(|one| one.starts_with("moved") && *one != phase) {
            for path in ["readers.backward", "readers.backward_in_thread"] {
                self.check(other, path, Rule::AtMost(0), "readings never step back");
            }
        }
        let no_more = Rule::AtMostTimes(1, "readers.os_largest_backward_ns");
        self.check("end", "readers.largest_backward_ns", no_more, "by no more than the OS clock");
        self
    }

    /// An act that must have been possible.
    fn done(self, phase: &'static str) -> Self {
        self.expect(phase, "work.done", Rule::True, "it could be done")
    }

    /// A change of the kernel's rate.
    fn rate_changed(self, phase: &'static str) -> Self {
        let (rule, why) = (Rule::AtMost(RATE_CHANGE_NS), "a change of rate is noticed within one interval");
        self.done(phase).expect(phase, "ahead_ns", rule, why).expect(phase, "behind_ns", rule, why)
    }

    /// A reading is that many times cheaper than the OS clock. In some boots everything emulated
    /// takes twice as long, 59 ns a reading in place of 27. The limit still distinguishes these
    /// from the slow path, at 94 ns a reading.
    fn times_cheaper(self, times: u64) -> Self {
        let why = "a reading is so much cheaper than the OS clock, percent";
        let mut this = self;
        this.unless_unsynchronised("end", "cost.os_to_now_percent", Rule::AtLeast(times * 100), why);
        this
    }

    /// A span of tracing that tickline times is that much cheaper than one that the OS clock times.
    fn spans_cheaper(self, percent: u64) -> Self {
        self.act("spans")
            .expect("spans", "work.state", Rule::Is("fast"), "the counter times the spans")
            .expect(
                "spans",
                "work.over_std_percent",
                Rule::AtLeast(percent),
                "a span costs less than over std, percent",
            )
    }

    /// What the program finds when everything else is done.
    fn finds(self, code: &'static str, fix: &'static str) -> Self {
        self.finds_in("program", "as it is", code, fix)
    }

    /// What the program finds in a phase of its own.
    fn finds_in(
        mut self,
        phase: &'static str,
        about: &'static str,
        code: &'static str,
        fix: &'static str,
    ) -> Self {
        self.unless_unsynchronised(phase, "finding.code", Rule::Is(code), "the program's first finding");
        self.unless_unsynchronised(phase, "finding.fix", Rule::Has(fix), "what the program says to do");
        self.findings.push(Expected { phase, about, code });
        self
    }

    /// An act that the clock must notice within one interval.
    fn noticed(mut self, phase: &'static str) -> Self {
        self.check(phase, "work.reached", Rule::True, "it is noticed at all");
        let rule = Rule::AtMost(PROMPT_US);
        self.check(phase, "work.beyond_interval_us", rule, "it is noticed within one interval");
        self
    }

    fn expect(mut self, phase: &'static str, path: &'static str, rule: Rule, why: &'static str) -> Self {
        self.check(phase, path, rule, why);
        self
    }

    fn check(&mut self, phase: &'static str, path: &'static str, rule: Rule, why: &'static str) {
        self.checks.push(Check::new(phase, path, rule, why));
    }

    /// The same, unless the counters were found unsynchronised.
    fn unless_unsynchronised(
        &mut self,
        phase: &'static str,
        path: &'static str,
        rule: Rule,
        why: &'static str,
    ) {
        self.checks.push(Check { when: When::NotUnsynchronised, ..Check::new(phase, path, rule, why) });
    }

    /// The same, if they were.
    fn if_unsynchronised(&mut self, phase: &'static str, path: &'static str, rule: Rule, why: &'static str) {
        self.checks.push(Check { when: When::Unsynchronised, ..Check::new(phase, path, rule, why) });
    }

    /// For the kernel: its own settings, and the guest's.
    pub(super) fn command_line(&self) -> String {
        // A panic ends the guest: QEMU is told not to boot again.
        let readers = match self.readers {
            Readers::Greedy => "greedy",
            Readers::Sparing => "sparing",
        };
        let (kernel, act, awaits, trust) = (self.kernel, self.act, self.awaits, self.trust.settings());
        format!(
            "console=ttyS0 panic=-1 {kernel} tickline.act={act} {trust} tickline.awaits={awaits} \
             tickline.readers={readers}{}",
            self.interval_ms.map_or_else(String::new, |ms| format!(" tickline.interval_ms={ms}"))
        )
    }
}

/// What must hold in every guest.
fn always() -> Vec<Check> {
    let at_end = |path, rule, why| Check::new("end", path, rule, why);
    let followed = |path, rule, why| Check::new("set_clock", path, rule, why);
    vec![
        at_end("readers.backward", Rule::AtMost(0), "ordered readings never step back between threads"),
        at_end("readers.backward_in_thread", Rule::AtMost(0), "readings never step back within a thread"),
        at_end("readers.readings", Rule::AtLeast(100_000), "the readers have read"),
        // Far more where two CPUs run at once; few where the host lets them take turns.
        at_end("readers.exchanges", Rule::AtLeast(10), "the readers have exchanged readings"),
        followed("work.reached", Rule::True, "Unix time follows a clock that was set"),
        followed("work.after_us", Rule::AtMost(PROMPT_US), "it does so within 50 ms"),
    ]
}
