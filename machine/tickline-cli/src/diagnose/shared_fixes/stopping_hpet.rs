//! An hpet that stops in deep idle states: which machines have one, and the fix.

use super::steps;
use crate::document::{Document, Fix, Steps};

/// The stable versions before 5.15 that are the first of their series to use no hpet that stops.
const BACKPORTS: [[u32; 3]; 3] = [[5, 4, 153], [5, 10, 73], [5, 14, 12]];

/// Whether the kernel uses an hpet that stops in deep idle states. The firmware may forbid these
/// states.
pub(in crate::diagnose) fn has_stopping_hpet(document: &Document) -> bool {
    document.machine.is_guest() == Some(false)
        && is_processor_with_stopping_hpet(document)
        && uses_stopping_hpet(document) == Some(true)
}

/// As [`has_stopping_hpet`], also if the kernel's release does not say whether it uses such an
/// hpet, or if the machine may be a guest.
pub(in crate::diagnose) fn may_have_stopping_hpet(document: &Document) -> bool {
    is_processor_with_stopping_hpet(document) && uses_stopping_hpet(document) != Some(false)
}

/// The processors whose hpet stops in deep idle states, by their names: Intel's client processors
/// of generations 8 to 12, and Gemini Lake (kernel bug 203183; `force_disable_hpet` in
/// `arch/x86/kernel/early-quirks.c`). A guest has no such hpet.
///
/// i7-9800X and i9-9820X to i9-10980XE are dies of servers, Skylake-X and Cascade Lake-X (family 6,
/// model 85). Their deepest idle state is C6 (`skx_cstates` in `drivers/idle/intel_idle.c`).
fn is_processor_with_stopping_hpet(document: &Document) -> bool {
    /// Gemini Lake with its refresh; Celeron and Pentium of Whiskey Lake and Comet Lake; Xeon E of
    /// Coffee Lake.
    const OTHER_NAMES: [&str; 20] = [
        "J4005", "J4105", "J5005", "N4000", "N4100", "N5000", "J4025", "J4125", "J5040", "N4020",
        "N4120", "N5030", "4205U", "4305U", "5405U", "5205U", "5305U", "6405U", "E-21", "E-22",
    ];
    if document.machine.is_guest() == Some(true) {
        return false;
    }
    let cpu = document.machine.cpu.as_deref().unwrap_or_default();
    if OTHER_NAMES.iter().any(|name| cpu.contains(name)) {
        return true;
    }
    let models = ["i3-", "i5-", "i7-", "i9-"]
        .into_iter()
        .filter_map(|family| Some(cpu.split_once(family)?.1));
    models.into_iter().any(|model| {
        let digits: String = model.chars().take_while(char::is_ascii_digit).collect();
        if model[digits.len()..].starts_with('X') {
            return false;
        }
        // i7-8565U, i7-10510U; from generation 10 on there are also names of four digits, as
        // i7-1065G7.
        match digits.len() {
            4 => ["8", "9", "10", "11", "12"]
                .iter()
                .any(|start| digits.starts_with(start)),
            5 => ["10", "11", "12"]
                .iter()
                .any(|start| digits.starts_with(start)),
            _ => false,
        }
    })
}

/// Whether the kernel uses the hpet of a processor that has such idle states; `None` if its release
/// does not say.
///
/// Linux 5.15 does not, unless `hpet=force` asks for it (`hpet_is_pc10_damaged` in
/// `arch/x86/kernel/hpet.c`, commit 6e3cd95234dc, "x86/hpet: Use another crystalball to evaluate
/// HPET usability"). Nor do the [`BACKPORTS`] (in 5.10.73 commit 825c00c2ee14); 4.19.211 of the
/// same day still does. The release of a distribution's kernel need not state the stable version
/// (Debian's 5.10.0-18-amd64 does not), and a distribution may have added the commit to any version
/// (RHEL's 4.18).
fn uses_stopping_hpet(document: &Document) -> Option<bool> {
    if document.machine.has_parameter("hpet=force") {
        return Some(true);
    }
    if document.machine.is_kernel_at_least(5, 15)? {
        return Some(false);
    }
    let release = document.machine.kernel.as_deref()?;
    let end = release.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (version, suffix) = release.split_at(end.unwrap_or(release.len()));
    let numbers: Vec<u32> = version
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect();
    let has_backport = BACKPORTS
        .iter()
        .any(|first| numbers.starts_with(&first[..2]) && numbers.as_slice() >= first.as_slice());
    if has_backport {
        return Some(false);
    }
    // Debian and Ubuntu take their fixes from the stable versions, none of which before 5.4 has it.
    let is_of_debian = ["-amd64", "-generic"]
        .iter()
        .any(|end| suffix.ends_with(end));
    let is_old = document.machine.is_kernel_at_least(5, 4) == Some(false);
    let is_certain = suffix.is_empty() || is_of_debian && is_old;
    is_certain.then_some(true)
}

/// The fix for an hpet that stops: the kernel then checks the TSC by acpi_pm, and keeps time with
/// the TSC if it is good. Until the restart, acpi_pm keeps the time right.
pub(in crate::diagnose) fn without_hpet(document: &Document) -> Fix {
    let fix = without_hpet_from_the_start(document);
    if !document.machine.lists_clocksource("acpi_pm") {
        return fix;
    }
    let kept = fix.steps().cloned().unwrap_or_default();
    let steps = steps::switch("acpi_pm", document).map(|now| Steps {
        keep: kept.keep,
        keep_by_hand: kept.keep_by_hand,
        undo_keep: kept.undo_keep,
        undo_keep_by_hand: kept.undo_keep_by_hand,
        ..now
    });
    Fix::from(steps::switch_command("acpi_pm"))
        .then_fix("then", fix)
        .with_switch("acpi_pm", steps)
}

fn without_hpet_from_the_start(document: &Document) -> Fix {
    if document.machine.has_parameter("hpet=force") {
        return Fix::from("take `hpet=force` off the kernel's command line")
            .with_steps(steps::remove_parameter("hpet=force", document));
    }
    let kernel = document.machine.kernel.as_deref().unwrap_or("unknown");
    let [first, second, third] =
        BACKPORTS.map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"));
    let mut later = format!(
        "5.15 or later (or {first}, {second} or {third}, or a later one of the same series)"
    );
    if document.machine.is_kernel_at_least(5, 4) == Some(false) {
        later = format!(
            "5.4 or later for some of Coffee Lake, {later} for every processor with this fault"
        );
    }
    Fix::from(
        "boot with hpet=disable: the kernel then checks the TSC by acpi_pm, and uses it if it is \
         good",
    )
    .or(format!(
        "or use a kernel {later}, which does not use an hpet that stops (this one is {kernel})"
    ))
    .with_steps(steps::add_parameter("hpet=disable", document))
}
