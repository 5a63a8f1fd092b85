//! A guest boots Debian's cloud kernel, and an initramfs with two static programs: the guest's
//! own, which is the first process, and `tickline` itself, with its library for `tickline run`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::packages::{self, Program};
use crate::files::{self, entries};
use crate::step::{said, shown};

/// What static programs are built for.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// This package depends on the newest kernel for guests: 27 MB, with all the drivers that guests
/// need here.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";

/// Another kernel than Debian's, if set.
const KERNEL_VARIABLE: &str = "TICKLINE_VM_KERNEL";

pub(super) const QEMU: &str = "qemu-system-x86_64";

/// What all guests boot.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
}

/// Why there is no image.
#[derive(Debug)]
pub(super) enum Failure {
    /// This machine lacks something, so nothing was checked.
    Missing(String),
    /// The project's own part does not work.
    Broken(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Fetches what guests need from elsewhere: the compiler's target, the emulator, the kernel.
pub(super) fn fetch() -> Result<PathBuf, Failure> {
    fs::create_dir_all(super::folder())?;
    said(&format!("rustup target add {TARGET}")).map_err(Failure::Missing)?;
    if said(&format!("{QEMU} --version")).is_err() {
        said("apt-get install -y -qq --no-install-recommends qemu-system-x86")
            .map_err(|why| Failure::Missing(format!("{QEMU} is not here: {why}")))?;
    }
    kernel()
}

/// Fetches and builds what guests need.
pub(super) fn prepare() -> Result<Image, Failure> {
    let kernel = fetch()?;
    let programs = build()?;
    let initramfs = super::folder().join("initramfs.cpio");
    fs::write(&initramfs, archive(&programs))?;
    Ok(Image { kernel, initramfs })
}

impl Image {
    /// The same with a program of the distribution.
    pub(super) fn with(&self, program: &Program) -> Result<Self, Failure> {
        let mut initramfs = fs::read(&self.initramfs)?;
        initramfs.extend(packages::archive(program)?);
        let file = self.initramfs.with_file_name(format!("initramfs-{}.cpio", program.package));
        fs::write(&file, initramfs)?;
        Ok(Self { kernel: self.kernel.clone(), initramfs: file })
    }
}

/// The kernel, unpacked from its package into `target/vm`: nothing is installed on this machine.
fn kernel() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(KERNEL_VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Failure::Broken(format!("{KERNEL_VARIABLE}: {} is no file", path.display())))
        };
    }
    let unpacked = super::folder().join("kernel");
    if let Some(kernel) = vmlinuz(&unpacked) {
        return Ok(kernel);
    }
    let missing = |what: &str| Failure::Missing(format!("no kernel: {what}"));
    let depends = said(&format!("apt-cache depends {KERNEL_PACKAGE}")).map_err(|why| missing(&why))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| name.starts_with("linux-image-"))
        .ok_or_else(|| missing("apt does not know linux-image-cloud-amd64"))?;
    println!("fetching {package}");
    packages::download(&[package], &unpacked)?;
    vmlinuz(&unpacked).ok_or_else(|| missing("apt-get cannot download it, or there is none in the package"))
}

fn vmlinuz(unpacked: &Path) -> Option<PathBuf> {
    let is_kernel =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"));
    entries(&unpacked.join("boot")).into_iter().find(is_kernel)
}

/// The programs, as they are called in the guest.
pub(super) struct Programs {
    pub(super) init: Vec<u8>,
    pub(super) tickline: Vec<u8>,
    pub(super) preload: Vec<u8>,
}

/// Builds all static programs, for `--target` and the target's name behind it. The same profile for
/// all of them, so that none is built twice; without symbols, since unpacking is most of the boot.
pub(crate) const BUILD: &str = "cargo build -q --profile dist -p tickline-vm-guest -p tickline-cli";

pub(super) fn build() -> Result<Programs, Failure> {
    shown(&format!("{BUILD} --target {TARGET}"))
        .and_then(|()| shown(crate::dist::PRELOAD))
        .map_err(Failure::Broken)?;
    let target = files::target();
    let program = |name: &str| fs::read(target.join(TARGET).join("dist").join(name));
    let preload = crate::dist::library(&target).map_err(Failure::Broken)?;
    Ok(Programs { init: program("tickline-vm-guest")?, tickline: program("tickline")?, preload })
}

/// Modes of a folder, and of a program.
pub(super) const FOLDER: u32 = 0o040_755;
pub(super) const PROGRAM: u32 = 0o100_755;

/// The folders to mount on, and the programs.
fn archive(programs: &Programs) -> Vec<u8> {
    cpio(&[
        ("dev", FOLDER, &[][..]),
        ("proc", FOLDER, &[]),
        ("sys", FOLDER, &[]),
        ("init", PROGRAM, &programs.init),
        ("tickline", PROGRAM, &programs.tickline),
        (crate::dist::LIBRARY, PROGRAM, &programs.preload),
    ])
}

/// A cpio archive in the "newc" format, as
/// `Documentation/driver-api/early-userspace/buffer-format.rst` of the kernel describes it: name,
/// mode and content of each entry. The kernel unpacks archives that follow each other.
pub(super) fn cpio<N: AsRef<str>, C: AsRef<[u8]>>(entries: &[(N, u32, C)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (number, (name, mode, content)) in (1..).zip(entries) {
        append(&mut archive, number, name.as_ref(), *mode, content.as_ref());
    }
    append(&mut archive, 0, "TRAILER!!!", 0, &[]);
    archive
}

fn append(archive: &mut Vec<u8>, number: u32, name: &str, mode: u32, content: &[u8]) {
    // inode, mode, uid, gid, links, time, size, four device numbers, size of the name with its
    // zero, checksum
    let fields = [number, mode, 0, 0, 1, 0, size(content.len()), 0, 0, 0, 0, size(name.len() + 1), 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    align(archive);
    archive.extend_from_slice(content);
    align(archive);
}

fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("programs are a few megabytes")
}

fn align(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_kernel_reads() {
        let archive =
            archive(&Programs { init: b"12345".to_vec(), tickline: b"1".to_vec(), preload: b"12".to_vec() });
        assert_eq!(archive.len() % 4, 0);
        let text = String::from_utf8_lossy(&archive);
        assert_eq!(text.matches("070701").count(), 7);
        let init = text.find("init\0").expect("the program");
        // The header of 110 bytes comes before the name: the size is its seventh field, the mode
        // its second.
        let header = &text[init - 110..init];
        assert_eq!(&header[6 + 6 * 8..6 + 7 * 8], "00000005");
        assert_eq!(&header[6 + 8..6 + 2 * 8], "000081ed");
        let content = (init + "init\0".len()).next_multiple_of(4);
        assert_eq!(&archive[content..content + 5], b"12345");
    }
}
