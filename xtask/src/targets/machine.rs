//! What a target's programs need: the compiler's library, a linker, and an emulator with the
//! files of a system.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::list::{HOST, Runner, Target};
use crate::step;

/// Random cases of each property where integers were tested by the thousand natively.
const CASES: &str = "32";

/// What an emulator's programs see of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// The files of this machine.
    Hosts,
    /// Files as the target's kernel would have them.
    Targets,
}

/// What can compile, or run, programs of a target.
pub(super) struct Machine {
    /// What runs them, as the table calls it.
    pub(super) name: String,
    environment: Vec<(String, String)>,
}

/// The workspace's root.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// The output of a command; `None` if it does not work here.
fn output(line: &str) -> Option<String> {
    let output = step::command(line)?.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn need(line: &str) -> Result<String, String> {
    output(line).ok_or_else(|| format!("`{line}` does not work here"))
}

impl Machine {
    /// What compiles without linking.
    pub(super) fn with_compiler(target: &Target) -> Result<Self, String> {
        let library = || {
            let path = output(&format!("rustc --print target-libdir --target {}", target.triple))?;
            Path::new(path.trim()).is_dir().then_some(())
        };
        if library().is_none() {
            output(&format!("rustup target add {}", target.triple));
        }
        library().ok_or_else(|| format!("no library of the compiler for {}", target.triple))?;
        let mut machine = Self { name: String::new(), environment: Vec::new() };
        if !target.linker.is_empty() {
            machine.set(target, "LINKER", target.linker);
        }
        if target.triple != HOST {
            // Without debug information, which takes a quarter of the time.
            machine.environment.push(("CARGO_PROFILE_DEV_DEBUG".to_owned(), "0".to_owned()));
            // criterion contains a few lines of C (alloca). Nothing that is linked here has them,
            // so the target's C compiler is not needed.
            for tool in ["CC", "AR"] {
                let triple = target.triple.replace('-', "_");
                machine.environment.push((format!("{tool}_{triple}"), "true".to_owned()));
            }
        }
        Ok(machine)
    }

    /// What links and runs, with files of this kind for the program to see.
    pub(super) fn that_runs(target: &Target, files: Files) -> Result<Self, String> {
        let mut machine = Self::with_compiler(target)?;
        // The compiler brings this one.
        if !matches!(target.linker, "" | "rust-lld") {
            need(&format!("{} --version", target.linker))?;
        }
        match target.runner {
            Runner::Native => {
                if target.triple != HOST && !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
                    return Err("this machine does not run x86_64 Linux".to_owned());
                }
                machine.name = "natively".to_owned();
            }
            Runner::Qemu { program, libraries, current, available } => {
                machine.name = format!("emulated, QEMU {}", version(&need(&format!("{program} --version"))?));
                let root = match files {
                    Files::Hosts => PathBuf::from(libraries),
                    Files::Targets => system(target.triple, libraries, current, available)
                        .map_err(|error| format!("no system for the emulator: {error}"))?,
                };
                let runner = format!("{program} -L {}", root.display());
                machine.set(target, "RUNNER", &runner);
                // For tests that start themselves once more, and those that must know.
                machine.environment.push(("TICKLINE_TEST_RUNNER".to_owned(), runner));
                machine.environment.push(("PROPTEST_CASES".to_owned(), CASES.to_owned()));
            }
            Runner::Wine => {
                machine.name = format!("under Wine {}", version(&need("wine --version")?));
                machine.set(target, "RUNNER", "wine");
                let folder =
                    wine_folder(target.linker).map_err(|error| format!("no folder for Wine: {error}"))?;
                let prefix = folder.join("prefix").display().to_string();
                let libraries = format!("Z:{}", folder.display()).replace('/', "\\");
                for (name, value) in [
                    ("WINEPREFIX", prefix.as_str()),
                    ("WINEPATH", libraries.as_str()),
                    ("WINEDEBUG", "-all"),
                    ("PROPTEST_CASES", CASES),
                ] {
                    machine.environment.push((name.to_owned(), value.to_owned()));
                }
            }
            Runner::Node => {
                machine.name = format!("under Node.js {}", version(&need("node --version")?));
            }
            Runner::Nothing => {}
        }
        Ok(machine)
    }

    /// A setting of cargo's for this target.
    fn set(&mut self, target: &Target, setting: &str, value: &str) {
        let triple = target.triple.to_uppercase().replace('-', "_");
        self.environment.push((format!("CARGO_TARGET_{triple}_{setting}"), value.to_owned()));
    }

    /// Runs a command; its output, both streams, or `None` if it failed, and then the output is
    /// shown.
    pub(super) fn run(&self, line: &str) -> Option<String> {
        let start = Instant::now();
        let mut command = step::command(line)?;
        let output = command.envs(self.environment.iter().cloned()).output();
        let seconds = start.elapsed().as_secs_f64();
        let (text, passed) = match output {
            Ok(output) => {
                let streams =
                    [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                (streams.join("\n"), output.status.success())
            }
            Err(error) => (error.to_string(), false),
        };
        if passed {
            println!("    {seconds:>6.1} s  {line}");
            Some(text)
        } else {
            println!("{text}\n=== FAILED after {seconds:.1} s: {line}");
            None
        }
    }
}

/// The first word with a digit in it, without what is in front of the digits: `10.0.2` of
/// `qemu-aarch64 version 10.0.2 (...)`.
fn version(text: &str) -> &str {
    text.split_whitespace()
        .map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()))
        .find(|word| word.contains('.'))
        .unwrap_or("of unknown version")
}

/// A system for an emulator's programs, which QEMU looks into before the real one: the target's
/// libraries, and a kernel that says what it keeps time with.
fn system(triple: &str, libraries: &str, current: &str, available: &str) -> io::Result<PathBuf> {
    let root = root().join("target/targets").join(triple);
    let files = root.join("sys/devices/system/clocksource/clocksource0");
    fs::create_dir_all(&files)?;
    fs::write(files.join("current_clocksource"), format!("{current}\n"))?;
    fs::write(files.join("available_clocksource"), format!("{available} \n"))?;
    let link = root.join("lib");
    if !link.exists() {
        let libraries = Path::new(libraries).join("lib");
        #[cfg(unix)]
        std::os::unix::fs::symlink(libraries, link)?;
        #[cfg(not(unix))]
        return Err(io::Error::other(libraries.display().to_string()));
    }
    Ok(root)
}

/// A folder for Wine, with the one library that Rust's programs need and Wine before version 9
/// does not have: its function fills memory with random bytes, which another library can do too.
fn wine_folder(linker: &str) -> io::Result<PathBuf> {
    let folder = root().join("target/targets/wine");
    fs::create_dir_all(&folder)?;
    let (definition, library) = (folder.join("bcryptprimitives.def"), folder.join("bcryptprimitives.dll"));
    fs::write(
        &definition,
        "LIBRARY bcryptprimitives.dll\nEXPORTS\nProcessPrng = advapi32.SystemFunction036\n",
    )?;
    let line =
        format!("{linker} -shared -nostdlib -Wl,-e,0 -o {} {}", library.display(), definition.display());
    match output(&line) {
        Some(_) => Ok(folder),
        None => Err(io::Error::other(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found() {
        assert_eq!(version("qemu-aarch64 version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), "10.0.2");
        assert_eq!(version("wine-8.0 (Debian 8.0~repack-4)"), "8.0");
        assert_eq!(version("v20.20.2\n"), "20.20.2");
        assert_eq!(version("none"), "of unknown version");
    }
}
