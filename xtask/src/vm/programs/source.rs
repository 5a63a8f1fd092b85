//! Where Debian comes from, and parts of its source packages. apt-get fetches those with lists of
//! their own: the host's are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::vm::image::entries;

/// The release.
pub(super) const RELEASE: &str = "bookworm";

/// Where everything is kept.
pub(super) fn folder() -> PathBuf {
    crate::vm::folder().join("programs")
}

/// Where this machine has the release from, as lines of a list of sources.
pub(super) fn mirrors() -> std::io::Result<Vec<String>> {
    let targets = Command::new("apt-get")
        .args([
            "indextargets",
            "--format",
            "deb $(REPO_URI) $(CODENAME) $(COMPONENT)",
            "Created-By: Packages",
        ])
        .output()?;
    let targets = String::from_utf8_lossy(&targets.stdout);
    let is_of_release = |line: &&str| {
        let name = line.split(' ').nth(2).unwrap_or_default();
        name.split('-').next() == Some(RELEASE) && !name.contains("backports")
    };
    Ok(targets.lines().filter(is_of_release).map(str::to_owned).collect())
}

/// The folder with these parts of the source of a package in the guest's root, in the version that it
/// has there, or else in the release's: not each mirror has the sources of security updates. The parts
/// are upstream's, without Debian's patches.
pub(super) fn unpacked(package: &str, root: &Path, parts: &[&str]) -> Result<PathBuf, String> {
    let version =
        output(
            Command::new("dpkg-query")
                .arg(format!("--admindir={}", root.join("var/lib/dpkg").display()))
                .args(["-W", "-f=${source:Package}=${source:Version}", package]),
        )?;
    let sources = folder().join("sources");
    let done = sources.join(format!("{} {}", version.replace('/', "_"), parts.join(" ").replace('/', "_")));
    if done.is_dir() {
        return Ok(done);
    }
    println!("fetching the source {version}");
    let fetched = sources.join("fetched");
    fs::remove_dir_all(&fetched).ok();
    for folder in ["lists/partial", "fetched", "unpacked"] {
        fs::create_dir_all(sources.join(folder)).map_err(|error| error.to_string())?;
    }
    let list = sources.join("sources.list");
    let lines: Vec<String> = mirrors()
        .map_err(|error| error.to_string())?
        .iter()
        .map(|line| line.replacen("deb ", "deb-src ", 1))
        .collect();
    fs::write(&list, lines.join("\n") + "\n").map_err(|error| error.to_string())?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.arg("-qq")
            .arg("-o")
            .arg(format!("Dir::Etc::SourceList={}", list.display()))
            .args(["-o", "Dir::Etc::SourceParts=-", "-o"])
            .arg(format!("Dir::State::Lists={}", sources.join("lists").display()))
            .current_dir(&fetched);
        apt
    };
    output(apt().arg("update"))?;
    let download = |source: &str| output(apt().args(["source", "--download-only", source]));
    let package = version.split('=').next().unwrap_or_default();
    download(&version)
        .or_else(|_| {
            println!("the source {version} cannot be downloaded; another version of {package} is");
            download(&format!("{package}/{RELEASE}"))
        })
        .map_err(|why| format!("{why}: no source of {package} can be downloaded"))?;
    let archive = entries(&fetched)
        .into_iter()
        .find(|path| {
            path.to_string_lossy().contains(".orig.tar.") && !path.to_string_lossy().ends_with(".asc")
        })
        .ok_or_else(|| format!("there is no archive in the source {version}"))?;
    let unpacked = sources.join("unpacked");
    fs::remove_dir_all(&unpacked)
        .and_then(|()| fs::create_dir_all(&unpacked))
        .map_err(|error| error.to_string())?;
    output(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&unpacked)
            .args(["--strip-components=1", "--wildcards", "--no-wildcards-match-slash"])
            .args(parts.iter().map(|part| format!("*/{part}"))),
    )?;
    fs::rename(&unpacked, &done).map_err(|error| error.to_string())?;
    Ok(done)
}

/// Copies what is in a folder to another one.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    output(Command::new("cp").arg("-r").arg(from.join(".")).arg(to)).map(|_| ())
}

/// What a command says. Its errors are shown if it fails, and are not in the reason: that is kept.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    eprintln!("{}", String::from_utf8_lossy(&output.stderr).trim());
    Err(format!("{name} failed, {}", output.status))
}
