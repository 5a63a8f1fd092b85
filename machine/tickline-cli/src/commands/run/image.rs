//! Reads the shared object `libtickline_preload.so`, which `tickline run` maps into a program: the
//! parts of the ELF file (elf(5)) that a loader needs.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use elf::ElfBytes;
use elf::abi::{PF_X, PT_LOAD, R_X86_64_RELATIVE};
use elf::endian::LittleEndian;
use tickline_page::program::{LIBRARY, RUN_INTERFACE};

use crate::words::with_path;

/// A page of memory on x86_64, bytes.
const MEMORY_PAGE_BYTES: u64 = 4096;

/// The largest file that is read, bytes. The library has 40 KB, and some MB with debug information.
const MAX_BYTES: u64 = 16 << 20;

/// The tag of the dynamic section's entry with the address of packed relative relocations (ELF's
/// gABI, "Dynamic Section").
const DT_RELR: i64 = 36;

/// The section with the library's `tickline_page::program::Entries`.
const ENTRY_SECTION: &str = ".tickline";

/// The version and the interface of the library that this program can use.
const OWN: Release<'static> = Release {
    version: env!("CARGO_PKG_VERSION"),
    interface: RUN_INTERFACE,
};

/// The library, read from its file.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    /// The library's memory before relocation: whole pages.
    pub(super) bytes: Vec<u8>,
    /// The pages with code, as offsets from the image's start.
    pub(super) code: Range<u64>,
    /// Relative relocations: the offset of an address, and the addend to the image's base address.
    relocations: Vec<(u64, i64)>,
    /// The offset of [`ENTRY_SECTION`].
    entries: u64,
}

/// An image that is relocated to a base address.
#[derive(Debug)]
pub(super) struct RelocatedImage {
    pub(super) bytes: Vec<u8>,
    /// The addresses of `start` and `resume`.
    pub(super) start: u64,
    pub(super) resume: u64,
}

/// What a library says of itself behind the addresses in [`ENTRY_SECTION`].
#[derive(Debug, PartialEq, Eq)]
struct Release<'a> {
    version: &'a str,
    interface: u32,
}

impl<'a> Release<'a> {
    fn from_section(section: &'a [u8]) -> Option<Self> {
        let (_addresses, marks) = section.split_first_chunk::<16>()?;
        let (interface, version) = marks.split_first_chunk()?;
        Some(Self {
            version: str::from_utf8(version).ok()?.trim_end_matches('\0'),
            interface: u32::from_le_bytes(*interface),
        })
    }
}

impl fmt::Display for Release<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "version {}, interface {:08x}",
            self.version, self.interface
        )
    }
}

type Elf<'a> = ElfBytes<'a, LittleEndian>;

impl Image {
    /// Reads the library at `path`.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let invalid =
            |text: &str| with_path(path, &io::Error::new(io::ErrorKind::InvalidData, text));
        let contents = contents(path).map_err(|error| with_path(path, &error))?;
        let other = || {
            invalid(concat!(
                "this is not the libtickline_preload.so of version ",
                env!("CARGO_PKG_VERSION")
            ))
        };
        let file = ElfBytes::minimal_parse(&contents).map_err(|_| other())?;
        let section = entry_section(&file).ok_or_else(other)?;
        if is_packed(&file) {
            return Err(invalid(
                "its relative relocations are packed (DT_RELR), which this program can't read: \
                 link it with -z nopack-relative-relocs",
            ));
        }
        let release = Release::from_section(section).ok_or_else(other)?;
        if release != OWN {
            return Err(invalid(&format!(
                "this is {LIBRARY} of {release}, and this program has {OWN}: install both from one \
                 release, or build both from one commit"
            )));
        }
        Self::parse(path, &file).ok_or_else(other)
    }

    fn parse(path: &Path, file: &Elf<'_>) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut code = 0..0;
        for header in file
            .segments()?
            .iter()
            .filter(|header| header.p_type == PT_LOAD)
        {
            let end = header.p_vaddr.checked_add(header.p_memsz)?;
            let end = end
                .checked_next_multiple_of(MEMORY_PAGE_BYTES)
                .filter(|end| *end <= MAX_BYTES)?;
            bytes.resize(bytes.len().max(usize::try_from(end).ok()?), 0);
            let data = file.segment_data(&header).ok()?;
            let at = usize::try_from(header.p_vaddr).ok()?;
            bytes
                .get_mut(at..)?
                .get_mut(..data.len())?
                .copy_from_slice(data);
            if header.p_flags & PF_X != 0 {
                code = header.p_vaddr - header.p_vaddr % MEMORY_PAGE_BYTES..end;
            }
        }
        // All other relocations name symbols of libc, which a static program does not have.
        // `start` and `resume` use none of these symbols.
        let relocations = file.section_header_by_name(".rela.dyn").ok()??;
        let relocations = file.section_data_as_relas(&relocations).ok()?;
        let relocations = relocations.filter(|relocation| relocation.r_type == R_X86_64_RELATIVE);
        let relocations = relocations
            .map(|relocation| (relocation.r_offset, relocation.r_addend))
            .collect();
        let entries = file.section_header_by_name(ENTRY_SECTION).ok()??.sh_addr;
        Some(Self {
            path: path.to_owned(),
            bytes,
            code,
            relocations,
            entries,
        })
    }

    /// The image for memory that begins at `base`; `None` if a relocation is outside of the image.
    pub(super) fn relocate(&self, base: u64) -> Option<RelocatedImage> {
        let mut bytes = self.bytes.clone();
        for (at, addend) in &self.relocations {
            *word(&mut bytes, *at)? = base.wrapping_add_signed(*addend).to_le_bytes();
        }
        let mut entry = |at| Some(u64::from_le_bytes(*word(&mut bytes, at)?));
        let start = entry(self.entries)?;
        let resume = entry(self.entries.checked_add(8)?)?;
        Some(RelocatedImage {
            bytes,
            start,
            resume,
        })
    }
}

/// The contents of [`ENTRY_SECTION`].
fn entry_section<'a>(file: &Elf<'a>) -> Option<&'a [u8]> {
    let header = file.section_header_by_name(ENTRY_SECTION).ok()??;
    let (data, compression) = file.section_data(&header).ok()?;
    compression.is_none().then_some(data)
}

fn word(bytes: &mut [u8], at: u64) -> Option<&mut [u8; 8]> {
    bytes
        .get_mut(usize::try_from(at).ok()?..)?
        .first_chunk_mut()
}

/// The contents of a regular file. A pipe would block, and some devices have no end.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other(format!(
            "this is not a regular file: mode {:o}",
            metadata.mode()
        )));
    }
    if metadata.len() > MAX_BYTES {
        let text = format!(
            "it has {} bytes, and a library has {MAX_BYTES} at most",
            metadata.len()
        );
        return Err(io::Error::other(text));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).map_err(io::Error::other)?);
    // Files of `/proc` report a length of 0 and have more. A read of some of them blocks.
    File::open(path)?
        .take(metadata.len())
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the file's relative relocations are packed.
fn is_packed(file: &Elf<'_>) -> bool {
    let entries = file.dynamic().ok().flatten();
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.d_tag == DT_RELR))
}
