//! The vDSO of this process (vdso(7)): its functions, and where its symbols lead.
//!
//! A symbol's value is a distance from the vDSO's start, and a program may move its vDSO
//! (mremap(2)) and look symbols up again. So they lead to code within the image, which moves with
//! it, and which jumps here. The image has room for that at its end, where the kernel maps zeros up
//! to a whole page.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use elf::ElfBytes;
use elf::abi::{EI_NIDENT, SHT_DYNSYM};
use elf::endian::NativeEndian;
use elf::file::{FileHeader, parse_ident};
use rustix::mm::{MprotectFlags, mprotect};

use crate::abi;
use crate::state::state;

/// The size of `Elf64_Ehdr`, bytes, and of `Elf64_Sym`, with the place of `st_value` (elf(5)).
const HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const VALUE_AT: usize = 8;

const PAGE_BYTES: usize = 4096;

/// More than any vDSO has.
const MOST_BYTES: usize = 16 * PAGE_BYTES;

/// The most symbols that may have to lead here: two functions, by two names each.
const MOST_SYMBOLS: usize = 8;

/// The size of a [`way`], bytes.
const WAY_BYTES: usize = 24;

/// Code that jumps to `function`, at `at` in the image. It passes the vDSO's start as a third
/// argument, which shows whether that was moved.
fn way(at: usize, function: usize) -> [u8; WAY_BYTES] {
    let mut code = *b"\x48\x8d\x15....\xff\x25\x03\0\0\0\xcc\xcc\xcc........";
    // lea rdx, [rip - (at + 7)]; jmp [rip + 3]; the function's address.
    code[3..7].copy_from_slice(&(at + 7).wrapping_neg().to_le_bytes()[..4]);
    code[16..].copy_from_slice(&function.to_le_bytes());
    code
}

/// A vDSO, as it is mapped.
pub(crate) struct Vdso {
    base: NonNull<u8>,
    length: usize,
}

/// Why the symbols don't lead here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The image is not understood.
    Unknown,
    /// The symbols lead out of the vDSO already.
    Taken,
    /// The kernel does not let the image be changed.
    ReadOnly,
}

impl Vdso {
    /// The vDSO at `base`; `None` if that is null, or the start of something else.
    ///
    /// # Safety
    ///
    /// `base` must be null, or the vDSO's address as the kernel gives it (`AT_SYSINFO_EHDR`).
    pub(crate) unsafe fn at(base: *mut c_void) -> Option<Self> {
        let base = NonNull::new(base.cast::<u8>())?;
        // SAFETY: an ELF file in memory begins with its header, by the caller's promise.
        let header = unsafe { slice::from_raw_parts(base.as_ptr(), HEADER_BYTES) };
        let (ident, header) = header.split_at(EI_NIDENT);
        let header = FileHeader::parse_tail(parse_ident::<NativeEndian>(ident).ok()?, header).ok()?;
        // The kernel maps the whole file, at whose end the table of sections is.
        let sections = usize::from(header.e_shentsize) * usize::from(header.e_shnum);
        let length = usize::try_from(header.e_shoff).ok()?.checked_add(sections)?;
        (HEADER_BYTES..=MOST_BYTES).contains(&length).then_some(Self { base, length })
    }

    /// The image, to read its symbols. `lead_here` changes it while there is no such slice.
    fn image(&self) -> &[u8] {
        // SAFETY: mapped for as long as the program lives, and changed by `lead_here` alone.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }

    /// Keeps where the functions are in [`state`].
    pub(crate) fn remember(&self) -> Result<(), Trouble> {
        let mut is_taken = false;
        self.each_symbol(|name, value, _| {
            let place = match name {
                "__vdso_clock_gettime" => &state().clock_gettime,
                "__vdso_gettimeofday" => &state().gettimeofday,
                _ => return Ok(()),
            };
            let offset = usize::try_from(value).map_err(|_| Trouble::Unknown)?;
            is_taken |= offset >= self.length;
            // ORDERING: Relaxed: before anything leads here.
            place.store(offset, Ordering::Relaxed);
            Ok(())
        })?;
        // ORDERING: Relaxed for both: before anything leads here.
        let order = Ordering::Relaxed;
        state().vdso.store(self.base.as_ptr(), order);
        if is_taken {
            return Err(Trouble::Taken);
        }
        if state().clock_gettime.load(order) == 0 { Err(Trouble::Unknown) } else { Ok(()) }
    }

    /// Lets the symbols of what is served lead here.
    pub(crate) fn lead_here(&self) -> Result<(), Trouble> {
        let mut places = [None; MOST_SYMBOLS];
        let mut free = places.iter_mut();
        let first = self.length.next_multiple_of(WAY_BYTES);
        let ways = [
            (first, abi::clock_gettime as *const () as usize),
            (first + WAY_BYTES, abi::gettimeofday as *const () as usize),
        ];
        self.each_symbol(|name, _, value_at| {
            let (way, _) = match name {
                "clock_gettime" | "__vdso_clock_gettime" => ways[0],
                "gettimeofday" | "__vdso_gettimeofday" => ways[1],
                _ => return Ok(()),
            };
            let place = self.base.as_ptr().wrapping_add(value_at).cast::<AtomicU64>();
            *free.next().filter(|_| place.is_aligned()).ok_or(Trouble::Unknown)? = Some((place, way));
            Ok(())
        })?;
        let end = first + ways.len() * WAY_BYTES;
        if end > self.mapped_bytes() {
            return Err(Trouble::Unknown);
        }
        self.protect(MprotectFlags::READ | MprotectFlags::WRITE | MprotectFlags::EXEC)?;
        for (at, function) in ways {
            let place = self.base.as_ptr().wrapping_add(at).cast::<[u8; WAY_BYTES]>();
            // SAFETY: mapped, as it is before `end`, and writable since `protect`; nothing leads to
            // it yet.
            unsafe { place.write(way(at, function)) };
        }
        for (place, way) in places.into_iter().flatten() {
            // SAFETY: aligned, within the image, and writable since `protect`; no slice of the
            // image is left.
            let place = unsafe { &*place };
            // ORDERING: Release, pairs with a program's load of the symbol: a thread that looks
            // symbols up meanwhile sees the old value, or the new one and the code at it. No test
            // sees a weaker one, on x86_64.
            place.store(way as u64, Ordering::Release);
        }
        // If that is refused, the symbols lead here all the same.
        self.protect(MprotectFlags::READ | MprotectFlags::EXEC).ok();
        Ok(())
    }

    /// The kernel maps whole pages.
    fn mapped_bytes(&self) -> usize {
        self.length.next_multiple_of(PAGE_BYTES)
    }

    /// Changes what may be done with the image. Executing it is always allowed: other threads may.
    fn protect(&self, flags: MprotectFlags) -> Result<(), Trouble> {
        // SAFETY: the vDSO's own pages, which are private to this process.
        unsafe { mprotect(self.base.as_ptr().cast(), self.mapped_bytes(), flags) }
            .map_err(|_| Trouble::ReadOnly)
    }

    /// Calls `act` with each symbol's name, its value, and the place of its value in the image.
    fn each_symbol(
        &self,
        mut act: impl FnMut(&str, u64, usize) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        let file = ElfBytes::<NativeEndian>::minimal_parse(self.image()).map_err(|_| Trouble::Unknown)?;
        let mut sections = file.section_headers().ok_or(Trouble::Unknown)?.iter();
        let table = sections.find(|section| section.sh_type == SHT_DYNSYM).ok_or(Trouble::Unknown)?;
        let start = usize::try_from(table.sh_offset).map_err(|_| Trouble::Unknown)?;
        let found = file.dynamic_symbol_table().map_err(|_| Trouble::Unknown)?;
        let (symbols, names) = found.ok_or(Trouble::Unknown)?;
        for (index, symbol) in symbols.iter().enumerate() {
            let name = usize::try_from(symbol.st_name).ok().and_then(|at| names.get(at).ok());
            if let Some(name) = name {
                act(name, symbol.st_value, start + index * SYMBOL_BYTES + VALUE_AT)?;
            }
        }
        Ok(())
    }
}
