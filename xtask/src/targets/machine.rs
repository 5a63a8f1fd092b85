//! Provides the requirements of a target's programs: the compiler's library, a linker, and an
//! emulator with the files of a system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::list::{HOST, Target};
use crate::command::{command, command_of, output, run_logged, words};
use crate::files::{self, store};
use crate::outcome::NotPassed::{self, Skipped};
use crate::toolchain::install_std;

/// The number of random cases of each property. It is small, because native runs try thousands.
const CASES: (&str, &str) = ("PROPTEST_CASES", "32");

/// The settings with which cargo compiles, or runs, programs of a target.
pub(super) struct Machine {
    /// The table's name for the system or emulator that runs the programs.
    pub(super) name: String,
    environment: Vec<(String, String)>,
}

/// What a program says of its version; this machine may lack the program.
fn version_text(program: &str) -> Result<String, NotPassed> {
    output(command_of([program]).arg("--version")).map_err(Skipped)
}

impl Machine {
    /// Prepares a machine that compiles without linking.
    pub(super) fn prepare_to_compile(target: &Target) -> Result<Self, NotPassed> {
        let triple = &target.triple;
        install_std(triple).map_err(Skipped)?;
        let mut machine = Self {
            name: String::new(),
            environment: Vec::new(),
        };
        if !target.linker.is_empty() {
            machine.set_for(target, "LINKER", &target.linker);
        }
        if triple != HOST {
            // Debug information would take a quarter of the time.
            machine.set("CARGO_PROFILE_DEV_DEBUG", "0");
            // criterion contains a few lines of C (alloca), which no program that is linked here
            // uses. So `true` can stand in for the target's C compiler.
            for tool in ["CC", "AR"] {
                machine.set(&format!("{tool}_{}", triple.replace('-', "_")), "true");
            }
        }
        Ok(machine)
    }

    /// Prepares a machine that links and runs. Emulated programs find the files of this machine,
    /// and in front of them a kernel's files that name these clocksources.
    pub(super) fn prepare_to_run(
        target: &Target,
        clocksources: Option<&str>,
    ) -> Result<Self, NotPassed> {
        let mut machine = Self::prepare_to_compile(target)?;
        // The compiler includes `rust-lld`.
        if !matches!(&target.linker[..], "" | "rust-lld") {
            version_text(&target.linker)?;
        }
        match &target.runner[..] {
            "" => {}
            "native" => machine.name = "natively".to_owned(),
            "wine" => {
                machine.name = format!("under Wine {}", version(&version_text("wine")?));
                machine.set_for(target, "RUNNER", "wine");
                let folder = make_wine_folder(&target.linker).map_err(Skipped)?;
                let prefix = folder.join("prefix");
                keep_wine_up(&prefix).map_err(Skipped)?;
                machine.set("WINEPREFIX", &prefix.display().to_string());
                machine.set(
                    "WINEPATH",
                    &format!("Z:{}", folder.display()).replace('/', "\\"),
                );
                machine.set("WINEDEBUG", "-all");
                machine.set(CASES.0, CASES.1);
            }
            "node" => machine.name = format!("under Node.js {}", version(&version_text("node")?)),
            program => {
                machine.name = format!("emulated, QEMU {}", version(&version_text(program)?));
                let root = match clocksources {
                    None => PathBuf::from(&target.libraries),
                    Some(names) => make_system(target, names).map_err(Skipped)?,
                };
                machine.set_for(target, "RUNNER", program);
                // QEMU's option `-L` as a variable: cargo splits the runner at each space, and a
                // path may have one.
                machine.set("QEMU_LD_PREFIX", &root.display().to_string());
                // Tests that execute themselves need the emulator's command, and some tests must
                // know that there is an emulator.
                machine.set("TICKLINE_TEST_RUNNER", program);
                machine.set(CASES.0, CASES.1);
            }
        }
        Ok(machine)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Sets an option of cargo for this target.
    fn set_for(&mut self, target: &Target, setting: &str, value: &str) {
        self.set(
            &format!(
                "CARGO_TARGET_{}_{setting}",
                target.triple.to_uppercase().replace('-', "_")
            ),
            value,
        );
    }

    /// Runs a command. Returns both of its output streams. If the command fails, prints the output,
    /// and returns the error.
    pub(super) fn run(&self, command: &mut Command) -> Result<String, NotPassed> {
        let start = Instant::now();
        let line = words(command);
        let logged = run_logged(command.envs(self.environment.iter().cloned()), "target");
        let (status, text) = logged.inspect_err(|why| println!("=== FAILED: {why}"))?;
        let seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            println!("{text}\n=== FAILED after {seconds:.1} s: `{line}`: {status}");
            return Err(NotPassed::Failed(text));
        }
        println!("    {seconds:>6.1} s  {line}");
        Ok(text)
    }
}

/// The version in a text: the first word with a dot, from its first digit on: `10.0.2` of
/// `qemu-aarch64 version 10.0.2 (...)`.
fn version(text: &str) -> &str {
    text.split_whitespace()
        .map(|word| word.trim_start_matches(|c: char| !c.is_ascii_digit()))
        .find(|word| word.contains('.'))
        .unwrap_or("of unknown version")
}

/// Makes a folder with the target's libraries, and with a kernel's files that name its
/// clocksources. QEMU looks for files there before it looks in the real system.
fn make_system(target: &Target, clocksources: &str) -> Result<PathBuf, String> {
    let root = files::target().join("targets").join(&target.triple);
    let folder = root.join("sys/devices/system/clocksource/clocksource0");
    let current = clocksources.split(' ').next().unwrap_or_default();
    store(folder.join("current_clocksource"), &format!("{current}\n"))?;
    store(
        folder.join("available_clocksource"),
        &format!("{clocksources} \n"),
    )?;
    let libraries = Path::new(&target.libraries).join("lib");
    output(command("ln -sfn").args([libraries, root.join("lib")]))?;
    Ok(root)
}

/// Makes a folder for Wine with a library that Rust's programs need, and that Wine has only from
/// version 9 on. The library forwards its function, which fills memory with random bytes, to
/// another library.
fn make_wine_folder(linker: &str) -> Result<PathBuf, String> {
    let folder = files::target().join("targets/wine");
    let definition = folder.join("bcryptprimitives.def");
    store(
        &definition,
        "LIBRARY bcryptprimitives.dll\nEXPORTS\nProcessPrng = advapi32.SystemFunction036\n",
    )?;
    let library = folder.join("bcryptprimitives.dll");
    let mut link = command_of([linker]);
    link.args(["-shared", "-nostdlib", "-Wl,-e,0", "-o"]);
    output(link.args([library, definition]))?;
    Ok(folder)
}

/// Starts Wine's server, unless it runs already. The server ends two minutes after the last
/// program. By default, Debian's Wine ends it with each program, and a program that starts at that
/// moment fails.
fn keep_wine_up(prefix: &Path) -> Result<(), String> {
    let mut command = Command::new("wineserver");
    command.arg("-p120").env("WINEPREFIX", prefix);
    // The server inherits these streams and keeps them open.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    files::make_folder(prefix)?;
    command
        .status()
        .map(drop)
        .map_err(|error| format!("`wineserver`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_first_word_with_a_point() {
        let qemu = "qemu-aarch64 version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright";
        assert_eq!(version(qemu), "10.0.2");
        assert_eq!(version("wine-8.0 (Debian 8.0~repack-4)"), "8.0");
        assert_eq!(version("none"), "of unknown version");
    }

    #[test]
    fn a_program_that_this_machine_lacks_skips_its_checks() {
        let lacking = version_text("no-such-program-of-tickline");
        assert!(matches!(lacking, Err(Skipped(_))), "{lacking:?}");
    }

    #[test]
    fn a_program_that_this_machine_has_skips_nothing() {
        let cargo = version_text("cargo").unwrap();
        assert!(cargo.starts_with("cargo "), "{cargo}");
    }
}
