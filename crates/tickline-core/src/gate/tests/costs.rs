//! The verdicts on costs: monotonic time and Unix time are judged separately, each with a
//! hysteresis of its own.
//!
//! Symptom: with monotonic time by a system call, the counter was used for Unix time as well,
//! though the OS read that faster ("Time, but Faster": `gettimeofday` in 35.7 ns, `gethrtime` in
//! 119.8, the counter in 40.4).

use super::machines::{Machine, all, pc, with_slow_counter, xen_that_emulates_the_counter};
use crate::gate::{Gate, Reason, Verdict};

/// A PC whose readings take this long by the counter, of monotonic time by the OS, and of Unix time
/// by the OS.
fn costs_ps(counter_ps: u64, os_ps: u64, os_unix_ps: u64) -> Machine {
    pc().with_costs_ps(counter_ps, os_ps, os_unix_ps)
}

/// The same after a judgement that found the counter slower than the OS for monotonic time.
fn monotonic_was_slow(machine: Machine) -> Machine {
    machine.where_fact(|facts| facts.was_slower_than_os = true)
}

/// The same after a judgement that found the counter slower than the OS for Unix time.
fn unix_was_slow(machine: Machine) -> Machine {
    machine.where_fact(|facts| facts.unix_was_slower_than_os = true)
}

fn monotonic(machine: Machine) -> Verdict {
    machine.verdict(Gate::Cost)
}

fn unix(machine: Machine) -> Verdict {
    machine.verdict(Gate::UnixCost)
}

const OPEN: Verdict = Verdict::open(Gate::Cost);
const WARNS: Verdict = Verdict::with_warning(Reason::Slow);
const SLOW: Verdict = Verdict::closed(Reason::Slow);
const UNIX_BY_COUNTER: Verdict = Verdict::open(Gate::UnixCost);
const UNIX_BY_OS: Verdict = Verdict::closed(Reason::SlowForUnixTime);

#[test]
fn the_counter_is_used_where_the_vdso_works() {
    let machine = costs_ps(10_000, 25_000, 25_000);
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_COUNTER));
}

#[test]
fn the_counter_is_used_where_the_os_clock_is_a_system_call() {
    let machine = costs_ps(10_000, 300_000, 300_000);
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_COUNTER));
}

#[test]
fn the_os_may_serve_unix_time_and_the_counter_all_else() {
    let machine = costs_ps(40_000, 120_000, 36_000);
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_OS));
}

#[test]
fn a_counter_that_traps_is_slow() {
    let machine = with_slow_counter();
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_OS));
}

#[test]
fn a_counter_that_is_slow_is_not_used() {
    let reasons = with_slow_counter().judged_by_any();
    assert_eq!(reasons, [Some(Reason::Slow); 2]);
}

#[test]
fn an_os_that_serves_unix_time_leaves_the_counter_in_use() {
    let reasons = costs_ps(40_000, 120_000, 36_000).judged_by_any();
    assert_eq!(reasons, [None; 2]);
}

#[test]
fn equal_costs_leave_the_counter_in_use() {
    let machine = costs_ps(25_000, 25_000, 25_000);
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_COUNTER));
}

#[test]
fn a_picosecond_more_is_slow() {
    let machine = costs_ps(25_001, 25_000, 25_000);
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_OS));
}

/// Unix time gains 274 ns, and monotonic time loses 1.
#[test]
fn a_small_loss_of_monotonic_time_only_warns_where_unix_time_gains() {
    let machine = costs_ps(26_000, 25_000, 300_000);
    assert_eq!(
        (monotonic(machine), unix(machine)),
        (WARNS, UNIX_BY_COUNTER)
    );
    let machine = costs_ps(108_000, 100_000, 300_000);
    assert_eq!(
        (monotonic(machine), unix(machine)),
        (WARNS, UNIX_BY_COUNTER)
    );
}

#[test]
fn monotonic_time_loses_no_more_than_a_tenth() {
    let machine = costs_ps(28_000, 25_000, 300_000);
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_COUNTER));
}

#[test]
fn monotonic_time_loses_nothing_where_unix_time_gains_less_than_a_tenth() {
    let machine = costs_ps(104_000, 100_000, 106_000);
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_COUNTER));
}

#[test]
fn monotonic_time_loses_nothing_where_unix_time_gains_just_a_tenth() {
    assert_eq!(monotonic(costs_ps(100_000, 95_000, 110_000)), SLOW);
    assert_eq!(monotonic(costs_ps(100_000, 95_000, 110_001)), WARNS);
}

#[test]
fn without_a_history_a_gain_below_a_tenth_suffices() {
    let machine = costs_ps(95_000, 100_000, 100_000);
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_COUNTER));
}

#[test]
fn unix_time_that_was_slow_must_gain_a_tenth() {
    let machine = unix_was_slow(costs_ps(95_000, 100_000, 100_000));
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_OS));
}

#[test]
fn monotonic_time_that_was_slow_must_gain_a_tenth() {
    let machine = monotonic_was_slow(costs_ps(95_000, 100_000, 100_000));
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_COUNTER));
}

#[test]
fn if_both_were_slow_both_must_gain_a_tenth() {
    let machine = unix_was_slow(monotonic_was_slow(costs_ps(95_000, 100_000, 100_000)));
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_OS));
}

#[test]
fn a_gain_of_a_tenth_opens_both_again() {
    let machine = unix_was_slow(monotonic_was_slow(costs_ps(90_000, 100_000, 100_000)));
    assert_eq!((monotonic(machine), unix(machine)), (OPEN, UNIX_BY_COUNTER));
}

/// A gate that opened at a loss of 8 % and closed again at the same costs would toggle.
#[test]
fn a_loss_that_unix_time_makes_up_for_opens_no_gate_that_was_closed() {
    let machine = monotonic_was_slow(costs_ps(108_000, 100_000, 300_000));
    assert_eq!((monotonic(machine), unix(machine)), (SLOW, UNIX_BY_COUNTER));
}

/// Of all machines, only two have Unix time faster by the OS.
#[test]
fn other_machines_have_unix_time_by_the_counter() {
    let by_os = all()
        .into_iter()
        .filter(|machine| unix(*machine) == UNIX_BY_OS);
    let slow = [xen_that_emulates_the_counter(), with_slow_counter()];
    assert_eq!(by_os.count(), slow.len());
    assert!(slow.into_iter().all(|machine| unix(machine) == UNIX_BY_OS));
}
