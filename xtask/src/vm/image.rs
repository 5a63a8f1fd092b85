//! Builds the image of a guest: Debian's cloud kernel, and an initramfs with two static programs.
//! One is the guest's first process, the other is `tickline`, with its library for `tickline run`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages;
use crate::command::{command, command_of, must_succeed, output};
use crate::dist::{LIBRARY, TARGET};
use crate::files::{self, entries};
use crate::outcome::NotPassed;
use crate::toolchain::install_std;

/// A package that depends on the newest kernel for guests. That kernel has 27 MB, and all drivers
/// that these guests need.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";

pub(super) const QEMU: &str = "qemu-system-x86_64";

/// The kernel and the disks of a guest.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    pub(super) disks: Vec<PathBuf>,
    pub(super) memory_mb: &'static str,
}

/// The memory of a guest without disks, MB. Kernel and programs take 24 MB. It is small because a
/// saved state has this size.
const MEMORY_MB: &str = "192";

/// Fetches the compiler's target, the emulator and the kernel. Returns the kernel.
pub(super) fn fetch() -> Result<PathBuf, NotPassed> {
    fs::create_dir_all(super::folder())?;
    install_std(TARGET).map_err(NotPassed::Skipped)?;
    for (program, package) in [(QEMU, "qemu-system-x86"), ("cpio", "cpio")] {
        if output(command_of([program]).arg("--version")).is_err() {
            let mut install = command("apt-get install -y -qq --no-install-recommends");
            output(install.arg(package))
                .map_err(|why| NotPassed::Skipped(format!("{program} is not here: {why}")))?;
        }
    }
    unpack_kernel()
}

/// Fetches and builds the image of guests without disks.
pub(super) fn prepare() -> Result<Image, NotPassed> {
    let kernel = fetch()?;
    let programs = build()?;
    let root = super::folder().join("initramfs");
    fs::remove_dir_all(&root).ok();
    for folder in ["dev", "proc", "sys"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for (name, content) in programs {
        put(&root, name, &content)?;
    }
    Ok(Image {
        kernel,
        initramfs: pack(&root)?,
        disks: Vec::new(),
        memory_mb: MEMORY_MB,
    })
}

/// Writes a program into a folder that becomes an archive.
pub(super) fn put(root: &Path, name: &str, content: &[u8]) -> Result<(), NotPassed> {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap_or(root))?;
    fs::write(&path, content)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// Packs a folder into an archive, beside the folder, that the kernel can unpack
/// (`Documentation/driver-api/early-userspace/buffer-format.rst`). An initramfs may consist of
/// several archives.
fn pack(root: &Path) -> Result<PathBuf, NotPassed> {
    let file = root.with_extension("cpio");
    // With this machine's umask, `tickline run` in the guest may not trust the library's folder.
    let pack = "chmod -R go-w . && find . | cpio -o -H newc -R 0:0 --quiet > \"$0\"";
    output(
        Command::new("sh")
            .args(["-c", pack])
            .arg(&file)
            .current_dir(root),
    )?;
    Ok(file)
}

impl Image {
    /// This image, with the files of a folder added.
    pub(super) fn with_files(&self, folder: &Path) -> Result<Self, NotPassed> {
        let mut initramfs = fs::read(&self.initramfs)?;
        initramfs.extend(fs::read(pack(folder)?)?);
        let file = self.initramfs.with_file_name("initramfs-more.cpio");
        fs::write(&file, initramfs)?;
        Ok(Self {
            initramfs: file,
            ..self.clone()
        })
    }
}

/// Unpacks the kernel from its package into `target/vm`. Nothing is installed on this machine.
fn unpack_kernel() -> Result<PathBuf, NotPassed> {
    let unpacked = super::folder().join("kernel");
    if let Some(kernel) = boot_file(&unpacked, "vmlinuz-") {
        return Ok(kernel);
    }
    let missing = |reason: &str| NotPassed::Skipped(format!("no kernel: {reason}"));
    let depends =
        output(command("apt-cache depends").arg(KERNEL_PACKAGE)).map_err(|why| missing(&why))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| missing(&format!("apt does not know {KERNEL_PACKAGE}")))?;
    println!("fetching {package}");
    packages::download(&[package], &unpacked)?;
    boot_file(&unpacked, "vmlinuz-")
        .ok_or_else(|| missing("apt-get can't download it, or there is none in the package"))
}

/// The file in the folder `boot` of `root` whose name begins with `start`.
pub(super) fn boot_file(root: &Path, start: &str) -> Option<PathBuf> {
    let is_match = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(start))
    };
    entries(&root.join("boot")).into_iter().find(is_match)
}

/// The command that builds all static programs; `--target` and the target's name follow. All have
/// one profile, so that no crate is built twice, and no symbols, because unpacking takes most of
/// the boot.
pub(crate) const BUILD: &str = "cargo build -q --profile dist -p tickline-vm-guest -p tickline-cli";

/// Builds the programs. Returns each with its name in the guest, the guest's first process first.
pub(super) fn build() -> Result<[(&'static str, Vec<u8>); 3], NotPassed> {
    must_succeed(command(BUILD).args(["--target", TARGET]))?;
    must_succeed(&mut command(crate::dist::PRELOAD))?;
    let target = files::target();
    let program = |name: &str| fs::read(target.join(TARGET).join("dist").join(name));
    let preload = crate::dist::read_library(&target)?;
    Ok([
        ("init", program("tickline-vm-guest")?),
        ("tickline", program("tickline")?),
        (LIBRARY, preload),
    ])
}
