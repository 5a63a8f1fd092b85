//! Findings about the rate of the kernel's clocks: a correction that is no slew shows that the
//! kernel's frequency of the counter is wrong, its other clocksource, or the server's clock.

use super::{daemons, shared_fixes};
use crate::clocksources::is_computed_from_counter;
use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::float::{as_f64, signed_f64};
use crate::machine::{HostClock, Ntp, NtpDaemon};
use crate::words::{frequency, rate, time};

/// The largest correction that NTP's loop makes (`MAXFREQ`, `include/linux/timex.h`), ppb. A larger
/// correction is a fast slew, and durations that are measured meanwhile are wrong by it.
pub(super) const LOOP_PPB: i64 = 500_000;

/// How near to the kernel's limit a frequency stands at it, ppb. A daemon rounds.
const NEAR_LIMIT_PPB: i64 = 100;

/// The kernel's limits of the tick, us: 10 % from 10,000 (`timekeeping_validate_timex` in
/// `kernel/time/timekeeping.c`).
const TICK_LIMITS_US: [i64; 2] = [9_000, 11_000];

/// The part of a second in which a slew may be at its end. chronyd slews for a second or more
/// (`MIN_SLEW_TIMEOUT` in `sys_generic.c`), so a rest this small is rarely seen.
const SLEW_PART: i64 = 10;

/// The largest difference from the nominal frequency that rounding to MHz explains, ppm.
const ROUNDING_PPM: f64 = 1_000.0;

/// The kernel's frequency of the counter is wrong, or the server's clock.
pub(super) fn clock_rate_wrong(document: &Document) -> Option<Finding> {
    let ntp = document.machine.ntp.as_ref()?;
    let daemon = document.machine.ntp_daemon.as_ref();
    let by_host = document.host_clock.as_ref().filter(|host| is_far_off(host));
    let what = if let Some(host) = by_host {
        format!(
            "the kernel's clock runs {} from the host's clock, so {} is wrong",
            rate(host.raw_rate_ppb),
            own_rate(document)
        )
    } else if let Some(limit_ppb) = at_limit(ntp, document) {
        format!(
            "the correction of the clocks' rate stands at the kernel's limit ({}): the rate is off \
             by that or more, and Unix time may run away",
            rate(limit_ppb)
        )
    } else if let Some(learned_ppb) = learned(daemon) {
        let name = daemon.map_or("the NTP daemon", |daemon| &daemon.name);
        let way = if learned_ppb < 0 { "slow" } else { "fast" };
        format!(
            "{name} finds the clock too {way} by {}, which is no slew: the kernel's rate is wrong, \
             or the server's",
            rate(learned_ppb.saturating_abs())
        )
    } else if is_no_slew(ntp, daemon) {
        format!(
            "the kernel corrects the rate of its clocks by {}, and no offset is left to remove: \
             its rate is wrong, or the server's",
            rate(ntp.steering_ppb())
        )
    } else {
        return None;
    };
    let suspect = Suspect::of(document, ntp);
    Some(
        Finding::unsure(Code::ClockRateWrong, what)
            .seen(seen(ntp))
            .seen_all(daemon.and_then(seen_daemon))
            .seen_all(document.host_clock.as_ref().map(seen_host))
            .seen_all(suspect.as_ref().map(Suspect::evidence))
            .fix(fix(suspect.as_ref(), document)),
    )
}

/// The clocksource, if it is not computed from the counter. The kernel's rate is then that of a
/// timer, such as hpet.
fn timer(document: &Document) -> Option<&str> {
    document
        .machine
        .clocksource()
        .filter(|name| !is_computed_from_counter(name))
}

/// What gives the kernel's clocks their rate, in words.
fn own_rate(document: &Document) -> String {
    match timer(document) {
        Some(name) => format!("the rate of {name}"),
        None => "the kernel's frequency of the counter".to_owned(),
    }
}

/// The correction of the rate, in words.
pub(super) fn seen(ntp: &Ntp) -> String {
    format!(
        "adjtimex: rate corrected by {} (frequency {}, tick {} us, offset {})",
        rate(ntp.rate_ppb()),
        rate(ntp.frequency_ppb),
        ntp.tick_us,
        time(signed_f64(ntp.offset_ns()))
    )
}

/// Whether the kernel's rate without NTP is certainly off by more than NTP's loop can correct.
fn is_far_off(host: &HostClock) -> bool {
    let size_ppb = host.raw_rate_ppb.saturating_abs();
    size_ppb.saturating_sub(host.uncertainty_ppb) > LOOP_PPB
}

fn seen_host(host: &HostClock) -> String {
    format!(
        "{} ({}): CLOCK_MONOTONIC_RAW runs {} from it, within {}",
        host.name,
        host.device,
        rate(host.raw_rate_ppb),
        rate(host.uncertainty_ppb)
    )
}

/// The correction that stands at a limit of the kernel, ppb: that by the tick, or by the frequency,
/// which is far smaller.
///
/// While an offset is left, a slew may have brought the tick to its limit (`maxslewrate` of
/// chrony.conf(5)).
fn at_limit(ntp: &Ntp, document: &Document) -> Option<i64> {
    let daemon = document.machine.ntp_daemon.as_ref();
    let may_slew =
        document.off_ns().is_some() || daemon.is_some_and(|daemon| daemon.offset_ns.is_some());
    if !may_slew && TICK_LIMITS_US.contains(&ntp.tick_us) {
        return Some(ntp.steering_ppb().saturating_sub(ntp.frequency_ppb));
    }
    let size_ppb = ntp.frequency_ppb.saturating_abs();
    let is_at_limit = (LOOP_PPB - NEAR_LIMIT_PPB..=LOOP_PPB).contains(&size_ppb);
    is_at_limit.then_some(ntp.frequency_ppb)
}

/// The error of the clock's rate that the daemon has measured, if it is far larger than a
/// crystal's. Unlike the kernel's correction it has no slew in it.
fn learned(daemon: Option<&NtpDaemon>) -> Option<i64> {
    let ppb = daemon?.frequency_ppb?;
    if ppb.saturating_abs() <= LOOP_PPB {
        return None;
    }
    Some(ppb)
}

/// Whether the daemon has so little left to remove that this rate would remove it at once.
fn is_no_slew(ntp: &Ntp, daemon: Option<&NtpDaemon>) -> bool {
    let Some(left_ns) = daemon.and_then(|daemon| daemon.offset_ns) else {
        return false;
    };
    // One second at this rate removes as many nanoseconds.
    let steering_ppb = ntp.steering_ppb().saturating_abs();
    steering_ppb > LOOP_PPB && left_ns.saturating_abs() < steering_ppb / SLEW_PART
}

fn seen_daemon(daemon: &NtpDaemon) -> Option<String> {
    let ppb = daemon.frequency_ppb?;
    let name = &daemon.name;
    let skew = match daemon.skew_ppb {
        Some(skew_ppb) => format!(", with a skew of {}", rate(skew_ppb)),
        None => String::new(),
    };
    Some(format!(
        "{name}: the clock's rate is off by {}{skew}",
        rate(ppb)
    ))
}

/// Whether the evidence says that the server's clock is the bad one.
pub(super) fn blames_server(document: &Document) -> bool {
    clock_rate_wrong(document).is_some()
        && document
            .machine
            .ntp
            .as_ref()
            .and_then(|ntp| Suspect::of(document, ntp))
            .is_some_and(|suspect| suspect.is_server)
}

/// What a third clock, such as the counter's nominal frequency, tells about the two rates, of which
/// one is wrong.
struct Suspect {
    is_server: bool,
    evidence: String,
}

impl Suspect {
    /// `None` if nothing tells: no nominal frequency is known, or it is not exact enough.
    fn of(document: &Document, ntp: &Ntp) -> Option<Self> {
        if document.host_clock.as_ref().is_some_and(is_far_off) {
            return Some(Self {
                is_server: false,
                evidence: "the host's clock is a third one, and the kernel's is far from it"
                    .to_owned(),
            });
        }
        // A clock that loses time is corrected to run faster.
        if timer(document) == Some("hpet")
            && shared_fixes::has_stopping_hpet(document)
            && ntp.rate_ppb() > 0
        {
            return Some(Self {
                is_server: false,
                evidence: "hpet can stop in deep idle states on this processor, and would lose \
                           time by that"
                    .to_owned(),
            });
        }
        let nominal_hz = document.recorded_nominal_hz()?;
        let measured_hz = document.clock.frequency_hz?;
        // CLOCK_MONOTONIC, by which the frequency was measured, has the correction in it. Without
        // it a second is longer, and has more ticks.
        let with = as_f64(measured_hz) / as_f64(nominal_hz);
        let without = with * (1.0 + signed_f64(ntp.rate_ppb()) / 1e9);
        let [with_ppm, without_ppm] = [with, without].map(|ratio| (ratio - 1.0) * 1e6);
        let is_server = without_ppm.abs() <= ROUNDING_PPM;
        if is_server && with_ppm.abs() <= ROUNDING_PPM {
            return None;
        }
        let nominal = frequency(nominal_hz);
        let bad = if is_server {
            "the server's clock".to_owned()
        } else {
            own_rate(document)
        };
        Some(Self {
            is_server,
            evidence: format!(
                "the counter runs {with_ppm:+.0} ppm from its nominal {nominal}, and without the \
                 correction {without_ppm:+.0} ppm: so {bad} is the bad one"
            ),
        })
    }

    fn evidence(&self) -> String {
        self.evidence.clone()
    }
}

fn fix(suspect: Option<&Suspect>, document: &Document) -> Fix {
    let servers = daemons::server_commands(document);
    let other = timer(document);
    let own = match other {
        Some(name) => format!(
            "let the kernel keep time with another clock than {name}: the finding about the \
             clocksource says how"
        ),
        None => shared_fixes::correct_frequency(document),
    };
    match suspect {
        Some(suspect) if suspect.is_server => Fix::from(format!(
            "follow other servers, of which three or more agree: {servers}"
        )),
        Some(_) if other.is_some() || document.machine.is_guest() == Some(false) => own.into(),
        Some(_) if document.machine.may_be_x86() => Fix::from(own).then(
            "if the rate is wrong again, or the guest was moved, tell the host's administrator",
        ),
        Some(_) => {
            Fix::from(own).then("in a guest the host states it: tell the host's administrator")
        }
        None => Fix::from(format!(
            "see whether three or more servers agree: {servers}"
        ))
        .then(format!("if they do, {own}")),
    }
}

tickline_core::named! {
    /// The codes of the findings of this file.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        ClockRateWrong => "clock_rate_wrong",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::ClockRateWrong => Explanation {
                code,
                summary: "The NTP daemon corrects the rate of the clocks by more than any crystal \
                          needs, and it is no slew (unsure).",
                text: "The correction stands at a limit of the kernel (500 ppm by the frequency, \
                       10 % by the tick), or it is above 500 ppm, and no offset is left that it \
                       would remove. Either the kernel has the counter's frequency wrong (a failed \
                       calibration, or a guest on another host), or it keeps time with another \
                       clock that runs wrong, such as an hpet that stops when idle; the correction \
                       then makes up for it as far as it can. Or the server's clock runs wrong, \
                       and this machine follows it. If the nominal frequency of the counter is \
                       known, the evidence says which. See what several servers say:",
                more: &[
                    Commands(&["chronyc sources -v", "ntpq -p"]),
                    Prose(
                        "If they agree, and the kernel keeps time with the counter, compare the \
                         kernel's frequency before and after a restart. On Arm and RISC-V the \
                         kernel measures none: the device tree or the firmware states it.",
                    ),
                    Commands(&[shared_fixes::SHOW_ON_EACH_PROCESSOR]),
                ],
            },
        }
    }
}
