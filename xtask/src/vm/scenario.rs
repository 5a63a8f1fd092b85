//! The guests, what is done to them, and what is expected: a table, and why each line of it is so.

use super::check::{Check, Rule, When};

/// A processor whose TSC is not called invariant: with more than one, the kernel marks its TSC unstable and takes hpet.
const PLAIN: &str = "max";

/// One whose TSC is called invariant. The emulator's is, but QEMU refuses to say so (its `target/i386/cpu.c` has no
/// `TCG_APM_FEATURES`); the second option makes it. The third hides the emulator's name, so that tickline takes this for a
/// processor and uses the inlined path, as it does on nearly all machines. Should the emulator split 16-byte loads, then it is
/// the second look at the word that protects readers, and backward steps would show if it did not.
const PROCESSOR: &str = "max,+invtsc,x-force-features=on,tcg-cpuid=off";

/// The same without the word.
const NOT_INVARIANT: &str = "max,tcg-cpuid=off";

/// `PROCESSOR` with the emulator's name, so that tickline guards its cells: every reading takes the slow path.
const EMULATOR: &str = "max,+invtsc,x-force-features=on";

/// Has the kernel trust the TSC without tests, which an emulated one passes or not as the machine below is loaded.
const TRUSTED: &str = "tsc=reliable";

/// Has the kernel reject the TSC, as it does with a bad one.
const REJECTED: &str = "tsc=unstable";

/// The same where there is no hpet either.
const REJECTED_NO_HPET: &str = "tsc=unstable hpet=disable";

/// Has the kernel use hpet while it trusts the TSC.
const CHOSEN: &str = "tsc=reliable clocksource=hpet";

/// Has the kernel believe that the TSC runs at a tenth of its rate (2.6 GHz on the machine this was chosen on), as kernels do
/// now and then that calibrate it against a timer on a busy machine.
const SLOW: &str = "tsc=reliable tsc_early_khz=260000";

/// Why a counter is not used at first that the kernel does not keep time with: nobody has compared it, or the kernel, which takes
/// seconds to make up its mind, is not offering it yet.
const NOT_YET: &[&str] = &["untested", "kernel_rejected"];

/// What a comparison that was made may have found.
const COMPARED: &[&str] = &["single", "in_step", "apart"];

/// The longest window of a line at the default interval of 0.5 s: six intervals, ns.
const WINDOW_NS: u64 = 3_000_000_000;

/// What is on offer then: the kernel takes some seconds to make up its mind.
const ON_OFFER: &[&str] = &["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];

/// Why the counter does not serve whose kernel does not accept it.
const REJECTS: &[&str] = &["kernel_rejected"];

/// What is allowed between an event and the clock that follows it, us: 50 ms is what tickline promises for Unix time. Taken for
/// all that waits for a thread to be scheduled in a guest whose CPUs are busy.
const PROMPT_US: u64 = 50_000;

/// A line that is fitted to brackets may leave them by 1.5 of their width where its samples end (DESIGN.md, "Estimate and
/// bound"), rounded up; in brackets.
const BRACKETS: u64 = 2;

/// A change of the kernel's rate by 1,000 ppm (from +500 to -500), 1 ns a us, goes unnoticed for one interval of 0.5 s at most
/// and until the thread is scheduled. The line is that far off then, ns.
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
    pub(super) pace: Pace,
    readers: Readers,
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

/// Whose word the guest's clock takes for the counter.
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
    /// As those of the machine below. A guest where they do not has been calibrated wrong, and is booted again.
    Real,
    Any,
}

/// What the readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// The OS clock, too.
    Greedy,
    /// Only tickline. Where CPUs meet at hpet, the kernel gives those that wait the value that another has read
    /// (`read_hpet` in `arch/x86/kernel/hpet.c`), perhaps before they asked: stale by as long as that CPU was stopped by the
    /// machine below. Nothing can be said of a counter by such a clock, so it is left to those who look.
    Sparing,
}

/// What serves the readings in a quiet phase.
#[derive(Debug, Clone, Copy)]
enum Serves {
    /// The counter; but if the comparison has found two CPUs' counters apart, the OS clock for that reason. The emulator's
    /// counters never step back, whoever reads them, so they should never be found apart.
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
            pace: Pace::Real,
            readers: Readers::Greedy,
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
        // Nobody hands over.
        self.checks.retain(|check| check.path != "readers.handovers");
        self
    }

    /// The guest's time runs faster than that of the machine below, which may not be asked to be prompt then.
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
                    self.in_step("program", "exit_code", Rule::Exactly(0), why);
                    self.apart("program", "exit_code", Rule::Exactly(1), why);
                }
                Serves::Os(_) => self.check("program", "exit_code", Rule::Exactly(1), why),
            }
        }
        self.awaits = before.state();
        self.quiet("before", before).quiet("after", after)
    }

    /// A phase in which nothing is done.
    fn quiet(mut self, phase: &'static str, serves: Serves) -> Self {
        self.state(phase, serves);
        if matches!(serves, Serves::Counter) {
            self.in_step(phase, "fast_percent", Rule::AtLeast(50), "the counter serves most of the time");
            self.in_step(phase, "bounded_percent", Rule::AtLeast(50), "reading() gives the line's limits");
        }
        self.check(phase, "bound_violated", Rule::AtMost(0), "the OS clock is within the stated limits");
        self.check(phase, "unix_bound_violated", Rule::AtMost(0), "Unix time is, too");
        for path in ["ahead_ns", "behind_ns"] {
            let rule = Rule::AtMostTimes(BRACKETS, "narrowest_bracket_ns");
            self.check(phase, path, rule, "a line leaves its brackets by 1.5 of them at most");
        }
        // What is known of Unix time minus the monotonic one is as narrow as the looks at both in a row were.
        let rule = Rule::AtMostTimesPlus(BRACKETS, "narrowest_bracket_ns", "unix_widest_bound_ns");
        self.check(phase, "unix_outside_ns", rule, "Unix time does by its own bound more");
        self
    }

    /// In this phase the clock is ahead by what was left of a window, and Unix time with it: a line's end is the least that may
    /// be returned after a sleep with the counter running, because nobody knows who has read what.
    fn slews(mut self, phase: &'static str) -> Self {
        let limits = ["ahead_ns", "unix_outside_ns"];
        self.checks.retain(|check| check.phase != phase || !limits.contains(&check.path));
        for path in limits {
            self.check(phase, path, Rule::AtMost(WINDOW_NS), "ahead by a window at most, and slewed back");
        }
        self
    }

    /// What serves at the end of a phase.
    fn state(&mut self, phase: &'static str, serves: Serves) {
        match serves {
            Serves::Counter => {
                self.in_step(phase, "state", Rule::Is("fast"), "what serves");
                self.in_step(phase, "reason", Rule::Nothing, "no gate is closed");
                self.unused_if_apart(phase);
            }
            Serves::Os(reasons) => {
                self.check(phase, "state", Rule::Is("fallback"), "what serves");
                self.check(phase, "reason", Rule::OneOf(reasons), "why the counter does not");
            }
        }
    }

    /// The counter is used where its rate changes all the time, as the emulator's does beside another clock if two CPUs read it:
    /// lines then last for a fraction of a millisecond, and there may be none at any one moment.
    fn used_though_it_jumps(&mut self, phase: &'static str) {
        self.in_step(phase, "reason", Rule::Nothing, "no gate is closed");
        self.in_step(phase, "fast_percent", Rule::AtLeast(10), "the counter serves now and then");
        self.unused_if_apart(phase);
    }

    fn unused_if_apart(&mut self, phase: &'static str) {
        self.apart(phase, "state", Rule::Is("fallback"), "counters that are apart are not used");
        self.apart(phase, "reason", Rule::Is("apart"), "and that is the reason");
    }

    /// After each switch the counter is judged by what is known of it: the kernel would accept it, and the comparison decides.
    fn judged_anew(mut self) -> Self {
        self.in_step("judged", "work.reached", Rule::True, "the counter is used again");
        self.used_though_it_jumps("switched_steady");
        let why = "the counters were compared";
        self.check("switched_steady", "comparison.found", Rule::OneOf(COMPARED), why);
        self.quiet("back_steady", Serves::Counter)
    }

    /// Only that the counter is used: of two CPUs beside another clock, nothing more can be said.
    fn used(mut self) -> Self {
        self.used_though_it_jumps("before");
        self.used_though_it_jumps("after");
        self
    }

    /// Nobody but the comparison speaks for the counter: without its result the counter is not used.
    fn untested_at_first(self) -> Self {
        self.expect("start", "reasons", Rule::Lists(NOT_YET), "what nobody has compared is not used").expect(
            "before",
            "comparison.found",
            Rule::OneOf(COMPARED),
            "the counters were compared",
        )
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

    /// A reading is that many times cheaper than the OS clock. Usually 25 to 40 where 12 is asked for: there are boots in which
    /// everything that is emulated takes twice as long, and the slow path, at 94 ns a reading, would still be told by it.
    fn times_cheaper(self, times: u64) -> Self {
        let why = "a reading is so much cheaper than the OS clock, percent";
        let mut this = self;
        this.in_step("end", "cost.os_to_now_percent", Rule::AtLeast(times * 100), why);
        this
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
        self.in_step(phase, "finding.code", Rule::Is(code), "the program's first finding");
        self.in_step(phase, "finding.fix", Rule::Has(fix), "what the program says to do");
        self.findings.push(Expected { phase, about, code });
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
        self.checks.push(Check::new(phase, path, rule, why));
    }

    /// The same, where the counters were not found apart.
    fn in_step(&mut self, phase: &'static str, path: &'static str, rule: Rule, why: &'static str) {
        self.checks.push(Check { when: When::NotApart, ..Check::new(phase, path, rule, why) });
    }

    /// The same, where they were.
    fn apart(&mut self, phase: &'static str, path: &'static str, rule: Rule, why: &'static str) {
        self.checks.push(Check { when: When::Apart, ..Check::new(phase, path, rule, why) });
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
             tickline.readers={readers}"
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
        // Far more where two CPUs run at once; few where the machine below lets them take turns.
        at_end("readers.handovers", Rule::AtLeast(10), "the readers have handed over"),
        followed("work.reached", Rule::True, "Unix time follows a clock that was set"),
        followed("work.after_us", Rule::AtMost(PROMPT_US), "it does so within 50 ms"),
    ]
}

/// The kernel keeps time with the TSC.
fn tsc(name: &'static str, about: &'static str) -> Scenario {
    Scenario::new(name, about, PROCESSOR, TRUSTED).clocksource("tsc")
}

/// The administrator switches the clocksource and gives it back; the TSC stays on offer.
fn switched(name: &'static str, about: &'static str) -> Scenario {
    tsc(name, about).act("switch").noticed("switched").noticed("back")
}

/// Every scenario.
pub(super) fn all() -> Vec<Scenario> {
    let mut scenarios = machines();
    scenarios.extend(measured());
    scenarios.extend(events());
    scenarios
}

/// What kinds of machines there are.
fn machines() -> Vec<Scenario> {
    use Serves::{Counter, Os};
    let new = Scenario::new;
    vec![
        tsc("tsc", "the kernel keeps time with the TSC")
            .serves(Counter, Counter)
            .finds("ntp_unsynchronised", "run an NTP daemon"),
        asked(),
        tsc("one_cpu", "one CPU, which readers, driver and everybody share")
            .one_cpu()
            .serves(Counter, Counter),
        new("guarded", "an emulator that says so; the OS clock is dear", EMULATOR, "tsc=reliable vdso=0")
            .clocksource("tsc")
            .serves(Counter, Counter)
            .finds("vdso_off", "take `vdso=0` off"),
        // `clock_gettime` takes 53 ns in the guest, a guarded reading 94: nobody should use the counter.
        new("guarded_slow", "an emulator that says so; the OS clock is cheaper", EMULATOR, TRUSTED)
            .clocksource("tsc")
            .serves(Os(&["slow"]), Os(&["slow"])),
        new("slow_machine", "all takes ten times as long, as the guest's clocks have it", PROCESSOR, SLOW)
            .slow()
            .clocksource("tsc")
            .serves(Counter, Counter),
        new("hpet", "two CPUs with a TSC that nobody vouches for", PLAIN, "")
            .clocksource("hpet")
            .serves(Os(&["not_invariant"]), Os(&["not_invariant"]))
            .finds("tsc_unsynchronised", "-accel kvm"),
        new("hpet_rejected", "the kernel has rejected an invariant TSC", PROCESSOR, REJECTED)
            .clocksource("hpet")
            .serves(Os(REJECTS), Os(REJECTS))
            .finds("tsc_switched_off", "take `tsc=unstable` off"),
        new("acpi_pm", "the kernel has rejected it, and there is no hpet", PROCESSOR, REJECTED_NO_HPET)
            .clocksource("acpi_pm")
            .serves(Os(REJECTS), Os(REJECTS))
            .finds("tsc_switched_off", "take `tsc=unstable` off"),
        chosen("chosen", "hpet by the administrator's choice, tsc on offer")
            .one_cpu() // see `measured`
            .untested_at_first()
            .serves(Counter, Counter)
            .times_cheaper(12)
            .finds("tsc_not_chosen", "instead of `clocksource=hpet`"),
        chosen("chosen_cpus", "as chosen, with two CPUs: comparison, order and cost")
            .untested_at_first()
            .used()
            .times_cheaper(12),
        chosen("chosen_kernel", "as chosen, and Trust::Kernel")
            .one_cpu()
            .trust(Trust::Kernel)
            .serves(Os(&["kernel_uses_other"]), Os(&["kernel_uses_other"])),
        chosen("chosen_taken", "as chosen, and the TSC is taken from the kernel, which does not use it")
            .one_cpu()
            .act("take")
            .noticed("taken")
            .serves(Counter, Os(REJECTS)),
    ]
}

/// What the program says about a good guest whose clocks are made bad under it.
fn asked() -> Scenario {
    let switch = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource";
    tsc(
        "asked",
        "the program tickline is asked while its clocks, or its rights, are other than they should be",
    )
    .act("ask-program")
    .serves(Serves::Counter, Serves::Counter)
    .finds_in("program_hpet", "switched to hpet", "tsc_not_chosen", switch)
    .finds_in("program_acpi_pm", "switched to acpi_pm", "tsc_not_chosen", switch)
    .finds_in("program_masked", "without /sys", "clocksource_unknown", "mount -t sysfs -o ro sysfs /sys")
    .finds_in("program_denied", "after PR_SET_TSC", "counter_denied", "prctl(PR_SET_TSC, PR_TSC_ENABLE)")
}

/// The kernel keeps time with hpet by the administrator's choice, and would accept the TSC.
fn chosen(name: &'static str, about: &'static str) -> Scenario {
    let why = "the kernel has not rejected the TSC";
    Scenario::new(name, about, PROCESSOR, CHOSEN).sparing().clocksource("hpet").expect(
        "machine",
        "clocksources",
        Rule::OneOf(ON_OFFER),
        why,
    )
}

/// Clocksources that are slow, and counters that their own test finds good.
///
/// Most have one CPU: where several read the emulator's TSC at once, it jumps forward by microseconds, many times a second.
/// (Threads of the machine below read their own counters a little out of order, and QEMU's `cpu_get_ticks` adds whatever it sees
/// to step back to an offset.) Where the kernel keeps time with that counter, nobody can tell; beside another clock,
/// no limit on offsets or bounds can be kept.
fn measured() -> Vec<Scenario> {
    let new = |name, about, kernel, clocksource| {
        Scenario::new(name, about, PROCESSOR, kernel)
            .trust(Trust::Measured)
            .sparing()
            .untested_at_first()
            .clocksource(clocksource)
            .times_cheaper(12)
    };
    let one = |name, about, kernel, clocksource| {
        new(name, about, kernel, clocksource).one_cpu().serves(Serves::Counter, Serves::Counter)
    };
    vec![
        one("measured_hpet", "hpet, and Trust::Measured", REJECTED, "hpet"),
        one("measured_acpi_pm", "acpi_pm, and Trust::Measured", REJECTED_NO_HPET, "acpi_pm"),
        // The emulator stops the counter and what the kernel uses one after the other.
        one("measured_paused", "as measured_hpet, and stopped for 10 s", REJECTED, "hpet")
            .act("pause")
            .done("host"),
        new("measured_cpus", "as measured_hpet, with two CPUs: order and cost", REJECTED, "hpet").used(),
        one(
            "waived",
            "as measured_hpet, and nobody calls the TSC invariant: waive_invariant()",
            REJECTED,
            "hpet",
        )
        .processor(NOT_INVARIANT)
        .trust(Trust::Waived),
    ]
}

/// What happens to machines.
fn events() -> Vec<Scenario> {
    use Rule::{AtLeast, True};
    use Serves::{Counter, Os};
    vec![
        switched("switched", "the clocksource is switched and given back while readers run")
            .serves(Counter, Counter)
            .judged_anew(),
        // With one CPU, what rests on the other reference can be judged, too.
        switched("switched_one", "the same with one CPU: offsets and bounds, too")
            .one_cpu()
            .sparing()
            .serves(Counter, Counter)
            .judged_anew()
            .quiet("switched_steady", Counter),
        tsc("demoted", "the TSC is taken from the kernel while readers run")
            .act("take")
            .noticed("taken")
            .serves(Counter, Os(REJECTS)),
        tsc("set_clock", "the clock is set by an hour and by a second, both ways")
            .act("set-clock")
            .serves(Counter, Counter),
        tsc("adjtimex", "the kernel's rate is changed by +500 ppm, to -500, to 0")
            .act("adjtimex")
            .serves(Counter, Counter)
            .rate_changed("rate_up")
            .quiet("steady_up", Counter)
            .rate_changed("rate_down")
            .quiet("steady_down", Counter)
            .rate_changed("rate_zero")
            .quiet("steady_zero", Counter),
        tsc("hotplug", "a CPU goes offline under a reader, and comes back")
            .act("hotplug")
            .serves(Counter, Counter)
            .done("offline")
            .quiet("without", Counter)
            .done("online"),
        tsc("paused", "the machine is stopped for 10 s and continued")
            .act("pause")
            .serves(Counter, Counter)
            .done("host"),
        tsc("saved", "the machine's state is saved, loaded and continued")
            .act("save")
            .serves(Counter, Counter)
            .done("host"),
        tsc("suspended", "suspend to RAM, ended by the real-time clock")
            .act("suspend")
            .serves(Counter, Counter)
            .done("suspend")
            .expect("suspend", "work.slept_ms", AtLeast(3_000), "the machine slept for longer than a window")
            .expect("again", "work.reached", True, "the counter is used again")
            .slews("after"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_scenario_expects_something() {
        let scenarios = all();
        for (index, one) in scenarios.iter().enumerate() {
            assert!(scenarios[..index].iter().all(|other| other.name != one.name), "{} twice", one.name);
            let states = |phase| {
                one.checks
                    .iter()
                    .any(|check| check.phase == phase && ["state", "reason"].contains(&check.path))
            };
            assert!(states("before") && states("after"), "{} expects no state", one.name);
        }
    }
}
