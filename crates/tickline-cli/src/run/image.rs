//! The shared object `libtickline_preload.so`, as `tickline run` maps it into a program: the few
//! parts of an ELF file (elf(5)) that a loader needs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{PF_W, PF_X, PT_LOAD, R_X86_64_RELATIVE};
use elf::endian::LittleEndian;

/// A page of memory on x86_64, bytes: what `mmap` maps whole.
const MEMORY_PAGE_BYTES: u64 = 4096;

/// The largest file that is read, bytes. The library has 40 KB; with all that a debugger wants, some MB.
const MOST_BYTES: u64 = 16 << 20;

/// The entry of the dynamic section that says where packed relative relocations are (ELF's gABI,
/// "Dynamic Section").
const DT_RELR: i64 = 36;

/// The section that holds the address of the function to call.
const START: &str = ".tickline";

/// One mapping of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Where it is mapped, from the image's start on: whole pages.
    pub(super) pages: Range<u64>,
    /// Where it begins in the file: a multiple of a page.
    pub(super) offset: u64,
    /// What the file does not have: zeros, from the image's start on.
    pub(super) zeros: Range<u64>,
    pub(super) is_writable: bool,
    pub(super) is_executable: bool,
}

/// The library's file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    pub(super) segments: Vec<Segment>,
    /// Words to store: where, and which distance from the image's start. Relocations of another
    /// kind name symbols of libc, which a static program does not have; `start` uses none of them.
    pub(super) relative: Vec<(u64, u64)>,
    /// Where the address of the function to call is.
    pub(super) start: u64,
    /// The size of the whole image, bytes.
    pub(super) bytes: u64,
}

impl Image {
    /// Reads the library at `path`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let named = |error: &io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let wrong = |what: &str| named(&io::Error::new(io::ErrorKind::InvalidData, what));
        let bytes = contents(path).map_err(|error| named(&error))?;
        let other = || wrong("this is no libtickline_preload.so that can be mapped into a program");
        let file = ElfBytes::minimal_parse(&bytes).map_err(|_| other())?;
        if is_packed(&file) {
            return Err(wrong(
                "its relative relocations are packed (DT_RELR), which are not read here: link it with -z nopack-relative-relocs",
            ));
        }
        Self::parse(&file, path).ok_or_else(other)
    }

    fn parse(file: &ElfBytes<'_, LittleEndian>, path: &Path) -> Option<Self> {
        let mut segments = Vec::new();
        for header in file.segments()?.iter().filter(|header| header.p_type == PT_LOAD) {
            let skew = header.p_vaddr % MEMORY_PAGE_BYTES;
            if header.p_offset % MEMORY_PAGE_BYTES != skew {
                return None;
            }
            let end = header.p_vaddr.checked_add(header.p_memsz)?;
            segments.push(Segment {
                pages: header.p_vaddr - skew..end.checked_next_multiple_of(MEMORY_PAGE_BYTES)?,
                offset: header.p_offset - skew,
                zeros: header.p_vaddr.checked_add(header.p_filesz)?..end,
                is_writable: header.p_flags & PF_W != 0,
                is_executable: header.p_flags & PF_X != 0,
            });
        }
        let relocations = file.section_header_by_name(".rela.dyn").ok()??;
        let relative = file
            .section_data_as_relas(&relocations)
            .ok()?
            .filter(|relocation| relocation.r_type == R_X86_64_RELATIVE)
            .map(|relocation| Some((relocation.r_offset, u64::try_from(relocation.r_addend).ok()?)))
            .collect::<Option<_>>()?;
        let start = file.section_header_by_name(START).ok()??.sh_addr;
        let end = segments.last()?.pages.end;
        Some(Self { path: path.to_owned(), segments, relative, start, bytes: end })
    }
}

/// What a file has, if it is a regular one: a pipe would block, and some devices have no end.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let facts = fs::metadata(path)?;
    if !facts.is_file() {
        return Err(io::Error::other(format!("this is no regular file: mode {:o}", facts.mode())));
    }
    if facts.len() > MOST_BYTES {
        let text = format!("it has {} bytes, and a library has {MOST_BYTES} at most", facts.len());
        return Err(io::Error::other(text));
    }
    let mut bytes = Vec::new();
    // Files of `/proc` say 0 and have more, and reading some of them blocks.
    File::open(path)?.take(facts.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_packed(file: &ElfBytes<'_, LittleEndian>) -> bool {
    let entries = file.dynamic().ok().flatten();
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.d_tag == DT_RELR))
}
