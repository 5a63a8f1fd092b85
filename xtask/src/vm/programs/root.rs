//! The disks: Debian with the programs, made once from packages, and a small one with what changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::list::{Build, Program};
use super::source::{self, RELEASE, folder};
use super::suites::{self, Suite};
use crate::vm::image::{self, Failure, works};

/// What is installed of the release. Its kernel is the one that boots.
const PACKAGES: &[&str] = &[
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "systemd-sysv",
    "dbus",
    "udev",
    "iproute2",
    "strace",
    "procps",
    "musl",
    "musl-dev",
    "python3",
    "libpython3.11-testsuite",
    "php-cli",
    "ruby",
    "nodejs",
    "openjdk-17-jre-headless",
    "redis-server",
    "nginx-light",
    "postgresql",
];

/// The first program: the disk that changes, and what Debian's init would give the programs.
const INIT: &str = "\
#!/bin/sh
mount -o ro /dev/vdb /opt
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
ip link set lo up
exec /opt/init
";

/// Where the guest has it.
pub(super) const INIT_PATH: &str = "/sbin/tickline-guest";

/// A program or suite that could not be built, and why.
pub(super) type Skipped = (String, String);

/// What the guests boot.
#[derive(Debug)]
pub(super) struct Disks {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    pub(super) root: PathBuf,
    pub(super) own: PathBuf,
    /// The suites on it.
    pub(super) suites: Vec<&'static Suite>,
    pub(super) skipped: Vec<Skipped>,
}

/// Makes the disks, or only the small one if the other is there. It has these programs and suites.
pub(super) fn prepare(programs: &[&Program], suites: &[&'static Suite]) -> Result<Disks, Failure> {
    fs::create_dir_all(folder())?;
    let missing = |what: &str| Failure::Missing(what.to_owned());
    if !works(image::QEMU, &["--version"]) {
        image::install("qemu-system-x86").then_some(()).ok_or_else(|| missing("there is no QEMU"))?;
    }
    if !works("mke2fs", &["-V"]) {
        return Err(missing("mke2fs is not here"));
    }
    if !works("cargo", &["deb", "--version"]) {
        return Err(missing("cargo-deb is not here (`cargo install cargo-deb --locked`)"));
    }
    let tree = debian()?;
    let boot = |name: &str| {
        let is_it =
            |path: &PathBuf| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(name));
        image::entries(&tree.join("boot")).into_iter().find(is_it)
    };
    let (Some(kernel), Some(initramfs)) = (boot("vmlinuz-"), boot("initrd.img-")) else {
        return Err(missing("Debian's kernel package has brought no kernel"));
    };
    let mut disks = Disks {
        kernel,
        initramfs,
        root: folder().join("root.img"),
        own: folder().join("own.img"),
        suites: Vec::new(),
        skipped: Vec::new(),
    };
    own_disk(&tree, programs, suites, &mut disks)?;
    Ok(disks)
}

/// Debian as a folder, and as a disk. A folder of an older list of packages is made again.
fn debian() -> Result<PathBuf, Failure> {
    let (tree, disk) = (folder().join("root"), folder().join("root.img"));
    let stamp = folder().join("root.stamp");
    let wanted = format!("{RELEASE} {}\n{INIT}", PACKAGES.join(" "));
    if disk.is_file() && fs::read_to_string(&stamp).is_ok_and(|stored| stored == wanted) {
        return Ok(tree);
    }
    let missing = |what: &str| Failure::Missing(format!("no Debian: {what}"));
    if !works("mmdebstrap", &["--version"]) && !image::install("mmdebstrap") {
        return Err(missing("mmdebstrap is not here, and apt-get cannot install it"));
    }
    let sources = source::mirrors()?;
    if sources.is_empty() {
        return Err(missing("apt does not know bookworm; it has been asked for its sources"));
    }
    println!("making Debian from packages, some minutes");
    fs::remove_dir_all(&tree).ok();
    let status = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=apt", "--aptopt=Apt::Install-Recommends \"false\""])
        .arg(format!("--include={}", PACKAGES.join(",")))
        .arg(RELEASE)
        .arg(&tree)
        .args(&sources)
        .status()?;
    if !status.success() {
        return Err(missing("mmdebstrap failed"));
    }
    let init = tree.join(INIT_PATH.trim_start_matches('/'));
    fs::write(&init, INIT)?;
    make_executable(&init)?;
    disk_from(&tree, &disk, "3G")?;
    fs::write(stamp, wanted)?;
    Ok(tree)
}

fn make_executable(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// A file system with what is in a folder.
fn disk_from(tree: &Path, disk: &Path, size: &str) -> Result<(), Failure> {
    fs::remove_file(disk).ok();
    let made = Command::new("mke2fs").args(["-q", "-t", "ext4", "-d"]).arg(tree).arg(disk).arg(size).output();
    match made {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Failure::Broken(format!("mke2fs cannot make {}", disk.display()))),
    }
}

/// What the project brings along: the guest's program, the package, the loads, the suites, and the lists.
fn own_disk(
    root: &Path,
    loads: &[&Program],
    suites: &[&'static Suite],
    disks: &mut Disks,
) -> Result<(), Failure> {
    let programs = image::build()?;
    let tree = folder().join("own");
    fs::remove_dir_all(&tree).ok();
    fs::create_dir_all(&tree)?;
    fs::write(tree.join("init"), &programs.init)?;
    make_executable(&tree.join("init"))?;
    let package = crate::dist::package(&image::target()).map_err(Failure::Broken)?;
    fs::copy(crate::dist::tarball(&package).map_err(Failure::Broken)?, tree.join("tickline.tar.gz"))?;
    fs::copy(package, tree.join("tickline.deb"))?;
    let mut list = Vec::new();
    for program in loads {
        match built(program, &tree, root) {
            Ok(entry) => list.push(entry),
            Err(why) => disks.skipped.push((program.name.to_owned(), why)),
        }
    }
    fs::write(tree.join("programs.json"), Value::from(list).to_string())?;
    let mut list = Vec::new();
    for suite in suites {
        match suites::built(suite, &tree, root) {
            Ok(entry) => {
                list.push(entry);
                disks.suites.push(suite);
            }
            Err(why) => disks.skipped.push((format!("the suite of {}", suite.name), why)),
        }
    }
    fs::write(tree.join("suites.json"), Value::from(list).to_string())?;
    disk_from(&tree, &disks.own, "128M")
}

/// Builds a load into the disk's folder. Returns its entry in the guest's list.
fn built(program: &Program, tree: &Path, root: &Path) -> Result<Value, String> {
    let loads = crate::vm::root().join("tests/vm/programs");
    let name = match program.build {
        Build::Script => program.source.to_owned(),
        Build::Command(_) => program.name.replace(' ', "-"),
    };
    let out = tree.join(&name);
    match program.build {
        Build::Script => {
            fs::copy(loads.join(program.source), &out).map_err(|error| error.to_string())?;
        }
        Build::Command(line) => {
            let place = |word: &str| {
                word.replace("OUT", &out.to_string_lossy()).replace("ROOT", &root.to_string_lossy())
            };
            let mut words = line.split(' ').map(place);
            let mut command = Command::new(words.next().unwrap_or_default());
            let done = command.args(words).current_dir(&loads).output();
            match done {
                Ok(output) if output.status.success() => {}
                Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                Err(error) => return Err(format!("`{line}`: {error}")),
            }
        }
    }
    Ok(json!({
        "name": program.name,
        "command": program.command.replace("OUT", &format!("/opt/{name}")),
        "calls": program.calls,
        "static": program.is_static,
        "server": program.is_server,
        "handed_over": program.is_handed_over,
    }))
}
