//! How a program can be given a clock, by what its file says.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use elf::abi::{EI_NIDENT, EM_X86_64, PT_INTERP};
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::SegmentTable;

/// As much of a script's first line as the kernel reads (Linux 5.1, `BINPRM_BUF_SIZE`).
const LINE_BYTES: usize = 256;

/// As much of a file as is read: that line, or the headers of an ELF file.
const HEAD_BYTES: usize = 2048;

/// How many interpreters the kernel starts for one program (Linux, `exec_binprm`).
const MAX_INTERPRETERS: usize = 5;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not at all, for this reason: it has privileges of its own, and would lose them if it were
    /// traced (ptrace(2), execve(2)).
    Plain(String),
    /// A dynamic linker looks at `LD_PRELOAD`.
    Dynamic,
    /// No dynamic linker does: the program is traced.
    Static,
    /// Of 32 bits, or for another processor.
    Foreign,
    /// The program is traced, as it is not known what the kernel makes of it.
    Unknown,
}

impl Kind {
    /// That of a script is its interpreter's, which may be a script as well.
    pub(super) fn of(program: &Path) -> Self {
        let mut file = program.to_owned();
        for depth in 0..=MAX_INTERPRETERS {
            let name = || match depth {
                0 => "the program".to_owned(),
                _ => format!("the interpreter {}", file.display()),
            };
            if let Some(what) = privileges(&file) {
                return Self::Plain(format!("{} {what}", name()));
            }
            let mut bytes = [0; HEAD_BYTES];
            let head = match head(&file, &mut bytes) {
                Ok(head) => head,
                // It may be a script.
                Err(ErrorKind::PermissionDenied) => {
                    return Self::Plain(format!("{} may be executed, but not be read", name()));
                }
                Err(_) => return Self::Unknown,
            };
            match named(head) {
                Some(interpreter) => file = interpreter,
                None => return Self::of_file(head),
            }
        }
        Self::Unknown
    }

    /// The kind of a file other than a script, by its beginning (elf(5)).
    fn of_file(head: &[u8]) -> Self {
        let Some(header) = elf_header(head) else { return Self::Unknown };
        if (header.class, header.e_machine) != (Class::ELF64, EM_X86_64) {
            return Self::Foreign;
        }
        let segments = usize::try_from(header.e_phoff).ok().and_then(|at| head.get(at..));
        let segments = SegmentTable::new(header.endianness, header.class, segments.unwrap_or_default());
        let mut segments = segments.iter().take(header.e_phnum.into());
        let is_dynamic = segments.any(|segment| segment.p_type == PT_INTERP);
        if is_dynamic && !is_secure() { Self::Dynamic } else { Self::Static }
    }
}

fn elf_header(head: &[u8]) -> Option<FileHeader<AnyEndian>> {
    let (ident, rest) = head.split_at_checked(EI_NIDENT)?;
    FileHeader::parse_tail(parse_ident(ident).ok()?, rest).ok()
}

/// Whether a dynamic linker ignores `LD_PRELOAD`, as this process has another user's or group's
/// rights (ld.so(8), "Secure-execution mode").
fn is_secure() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

fn privileges(file: &Path) -> Option<&'static str> {
    let metadata = fs::metadata(file).ok()?;
    let mode = metadata.permissions().mode();
    let other_user = mode & 0o4000 != 0 && metadata.uid() != rustix::process::geteuid().as_raw();
    let other_group = mode & 0o2000 != 0 && metadata.gid() != rustix::process::getegid().as_raw();
    if other_user || other_group {
        return Some("is set-user-id or set-group-id, and would lose that");
    }
    let mut capabilities = [0; 64];
    rustix::fs::getxattr(file, c"security.capability", &mut capabilities[..])
        .is_ok()
        .then_some("has capabilities of its own, and would lose them")
}

/// The beginning of a file; nothing of one that is not regular.
fn head<'a>(file: &Path, bytes: &'a mut [u8]) -> Result<&'a [u8], ErrorKind> {
    // A pipe of this name must not block.
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(&[]);
    }
    let length = File::open(file).and_then(|mut file| file.read(bytes)).map_err(|error| error.kind())?;
    Ok(bytes.get(..length).unwrap_or_default())
}

/// The file that a script's first line names; `None` if this is not a script.
fn named(head: &[u8]) -> Option<PathBuf> {
    let line = head.get(..LINE_BYTES).unwrap_or(head);
    let rest = line.strip_prefix(b"#!")?;
    let line = rest.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(name.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_its_kind() {
        assert_eq!(Kind::of(Path::new("/bin/sh")), Kind::Dynamic);
        let mut head = fs::read("/bin/sh").expect("a shell");
        // Its first header is not that of an interpreter.
        head[56] = 1;
        assert_eq!(Kind::of_file(&head), Kind::Static);
        head[4] = 1;
        assert_eq!(Kind::of_file(&head), Kind::Foreign);
        assert_eq!((Kind::of_file(b""), Kind::of_file(b"text")), (Kind::Unknown, Kind::Unknown));
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let found = |line: &[u8]| named(line).map(|path| path.display().to_string());
        assert_eq!(found(b"#!/bin/sh\n").as_deref(), Some("/bin/sh"));
        assert_eq!(found(b"#! \t/usr/bin/env -S php -n\nexit").as_deref(), Some("/usr/bin/env"));
        assert_eq!(found(b"#!interpreter").as_deref(), Some("interpreter"));
        assert_eq!((found(b"#! \n/bin/sh"), found(b"\x7fELF"), found(b"")), (None, None, None));
    }
}
