//! Decides from a program's file how `tickline run` can serve the program.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use elf::abi::{EI_NIDENT, EM_X86_64, PT_INTERP};
use elf::endian::AnyEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::SegmentTable;

/// The length of a script's first line that the kernel reads (Linux 5.1, `BINPRM_BUF_SIZE`).
const LINE_BYTES: usize = 256;

/// The bytes that are read of a file: a script's first line, or the headers of an ELF file.
const HEAD_BYTES: usize = 2048;

/// The most interpreters that the kernel starts for one program (Linux, `exec_binprm`).
const MAX_INTERPRETERS: usize = 5;

/// The way in which a program can be served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// The program must not be traced, for this reason. It has privileges of its own, which a
    /// traced program loses (ptrace(2), execve(2)), or its file cannot be checked for them.
    Untraceable(String),
    /// A dynamic linker reads `LD_PRELOAD`.
    Dynamic,
    /// No dynamic linker reads `LD_PRELOAD`, so the program is traced.
    Static,
    /// The program has 32 bits, or is for another processor.
    Foreign,
    /// The file's format is unknown. The program is traced, because the kernel may execute it.
    Unknown,
}

impl ProgramKind {
    /// The kind of a script is the kind of its interpreter, which may be a script as well.
    pub(super) fn detect(program: &Path) -> Self {
        let mut file = program.to_owned();
        for depth in 0..=MAX_INTERPRETERS {
            let name = || match depth {
                0 => "the program".to_owned(),
                _ => format!("the interpreter {}", file.display()),
            };
            if let Some(reason) = privileges(&file) {
                return Self::Untraceable(format!("{} {reason}", name()));
            }
            let mut bytes = [0; HEAD_BYTES];
            let head = match read_head(&file, &mut bytes) {
                Ok(head) => head,
                // The file may be a script with a privileged interpreter.
                Err(ErrorKind::PermissionDenied) => {
                    return Self::Untraceable(format!(
                        "{} may be executed, but not be read",
                        name()
                    ));
                }
                Err(_) => return Self::Unknown,
            };
            match interpreter_of(head) {
                Some(interpreter) => file = interpreter,
                None => return Self::from_head(head),
            }
        }
        Self::Unknown
    }

    /// The kind of a file other than a script, by its first bytes (elf(5)).
    fn from_head(head: &[u8]) -> Self {
        let Some(header) = elf_header(head) else {
            return Self::Unknown;
        };
        if (header.class, header.e_machine) != (Class::ELF64, EM_X86_64) {
            return Self::Foreign;
        }
        let segments = usize::try_from(header.e_phoff)
            .ok()
            .and_then(|at| head.get(at..));
        let segments = SegmentTable::new(
            header.endianness,
            header.class,
            segments.unwrap_or_default(),
        );
        let mut segments = segments.iter().take(header.e_phnum.into());
        let is_dynamic = segments.any(|segment| segment.p_type == PT_INTERP);
        if is_dynamic && !is_secure() {
            Self::Dynamic
        } else {
            Self::Static
        }
    }
}

fn elf_header(head: &[u8]) -> Option<FileHeader<AnyEndian>> {
    let (ident, rest) = head.split_at_checked(EI_NIDENT)?;
    FileHeader::parse_tail(parse_ident(ident).ok()?, rest).ok()
}

/// Whether a dynamic linker ignores `LD_PRELOAD`, because this process has the rights of another
/// user or group (ld.so(8), "Secure-execution mode").
fn is_secure() -> bool {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    getuid() != geteuid() || getgid() != getegid()
}

/// The file's own privileges, which a traced program would lose; `None` if it has none.
fn privileges(file: &Path) -> Option<&'static str> {
    let metadata = fs::metadata(file).ok()?;
    let file_ids = (metadata.uid(), metadata.gid());
    let own_ids = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if changes_identity(metadata.permissions().mode(), file_ids, own_ids) {
        return Some("is set-user-id or set-group-id, and would lose that");
    }
    let mut capabilities = [0; 64];
    rustix::fs::getxattr(file, c"security.capability", &mut capabilities[..])
        .is_ok()
        .then_some("has capabilities of its own, and would lose them")
}

/// Whether a program of this mode, user and group runs as another user or group than `own`.
fn changes_identity(mode: u32, (user, group): (u32, u32), own: (u32, u32)) -> bool {
    let has_user = mode & 0o4000 != 0;
    let has_group = mode & 0o2000 != 0;
    has_user && user != own.0 || has_group && group != own.1
}

/// The first bytes of a file; none if the file is not regular.
fn read_head<'a>(file: &Path, bytes: &'a mut [u8]) -> Result<&'a [u8], ErrorKind> {
    // An open of a pipe would block.
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(&[]);
    }
    let length = File::open(file)
        .and_then(|mut file| file.read(bytes))
        .map_err(|error| error.kind())?;
    Ok(bytes.get(..length).unwrap_or_default())
}

/// The interpreter that a script's first line names; `None` if the file is not a script.
fn interpreter_of(head: &[u8]) -> Option<PathBuf> {
    let line = head.get(..LINE_BYTES).unwrap_or(head);
    let rest = line.strip_prefix(b"#!")?;
    let line = rest.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let name = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(name.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_program_tells_its_kind() {
        assert_eq!(
            ProgramKind::detect(Path::new("/bin/sh")),
            ProgramKind::Dynamic
        );
        let mut head = fs::read("/bin/sh").expect("a shell");
        // One program header (`e_phnum`), which is not INTERP.
        head[56] = 1;
        assert_eq!(ProgramKind::from_head(&head), ProgramKind::Static);
        head[4] = 1;
        assert_eq!(ProgramKind::from_head(&head), ProgramKind::Foreign);
        assert!(
            [&b""[..], b"text"]
                .iter()
                .all(|head| ProgramKind::from_head(head) == ProgramKind::Unknown)
        );
    }

    #[test]
    fn a_script_names_its_interpreter() {
        let found = |line: &[u8]| interpreter_of(line).map(|path| path.display().to_string());
        assert_eq!(found(b"#!/bin/sh\n").as_deref(), Some("/bin/sh"));
        assert_eq!(
            found(b"#! \t/usr/bin/env -S php -n\nexit").as_deref(),
            Some("/usr/bin/env")
        );
        assert_eq!(found(b"#!interpreter").as_deref(), Some("interpreter"));
        assert_eq!(
            (found(b"#! \n/bin/sh"), found(b"\x7fELF"), found(b"")),
            (None, None, None)
        );
    }

    #[test]
    fn a_program_changes_its_identity_by_its_bits_and_to_another_one_only() {
        for (mode, file_ids, expected) in [
            (0o755, (1, 2), false),
            (0o4755, (1, 2), true),
            (0o2755, (1, 2), true),
            (0o6755, (7, 2), true),
            (0o6755, (7, 8), false),
            (0o4755, (7, 2), false),
            (0o2755, (1, 8), false),
        ] {
            assert_eq!(
                changes_identity(mode, file_ids, (7, 8)),
                expected,
                "{mode:o} {file_ids:?}"
            );
        }
    }

    #[test]
    fn a_file_of_this_user_has_no_privileges() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mode = std::fs::Permissions::from_mode(0o4755);
        file.as_file().set_permissions(mode).unwrap();
        assert_eq!(privileges(file.path()), None);
    }
}
