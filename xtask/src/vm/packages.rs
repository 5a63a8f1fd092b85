//! A program of the distribution for a guest: its package and those of its libraries, unpacked into
//! `target/vm`, and the files that it needs at run time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::image::{self, Failure};
use crate::files::entries;
use crate::step::said;

/// The dynamic linker, which lists a program's libraries, and loads them in the guest.
const LINKER: &str = "lib64/ld-linux-x86-64.so.2";

/// Where Debian and its relatives have libraries.
const LIBRARIES: [&str; 2] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// A program with its package.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) package: String,
    /// The program's place.
    pub(super) path: String,
}

/// An archive with the program, the dynamic linker and all libraries.
pub(super) fn archive(program: &Program) -> Result<Vec<u8>, Failure> {
    let root = unpack(program)?;
    let linker = root.join(LINKER);
    let places = LIBRARIES.map(|place| root.join(place).display().to_string()).join(":");
    let output = Command::new(&linker)
        .args(["--library-path", &places, "--list"])
        .arg(root.join(&program.path))
        .output()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || listed.contains("not found") {
        return Err(Failure::Missing(format!("{}: a library is missing: {listed}", program.package)));
    }
    let mut files = vec![(program.path.clone(), fs::read(root.join(&program.path))?)];
    files.push((LINKER.to_owned(), fs::read(&linker)?));
    for library in libraries(&listed) {
        let name = Path::new(library).file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((format!("{}/{name}", LIBRARIES[0]), fs::read(library)?));
    }
    Ok(image::cpio(&with_folders(files)))
}

/// The files that `ld.so --list` names: `libm.so.6 => /lib/libm.so.6 (0x7f...)`.
fn libraries(listed: &str) -> impl Iterator<Item = &str> {
    listed.lines().filter_map(|line| line.split_once(" => ")?.1.split(" (").next())
}

/// The files, each behind its folders.
fn with_folders(files: Vec<(String, Vec<u8>)>) -> Vec<(String, u32, Vec<u8>)> {
    let mut entries: Vec<(String, u32, Vec<u8>)> = Vec::new();
    for (name, content) in files {
        for (end, _) in name.match_indices('/') {
            if !entries.iter().any(|(other, ..)| *other == name[..end]) {
                entries.push((name[..end].to_owned(), image::FOLDER, Vec::new()));
            }
        }
        entries.push((name, image::PROGRAM, content));
    }
    entries
}

/// Unpacks the package, and all libraries that apt names for it. Nothing is installed.
fn unpack(program: &Program) -> Result<PathBuf, Failure> {
    let missing = |what: &str| Failure::Missing(format!("no {}: {what}", program.package));
    let root = super::folder().join(&program.package);
    if root.join(&program.path).is_file() {
        return Ok(root);
    }
    let depends = said(&format!(
        "apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
         --no-enhances {}",
        program.package
    ));
    let depends = depends.map_err(|why| missing(&why))?;
    // A name that stands alone is a package; its relations are indented.
    let libraries = depends.lines().filter(|line| line.starts_with("lib") && !line.ends_with("-perl"));
    println!("fetching {} and its libraries", program.package);
    download(&[program.package.as_str()].into_iter().chain(libraries).collect::<Vec<_>>(), &root)?;
    if root.join(&program.path).is_file() { Ok(root) } else { Err(missing("apt-get cannot download it")) }
}

/// Unpacks packages into a folder, as far as apt has them. Nothing is installed.
pub(super) fn download(packages: &[&str], to: &Path) -> Result<(), Failure> {
    let folder = super::folder().join("packages");
    fs::create_dir_all(&folder)?;
    Command::new("apt-get").args(["download", "-qq"]).args(packages).current_dir(&folder).output()?;
    for file in entries(&folder).iter().filter(|path| path.extension().is_some_and(|it| it == "deb")) {
        Command::new("dpkg-deb").arg("-x").arg(file).arg(to).output()?;
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_file() {
        let listed =
            "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /a/libm.so.6 (0x00007f)\n\t/lib64/ld.so (0x1)\n";
        assert_eq!(libraries(listed).collect::<Vec<_>>(), ["/a/libm.so.6"]);
    }

    #[test]
    fn each_folder_comes_once_and_before_its_files() {
        let files = ["usr/sbin/a", "usr/b"].map(|name| (name.to_owned(), vec![1]));
        let names = with_folders(files.to_vec()).into_iter().map(|(name, mode, _)| (name, mode));
        let expected = [
            ("usr", image::FOLDER),
            ("usr/sbin", image::FOLDER),
            ("usr/sbin/a", image::PROGRAM),
            ("usr/b", image::PROGRAM),
        ];
        assert!(names.eq(expected.map(|(name, mode)| (name.to_owned(), mode))));
    }
}
