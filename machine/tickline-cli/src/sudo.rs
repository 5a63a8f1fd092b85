//! The name by which `sudo` finds this program. `sudo` searches a path of its own (`secure_path`,
//! sudoers(5)), on which a program in a user's folder is not.

use std::fs;
use std::path::{Path, PathBuf};

use crate::words::shell_word;

/// The usual name of this program.
pub(crate) const NAME: &str = "tickline";

/// The usual path of `sudo`. On Red Hat's systems it begins after [`LOCAL`].
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The number of folders below /usr/local.
const LOCAL: usize = 2;

/// This program's name, if `sudo` finds it by its name, or else its path.
pub(crate) fn this_program() -> String {
    let program = std::env::current_exe().and_then(fs::canonicalize);
    let folders = FOLDERS.map(PathBuf::from);
    program.map_or_else(
        |_| NAME.to_owned(),
        |program| name(&program, &[&folders[..], &folders[LOCAL..]]),
    )
}

/// The command with `program` in place of the usual name, if `sudo` runs this program in it.
pub(crate) fn with_program(command: &str, program: &str) -> String {
    match command.strip_prefix("sudo tickline ") {
        Some(arguments) => format!("sudo {program} {arguments}"),
        None => command.to_owned(),
    }
}

/// The name of `program`, if on each of these paths of `sudo` the first program of this name is
/// this one; else its own path, quoted for a shell if necessary.
fn name(program: &Path, paths: &[&[PathBuf]]) -> String {
    let finds = |folders: &&[PathBuf]| {
        let mut folders = folders.iter();
        let found = folders.find_map(|folder| fs::canonicalize(folder.join(NAME)).ok());
        found.as_deref() == Some(program)
    };
    if paths.iter().all(finds) {
        return NAME.to_owned();
    }
    shell_word(&program.to_string_lossy())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Symptom: `sudo tickline who` said "command not found" after `cargo install`.
    #[test]
    fn a_program_that_is_not_on_the_path_of_sudo_is_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        let program = folder.join("tickline");
        fs::write(&program, "").unwrap();
        let on_path = folder.join("bin");
        fs::create_dir(&on_path).unwrap();
        let folders = [folder.join("missing"), on_path.clone()];
        assert_eq!(name(&program, &[&folders[..]]), program.to_string_lossy());
        symlink(&program, on_path.join("tickline")).unwrap();
        assert_eq!(name(&program, &[&folders[..]]), "tickline");
    }

    /// Symptom: `sudo tickline`, of a program in /usr/local/bin, said "command not found" on Red
    /// Hat's systems.
    #[test]
    fn a_program_that_is_on_one_path_of_sudo_alone_is_named_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let folder = fs::canonicalize(folder.path()).unwrap();
        let program = folder.join("tickline");
        fs::write(&program, "").unwrap();
        let folders = [folder, PathBuf::from("/missing")];
        let paths = [&folders[..], &folders[1..]];
        assert_eq!(name(&program, &paths), program.to_string_lossy());
        let (local, others) = FOLDERS.split_at(LOCAL);
        assert!(local.iter().all(|folder| folder.starts_with("/usr/local/")));
        assert!(
            !others
                .iter()
                .any(|folder| folder.starts_with("/usr/local/"))
        );
    }

    #[test]
    fn a_command_that_does_not_run_this_program_by_sudo_stays_as_it_is() {
        for command in ["tickline warp", "sudo dmesg", "sudo tickline-other who"] {
            assert_eq!(with_program(command, "/a/tickline"), command);
        }
    }

    #[test]
    fn a_path_is_quoted_for_a_shell() {
        assert_eq!(name(Path::new("/a/it's b"), &[&[]]), r"'/a/it'\''s b'");
    }
}
