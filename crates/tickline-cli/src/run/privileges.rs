//! Programs that have privileges of their own, and would lose them if they were traced: they are
//! executed plainly (ptrace(2), execve(2)).

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// As much of a script's first line as the kernel reads (Linux 5.1, `BINPRM_BUF_SIZE`).
const LINE_BYTES: u64 = 256;

/// How many interpreters the kernel starts for one program (Linux, `exec_binprm`).
const MOST_INTERPRETERS: usize = 5;

/// Why a program is executed plainly. A script has the privileges of its interpreter, which may be a
/// script as well.
pub(super) fn obstacle(program: &Path) -> Option<String> {
    let mut file = program.to_owned();
    for depth in 0..=MOST_INTERPRETERS {
        let name = || match depth {
            0 => "the program".to_owned(),
            _ => format!("the interpreter {}", file.display()),
        };
        if let Some(what) = privileges(&file) {
            return Some(format!("{} {what}", name()));
        }
        file = match interpreter(&file) {
            Ok(interpreter) => interpreter?,
            // It may be a script.
            Err(ErrorKind::PermissionDenied) => {
                return Some(format!("{} may be executed, but not be read", name()));
            }
            Err(_) => return None,
        };
    }
    None
}

fn privileges(file: &Path) -> Option<&'static str> {
    let facts = fs::metadata(file).ok()?;
    let mode = facts.permissions().mode();
    let other_user = mode & 0o4000 != 0 && facts.uid() != rustix::process::geteuid().as_raw();
    let other_group = mode & 0o2000 != 0 && facts.gid() != rustix::process::getegid().as_raw();
    if other_user || other_group {
        return Some("is set-user-id or set-group-id, and would lose that");
    }
    let mut capabilities = [0; 64];
    rustix::fs::getxattr(file, c"security.capability", &mut capabilities[..])
        .is_ok()
        .then_some("has capabilities of its own, and would lose them")
}

/// The file that a script's first line names; `None` if this is no script.
fn interpreter(file: &Path) -> Result<Option<PathBuf>, ErrorKind> {
    // A pipe of this name must not block.
    if !fs::metadata(file).is_ok_and(|facts| facts.is_file()) {
        return Ok(None);
    }
    let mut line = Vec::new();
    let file = File::open(file).map_err(|error| error.kind())?;
    file.take(LINE_BYTES).read_to_end(&mut line).map_err(|error| error.kind())?;
    Ok(named(&line))
}

fn named(line: &[u8]) -> Option<PathBuf> {
    let rest = line.strip_prefix(b"#!")?;
    let line = rest.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(name.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        let found = |line: &[u8]| named(line).map(|path| path.display().to_string());
        assert_eq!(found(b"#!/bin/sh\n").as_deref(), Some("/bin/sh"));
        assert_eq!(found(b"#! \t/usr/bin/env -S php -n\nexit").as_deref(), Some("/usr/bin/env"));
        assert_eq!(found(b"#!interpreter").as_deref(), Some("interpreter"));
        assert_eq!((found(b"#! \n/bin/sh"), found(b"\x7fELF"), found(b"")), (None, None, None));
    }
}
