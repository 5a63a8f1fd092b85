//! The shared object `libtickline_preload.so`, as `tickline run` maps it into a program: the few
//! parts of an ELF file (elf(5)) that a loader needs.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{PF_X, PT_LOAD, R_X86_64_RELATIVE};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

use crate::output::naming;

/// A page of memory on x86_64, bytes.
const MEMORY_PAGE_BYTES: u64 = 4096;

/// The largest file that is read, bytes. The library has 40 KB; with all that a debugger wants,
/// some MB.
const MAX_BYTES: u64 = 16 << 20;

/// The entry of the dynamic section that says where packed relative relocations are (ELF's gABI,
/// "Dynamic Section").
const DT_RELR: i64 = 36;

/// The section that holds the addresses of the functions to call.
const ENTRIES: &str = ".tickline";
const ENTRIES_BYTES: u64 = 16;

/// The library's file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    contents: Vec<u8>,
    /// The size in memory, bytes: whole pages.
    pub(super) mapped_bytes: u64,
    /// Whole pages with code, from the image's start on.
    pub(super) code: Range<u64>,
    entries: u64,
}

/// An image for a place in memory.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) bytes: Vec<u8>,
    /// The addresses of `start` and `finish` (`tickline-preload`, `entry.rs`).
    pub(super) start: u64,
    pub(super) finish: u64,
}

impl Image {
    /// Reads the library at `path`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let wrong = |what: &str| naming(path, &io::Error::new(io::ErrorKind::InvalidData, what));
        let contents = contents(path).map_err(|error| naming(path, &error))?;
        let other = || wrong("this is no libtickline_preload.so that can be mapped into a program");
        let file = ElfBytes::minimal_parse(&contents).map_err(|_| other())?;
        if is_packed(&file) {
            return Err(wrong(
                "its relative relocations are packed (DT_RELR), which are not read here: link it with -z nopack-relative-relocs",
            ));
        }
        let (mapped_bytes, code, entries) = Self::parse(&file).ok_or_else(other)?;
        Ok(Self { path: path.to_owned(), contents, mapped_bytes, code, entries })
    }

    fn parse(file: &Elf<'_>) -> Option<(u64, Range<u64>, u64)> {
        let (mut end, mut code) = (0, 0..0);
        for header in segments(file)? {
            end = header.p_vaddr.checked_add(header.p_memsz)?.checked_next_multiple_of(MEMORY_PAGE_BYTES)?;
            if header.p_flags & PF_X != 0 {
                code = header.p_vaddr - header.p_vaddr % MEMORY_PAGE_BYTES..end;
            }
        }
        // A library of another version has fewer.
        let entries = file.section_header_by_name(ENTRIES).ok()??;
        let entries = (entries.sh_size == ENTRIES_BYTES).then_some(entries.sh_addr)?;
        (end <= MAX_BYTES).then_some((end, code, entries))
    }

    /// The image for memory that begins at `base`.
    pub(super) fn at(&self, base: u64) -> Option<Placed> {
        let file = ElfBytes::minimal_parse(&self.contents).ok()?;
        let mut bytes = vec![0; usize::try_from(self.mapped_bytes).ok()?];
        for header in segments(&file)? {
            let data = file.segment_data(&header).ok()?;
            let at = usize::try_from(header.p_vaddr).ok()?;
            bytes.get_mut(at..)?.get_mut(..data.len())?.copy_from_slice(data);
        }
        // Relocations of another kind name symbols of libc, which a static program does not have;
        // what is called uses none of them.
        let relocations = file.section_header_by_name(".rela.dyn").ok()??;
        let mut relocations = file.section_data_as_relas(&relocations).ok()?;
        relocations.try_for_each(|relocation| {
            let value = base.wrapping_add_signed(relocation.r_addend).to_le_bytes();
            if relocation.r_type == R_X86_64_RELATIVE {
                word(&mut bytes, relocation.r_offset)?.copy_from_slice(&value);
            }
            Some(())
        })?;
        let mut entry = |at| Some(u64::from_le_bytes(*word(&mut bytes, at)?));
        let (start, finish) = (entry(self.entries)?, entry(self.entries.checked_add(8)?)?);
        Some(Placed { bytes, start, finish })
    }
}

type Elf<'a> = ElfBytes<'a, LittleEndian>;

/// What is mapped.
fn segments(file: &Elf<'_>) -> Option<impl Iterator<Item = ProgramHeader>> {
    Some(file.segments()?.iter().filter(|header| header.p_type == PT_LOAD))
}

fn word(bytes: &mut [u8], at: u64) -> Option<&mut [u8; 8]> {
    bytes.get_mut(usize::try_from(at).ok()?..)?.first_chunk_mut()
}

/// What a file has, if it is a regular one: a pipe would block, and some devices have no end.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other(format!("this is not a regular file: mode {:o}", metadata.mode())));
    }
    if metadata.len() > MAX_BYTES {
        let text = format!("it has {} bytes, and a library has {MAX_BYTES} at most", metadata.len());
        return Err(io::Error::other(text));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).map_err(io::Error::other)?);
    // Files of `/proc` say 0 and have more, and reading some of them blocks.
    File::open(path)?.take(metadata.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_packed(file: &Elf<'_>) -> bool {
    let entries = file.dynamic().ok().flatten();
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.d_tag == DT_RELR))
}
