//! `cargo xtask vm --programs`: runs real programs on Debian, natively and served, in guests whose
//! kernel keeps time with hpet or acpi_pm. `tests/vm/programs/programs.toml` lists the programs.
//! `disks.sh` beside it makes the disks that the guests boot.

mod judge;
mod package;
mod table;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::image::{self, Failure};
use super::{folder, qemu, scenario};
use crate::files::{self, entries, read, root};
use crate::step::{self, SOME_SKIPPED};

/// A guest that prints nothing for this time hangs. Postgres takes a minute to fill its table.
const SILENCE: Duration = Duration::from_secs(300);

/// A guest's memory, MB. Postgres, Java and Node run in it at once.
const MEMORY_MB: &str = "2048";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    guest: Vec<Guest>,
    program: Vec<Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guest {
    name: String,
    clocksource: String,
    cpus: u8,
    act: String,
}

/// See `programs.toml`. The guest gets it as JSON.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    about: String,
    file: String,
    command: String,
    calls: u64,
    least: f64,
    #[serde(default, rename = "static")]
    is_static: bool,
    #[serde(default, rename = "server")]
    is_server: bool,
    #[serde(default, rename = "handed_over")]
    is_handed_over: bool,
}

impl List {
    fn load() -> Result<Self, String> {
        let list = toml::from_str(&read("tests/vm/programs/programs.toml")?);
        let mut list: Self = list.map_err(|error| format!("programs.toml: {error}"))?;
        for program in &mut list.program {
            program.is_handed_over = !program.is_server;
        }
        Ok(list)
    }
}

/// A guest's report. `broken` says why the run ended before the report's end, if it did.
struct Run {
    lines: Vec<Value>,
    broken: Option<String>,
}

/// A row of a table, with the faults that the judge has found.
struct Row {
    cells: Vec<String>,
    /// Further remarks.
    notes: Vec<String>,
    faults: Vec<String>,
}

/// Runs the guests of these names, or all guests. If the only argument is `--write`, stores the
/// table.
pub(super) fn run(names: &[&str]) -> Result<u8, String> {
    let store = names == ["--write"];
    let names = if store { &[] } else { names };
    let mut list = List::load()?;
    if let Some(unknown) = names.iter().find(|name| !list.guest.iter().any(|guest| guest.name == **name)) {
        let all: Vec<&str> = list.guest.iter().map(|guest| guest.name.as_str()).collect();
        return Err(format!("'{unknown}' is no guest; there are {}", all.join(", ")));
    }
    let skipped = match prepare(&mut list) {
        Ok(skipped) => skipped,
        Err(Failure::Missing(what)) => {
            println!("SKIPPED all programs: {what}. Nothing was checked.");
            return Ok(SOME_SKIPPED);
        }
        Err(Failure::Broken(what)) => {
            println!("FAILED before the first guest: {what}");
            return Ok(1);
        }
    };
    let mut found = table::Found { skipped, ..table::Found::default() };
    for guest in list.guest.iter().filter(|guest| names.is_empty() || names.contains(&guest.name.as_str())) {
        println!("\n=== {}: {} CPUs", guest.name, guest.cpus);
        let mut lines = Vec::new();
        let broken = collect(guest, &mut lines).err().map(|error| error.to_string());
        let run = Run { lines, broken };
        let machine = run.lines.iter().find(|line| line["phase"] == "machine");
        if let Some(kernel) = machine.and_then(|line| line["kernel"].as_str()) {
            kernel.clone_into(&mut found.kernel);
        }
        match guest.act.as_str() {
            "systemd" => found.steps = package::steps(&run),
            _ => found.programs.extend(judge::rows(guest, &list.program, &run)),
        }
    }
    found.print();
    if store {
        found.store()?;
    }
    let code = if found.skipped.is_empty() { 0 } else { SOME_SKIPPED };
    Ok(if found.has_failed() { 1 } else { code })
}

/// Makes the disks. Removes programs that could not be built from the list, and returns their
/// names.
fn prepare(list: &mut List) -> Result<Vec<String>, Failure> {
    for (need, what) in [
        ("qemu-system-x86_64 --version", "there is no QEMU"),
        ("mke2fs -V", "mke2fs is not here"),
        ("mmdebstrap --version", "mmdebstrap is not here"),
        ("cargo deb --version", "cargo-deb is not here (`cargo install cargo-deb --locked`)"),
    ] {
        step::output_of(need).map_err(|_| Failure::Missing(what.to_owned()))?;
    }
    let folder = folder().join("programs");
    let own = folder.join("own");
    fs::remove_dir_all(&own).ok();
    fs::create_dir_all(&own)?;
    fs::write(own.join("init"), image::build()?.init)?;
    fs::set_permissions(own.join("init"), fs::Permissions::from_mode(0o755))?;
    let package = crate::dist::package(&files::target()).map_err(Failure::Broken)?;
    fs::copy(crate::dist::tarball(&package).map_err(Failure::Broken)?, own.join("tickline.tar.gz"))?;
    fs::copy(package, own.join("tickline.deb"))?;
    fs::write(own.join("programs.json"), serde_json::to_string(&list.program).map_err(io::Error::other)?)?;
    let script = root().join("tests/vm/programs/disks.sh");
    step::shown(&format!("{} {}", script.display(), folder.display()))
        .map_err(|why| Failure::Missing(format!("no disks: {why}")))?;
    let is_there = |path: String| own.join(path).exists();
    let mut skipped = Vec::new();
    for program in list.program.iter().filter(|program| !is_there(program.file.clone())) {
        skipped.push(program.name.clone());
    }
    list.program.retain(|program| is_there(program.file.clone()));
    Ok(skipped)
}

/// Boots a guest, prints its report, and waits until the report ends.
fn collect(guest: &Guest, lines: &mut Vec<Value>) -> io::Result<()> {
    let mut machine = qemu::Killed(spawn(guest)?);
    let (sender, receiver) = mpsc::channel();
    qemu::pass_on(&mut machine.0, sender);
    let mut silent_since = Instant::now();
    loop {
        let line = match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if silent_since.elapsed() < SILENCE => continue,
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::other(format!("no word for {} s", SILENCE.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("it ended before its end")),
        };
        let value: Value =
            serde_json::from_str(&line).map_err(|_| io::Error::other(format!("the guest said '{line}'")))?;
        println!("    {line}");
        silent_since = Instant::now();
        lines.push(value);
        match &lines[lines.len() - 1]["phase"] {
            phase if phase == "end" => return Ok(()),
            phase if phase == "error" => return Err(io::Error::other(format!("the guest gave up: {line}"))),
            _ => {}
        }
    }
}

fn spawn(guest: &Guest) -> io::Result<Child> {
    let (folder, Guest { name, clocksource, cpus, act }) = (folder(), guest);
    let programs = folder.join("programs");
    let drive =
        |disk: &str| format!("file={},if=virtio,format=raw,snapshot=on", programs.join(disk).display());
    let boot = |start: &str| {
        let is_it = |path: &Path| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(start));
        entries(&programs.join("root/boot")).into_iter().find(|path| is_it(path))
    };
    let kernel =
        boot("vmlinuz-").ok_or_else(|| io::Error::other("Debian's package has brought no kernel"))?;
    let errors = fs::File::create(folder.join(format!("programs-{name}.errors")))?;
    qemu::machine(&scenario::processor().map_err(io::Error::other)?, *cpus, MEMORY_MB)
        .arg("-serial")
        .arg(format!("file:{}", folder.join(format!("programs-{name}.console")).display()))
        .args(["-serial", "stdio", "-drive", &drive("root.img"), "-drive", &drive("own.img"), "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(boot("initrd.img-").unwrap_or_default())
        .arg("-append")
        .arg(format!(
            "console=ttyS0 panic=-1 root=/dev/vda rw tsc=reliable clocksource={clocksource} \
             init=/sbin/tickline-guest tickline.act={act}"
        ))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A report of a guest in which everything is right, and changes of it. Each change has the
    /// expected fault, the place in the report, and the new value.
    #[derive(Deserialize)]
    struct Reports {
        good: Value,
        faults: Vec<(String, String, Value)>,
    }

    fn reports() -> BTreeMap<String, Reports> {
        serde_json::from_str(include_str!("programs/judged.json")).unwrap()
    }

    fn judged(act: &str, lines: Value) -> Vec<Row> {
        let (list, run) =
            (List::load().unwrap(), Run { lines: serde_json::from_value(lines).unwrap(), broken: None });
        match act {
            "systemd" => package::steps(&run),
            _ => judge::rows(&list.guest[0], &list.program[..1], &run),
        }
    }

    #[test]
    fn whatever_is_wrong_is_a_fault() {
        for (act, Reports { good, faults }) in reports() {
            assert!(judged(&act, good.clone()).iter().all(|row| row.faults.is_empty()), "{act}");
            for (expected, place, value) in faults {
                let mut lines = good.clone();
                *lines.pointer_mut(&place).unwrap() = value;
                let found: Vec<String> = judged(&act, lines).into_iter().flat_map(|row| row.faults).collect();
                assert!(found.iter().any(|fault| fault.contains(&expected)), "{expected}: {found:?}");
            }
        }
    }
}
