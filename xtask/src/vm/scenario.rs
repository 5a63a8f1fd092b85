//! The guests, what is done to them, and what is expected: a table, and why each line of it is so.

use std::fmt;

/// A processor whose TSC is not called invariant: with more than one, the kernel marks its TSC unstable and takes hpet.
const PLAIN: &str = "max";

/// One whose TSC is called invariant. QEMU before 9.2 emulates it all the same but refuses to say so; the option makes it.
const INVARIANT: &str = "max,+invtsc,x-force-features=on";

/// Has the kernel trust the TSC without tests, which an emulated one passes or not as the machine below is loaded. Without
/// the vDSO, a call of `clock_gettime` takes 450 ns in the guest; with it 53, which is less than half of a reading by a cell
/// that is guarded, as it must be under this emulator: nobody should use the counter then, and one scenario looks at that.
const TSC: &str = "tsc=reliable vdso=0";

/// Has the kernel reject the TSC, as it does with a bad one.
const REJECTED: &str = "tsc=unstable";

/// Why a kernel gate is closed whose kernel keeps time with something else.
const KERNEL: &[&str] = &["kernel_uses_other"];

/// What the issue allows between an event and the clock that follows it, us: for Unix time. Taken for all that waits for a
/// thread to be scheduled in a guest whose CPUs are busy.
const PROMPT_US: u64 = 50_000;

/// A line that is fitted to brackets may leave them by 1.5 of their width where its samples end (DESIGN.md, "Estimate and
/// bound"), rounded up; in brackets.
const BRACKETS: u64 = 2;

/// A change of the kernel's rate by 1,000 ppm (from +500 to -500) goes unnoticed for one interval of 0.5 s at most, ns. The
/// line is that far off then.
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
    pub(super) checks: Vec<Check>,
}

/// Whose word the guest's clock takes for the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The kernel's.
    Default,
    /// That of its own test.
    Measured,
}

/// Something that must hold in every phase of this name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    pub(super) phase: &'static str,
    /// Keys of the phase's JSON, separated by dots.
    pub(super) path: &'static str,
    pub(super) rule: Rule,
    pub(super) why: &'static str,
}

/// What a value must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Is(&'static str),
    OneOf(&'static [&'static str]),
    True,
    Nothing,
    AtMost(u64),
    AtLeast(u64),
    /// At most so many times another value of the same phase.
    AtMostTimes(u64, &'static str),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(text) => write!(f, "\"{text}\""),
            Self::OneOf(texts) => write!(f, "one of {texts:?}"),
            Self::True => write!(f, "true"),
            Self::Nothing => write!(f, "nothing"),
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
            Self::AtMostTimes(factor, path) => write!(f, "at most {factor} times {path}"),
        }
    }
}

/// What serves the readings in a quiet phase.
#[derive(Debug, Clone, Copy)]
enum Serves {
    Counter,
    /// The OS clock, for one of these reasons.
    Os(&'static [&'static str]),
}

impl Scenario {
    fn new(name: &'static str, about: &'static str, processor: &'static str, kernel: &'static str) -> Self {
        Self { name, about, processor, cpus: 2, kernel, act: "none", trust: Trust::Default, checks: always() }
    }

    fn one_cpu(mut self) -> Self {
        self.cpus = 1;
        // Nobody hands over.
        self.checks.retain(|check| check.path != "readers.handovers");
        self
    }

    fn measured(mut self) -> Self {
        self.trust = Trust::Measured;
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

    /// What serves before the act, and after it.
    fn serves(self, before: Serves, after: Serves) -> Self {
        self.quiet("before", before).quiet("after", after)
    }

    /// A phase in which nothing is done.
    fn quiet(mut self, phase: &'static str, serves: Serves) -> Self {
        match serves {
            Serves::Counter => {
                self.check(phase, "state", Rule::Is("fast"), "the counter serves");
                self.check(phase, "reason", Rule::Nothing, "no gate is closed");
                self.check(phase, "fast_percent", Rule::AtLeast(50), "the counter serves most of the time");
            }
            Serves::Os(reasons) => {
                self.check(phase, "state", Rule::Is("fallback"), "the OS clock serves");
                self.check(phase, "reason", Rule::OneOf(reasons), "and says why");
            }
        }
        self.check(phase, "bound_violated", Rule::AtMost(0), "the OS clock is within the stated limits");
        self.check(phase, "unix_bound_violated", Rule::AtMost(0), "Unix time is, too");
        for path in ["ahead_ns", "behind_ns", "unix_outside_ns"] {
            let rule = Rule::AtMostTimes(BRACKETS, "narrowest_bracket_ns");
            self.check(phase, path, rule, "a line leaves its brackets by 1.5 of them at most");
        }
        self
    }

    /// An act of which the clock must learn within one interval.
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
        self.checks.push(Check { phase, path, rule, why });
    }

    /// For the kernel: its own settings, and the guest's.
    pub(super) fn command_line(&self) -> String {
        let trust = match self.trust {
            Trust::Default => "default",
            Trust::Measured => "measured",
        };
        // A panic ends the guest: QEMU is told not to boot again.
        format!("console=ttyS0 panic=-1 {} tickline.act={} tickline.trust={trust}", self.kernel, self.act)
    }
}

/// What must hold in every guest.
fn always() -> Vec<Check> {
    let at_end = |path, rule, why| Check { phase: "end", path, rule, why };
    let followed = |path, rule, why| Check { phase: "set_clock", path, rule, why };
    vec![
        at_end("readers.backward", Rule::AtMost(0), "ordered readings never step back between threads"),
        at_end("readers.backward_in_thread", Rule::AtMost(0), "readings never step back within a thread"),
        at_end("readers.readings", Rule::AtLeast(100_000), "the readers have read"),
        at_end("readers.handovers", Rule::AtLeast(1_000), "the readers have handed over"),
        followed("work.reached", Rule::True, "Unix time follows a clock that was set"),
        followed("work.after_us", Rule::AtMost(PROMPT_US), "it does so within 50 ms"),
    ]
}

/// The kernel uses the TSC, and so does tickline, before an act and after it.
fn tsc(name: &'static str, about: &'static str) -> Scenario {
    Scenario::new(name, about, INVARIANT, TSC).clocksource("tsc")
}

/// Every scenario.
pub(super) fn all() -> Vec<Scenario> {
    use Rule::{AtLeast, AtMost, Is, OneOf, True};
    use Serves::{Counter, Os};
    let done = |scenario: Scenario, phase| scenario.expect(phase, "work.done", True, "it could be done");
    let mut scenarios = vec![
        tsc("tsc", "the kernel keeps time with the TSC").serves(Counter, Counter).expect(
            "before",
            "bounded_percent",
            AtLeast(50),
            "reading() gives the line's limits",
        ),
        tsc("one_cpu", "one CPU, which readers, driver and everybody share")
            .one_cpu()
            .serves(Counter, Counter),
        Scenario::new(
            "cheap_os_clock",
            "the OS clock takes half of what a guarded reading does",
            INVARIANT,
            "tsc=reliable",
        )
        .clocksource("tsc")
        .serves(Os(&["slow"]), Os(&["slow"])),
        Scenario::new("hpet", "two CPUs with a TSC that nobody vouches for", PLAIN, "")
            .clocksource("hpet")
            .serves(Os(&["not_invariant"]), Os(&["not_invariant"])),
        Scenario::new("hpet_rejected", "the kernel has rejected an invariant TSC", INVARIANT, REJECTED)
            .clocksource("hpet")
            .serves(Os(KERNEL), Os(KERNEL)),
        Scenario::new("acpi_pm", "the same without hpet", INVARIANT, "tsc=unstable hpet=disable")
            .clocksource("acpi_pm")
            .serves(Os(KERNEL), Os(KERNEL)),
        Scenario::new(
            "chosen",
            "hpet by the administrator's choice, tsc on offer",
            INVARIANT,
            "tsc=reliable clocksource=hpet",
        )
        .clocksource("hpet")
        .expect("machine", "clocksources", Is("tsc hpet acpi_pm"), "the kernel has not rejected the TSC")
        .serves(Counter, Counter),
    ];
    for (name, kernel, clocksource) in
        [("measured_hpet", REJECTED, "hpet"), ("measured_acpi_pm", "tsc=unstable hpet=disable", "acpi_pm")]
    {
        let about = "a bad clocksource, and Trust::Measured: the counter's own test decides";
        scenarios.push(
            Scenario::new(name, about, INVARIANT, kernel)
                .measured()
                .clocksource(clocksource)
                .serves(Counter, Counter)
                .expect(
                    "end",
                    "cost.os_to_now_percent",
                    AtLeast(2_000),
                    "a reading costs a twentieth of the OS clock's",
                ),
        );
    }
    scenarios.extend([
        tsc("switched", "the clocksource is switched and given back while readers run")
            .act("switch")
            .serves(Counter, Counter)
            .noticed("switched")
            .expect("switched", "work.reason", OneOf(KERNEL), "the reason is the kernel's choice")
            .expect("back", "work.reached", True, "the counter is used again")
            .quiet("back_steady", Counter),
        tsc("demoted", "the TSC is taken from the kernel while readers run")
            .act("demote")
            .noticed("demoted")
            .expect("demoted", "work.reason", OneOf(KERNEL), "the reason is the kernel's choice")
            .serves(Counter, Os(KERNEL)),
        tsc("set_clock", "the clock is set by an hour and by a second, both ways")
            .act("set-clock")
            .serves(Counter, Counter),
        tsc("adjtimex", "the kernel's rate is changed by +500 ppm, to -500, to 0")
            .act("adjtimex")
            .serves(Counter, Counter)
            .quiet("steady_up", Counter)
            .quiet("steady_down", Counter)
            .quiet("steady_zero", Counter),
    ]);
    if let Some(adjtimex) = scenarios.last_mut() {
        for phase in ["rate_up", "rate_down", "rate_zero"] {
            adjtimex.check(phase, "work.done", True, "it could be done");
            for path in ["ahead_ns", "behind_ns"] {
                adjtimex.check(
                    phase,
                    path,
                    AtMost(RATE_CHANGE_NS),
                    "a change of rate is noticed within one interval",
                );
            }
        }
    }
    scenarios.extend([
        done(
            done(
                tsc("hotplug", "a CPU goes offline under a reader, and comes back").act("hotplug"),
                "offline",
            ),
            "online",
        )
        .serves(Counter, Counter)
        .quiet("without", Counter),
        done(tsc("paused", "the machine is stopped for 10 s and continued").act("pause"), "host")
            .serves(Counter, Counter),
        done(tsc("saved", "the machine's state is saved, loaded and continued").act("save"), "host")
            .serves(Counter, Counter),
        done(tsc("suspended", "suspend to RAM, ended by the real-time clock").act("suspend"), "suspend")
            .expect("suspend", "work.slept_ms", AtLeast(3_000), "the machine slept for longer than a window")
            .expect("again", "work.reached", True, "the counter is used again")
            .serves(Counter, Counter),
    ]);
    scenarios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_scenario_expects_something() {
        let scenarios = all();
        for (index, one) in scenarios.iter().enumerate() {
            assert!(scenarios[..index].iter().all(|other| other.name != one.name), "{} twice", one.name);
            let states = |phase| one.checks.iter().any(|check| check.phase == phase && check.path == "state");
            assert!(states("before") && states("after"), "{} expects no state", one.name);
        }
    }
}
