//! Provides a daemon for a guest. Unpacks its package and the packages of its libraries from the
//! distribution into `target/vm`, and collects the files that the daemon needs at run time. A
//! daemon of crates.io is built as a static program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::image;
use crate::command::{command, output};
use crate::files::entries;
use crate::outcome::NotPassed;

/// The dynamic linker, which lists a daemon's libraries, and loads them in the guest.
const LINKER: &str = "lib64/ld-linux-x86-64.so.2";

/// The folders of libraries in Debian and its derivatives.
const LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// A daemon with its package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Daemon {
    /// The package's name in the distribution, or in crates.io with the version: `NAME@VERSION`.
    pub(super) package: String,
    /// The daemon's path.
    pub(super) path: String,
    /// Arguments of `cargo install` for a package of crates.io.
    #[serde(default)]
    features: String,
}

/// Collects the daemon, the dynamic linker and all libraries in a folder, at their paths in the
/// guest.
pub(super) fn collect(daemon: &Daemon) -> Result<PathBuf, NotPassed> {
    let to = super::folder().join(format!("{}-files", daemon.package));
    if daemon.package.contains('@') {
        fs::remove_dir_all(&to).ok();
        image::put(&to, &daemon.path, &fs::read(build(daemon)?)?)?;
        return Ok(to);
    }
    let root = unpack(daemon)?;
    let linker = root.join(LINKER);
    let folders = LIBRARIES
        .map(|folder| root.join(folder).display().to_string())
        .join(":");
    let output = Command::new(&linker)
        .args(["--library-path", &folders, "--list"])
        .arg(root.join(&daemon.path))
        .output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || listed.contains("not found") {
        return Err(NotPassed::Skipped(format!(
            "{}: a library is missing: {listed}",
            daemon.package
        )));
    }
    fs::remove_dir_all(&to).ok();
    image::put(&to, &daemon.path, &fs::read(root.join(&daemon.path))?)?;
    image::put(&to, LINKER, &fs::read(&linker)?)?;
    for library in libraries(&listed) {
        let name = library.rsplit('/').next().unwrap_or_default();
        image::put(
            &to,
            &format!("{}/{name}", LIBRARIES[0]),
            &fs::read(library)?,
        )?;
    }
    Ok(to)
}

/// The files in the dynamic linker's list: `libm.so.6 => /lib/libm.so.6 (0x7f...)`.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    let lines = listed.lines();
    lines.filter_map(|line| line.split_once(" => ")?.1.split(" (").next())
}

/// Builds a daemon of crates.io, linked statically to glibc, because it does not support musl.
/// Nothing is installed.
fn build(daemon: &Daemon) -> Result<PathBuf, NotPassed> {
    let root = super::folder().join(&daemon.package);
    let name = daemon.path.rsplit('/').next().unwrap_or_default();
    let built = root.join("bin").join(name);
    if !built.is_file() {
        println!("building {}", daemon.package);
        let mut install =
            command("cargo install -q --locked --target x86_64-unknown-linux-gnu --root");
        install
            .arg(&root)
            .arg(&daemon.package)
            .args(daemon.features.split_whitespace())
            .args(["--bin", name]);
        output(install.env("RUSTFLAGS", "-C target-feature=+crt-static"))
            .map_err(NotPassed::Skipped)?;
    }
    Ok(built)
}

/// Unpacks the package, and all libraries that apt names for it. Nothing is installed.
fn unpack(daemon: &Daemon) -> Result<PathBuf, NotPassed> {
    let missing = |reason: &str| NotPassed::Skipped(format!("no {}: {reason}", daemon.package));
    let root = super::folder().join(&daemon.package);
    if root.join(&daemon.path).is_file() {
        return Ok(root);
    }
    let mut depends = command(
        "apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
         --no-enhances",
    );
    let depends = output(depends.arg(&daemon.package)).map_err(|why| missing(&why))?;
    // A line without indentation names a package. The lines of its relations are indented.
    let libraries = depends
        .lines()
        .filter(|line| line.starts_with("lib") && !line.ends_with("-perl"));
    println!("fetching {} and its libraries", daemon.package);
    download(
        &[daemon.package.as_str()]
            .into_iter()
            .chain(libraries)
            .collect::<Vec<_>>(),
        &root,
    )?;
    if root.join(&daemon.path).is_file() {
        Ok(root)
    } else {
        Err(missing("apt-get can't download it"))
    }
}

/// Unpacks the packages that apt has into a folder. Nothing is installed.
pub(super) fn download(packages: &[&str], to: &Path) -> Result<(), NotPassed> {
    let folder = super::folder().join("packages");
    fs::create_dir_all(&folder)?;
    Command::new("apt-get")
        .args(["download", "-qq"])
        .args(packages)
        .current_dir(&folder)
        .output()?;
    for file in entries(&folder)
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "deb"))
    {
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(file)
            .arg(to)
            .output()?;
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_file() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /a/libm.so.6 (0x00007f)\n\
                      \t/lib64/ld.so (0x1)\n";
        assert_eq!(libraries(listed).collect::<Vec<_>>(), ["/a/libm.so.6"]);
    }
}
