//! `cargo xtask dist`: the program as one file that needs nothing, for any Linux on x86_64, and a Debian
//! package and a tarball of it, with the library that `tickline run` maps into others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use elf::ElfBytes;
use elf::abi::{PT_INTERP, STB_GLOBAL};
use elf::endian::AnyEndian;

use crate::files;
use crate::step::shown;

const TARGET: &str = "x86_64-unknown-linux-musl";

/// `[profile.dist]` is in the workspace's `Cargo.toml`.
const BUILD: &str = "cargo build -q --profile dist -p tickline-cli --target x86_64-unknown-linux-musl";

/// For the target's name, and where to put it. `cargo install cargo-deb`.
const PACKAGE: &str =
    "cargo deb -q -p tickline-cli --profile dist --no-build --no-strip -Z gzip --deb-revision= --target";

/// What `tickline run` maps into programs, and how it is built.
pub(crate) const LIBRARY: &str = "libtickline_preload.so";
pub(crate) const PRELOAD: &str = "cargo build -q --profile preload -p tickline-preload";

/// Builds the program, checks that it is static, packs it, and prints what was made.
pub(crate) fn run() -> Result<u8, String> {
    // A compiler without rustup may have the target all the same: the build will tell.
    Command::new("rustup").args(["target", "add", TARGET]).output().ok();
    shown(BUILD)?;
    shown(PRELOAD)?;
    let folder = files::target();
    let path = folder.join(TARGET).join("dist/tickline");
    let name = path.display();
    let program = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
    if has_interpreter(&program).ok_or_else(|| format!("{name} is no ELF file of 64 bits"))? {
        return Err(format!("{name} is not static: it names a dynamic linker"));
    }
    let package = package(&folder)?;
    let tarball = tarball(&package)?;
    let files = [path, folder.join("preload").join(LIBRARY), package, tarball];
    let size = |path: &PathBuf| Ok(format!("{}: {} bytes", path.display(), fs::metadata(path)?.len()));
    let sizes: std::io::Result<Vec<String>> = files.iter().map(size).collect();
    println!("{}", sizes.map_err(|error| error.to_string())?.join("\n"));
    Ok(0)
}

/// Makes the Debian package of what is built in `folder`, as `crates/tickline-cli/Cargo.toml` says.
pub(crate) fn package(folder: &Path) -> Result<PathBuf, String> {
    let built = folder.join(TARGET).join("dist");
    let program = built.join("tickline").display().to_string();
    let parts = built.join("package");
    fs::remove_dir_all(&parts).ok();
    fs::create_dir_all(parts.join("man")).map_err(|error| format!("{}: {error}", parts.display()))?;
    let part = |name: &str, bytes: Vec<u8>| {
        fs::write(parts.join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    part(LIBRARY, library(folder)?)?;
    for shell in ["bash", "fish", "zsh"] {
        part(shell, output(&[&program, "completions", shell])?)?;
    }
    part("man/tickline.1", output(&[&program, "man"])?)?;
    let help = String::from_utf8_lossy(&output(&[&program, "--help"])?).into_owned();
    for command in commands(&help) {
        part(&format!("man/tickline-{command}.1"), output(&[&program, "man", command])?)?;
    }
    let made = folder.join("package");
    fs::remove_dir_all(&made).ok();
    let place = made.display().to_string() + "/";
    output(&[&PACKAGE.split(' ').collect::<Vec<_>>()[..], &[TARGET, "--output", &place]].concat())?;
    let found = fs::read_dir(&made).into_iter().flatten().find_map(|entry| Some(entry.ok()?.path()));
    found.ok_or_else(|| format!("no package in {place}"))
}

/// What help lists, but for itself: two spaces, and the command's name.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names =
        listed.take_while(|line| !line.is_empty()).filter_map(|line| line.get(2..)?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help")
}

/// The package's files, from `/`: what an archive of that format (deb(5)) has under this name.
pub(crate) fn tarball(package: &Path) -> Result<PathBuf, String> {
    let path = package.with_extension("tar.gz");
    let files = output(&["ar", "p", &package.display().to_string(), "data.tar.gz"])?;
    fs::write(&path, files).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// What a command writes.
fn output(words: &[&str]) -> Result<Vec<u8>, String> {
    let failed = |why: &str| format!("`{}`: {why}", words.join(" "));
    let (program, arguments) = words.split_first().ok_or_else(|| failed("no command"))?;
    let done = Command::new(program).args(arguments).output().map_err(|error| failed(&error.to_string()))?;
    if done.status.success() { Ok(done.stdout) } else { Err(failed(&String::from_utf8_lossy(&done.stderr))) }
}

/// Whether an ELF file names a program that loads its libraries: a header of type PT_INTERP (elf(5)).
/// `None` for another file.
fn has_interpreter(file: &[u8]) -> Option<bool> {
    let file = ElfBytes::<AnyEndian>::minimal_parse(file).ok()?;
    Some(file.segments()?.iter().any(|header| header.p_type == PT_INTERP))
}

/// What the library stands before in a program with `LD_PRELOAD`: any other name would stand before
/// something of the program's, too.
const EXPORTS: [&str; 3] = ["clock_gettime", "gettimeofday", "timespec_get"];

/// What it must find in libc, even in the oldest one; a library that finds less is not loaded, and
/// neither is the program. Whatever else it needed would be missing in a static program, too.
const IMPORTS: [&str; 2] = ["__errno_location", "environ"];

/// Reads the library, and judges what it exports and imports.
pub(crate) fn library(folder: &Path) -> Result<Vec<u8>, String> {
    let path = folder.join("preload").join(LIBRARY);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    judge(&bytes).map_err(|what| format!("{}: {what}", path.display()))?;
    Ok(bytes)
}

fn judge(library: &[u8]) -> Result<(), String> {
    let wrong = |error: elf::ParseError| error.to_string();
    let file = ElfBytes::<AnyEndian>::minimal_parse(library).map_err(wrong)?;
    let (symbols, names) = file.dynamic_symbol_table().map_err(wrong)?.ok_or("it has no symbols")?;
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    for symbol in symbols.iter().filter(|symbol| symbol.st_bind() == STB_GLOBAL) {
        let name = usize::try_from(symbol.st_name).map_err(|error| error.to_string())?;
        let list = if symbol.is_undefined() { &mut imports } else { &mut exports };
        list.push(names.get(name).map_err(wrong)?);
    }
    exports.sort_unstable();
    if exports != EXPORTS {
        return Err(format!("it exports {exports:?}, not {EXPORTS:?}"));
    }
    match imports.iter().find(|name| !IMPORTS.contains(name)) {
        Some(name) => Err(format!("it imports {name}, which not every program has")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_loads_its_libraries_is_not_static() {
        let own = fs::read("/proc/self/exe").unwrap_or_default();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            assert_eq!(has_interpreter(&own), Some(true));
        }
        assert_eq!(has_interpreter(own.get(..100).unwrap_or_default()), None, "cut off");
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn commands_are_what_help_lists() {
        let help = "About\n  or what\n\nUsage: tickline [COMMAND]\n\nCommands:\n  run    Runs a program\n         with a clock\n  help   Prints this\n\nOptions:\n  -h, --help  Prints\n";
        assert_eq!(commands(help).collect::<Vec<_>>(), ["run"]);
    }

    #[test]
    fn another_library_is_refused() {
        assert!(judge(b"").is_err());
        let own = fs::read("/proc/self/exe").unwrap_or_default();
        assert!(judge(&own).is_err(), "it exports nothing of this kind");
    }
}
