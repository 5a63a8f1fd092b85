//! Findings about Unix time: whether it is known to be right, by the claim of tickline's clock, by
//! the kernel's NTP state, and by the state that an NTP daemon reports. `slew.rs` has the rule
//! about corrections of the rate.

mod unproven;

use tickline_utc::UtcUnknown;
use tickline_utc::sources::kernel::UNSET_ERROR_US;

use super::slew::ntp_slewing;
use super::{clock_rate, daemons, steps};
use crate::document::Block::{Commands, Prose};
use crate::document::utc_bound::{GROWTH, UtcBound};
use crate::document::{Document, Explained, Explanation, Finding, Fix, Steps};
use crate::float::{as_f64, signed_f64};
use crate::machine::{IgnoredAnswer, Leap, Ntp, NtpDaemon, PTP4L, TIMESYNCD};
use crate::words::{grouped, time};
use unproven::{seen_ptp4l, server_unproven};

/// The largest error under a working daemon, ns. systemd-timesyncd sets an error of 0 at least
/// every 2,048 s (timesyncd.conf(5)), in which the error grows to 1.024 s.
const ERROR_NS: i64 = 2_000_000_000;

/// The longest time between two polls of systemd-timesyncd, ns: the default of
/// `PollIntervalMaxSec=` in timesyncd.conf(5).
const TIMESYNCD_POLL_NS: i64 = 2_048_000_000_000;

/// A time in the unit that suits it.
fn span(ns: i64) -> String {
    time(signed_f64(ns))
}

/// Unix time has a known offset, and no fast slew removes it.
pub(super) fn time_off(document: &Document) -> Option<Finding> {
    let off = document.off_in_words()?;
    if ntp_slewing(document).is_some() {
        return None;
    }
    Some(
        Finding::wrong(Code::TimeOff, off)
            .seen_all(document.offs_as_evidence())
            .fix(removal_of_offset(
                "see what the NTP daemon does about it",
                document,
            )),
    )
}

/// How a known offset is removed: by the daemon (`first`), or by a step. If the servers are in
/// doubt, not by a step: the offset may be the servers' error.
pub(super) fn removal_of_offset(first: &str, document: &Document) -> Fix {
    if clock_rate::blames_server(document) || server_unproven(document).is_some() {
        return Fix::from(format!(
            "let the clock not be stepped before the servers are known to be right: {}",
            daemons::server_commands(document)
        ));
    }
    Fix::from(format!(
        "{first} ({}), or {}",
        daemons::state_commands(document),
        daemons::step(document)
    ))
}

/// Neither the kernel nor a daemon claims that Unix time is near UTC.
///
/// chronyd clears STA_UNSYNC only with `rtcsync` (chrony.conf(5); `set_sync_status` in chrony's
/// `sys_timex.c`), but it always states its error.
pub(super) fn ntp_unsynchronised(document: &Document) -> Option<Finding> {
    if let Some(daemon) = document.lone_daemon() {
        return Some(lone_daemon(daemon, document));
    }
    let ntp = document.machine.ntp.as_ref()?;
    let error = time(signed_f64(ntp.maximum_error_us) * 1e3);
    if document.orphaned_claim().is_some() {
        return Some(orphaned_claim(&error, document));
    }
    // A daemon that does not tell the kernel its error may tell it in an answer: chronyd with `-x`,
    // ntpd with `disable kernel`.
    if document.ntp_with_set_error().is_some() || document.daemon_bound_ns().is_some() {
        if ntp.synchronised {
            return None;
        }
        return Some(
            Finding::note(
                Code::NtpFlag,
                "the kernel's flag says that Unix time is not synchronised to UTC, but a daemon \
                 states the error of Unix time",
            )
            .seen("adjtimex: STA_UNSYNC is set")
            .seen(format!("adjtimex: maxerror is {error}"))
            .fix(
                Fix::from(format!(
                    "see what the daemon says: {}",
                    daemons::state_commands(document)
                ))
                .then("chronyd clears the flag with `rtcsync` in its chrony.conf, but not with -x"),
            ),
        );
    }
    // tickline's clock has a source of UTC other than the kernel, or had it before a disruption.
    if document.clock.utc_error_ns.is_some() || document.refusal().is_some() {
        return None;
    }
    let seen_error = format!("adjtimex: maxerror is {error}, the kernel's limit");
    let ignored = document.machine.ignored_answer.as_ref();
    let ignored = ignored.map(IgnoredAnswer::in_words);
    if let Some(steerer) = steerer(document, ntp) {
        return Some(
            Finding::unsure(
                Code::NtpUnsynchronised,
                format!("{steerer}, but nothing vouches for Unix time"),
            )
            .seen(seen_error)
            .seen(clock_rate::seen(ntp))
            .seen_all(ignored)
            .seen_all(document.machine.ptp4l.as_ref().map(seen_ptp4l))
            .fix(daemons::find_and_repair(document)),
        );
    }
    Some(
        Finding::unsure(
            Code::NtpUnsynchronised,
            "no NTP daemon keeps Unix time near UTC",
        )
        .seen(seen_error)
        .seen_all(ignored)
        .seen_all((ntp.steering_ppb() != 0).then(|| clock_rate::seen(ntp)))
        .fix(start_of_a_daemon(document, ntp)),
    )
}

/// What steers the clock without a claim about its error, in words; `None` if nothing is seen.
///
/// Only a program switches the kernel's loop on, and feeds it: its offset dies away within hours.
/// The loop and its frequency stay when the program ends (`kernel/time/ntp.c`). busybox ntpd feeds
/// the loop and never sets the error (`networking/ntpd.c`).
fn steerer(document: &Document, ntp: &Ntp) -> Option<String> {
    if let Some(daemon) = &document.machine.ntp_daemon {
        return Some(match daemon.updated_s {
            Some(s) => format!(
                "{} set the clock {} ago",
                daemon.name,
                time(as_f64(s) * 1e9)
            ),
            None => format!("{} runs", daemon.name),
        });
    }
    if document.machine.ptp4l.is_some() {
        return Some("ptp4l runs".to_owned());
    }
    if ntp.offset_ns() != 0 {
        return Some("a program steers the kernel's clock".to_owned());
    }
    if document.machine.has_kernel_loop() {
        return Some("a program steers the kernel's clock, or did".to_owned());
    }
    None
}

/// The finding about an error that a daemon has stated, while none answers this process.
fn orphaned_claim(error: &str, document: &Document) -> Finding {
    let ignored = document.machine.ignored_answer.as_ref();
    let ignored = ignored.map(IgnoredAnswer::in_words);
    Finding::unsure(
        Code::NtpUnsynchronised,
        "an NTP daemon has stated the error of Unix time, but none answers here, so nothing \
         vouches for Unix time",
    )
    .seen("adjtimex: STA_UNSYNC is set")
    .seen(format!(
        "adjtimex: maxerror is {error}, as a daemon claimed"
    ))
    .seen_all(ignored)
    .fix(daemons::unless_one_runs(document).then(
        "if one runs, see that it answers, or clears the flag: chronyd does so with `rtcsync` in \
         its chrony.conf",
    ))
}

/// The finding about a daemon that follows no other clock.
fn lone_daemon(daemon: &NtpDaemon, document: &Document) -> Finding {
    let name = &daemon.name;
    let reference = daemon.reference.as_deref().unwrap_or("none");
    Finding::unsure(
        Code::NtpUnsynchronised,
        format!("{name} follows no other clock, so nothing keeps Unix time near UTC"),
    )
    .seen(format!(
        "{name} says that it is unsynchronised, or follows its own clock; its reference: \
         {reference}"
    ))
    .fix(format!(
        "find out why {name} reaches no server: {}",
        daemons::server_commands(document)
    ))
}

/// How an NTP daemon is started on this machine.
fn start_of_a_daemon(document: &Document, ntp: &Ntp) -> Fix {
    // Under WSL, Windows sets the guest's clock.
    let kernel = document.machine.kernel.as_deref().unwrap_or_default();
    if kernel.contains("microsoft") {
        return Fix::from("set the clock by that of Windows: sudo hwclock -s").then(
            "to keep it right, run an NTP daemon: chronyd, with `refclock PHC /dev/ptp_hyperv` in \
             its chrony.conf",
        );
    }
    // A rate that differs from the one at the start was set by a program, which may still run:
    // phc2sys of linuxptp 1 sets nothing else.
    if ntp.steering_ppb() != 0 {
        return daemons::unless_one_runs(document);
    }
    // The systemd of a container starts no daemon, and that of its host is not known.
    if document.machine.systemd == Some(true) && document.machine.container.is_none() {
        let setting = steps::setting(
            "sudo timedatectl set-ntp true",
            "sudo timedatectl set-ntp false",
        );
        let how = "sudo timedatectl set-ntp true, or chronyd";
        return daemons::start(how, document).with_steps(Steps {
            check: Some(daemons::none_runs(document)),
            caution: daemons::caution(document),
            ..setting
        });
    }
    daemons::start("chronyd, for example", document)
}

/// The error is larger than `--max-error`, or larger than that under any working daemon.
pub(super) fn utc_error_large(document: &Document) -> Option<Finding> {
    let UtcBound { ns, by, is_kernels } = document.utc_bound()?;
    let most_ns = document.max_error_ns.unwrap_or(ERROR_NS);
    if ns <= most_ns || document.off_ns().is_some() {
        return None;
    }
    let bound = span(ns);
    let seen_bound = format!("within {bound} of UTC, as {by}");
    let bound = if is_kernels && ns >= UNSET_ERROR_US * 1_000 {
        format!("at least {bound}")
    } else {
        bound
    };
    if document.max_error_ns.is_some() {
        let most = span(most_ns);
        return Some(
            Finding::unsure(
                Code::UtcErrorLarge,
                format!("Unix time may be off by {bound}, and --max-error asks for {most}"),
            )
            .seen(seen_bound)
            .fix(format!(
                "{}: {}",
                smaller_error(document, ns, most_ns),
                daemons::server_commands(document)
            )),
        );
    }
    let finding = if is_kernels {
        let age = span(ns.saturating_mul(GROWTH));
        Finding::unsure(
            Code::UtcErrorLarge,
            format!(
                "Unix time may be off by {bound}: the NTP daemon may not have updated it for {age}"
            ),
        )
    } else {
        Finding::unsure(
            Code::UtcErrorLarge,
            format!(
                "Unix time may be off by {bound}: the NTP daemon has not measured for long, or \
                 its servers are far away"
            ),
        )
    };
    Some(finding.seen(seen_bound).fix(format!(
        "{}: {}",
        smaller_error(document, ns, most_ns),
        daemons::server_commands(document)
    )))
}

/// How the error, ns, becomes smaller than the limit, ns. Under systemd-timesyncd the error is only
/// the kernel's assumption, which nearer servers do not change.
fn smaller_error(document: &Document, ns: i64, most_ns: i64) -> String {
    let daemon = daemons::name(document);
    let interval_ns = most_ns.saturating_mul(GROWTH);
    // timesyncd's default settings keep such a limit if it reaches a server.
    let is_kept_by_timesyncd = daemon == Some(TIMESYNCD) && interval_ns > TIMESYNCD_POLL_NS;
    match daemon {
        Some(PTP4L) => "see whether ptp4l hears its master; let the grandmaster state a better \
                        accuracy, or the master send Sync more often (logSyncInterval)"
            .to_owned(),
        _ if is_kept_by_timesyncd || ns > ERROR_NS => {
            "see whether an NTP daemon runs, and reaches its servers".to_owned()
        }
        Some(TIMESYNCD) => format!(
            "let less than {} pass between two polls (PollIntervalMaxSec= in timesyncd.conf), or \
             run chronyd in its place, which states its own error",
            span(interval_ns)
        ),
        Some(_) => "let the NTP daemon follow nearer servers, or poll more often (minpoll and \
                    maxpoll)"
            .to_owned(),
        None => "let the NTP daemon follow nearer servers, or poll more often (minpoll and \
                 maxpoll; under systemd-timesyncd PollIntervalMaxSec=)"
            .to_owned(),
    }
}

/// Unix time was stepped while tickline's clock looked at it.
pub(super) fn unix_stepped(document: &Document) -> Option<Finding> {
    let steps = *document.clock.events.get("unix_step")?;
    let times = match steps {
        0 => return None,
        1 => "once".to_owned(),
        _ => format!("{} times", grouped(steps)),
    };
    let kernel = document.machine.kernel.as_deref().unwrap_or_default();
    let log = if document.machine.systemd == Some(true) {
        "sudo journalctl | grep -iE 'time.*(step|chang|jump)'"
    } else {
        "the logs of the NTP daemon and of the system"
    };
    let fix = if kernel.contains("microsoft") {
        "let one program alone set the clock: Windows (hv_utils), or an NTP daemon in the guest"
            .to_owned()
    } else if document.machine.is_guest() == Some(true) {
        format!(
            "find out what sets the clock ({log}); where the hypervisor's tools and an NTP daemon \
             both do, switch one off"
        )
    } else {
        format!("find out what sets the clock ({log}), and let one program alone do it, by a slew")
    };
    Some(
        Finding::unsure(
            Code::UnixStepped,
            format!("Unix time was stepped {times} while tickline looked at it"),
        )
        .seen(format!("the clock's events: unix_step {}", grouped(steps)))
        .fix(fix),
    )
}

/// What is stated about the error proves nothing.
pub(super) fn utc_unproven(document: &Document) -> Option<Finding> {
    if document.lone_daemon().is_some() {
        return None;
    }
    server_unproven(document).or_else(|| claim_refused(document))
}

/// tickline's clock refuses what is stated.
fn claim_refused(document: &Document) -> Option<Finding> {
    let refusal = document.refusal()?;
    let (what, fix) = if refusal == UtcUnknown::LeapSecond {
        (
            "a leap second is near",
            "wait until the leap second is over, and the NTP daemon has measured",
        )
    } else {
        (
            "the clock was disrupted, and the source of UTC has not measured it since",
            "wait until the NTP daemon has measured",
        )
    };
    Some(
        Finding::unsure(
            Code::UtcUnproven,
            format!("{what}, so what is claimed about UTC proves nothing"),
        )
        .seen(format!("tickline's clock: utc_unknown {}", refusal.code()))
        .fix(format!("{fix}: {}", daemons::state_commands(document))),
    )
}

/// A leap second is due today, or is passing.
///
/// Linux steps its clock back at the end of the second, or one second forward (`second_overflow` in
/// `kernel/time/ntp.c`). It does so on whatever day the bit is set, and not if only the daemon
/// announces the second: the daemon may then slew Unix time, step it, or do nothing.
pub(super) fn leap_second(document: &Document) -> Option<Finding> {
    let found = match document.machine.ntp.as_ref().and_then(Ntp::leap) {
        Some(Leap::Done) => return None,
        Some(Leap::None) => announced_by_daemon(document, ", and the kernel (adjtimex) does not")?,
        None => announced_by_daemon(document, "")?,
        Some(Leap::Insert) => Finding::unsure(
            Code::LeapSecond,
            "a leap second is due at the end of this UTC day: Unix time then repeats a second",
        )
        .seen("adjtimex: STA_INS is set"),
        Some(Leap::Delete) => Finding::unsure(
            Code::LeapSecond,
            "a negative leap second is due at the end of this UTC day: Unix time then skips a \
             second",
        )
        .seen("adjtimex: STA_DEL is set"),
        Some(Leap::InProgress) => Finding::unsure(
            Code::LeapSecond,
            "a leap second is passing: Unix time repeats a second",
        )
        .seen("adjtimex: STA_INS is set"),
    };
    Some(found.fix(
        "see that the IERS has announced it (Bulletin C); measure durations with CLOCK_MONOTONIC; \
         let all machines whose timestamps are compared follow servers that smear it, or none",
    ))
}

/// The finding about a leap second that the daemon alone announces, without a fix. `by_kernel`
/// follows the evidence.
fn announced_by_daemon(document: &Document, by_kernel: &str) -> Option<Finding> {
    let daemon = document.machine.ntp_daemon.as_ref()?;
    if matches!(daemon.leap?, Leap::None | Leap::Done) {
        return None;
    }
    let name = &daemon.name;
    Some(
        Finding::unsure(
            Code::LeapSecond,
            format!(
                "{name} announces a leap second for the end of this UTC day: how Unix time passes \
                 it is not known"
            ),
        )
        .seen(format!("{name} announces a leap second{by_kernel}")),
    )
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        LeapSecond => "leap_second",
        NtpFlag => "ntp_flag",
        NtpUnsynchronised => "ntp_unsynchronised",
        TimeOff => "time_off",
        UnixStepped => "unix_stepped",
        UtcErrorLarge => "utc_error_large",
        UtcUnproven => "utc_unproven",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::LeapSecond => Explanation {
                code,
                summary: "A leap second is due at the end of this UTC day (unsure).",
                text: "Unix time has no name for it: the kernel steps its clock back by a second \
                       after an inserted one, and forward by a second in place of one that is left \
                       out. Timestamps of that second are ambiguous, and CLOCK_REALTIME goes back; \
                       CLOCK_MONOTONIC does not. A server that smears the second announces none. \
                       If the daemon does not tell the kernel (`leapsecmode` in chrony.conf), it \
                       slews the second away, or leaves Unix time off by it. \
                       An announcement on another day than the last of June or December is false. \
                       To see what the daemon announces:",
                more: &[Commands(&["chronyc tracking", "ntpq -c rv"])],
            },
            Self::NtpFlag => Explanation {
                code,
                summary: "The kernel says that Unix time is not synchronised, but a daemon states \
                          the error (note).",
                text: "chronyd clears the flag STA_UNSYNC only if chrony.conf has `rtcsync`. Some \
                       programs, and `timedatectl`, read only that flag. To see what the daemon \
                       knows:",
                more: &[Commands(&["chronyc tracking"])],
            },
            Self::NtpUnsynchronised => Explanation {
                code,
                summary: "Nothing vouches for Unix time: no NTP daemon runs, or one that tells no error or follows no other clock (unsure).",
                text: "Either the largest error that the kernel states is at its limit of 16 s: it \
                       starts at this limit, and reaches it again nine hours after a daemon has \
                       ended. Or a daemon has stated a smaller error, but no daemon answers here, \
                       and the kernel's flag says that Unix time is not synchronised: chronyd \
                       without `rtcsync` has ended, or runs outside of this container. Or a \
                       daemon runs and follows no other clock: it reaches no server, trusts none, \
                       or follows its own clock. CLOCK_MONOTONIC is not affected; timestamps are. \
                       A machine needs only one daemon, on the host: containers have the host's \
                       clock. To see what servers a daemon has:",
                more: &[
                    Commands(&["chronyc sources -v", "ntpq -p"]),
                    Prose(
                        "If a program steers the clock already, such as busybox ntpd, phc2sys or \
                         the time synchronisation of a hypervisor's tools, find it first: a second \
                         one works against it. If none does, and systemd runs, this command starts \
                         the daemon that is installed; in a container, run it on the host. Without \
                         systemd, or without a daemon, install and start one, such as chronyd.",
                    ),
                    Commands(&["sudo timedatectl set-ntp true"]),
                ],
            },
            Self::TimeOff => Explanation {
                code,
                summary: "Unix time is off by a known offset, or by the daemon's estimate of its error (wrong).",
                text: "The kernel or the NTP daemon still has to remove that offset. Timestamps \
                       are wrong by it until the daemon has slewed it away or steps the clock. The \
                       daemon may be forbidden to step after its start (`makestep` in \
                       chrony.conf). An estimated error (`esterror` of adjtimex) is no offset: the \
                       daemon does not know Unix time better than that. The evidence names the \
                       source of each figure.",
                more: &[Commands(&["chronyc tracking"])],
            },
            Self::UnixStepped => Explanation {
                code,
                summary: "Unix time was stepped while tickline looked at it (unsure).",
                text: "A daemon steps the clock once, at its start. If it is stepped again and \
                       again, two programs set it, or its rate is so wrong that the daemon can't \
                       follow by a slew: under WSL, for example, Windows and systemd-timesyncd. \
                       CLOCK_MONOTONIC has no steps; timestamps go back or skip. To see the steps:",
                more: &[Commands(&["tickline watch"])],
            },
            Self::UtcErrorLarge => Explanation {
                code,
                summary: "An NTP daemon has set the clock, but long ago, or with a wide error (unsure).",
                text: "The kernel lets its error grow by 500 ppm, 43 s a day, until the daemon's \
                       next update. A large error of the kernel therefore means that the daemon \
                       has ended, or reaches no server. Unix time may still be right, but nothing \
                       vouches for it.",
                more: &[Commands(&["chronyc sources -v"])],
            },
            Self::UtcUnproven => Explanation {
                code,
                summary: "What is stated about Unix time's error proves nothing (unsure).",
                text: "A server without a reference clock may serve its own time (`local` in \
                       chrony.conf, ntpd's local clock), from stratum 10 on. The daemons that \
                       follow it agree with each other, and are as far from UTC as that server. \
                       ptpd states its last offset from the master as its maximum error, which \
                       leaves out the network and the master's own error. phc2sys states no error \
                       of its own, and ptp4l none if its grandmaster does not say how far it is \
                       from UTC. After a suspend, a move \
                       of a guest or a step of the clock, a daemon goes on to state its old error \
                       until it has measured, and near a leap second no error says by which count \
                       of seconds. tickline's clock then states no error.",
                more: &[Commands(&["chronyc sources -v", "ntpq -p"])],
            },
        }
    }
}
