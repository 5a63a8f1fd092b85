//! `doctor --fix`: switches the kernel to another clocksource. One command can undo this at once.
//! The program leaves every other fix to the administrator.
//!
//! The question and the result go to standard error, because standard output has the diagnosis.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;

use crate::args::Doctor;
use crate::clocksources::{AVAILABLE_FILE, CURRENT_FILE, is_computed_from_counter, is_tick};
use crate::document::questions::PLAUSIBLE_PPM;
use crate::document::{Document, Finding, Place, Steps};
use crate::exit::Exit;
use crate::float::as_f64;
use crate::machine::{self, Machine};
use crate::measure::calls::{self, MONOTONIC};
use crate::measure::{admitted_counter, costs, warp};
use crate::progress::Progress;
use crate::sudo;
use crate::words::{plain, with_path};

/// Fixes the first finding that another clocksource can fix. Ignores notes.
pub(super) fn fix(document: &Document, args: &Doctor) -> io::Result<Exit> {
    let mut log = io::stderr().lock();
    let fixed = document
        .findings()
        .iter()
        .find(|finding| finding.is_fixed_by_switch());
    let steps = fixed.and_then(|finding| {
        let (clocksource, steps) = finding.fix.switch()?;
        Some((finding, steps, clocksource))
    });
    let Some((finding, steps, clocksource)) = steps else {
        writeln!(log, "\n--fix: {}", no_switch(document))?;
        for (finding, steps) in shown_steps(document, None) {
            show(&mut log, finding, steps)?;
        }
        return Ok(Exit::Negative);
    };
    let path = Path::new(CURRENT_FILE);
    writeln!(log)?;
    for (finding, steps) in shown_steps(document, Some(finding)) {
        show(&mut log, finding, steps)?;
    }
    open_to_switch(path).map_err(|error| refused(path, &error, args))?;
    if let Some(why) = untested(steps, &document.machine) {
        writeln!(log, "Not done: {why}")?;
        return Ok(Exit::Negative);
    }
    if let Some(caution) = &steps.caution {
        writeln!(log, "Caution: {caution}.")?;
    }
    if !args.yes && !user_agrees(&mut log, clocksource)? {
        writeln!(log, "Not done.")?;
        return Ok(Exit::Negative);
    }
    match switch(path, clocksource, rate_hz)? {
        Switch::Undone { before, why } => {
            writeln!(
                log,
                "Undone, the kernel keeps time with {before} again: {why}"
            )?;
            Ok(Exit::Negative)
        }
        Switch::Done => {
            writeln!(
                log,
                "Done: the kernel keeps time with {clocksource}, until the machine restarts.{}",
                cost()
            )?;
            Ok(Exit::Success)
        }
    }
}

/// The result of a switch.
#[derive(Debug, PartialEq, Eq)]
enum Switch {
    Done,
    /// The kernel keeps time with `before` again.
    Undone {
        before: String,
        why: String,
    },
}

/// Switches to another clocksource by the kernel's file. Undoes the switch to a TSC with which the
/// kernel's clock has another rate than before. `rate_hz` measures the counter's rate by that
/// clock.
fn switch(path: &Path, clocksource: &str, rate_hz: impl Fn() -> Option<f64>) -> io::Result<Switch> {
    let before = read_clocksource(path)?;
    let before_hz = if is_tick(&before) { None } else { rate_hz() };
    write_clocksource(path, clocksource)?;
    if clocksource == "tsc"
        && let Some(why) = wrong_rate(before_hz, rate_hz())
    {
        write_clocksource(path, &before).map_err(|error| not_undone(&error, &why))?;
        return Ok(Switch::Undone { before, why });
    }
    Ok(Switch::Done)
}

/// Why no finding can be fixed by a switch here.
fn no_switch(document: &Document) -> String {
    let is_switch = |finding: &Finding| finding.fix.clocksource().is_some();
    if let Some(container) = &document.machine.container
        && document.findings().iter().any(is_switch)
    {
        return format!(
            "another clocksource may be a fix, but this is a container ({}), whose clocksource is \
             its host's: run `tickline doctor --fix` on the host.",
            plain(container)
        );
    }
    let nothing = "nothing here can be fixed by another clocksource alone.";
    document.tsc_frequency_doubt().map_or_else(
        || nothing.to_owned(),
        |doubt| {
            format!("{nothing} tsc would make the kernel's clocks run at a wrong rate: {doubt}.")
        },
    )
}

/// The findings with steps. The one that the switch fixes is last, so that its steps stand before
/// the question about it.
fn shown_steps<'a>(
    document: &'a Document,
    fixed: Option<&'a Finding>,
) -> impl Iterator<Item = (&'a Finding, &'a Steps)> {
    let is_other = move |finding: &&Finding| !fixed.is_some_and(|fixed| fixed == *finding);
    let others = document.findings().iter().filter(is_other);
    others
        .chain(fixed)
        .filter_map(|finding| Some((finding, finding.fix.steps()?)))
}

/// Prints the steps of a finding.
fn show(log: &mut impl Write, finding: &Finding, steps: &Steps) -> io::Result<()> {
    let place = match steps.place {
        Place::Here => "",
        Place::Host => ", on the host",
    };
    writeln!(
        log,
        "--fix: {} [{}]{place}",
        plain(&finding.what),
        finding.code
    )?;
    for (name, step) in steps.named().chain(steps.by_hand()) {
        writeln!(log, "  {name:<10} {}", plain(step))?;
    }
    Ok(())
}

/// Why the check has not passed; `None` if it has passed, or if the steps have no check.
fn untested(steps: &Steps, machine: &Machine) -> Option<String> {
    steps.check.as_ref()?;
    if machine.kernel_log.is_none() {
        return Some(
            "the kernel's log, which may call the TSC unstable, can't be read here (sudo dmesg)."
                .to_owned(),
        );
    }
    let progress = Progress::new();
    let warp = warp::measure_all(progress.part("counters", 0.0, 1.0));
    progress.finish();
    if warp.synchronised == Some(true) && warp.untested_cpus.is_none() {
        return None;
    }
    Some(crate::commands::warp::result(&warp))
}

/// Refuses, before anything is measured, a run that could not ask its question, or could not do
/// what the user has agreed to.
///
/// # Errors
///
/// Without `--yes`, if standard input is not a terminal. With `--yes`, if this user may not change
/// the clocksource, and another one may be better.
pub(super) fn check_can_ask(args: &Doctor) -> io::Result<()> {
    if args.yes {
        return check_may_switch(args);
    }
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(io::Error::other(
        "--fix asks before it changes anything, and standard input is not a terminal: use one (ssh \
         -t), or add --yes, which asks nothing; without --fix, doctor shows the steps",
    ))
}

/// Fails if this user has no right to write to the kernel's file, and there may be something to
/// switch. The run reports any other error only if it does switch.
fn check_may_switch(args: &Doctor) -> io::Result<()> {
    let path = Path::new(CURRENT_FILE);
    let names = [CURRENT_FILE, AVAILABLE_FILE].map(|file| read_clocksource(Path::new(file)));
    match (open_to_switch(path), names) {
        (Err(error), [Ok(current), Ok(available)])
            if error.kind() == io::ErrorKind::PermissionDenied
                && is_replaceable(&current, &available) =>
        {
            Err(refused(path, &error, args))
        }
        _ => Ok(()),
    }
}

/// Whether a switch may be a fix: the kernel offers another clocksource, and does not keep time
/// with the counter. Only the diagnosis finds a counter that must be replaced.
fn is_replaceable(current: &str, available: &str) -> bool {
    let mut names = available.split_whitespace();
    !is_computed_from_counter(current) && names.any(|name| name != current)
}

/// Opens the file for writing, which changes nothing, and shows whether the user may do it.
fn open_to_switch(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).open(path)
}

/// The counter's rate by the kernel's present clock, Hz; `None` if this process may not read it.
fn rate_hz() -> Option<f64> {
    admitted_counter().ok().map(warp::rate_hz)
}

/// Why the switch to the TSC must be undone, by the counter's rate before and after it; `None` if
/// both clocks agree, or if a rate is unknown.
fn wrong_rate(before_hz: Option<f64>, after_hz: Option<f64>) -> Option<String> {
    let (before_hz, after_hz) = (before_hz?, after_hz?);
    let is_wrong = (after_hz / before_hz - 1.0).abs() > as_f64(PLAUSIBLE_PPM) / 1e6;
    if !is_wrong {
        return None;
    }
    Some(format!(
        "the counter ran at {:.3} MHz by that clock, and at {:.3} MHz by tsc; one of the two runs \
         at a wrong rate.",
        before_hz / 1e6,
        after_hz / 1e6
    ))
}

/// Asks the user on the terminal.
fn user_agrees(log: &mut impl Write, clocksource: &str) -> io::Result<bool> {
    let stdin = io::stdin();
    write!(log, "Switch the whole machine to {clocksource} now? [y/N] ")?;
    log.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Writes the name and reads it back, because the kernel ignores a clocksource that it rejects.
fn write_clocksource(path: &Path, clocksource: &str) -> io::Result<()> {
    fs::write(path, clocksource).map_err(|error| with_path(path, &error))?;
    let now = read_clocksource(path)?;
    if now == clocksource {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "--fix: the kernel refused {clocksource}, and keeps time with {now}"
    )))
}

/// The error of an undo, with the reason for the undo.
fn not_undone(error: &io::Error, why: &str) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "{error}. This was to undo the switch to tsc, with which the kernel may still keep \
             time: {why} Take the step `undo` above by hand"
        ),
    )
}

fn read_clocksource(path: &Path) -> io::Result<String> {
    let name = fs::read_to_string(path).map_err(|error| with_path(path, &error))?;
    Ok(plain(name.trim()))
}

fn refused(path: &Path, error: &io::Error, args: &Doctor) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied if machine::is_root() => {
            "; root may not change it here, as in a container: run it on the host".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            let program = sudo::this_program();
            let yes = if args.yes { " --yes" } else { "" };
            format!("; only root may change it: sudo {program} doctor --fix{yes}")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; this is a container's view: run it on the host".to_owned()
        }
        _ => String::new(),
    };
    io::Error::new(
        error.kind(),
        format!("--fix: {}: {error}{hint}", path.display()),
    )
}

/// The present cost of a call, as a sentence.
fn cost() -> String {
    const ROUNDS: u32 = 5;
    let costs = costs::measure(&calls::all(admitted_counter().ok()), ROUNDS, |_| {});
    let ns = costs
        .iter()
        .find(|cost| cost.clock == MONOTONIC)
        .and_then(|cost| cost.cost_ns);
    ns.map_or_else(String::new, |ns| {
        format!(" {MONOTONIC} takes {ns:.0} ns now.")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Args;
    use crate::document::Fix;
    use crate::document::example;

    #[test]
    fn the_clocksource_is_written() {
        let path = tempfile::NamedTempFile::new().unwrap();
        write_clocksource(path.path(), "tsc").unwrap();
        assert_eq!(fs::read_to_string(path.path()).unwrap(), "tsc");
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let error = write_clocksource(Path::new("/no/such/file"), "tsc").unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    }

    /// Symptom: "No such file or directory", without the file.
    #[test]
    fn a_file_that_cannot_be_read_back_is_named() {
        let error = read_clocksource(Path::new("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    }

    #[test]
    fn an_edit_by_hand_is_shown_for_each_boot_loader() {
        let finding = example::document().findings()[0].clone();
        let steps = Steps {
            keep_by_hand: vec!["edit a".to_owned(), "edit b".to_owned()],
            undo_keep_by_hand: vec!["edit it back".to_owned()],
            ..Steps::default()
        };
        let mut log = Vec::new();
        show(&mut log, &finding, &steps).unwrap();
        let log = String::from_utf8(log).unwrap();
        let steps = "\n  keep       edit a\n  keep       edit b\n  undo keep  edit it back\n";
        assert!(log.ends_with(steps), "{log}");
    }

    #[test]
    fn without_a_finding_nothing_is_changed() {
        let args = Args::parse_from(["tickline", "--fix", "--yes"]).doctor;
        let document = Document::default();
        assert_eq!(fix(&document, &args).unwrap(), Exit::Negative);
    }

    /// Symptom: "nothing here can be fixed by another clocksource alone", where the host can.
    #[test]
    fn in_a_container_the_switch_is_for_the_host() {
        let mut document = example::document();
        let mut finding = document.findings()[0].clone();
        finding.fix = Fix::from("a").with_switch("tsc", None);
        document.findings = Some(vec![finding]);
        document.machine.container = Some("lxc".to_owned());
        let text = no_switch(&document);
        assert!(text.contains("this is a container (lxc)"), "{text}");
        assert!(
            text.ends_with("run `tickline doctor --fix` on the host."),
            "{text}"
        );
        document.findings = None;
        assert!(!no_switch(&document).contains("lxc"));
    }

    /// Symptom: a switch to tsc made a guest's clock run 2.9 times as fast.
    #[test]
    fn a_tsc_whose_frequency_the_kernel_has_wrong_is_refused_with_both_values() {
        let mut document = Document::default();
        document.clock.frequency_hz = Some(2_596_120_154);
        document.machine.kernel_log = Some(vec!["tsc: Detected 886.584 MHz processor".to_owned()]);
        let text = no_switch(&document);
        assert!(text.contains("886.584000 MHz"), "{text}");
        assert!(text.contains("2,596.120154 MHz"), "{text}");
    }

    /// The kernel's log may have lost the frequency that the switch would show to be wrong.
    #[test]
    fn a_switch_that_changes_the_rate_by_more_than_5000_ppm_is_wrong() {
        let wrong = wrong_rate(Some(2.596e9), Some(8.866e8)).unwrap();
        assert!(
            wrong.contains("2596.000 MHz") && wrong.contains("886.600 MHz"),
            "{wrong}"
        );
        assert!(wrong_rate(Some(1e9), Some(1.0051e9)).is_some());
        assert!(wrong_rate(Some(1e9), Some(0.9949e9)).is_some());
        assert_eq!(wrong_rate(Some(1e9), Some(1.0049e9)), None);
        assert_eq!(wrong_rate(None, Some(1e9)), None);
    }

    /// Switches from `before` to the TSC, by a file in place of the kernel's. Returns the result,
    /// and the clocksource in the file. The counter's rate is 2.6 GHz before, and then `after_hz`.
    fn switched(before: &str, after_hz: f64) -> (Switch, String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{before}\n")).unwrap();
        let rate_hz = || {
            let now = fs::read_to_string(file.path()).unwrap();
            Some(if now == "tsc" { after_hz } else { 2.6e9 })
        };
        let result = switch(file.path(), "tsc", rate_hz).unwrap();
        (result, fs::read_to_string(file.path()).unwrap())
    }

    #[test]
    fn a_switch_to_a_tsc_at_a_wrong_rate_is_undone() {
        let (result, clocksource) = switched("hpet", 8.866e8);
        assert!(
            matches!(&result, Switch::Undone { before, .. } if before == "hpet"),
            "{result:?}"
        );
        assert_eq!(clocksource, "hpet");
    }

    #[test]
    fn a_switch_to_a_tsc_at_the_same_rate_stays() {
        assert_eq!(switched("hpet", 2.6e9), (Switch::Done, "tsc".to_owned()));
    }

    /// Symptom: the error of the undo alone was shown, and nothing said that tsc was wrong.
    #[test]
    fn an_undo_that_fails_says_why_the_switch_was_to_be_undone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("current_clocksource");
        fs::write(&path, "hpet").unwrap();
        let rate_hz = || {
            if fs::read_to_string(&path).unwrap() == "hpet" {
                return Some(2.6e9);
            }
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            Some(8.866e8)
        };
        let error = switch(&path, "tsc", rate_hz).unwrap_err().to_string();
        assert!(
            error.contains("by tsc; one of the two runs at a wrong rate"),
            "{error}"
        );
    }

    /// The timer tick is too coarse to call another rate wrong.
    #[test]
    fn a_switch_from_the_timer_tick_stays_at_any_rate() {
        for tick in ["jiffies", "refined-jiffies"] {
            assert_eq!(switched(tick, 8.866e8), (Switch::Done, "tsc".to_owned()));
        }
    }

    /// Symptom: the text said that `--fix` prints a command, and it printed those of the finding
    /// that it fixed alone.
    #[test]
    fn the_commands_of_all_findings_are_shown_the_fixed_one_last() {
        let mut document = example::document();
        let mut fixed = document.findings()[0].clone();
        fixed.fix = Fix::from("a").with_steps(Steps::default());
        let mut other = fixed.clone();
        other.code = "other";
        let mut wordy = fixed.clone();
        wordy.code = "wordy";
        wordy.fix = Fix::from("a");
        document.findings = Some(vec![fixed.clone(), other, wordy]);
        let codes: Vec<_> = shown_steps(&document, Some(&fixed))
            .map(|(finding, _)| finding.code)
            .collect();
        assert_eq!(codes, ["other", fixed.code]);
    }

    /// The root user of a container may be allowed to switch the clocksource, but not to read the
    /// log.
    #[test]
    fn without_the_kernels_log_the_tsc_is_not_taken() {
        let steps = Steps {
            check: Some("tickline warp".to_owned()),
            ..Steps::default()
        };
        assert!(untested(&steps, &Machine::default()).is_some_and(|why| why.contains("log")));
        assert_eq!(
            untested(
                &Steps {
                    check: None,
                    ..steps
                },
                &Machine::default()
            ),
            None
        );
    }

    /// The error of a run with these arguments that may not write to the file.
    fn hint(kind: io::ErrorKind, words: &[&str]) -> String {
        let args = Args::parse_from([&["tickline", "--fix"], words].concat()).doctor;
        refused(Path::new("/sys/x"), &kind.into(), &args).to_string()
    }

    /// Symptom: root was told to use sudo, and a user with --yes was asked after all.
    #[test]
    fn an_error_says_who_may_change_the_clocksource() {
        let denied = |words: &[&str]| hint(io::ErrorKind::PermissionDenied, words);
        let ends = if machine::is_root() {
            ["run it on the host"; 2].map(str::to_owned)
        } else {
            // Symptom: "command not found" of a program that is not on the path of sudo.
            let program = sudo::this_program();
            ["", " --yes"].map(|yes| format!("sudo {program} doctor --fix{yes}"))
        };
        for (words, end) in [&[][..], &["--yes"]].into_iter().zip(ends) {
            let denied = denied(words);
            assert!(denied.ends_with(&end), "{denied}");
        }
    }

    #[test]
    fn an_error_says_where_the_clocksource_may_be_changed() {
        let read_only = hint(io::ErrorKind::ReadOnlyFilesystem, &[]);
        assert!(read_only.ends_with("run it on the host"), "{read_only}");
        let other = hint(io::ErrorKind::NotFound, &[]);
        assert!(!other.contains(';'), "{other}");
    }

    /// Symptom: a user without the right was refused on a machine that had nothing to switch.
    #[test]
    fn a_clocksource_is_replaceable_unless_it_is_the_counter_or_the_only_one() {
        assert!(is_replaceable("hpet", "tsc hpet acpi_pm"));
        assert!(!is_replaceable("hpet", "hpet"));
        assert!(!is_replaceable("tsc", "tsc hpet acpi_pm"));
        assert!(!is_replaceable("kvm-clock", "kvm-clock tsc"));
    }

    #[test]
    fn the_cost_after_the_switch_is_that_of_the_kernels_clock() {
        let text = cost();
        assert!(text.starts_with(&format!(" {MONOTONIC} takes ")), "{text}");
    }
}
