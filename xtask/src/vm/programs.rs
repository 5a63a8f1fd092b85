//! Provides the programs on Debian, which guests run natively and served.
//! `tests/vm/programs/programs.toml` lists the programs, and `disks.sh` beside it makes the disks
//! that these guests boot.

use std::fs;

use serde::Deserialize;

use super::agreed::{Mode, Program};
use super::check::Check;
use super::expected::{self, Group};
use super::image::{self, Image, boot_file, put};
use crate::command::{command_of, must_succeed, output_of};
use crate::files::{self, read, root};
use crate::outcome::NotPassed;

/// The memory of a guest, MB. Postgres, Java and Node run in it at the same time.
const MEMORY_MB: &str = "2048";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
}

/// The program whose own measurements have goals, and a table.
pub(super) const POSTGRES: &str = "Postgres";

/// Every program.
pub(super) fn all() -> Result<Vec<Program>, String> {
    let list: Result<List, _> = toml::from_str(&read("tests/vm/programs/programs.toml")?);
    list.map(|list| list.program)
        .map_err(|error| format!("programs.toml: {error}"))
}

impl Program {
    /// The phases of the report on this program, with the groups of rules for each.
    fn expect(&self) -> Vec<(String, Vec<Group>)> {
        let mut native = vec![Group::LoadWorks, Group::LoadNative];
        let mut run = vec![Group::LoadWorks, Group::LoadServed];
        let mut preload = vec![Group::LoadWorks, Group::LoadServed];
        if !self.is_server {
            for groups in [&mut native, &mut run, &mut preload] {
                groups.push(Group::LoadReadsMonotonic);
            }
            run.push(Group::LoadUnderRun);
        }
        let mut phases = vec![
            (Mode::Native.phase_of(&self.name), native),
            (Mode::Run.phase_of(&self.name), run),
        ];
        if self.has(Mode::Preload) {
            phases.push((Mode::Preload.phase_of(&self.name), preload));
        }
        if !self.is_server {
            phases.push((self.exchange_phase(), vec![Group::ServedExchange]));
        }
        phases
    }

    pub(super) fn phases(&self) -> Vec<String> {
        self.expect().into_iter().map(|(phase, _)| phase).collect()
    }

    /// The checks of this program. `share` is the part of its ratio that is enough.
    pub(super) fn checks(&self, share: f64) -> Vec<Check> {
        let mut checks = Vec::new();
        for (phase, groups) in self.expect() {
            for group in groups {
                checks.extend(group.checks(&phase));
            }
        }
        let run = Mode::Run.phase_of(&self.name);
        if self.least > 0.0 {
            checks.push(Check::new(&run, expected::ratio(self.least * share)));
        }
        if self.name == POSTGRES {
            checks.extend(Check::all(&run, expected::postgres()));
        }
        checks
    }
}

/// Makes the image of guests with Debian on their disks.
pub(super) fn prepare() -> Result<Image, NotPassed> {
    for (need, reason) in [
        ("qemu-system-x86_64 --version", "there is no QEMU"),
        ("mke2fs -V", "mke2fs is not here"),
        ("mmdebstrap --version", "mmdebstrap is not here"),
        (
            "cargo deb --version",
            "cargo-deb is not here (`cargo install cargo-deb --locked`)",
        ),
    ] {
        output_of(need).map_err(|_| NotPassed::Skipped(reason.to_owned()))?;
    }
    let folder = super::folder().join("programs");
    let own = folder.join("own");
    let debian = folder.join("root");
    fs::remove_dir_all(&own).ok();
    let [(name, init), ..] = image::build()?;
    put(&own, name, &init)?;
    let package = crate::dist::make_package(&files::target())?;
    fs::copy(
        crate::dist::make_tarball(&package)?,
        own.join("tickline.tar.gz"),
    )?;
    fs::copy(package, own.join("tickline.deb"))?;
    let programs = all()?;
    fs::write(
        own.join("programs.json"),
        serde_json::json!(programs).to_string(),
    )?;
    let script = root().join("tests/vm/programs/disks.sh");
    must_succeed(&mut command_of([&script, &folder]))
        .map_err(|why| NotPassed::Skipped(format!("no disks: {why}")))?;
    let no_kernel = || NotPassed::Failed("Debian's package has brought no kernel".to_owned());
    Ok(Image {
        kernel: boot_file(&debian, "vmlinuz-").ok_or_else(no_kernel)?,
        initramfs: boot_file(&debian, "initrd.img-").ok_or_else(no_kernel)?,
        disks: ["root.img", "own.img"].map(|disk| folder.join(disk)).into(),
        memory_mb: MEMORY_MB,
    })
}
