//! Provides the programs on Debian, which guests run natively and served.
//! `tests/vm/programs/programs.toml` lists the programs, and `disks.sh` beside it makes the disks
//! that these guests boot.

use std::fs;

use serde::{Deserialize, Serialize};

use super::guest::Check;
use super::image::{self, Image, boot_file, put};
use crate::files::{self, read, root};
use crate::step::{self, NotPassed};

/// The memory of a guest, MB. Postgres, Java and Node run in it at the same time.
const MEMORY_MB: &str = "2048";

/// The ways in which a program gets its time.
pub(super) const MODES: [&str; 3] = ["native", "run", "preload"];

/// The phase in which programs exchange readings while the server is killed, started and stopped.
pub(super) const SERVED_EXCHANGE: &str = "served exchange";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
}

/// A program; `programs.toml` explains the fields. The guest gets the programs as JSON.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) name: String,
    about: String,
    file: String,
    command: String,
    calls: u64,
    least: f64,
    #[serde(default, rename = "static")]
    is_static: bool,
    #[serde(default, rename = "server")]
    is_server: bool,
    #[serde(default)]
    checks: Vec<String>,
}

/// Every program.
pub(super) fn all() -> Result<Vec<Program>, String> {
    let list: Result<List, _> = toml::from_str(&read("tests/vm/programs/programs.toml")?);
    list.map(|list| list.program)
        .map_err(|error| format!("programs.toml: {error}"))
}

impl Program {
    /// The phase of the guest's report in which the program runs in a mode, or exchanges
    /// readings.
    pub(super) fn phase_in(&self, mode: &str) -> String {
        format!("{} {mode}", self.name)
    }

    /// The phases of the report on this program, with the groups of checks for each.
    pub(super) fn expect(&self) -> Vec<(String, Vec<&'static str>)> {
        let mut phases = vec![
            ("native", vec!["load", "load native"]),
            ("run", vec!["load", "load served"]),
        ];
        if !self.is_static {
            phases.push(("preload", vec!["load", "load served"]));
        }
        if !self.is_server {
            phases
                .iter_mut()
                .for_each(|(_, groups)| groups.push("load of both clocks"));
            phases[1].1.push("load under run");
            phases.push((SERVED_EXCHANGE, vec![SERVED_EXCHANGE]));
        }
        phases
            .into_iter()
            .map(|(phase, groups)| (self.phase_in(phase), groups))
            .collect()
    }

    pub(super) fn phases(&self) -> Vec<String> {
        self.expect().into_iter().map(|(phase, _)| phase).collect()
    }

    /// The checks of this program only: its ratio times `share`, and its own checks.
    pub(super) fn checks(&self, share: f64) -> Result<Vec<Check>, String> {
        let least = self.least * share;
        let ratio = format!("native.ns >= {least} * ns # so many times as fast as natively");
        let ratio = (least > 0.0).then_some(&ratio);
        ratio
            .into_iter()
            .chain(&self.checks)
            .map(|line| Check::parse(&self.phase_in("run"), line))
            .collect()
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
        step::output_of(need).map_err(|_| NotPassed::Skipped(reason.to_owned()))?;
    }
    let folder = super::folder().join("programs");
    let (own, debian) = (folder.join("own"), folder.join("root"));
    fs::remove_dir_all(&own).ok();
    let [(name, init), ..] = image::build()?;
    put(&own, name, &init)?;
    let package = crate::dist::package(&files::target())?;
    fs::copy(crate::dist::tarball(&package)?, own.join("tickline.tar.gz"))?;
    fs::copy(package, own.join("tickline.deb"))?;
    let programs = all()?;
    fs::write(
        own.join("programs.json"),
        serde_json::json!(programs).to_string(),
    )?;
    let script = root().join("tests/vm/programs/disks.sh");
    step::must_succeed(&format!("{} {}", script.display(), folder.display()))
        .map_err(|why| NotPassed::Skipped(format!("no disks: {why}")))?;
    let no_kernel = || NotPassed::Failed("Debian's package has brought no kernel".to_owned());
    Ok(Image {
        kernel: boot_file(&debian, "vmlinuz-").ok_or_else(no_kernel)?,
        initramfs: boot_file(&debian, "initrd.img-").ok_or_else(no_kernel)?,
        disks: ["root.img", "own.img"].map(|disk| folder.join(disk)).into(),
        memory_mb: MEMORY_MB,
    })
}
