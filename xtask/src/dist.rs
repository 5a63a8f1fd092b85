//! `cargo xtask dist`: builds the program as one static file, for any Linux on x86_64. Packs it
//! into a Debian package and a tarball, with the library that `tickline run` maps into programs.
//! Writes their checksums.

mod library;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use library::{LIBRARY, PRELOAD, read_library};

use crate::command::{command, must_succeed, output, output_of};
use crate::files;
use crate::toolchain::install_std;
use pages::{PAGES, with_urls};

/// The target of static programs.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

/// The command that builds the program. It takes minutes, and shows which crate it compiles.
/// `[profile.dist]` is in the workspace's `Cargo.toml`.
const BUILD: &str = "cargo build --profile dist -p tickline-cli --target x86_64-unknown-linux-musl";

/// The command that makes the package; the target's name, the version and the package's folder
/// follow. `cargo install cargo-deb` installs it.
const PACKAGE: &str =
    "cargo deb -q -p tickline-cli --profile dist --no-build --no-strip -Z gzip --target";

/// Builds the program, checks that it is static, packs it, and prints names and sizes of the files.
pub(crate) fn run() -> Result<u8, String> {
    install_std(TARGET)?;
    for line in [BUILD, PRELOAD] {
        eprintln!("{line}");
        must_succeed(&mut command(line))?;
    }
    let folder = files::target();
    let path = folder.join(TARGET).join("dist/tickline");
    require_static(&path)?;
    eprintln!("{PACKAGE} {TARGET}");
    let package = make_package(&folder)?;
    let tarball = make_tarball(&package)?;
    let sums = write_checksums(&[&package, &tarball])?;
    let library = folder.join("preload").join(LIBRARY);
    let files = [path, library, package, tarball, sums];
    for path in &files {
        let name = path.display();
        let file = fs::metadata(path).map_err(|error| format!("{name}: {error}"))?;
        println!("{name}: {} bytes", file.len());
    }
    Ok(0)
}

/// Fails unless a program is static: without a header of type INTERP (elf(5)), which names a
/// dynamic linker.
pub(crate) fn require_static(program: &Path) -> Result<(), String> {
    if output(command("readelf -lW").arg(program))?.contains("INTERP") {
        let path = program.display();
        return Err(format!("{path} is not static: it names a dynamic linker"));
    }
    Ok(())
}

/// Makes the Debian package of the files in `folder`, as `machine/tickline-cli/Cargo.toml` says.
pub(crate) fn make_package(folder: &Path) -> Result<PathBuf, String> {
    let built = folder.join(TARGET).join("dist");
    let program = built.join("tickline");
    let parts = built.join("package");
    files::remove_folder(&parts)?;
    files::make_folder(&parts.join("man"))?;
    let part = |name: &str, bytes: Vec<u8>| {
        fs::write(parts.join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    part(LIBRARY, read_library(folder)?)?;
    let text = |arguments: &str| {
        Ok::<_, String>(output(Command::new(&program).args(arguments.split(' ')))? + "\n")
    };
    for shell in ["bash", "fish", "zsh"] {
        part(shell, text(&format!("completions {shell}"))?.into())?;
    }
    part("man/tickline.1", text("man")?.into())?;
    for command in commands(&text("--help")?) {
        part(
            &format!("man/tickline-{command}.1"),
            text(&format!("man {command}"))?.into(),
        )?;
    }
    for (folder, page) in PAGES {
        let text = files::read(format!("{folder}/{page}"))?;
        part(page, with_urls(folder, &text).into())?;
    }
    // A package that is not whole yet must not have the name of a whole one.
    let unfinished = folder.join("package.new");
    files::remove_folder(&unfinished)?;
    let path = unfinished.display();
    let version = version();
    output(
        command(PACKAGE)
            .args([TARGET, "--deb-version", &version, "--output"])
            .arg(format!("{path}/")),
    )?;
    let made = folder.join("package");
    files::remove_folder(&made)?;
    fs::rename(&unfinished, &made).map_err(|error| format!("{path}: {error}"))?;
    files::entries(&made)
        .pop()
        .ok_or_else(|| format!("no package in {}", made.display()))
}

/// The package's version: without git, the number alone.
fn version() -> String {
    let number = env!("CARGO_PKG_VERSION");
    let time = output(
        command("git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd").env("TZ", "UTC0"),
    );
    let commit = output_of("git describe --always --exclude=* --dirty=.modified");
    match (time, commit) {
        (Ok(time), Ok(commit)) => version_of_commit(number, &time, &commit),
        _ => number.to_owned(),
    }
}

/// The version of a package from a clone. The time of the commit comes first, so that apt takes the
/// package of a later commit for the newer one (deb-version(7)).
fn version_of_commit(number: &str, time: &str, commit: &str) -> String {
    format!("{number}+git{time}.{commit}")
}

/// The commands that a help text lists, without `help`. A line begins with two spaces and the
/// command's name.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.get(2..)?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help")
}

/// Packs the files of a package, a member of its archive (deb(5)), into a tarball. The package has
/// headers of Version 7 Unix, which a busybox without `FEATURE_TAR_OLDGNU_COMPATIBILITY` refuses.
/// It also has the folders of the system, such as `./usr/`, whose modes and times tar would set.
/// grep leaves all folders out but tickline's own; tar makes those that are missing.
const REPACK: &str = "
    set -e
    ar p \"$0\" data.tar.gz > \"$2/data.tar.gz\"
    mkdir \"$2/files\"
    tar -C \"$2/files\" --delay-directory-restore -xpzf \"$2/data.tar.gz\"
    tar -tzf \"$2/data.tar.gz\" | grep -e '[^/]$' -e '/tickline/' | LC_ALL=C sort > \"$2/names\"
    tar -C \"$2/files\" --format=ustar --owner=root:0 --group=root:0 --no-recursion \\
        -T \"$2/names\" -cf \"$2/tar\"
    gzip -9n \"$2/tar\"
    mv \"$2/tar.gz\" \"$1\"
";

/// Makes the tarball of the package's files, with paths from `/`, and with their times in the
/// package.
pub(crate) fn make_tarball(package: &Path) -> Result<PathBuf, String> {
    let path = package.with_extension("tar.gz");
    let unpacked = package.with_extension("unpacked");
    files::remove_folder(&unpacked)?;
    files::make_folder(&unpacked)?;
    output(
        Command::new("sh")
            .args(["-c", REPACK])
            .args([package, &path, &unpacked]),
    )?;
    files::remove_folder(&unpacked)?;
    Ok(path)
}

/// Writes the checksums of these files of one folder into its file `SHA256SUMS`, for
/// `sha256sum -c`.
fn write_checksums(files: &[&Path]) -> Result<PathBuf, String> {
    let folder = files.first().and_then(|file| file.parent());
    let folder = folder.ok_or("no file, so no folder for SHA256SUMS")?;
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = output(Command::new("sha256sum").args(names).current_dir(folder))?;
    let path = folder.join("SHA256SUMS");
    fs::write(&path, sums + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_with_pages_are_those_that_help_lists() {
        let help = "About\n  or what\n\nUsage: tickline [COMMAND]\n\nCommands:\n  run    Runs a \
                    program\n         with a clock\n  help   Prints this\n\nOptions:\n  -h\n";
        assert_eq!(commands(help).collect::<Vec<_>>(), ["run"]);
    }

    /// Symptom: apt kept the old files, because two builds had the version 0.1.0.
    #[test]
    fn the_package_of_a_later_commit_is_newer() {
        let ascending = [
            "0.1.0".to_owned(),
            version_of_commit("0.1.0", "20261129093000", "ffffffff"),
            version_of_commit("0.1.0", "20261129183000", "5b636eb0"),
            version_of_commit("0.1.0", "20261129183000", "5b636eb0.modified"),
            version_of_commit("0.1.1", "20261128120000", "00000000"),
        ];
        for pair in ascending.windows(2) {
            let mut dpkg = Command::new("dpkg");
            let compared = dpkg.args(["--compare-versions", &pair[0], "lt", &pair[1]]);
            match compared.status() {
                Ok(status) => assert!(status.success(), "{pair:?}"),
                Err(error) => return println!("SKIPPED: no dpkg: {error}"),
            }
        }
    }

    /// What a command with the path of a tarball prints. The tarball is of a package that has a
    /// program and a page of documentation.
    fn output_of_tarball(test: &str, words: &[&str]) -> String {
        let name = format!("tickline-dist-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for file in ["usr/bin/tickline", "usr/share/doc/tickline/page.md"] {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "text").unwrap();
        }
        let pack = "tar --format=v7 -czf data.tar.gz usr && ar rc a.deb data.tar.gz";
        let mut sh = Command::new("sh");
        output(sh.current_dir(&folder).args(["-c", pack])).unwrap();
        let made = make_tarball(&folder.join("a.deb"));
        let printed =
            made.and_then(|path| output(Command::new(words[0]).args(&words[1..]).arg(path)));
        fs::remove_dir_all(&folder).unwrap();
        printed.unwrap()
    }

    /// Symptom: `tar -C / -xzf` set the modes and times of `/usr` and `/usr/bin`.
    #[test]
    fn the_tarball_has_no_folder_of_the_system() {
        let listed = output_of_tarball("folders", &["tar", "-tzf"]);
        let expected = [
            "usr/bin/tickline",
            "usr/share/doc/tickline/",
            "usr/share/doc/tickline/page.md",
        ];
        assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    }

    /// Symptom: busybox said "invalid tar magic".
    #[test]
    fn the_tarball_has_the_packages_files_with_headers_of_posix() {
        let read = output_of_tarball("headers", &["gzip", "-dc"]);
        // A header is a block of 512 bytes: the name, and from byte 257 the magic (tar(5)). The
        // program's contents are block 1.
        let headers = [(0, "usr/bin/tickline\0"), (2, "usr/share/doc/tickline/\0")];
        for (block, name) in headers {
            let header = &read[block * 512..][..512];
            assert!(header.starts_with(name), "{header:?}");
            assert_eq!(&header[257..263], "ustar\0", "{name}");
            assert_eq!(&header[265..270], "root\0", "{name}");
        }
    }

    #[test]
    fn the_checksums_are_those_of_the_files_in_their_folder() {
        let folder = std::env::temp_dir().join(format!("tickline-sums-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = ["a.deb", "a.tar.gz"].map(|name| folder.join(name));
        for file in &files {
            fs::write(file, "whole").unwrap();
        }
        let check = |sums: &PathBuf| {
            output(
                Command::new("sha256sum")
                    .arg("-c")
                    .arg(sums)
                    .current_dir(&folder),
            )
        };
        let sums = write_checksums(&files.each_ref().map(PathBuf::as_path)).unwrap();
        let whole = check(&sums);
        fs::write(&files[1], "damaged").unwrap();
        let damaged = check(&sums);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(whole.unwrap(), "a.deb: OK\na.tar.gz: OK");
        assert!(damaged.is_err(), "{damaged:?}");
    }

    /// Symptom: in a clone below `~/my code`, readelf found no program.
    #[test]
    fn a_program_in_a_folder_with_a_space_is_read() {
        if let Err(why) = output_of("readelf --version") {
            return println!("SKIPPED: {why}");
        }
        let folder = std::env::temp_dir().join(format!("tickline dist {}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("program");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let checked = require_static(&program);
        fs::remove_dir_all(&folder).unwrap();
        // A compiler may make dynamic programs, or static ones.
        let is_read = |why: String| why.ends_with("it names a dynamic linker");
        assert!(
            checked.clone().map_or_else(is_read, |()| true),
            "{checked:?}"
        );
    }
}
