//! The shared object `libtickline_preload.so`, as `tickline run` maps it into a program: the few
//! parts of an ELF file (elf(5)) that a loader needs.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{PF_W, PF_X, PT_LOAD, R_X86_64_RELATIVE};
use elf::endian::LittleEndian;

/// A page of memory on x86_64, bytes: what `mmap` maps whole.
const MEMORY_PAGE_BYTES: u64 = 4096;

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
        let wrong =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        let bytes = fs::read(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Self::parse(&bytes, path)
            .ok_or_else(|| wrong("this is no libtickline_preload.so that can be mapped into a program"))
    }

    fn parse(bytes: &[u8], path: &Path) -> Option<Self> {
        let file = ElfBytes::<LittleEndian>::minimal_parse(bytes).ok()?;
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
