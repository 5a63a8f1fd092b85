//! The vDSO of this process (vdso(7)): finds its functions, and redirects its symbols.
//!
//! A symbol's value is a distance from the vDSO's start, and a program may move its vDSO
//! (mremap(2)) and look symbols up again. The symbols therefore lead to trampolines within the
//! image, which move with it, and which jump to this library. The trampolines are at the end of the
//! image, where the kernel maps zeros up to a whole page.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use elf::ElfBytes;
use elf::abi::{EI_NIDENT, SHT_DYNSYM};
use elf::endian::NativeEndian;
use elf::file::{FileHeader, parse_ident};
use rustix::mm::{MprotectFlags, mprotect};
use tickline_page::program::StartResult;

use crate::abi;
use crate::state::state;

/// The sizes of `Elf64_Ehdr` and `Elf64_Sym`, and the offset of `st_value` in the latter, bytes
/// (elf(5)).
const HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const VALUE_OFFSET: usize = 8;

const KERNEL_PAGE_BYTES: usize = 4096;

/// The limit of a vDSO's size, bytes. Every known vDSO is smaller.
const MAX_BYTES: usize = 16 * KERNEL_PAGE_BYTES;

/// The memory protection of the image before and after this library changes it.
const EXECUTE: MprotectFlags = MprotectFlags::READ.union(MprotectFlags::EXEC);

/// The limit of symbols to redirect. Two functions with two names each have four.
const MAX_SYMBOLS: usize = 8;

/// The size of a trampoline's code, bytes.
const TRAMPOLINE_BYTES: usize = 24;

/// Code in the image that jumps to a function of this library.
struct Trampoline {
    /// Its offset in the image, bytes.
    offset: usize,
    /// The function's address.
    function: usize,
}

impl Trampoline {
    /// The code. It passes the vDSO's start as a third argument, so that the function notices if
    /// the program has moved the vDSO.
    fn code(&self) -> [u8; TRAMPOLINE_BYTES] {
        let mut code = *b"\x48\x8d\x15....\xff\x25\x03\0\0\0\xcc\xcc\xcc........";
        // lea rdx, [rip - (offset + 7)]; jmp [rip + 3]; the function's address.
        code[3..7].copy_from_slice(&(self.offset + 7).wrapping_neg().to_le_bytes()[..4]);
        code[16..].copy_from_slice(&self.function.to_le_bytes());
        code
    }
}

/// The mapped image of a vDSO.
pub(crate) struct Vdso {
    base: NonNull<u8>,
    length: usize,
}

impl Vdso {
    /// The vDSO at `base`; `None` if `base` is null, or the header is not the expected one.
    ///
    /// # Safety
    ///
    /// `base` must be null, or the vDSO's address as the kernel gives it (`AT_SYSINFO_EHDR`).
    pub(crate) unsafe fn from_ptr(base: *mut c_void) -> Option<Self> {
        let base = NonNull::new(base.cast::<u8>())?;
        // SAFETY: the caller promises that this is the vDSO, which begins with its header.
        let header = unsafe { slice::from_raw_parts(base.as_ptr(), HEADER_BYTES) };
        let (ident, header) = header.split_at(EI_NIDENT);
        let header =
            FileHeader::parse_tail(parse_ident::<NativeEndian>(ident).ok()?, header).ok()?;
        // The kernel maps the whole file, and the table of sections is at the file's end.
        let sections = usize::from(header.e_shentsize) * usize::from(header.e_shnum);
        let length = usize::try_from(header.e_shoff)
            .ok()?
            .checked_add(sections)?;
        (HEADER_BYTES..=MAX_BYTES)
            .contains(&length)
            .then_some(Self { base, length })
    }

    /// The image, to read its symbols. `redirect_symbols` changes it only while no such slice
    /// exists.
    fn image(&self) -> &[u8] {
        // SAFETY: the image is mapped for as long as the program lives. Only `redirect_symbols`
        // changes it, while no such slice exists.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }

    /// Records the addresses of the functions in [`state`]. An error if the symbols already lead
    /// out of the vDSO's own code, or the image does not have the expected layout.
    pub(crate) fn record_functions(&self) -> Result<(), StartResult> {
        let mut is_redirected = false;
        self.for_each_symbol(|name, value, _| {
            let stored_offset = match name {
                "__vdso_clock_gettime" => &state().clock_gettime,
                "__vdso_gettimeofday" => &state().gettimeofday,
                _ => return Some(()),
            };
            let offset = usize::try_from(value).ok()?;
            is_redirected |= offset >= self.length;
            // ORDERING: Relaxed: no symbol leads here yet.
            stored_offset.store(offset, Ordering::Relaxed);
            Some(())
        })
        .ok_or(StartResult::NoVdso)?;
        // ORDERING: Relaxed for both: no symbol leads here yet.
        let order = Ordering::Relaxed;
        state().vdso.store(self.base.as_ptr(), order);
        if is_redirected {
            return Err(StartResult::AlreadyServed);
        }
        if state().clock_gettime.load(order) == 0 {
            Err(StartResult::NoVdso)
        } else {
            Ok(())
        }
    }

    /// Redirects the symbols of the served functions to this library.
    pub(crate) fn redirect_symbols(&self) -> Result<(), StartResult> {
        let mut redirections = [None; MAX_SYMBOLS];
        let mut free = redirections.iter_mut();
        let first = self.length.next_multiple_of(TRAMPOLINE_BYTES);
        let clock_gettime = Trampoline {
            offset: first,
            function: abi::clock_gettime as *const () as usize,
        };
        let gettimeofday = Trampoline {
            offset: first + TRAMPOLINE_BYTES,
            function: abi::gettimeofday as *const () as usize,
        };
        self.for_each_symbol(|name, _, value_offset| {
            let target = match name {
                "clock_gettime" | "__vdso_clock_gettime" => clock_gettime.offset,
                "gettimeofday" | "__vdso_gettimeofday" => gettimeofday.offset,
                _ => return Some(()),
            };
            let value = self
                .base
                .as_ptr()
                .wrapping_add(value_offset)
                .cast::<AtomicU64>();
            if !value.is_aligned() {
                return None;
            }
            *free.next()? = Some((value, target));
            Some(())
        })
        .ok_or(StartResult::NoVdso)?;
        let end = gettimeofday.offset + TRAMPOLINE_BYTES;
        if end > self.mapped_bytes() {
            return Err(StartResult::NoVdso);
        }
        self.protect(EXECUTE.union(MprotectFlags::WRITE))?;
        for trampoline in [clock_gettime, gettimeofday] {
            let code = self
                .base
                .as_ptr()
                .wrapping_add(trampoline.offset)
                .cast::<[u8; TRAMPOLINE_BYTES]>();
            // SAFETY: the address is mapped, because it is before `end`, and writable since
            // `protect`. No symbol leads to it yet.
            unsafe { code.write(trampoline.code()) };
        }
        for (value, target) in redirections.into_iter().flatten() {
            // SAFETY: the value is aligned, within the image, and writable since `protect`. No
            // slice of the image exists any more.
            let value = unsafe { &*value };
            // ORDERING: Release, pairs with a program's load of the symbol. A thread that looks the
            // symbol up meanwhile sees the old value, or the new value with the trampoline's code.
            // No test sees a weaker ordering, because every store of x86_64 has this ordering.
            value.store(target as u64, Ordering::Release);
        }
        // If the kernel refuses this, the symbols still lead here.
        self.protect(EXECUTE).ok();
        Ok(())
    }

    /// The size of the mapping, bytes: the kernel maps whole pages.
    fn mapped_bytes(&self) -> usize {
        self.length.next_multiple_of(KERNEL_PAGE_BYTES)
    }

    /// Sets the memory protection of the image. `flags` must allow executing it, because other
    /// threads may execute it now.
    fn protect(&self, flags: MprotectFlags) -> Result<(), StartResult> {
        // SAFETY: the range is the vDSO's own pages, which are private to this process.
        unsafe { mprotect(self.base.as_ptr().cast(), self.mapped_bytes(), flags) }
            .map_err(|_| StartResult::VdsoReadOnly)
    }

    /// Calls `visit` with each symbol's name, its value, and the offset of this value in the image.
    /// `None` if `visit` returns `None`, or the image does not have the expected layout.
    fn for_each_symbol(&self, mut visit: impl FnMut(&str, u64, usize) -> Option<()>) -> Option<()> {
        let file = ElfBytes::<NativeEndian>::minimal_parse(self.image()).ok()?;
        let table = file
            .section_headers()?
            .iter()
            .find(|section| section.sh_type == SHT_DYNSYM)?;
        let start = usize::try_from(table.sh_offset).ok()?;
        let (symbols, names) = file.dynamic_symbol_table().ok()??;
        for (index, symbol) in symbols.iter().enumerate() {
            let name = usize::try_from(symbol.st_name)
                .ok()
                .and_then(|offset| names.get(offset).ok());
            if let Some(name) = name {
                visit(
                    name,
                    symbol.st_value,
                    start + index * SYMBOL_BYTES + VALUE_OFFSET,
                )?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use tickline_page::lease::ReaderOs as _;

    use super::*;
    use crate::original::vdso_clock_gettime;
    use crate::serve::Original;

    /// The vDSO of this process; `None`, with a message, without one.
    fn vdso() -> Option<Vdso> {
        // SAFETY: the call takes a number, and reads no memory that changes.
        let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        // SAFETY: 0, or the vDSO's address as the kernel gives it.
        let found = unsafe { Vdso::from_ptr(base as *mut c_void) };
        if found.is_none() {
            eprintln!("SKIPPED: this process has no vDSO");
        }
        found
    }

    /// `lea rdx, [rip - 0x1007]; jmp [rip + 3]`, and the address after two unused bytes.
    #[test]
    fn a_trampoline_passes_the_start_of_the_image_and_jumps() {
        let trampoline = Trampoline {
            offset: 0x1000,
            function: 0x1122_3344_5566_7788,
        };
        assert_eq!(
            trampoline.code(),
            [
                0x48, 0x8d, 0x15, 0xf9, 0xef, 0xff, 0xff, 0xff, 0x25, 0x03, 0, 0, 0, 0xcc, 0xcc,
                0xcc, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11
            ]
        );
    }

    #[test]
    fn no_address_and_no_header_are_no_vdso() {
        // SAFETY: the address is null.
        assert!(unsafe { Vdso::from_ptr(core::ptr::null_mut()) }.is_none());
        let mut zeros = [0_u64; HEADER_BYTES / 8];
        // SAFETY: the memory is as long as the header, of which alone it is read.
        assert!(unsafe { Vdso::from_ptr(zeros.as_mut_ptr().cast()) }.is_none());
    }

    #[test]
    fn the_image_is_mapped_in_whole_pages() {
        let Some(vdso) = vdso() else { return };
        let mapped = vdso.mapped_bytes();
        assert!(mapped >= vdso.length && mapped - vdso.length < 4_096);
        assert_eq!(mapped % 4_096, 0);
    }

    #[test]
    fn each_symbol_is_told_with_the_place_of_its_value() {
        let Some(vdso) = vdso() else { return };
        let mut has_clock = false;
        let found = vdso.for_each_symbol(|name, value, offset| {
            let stored = vdso.image().get(offset..)?.first_chunk()?;
            assert_eq!(u64::from_ne_bytes(*stored), value, "{name}");
            has_clock |= name == "__vdso_clock_gettime";
            Some(())
        });
        assert_eq!((found, has_clock), (Some(()), true));
    }

    #[test]
    fn a_visit_that_returns_none_ends_the_search() {
        let Some(vdso) = vdso() else { return };
        let mut visits = 0;
        let found = vdso.for_each_symbol(|_, _, _| {
            visits += 1;
            None
        });
        assert_eq!((found, visits), (None, 1));
    }

    #[test]
    fn the_recorded_functions_tell_the_time() {
        let Some(vdso) = vdso() else { return };
        assert_eq!(vdso.record_functions(), Ok(()));
        assert!(vdso_clock_gettime().is_some());
        let unix_s = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let coarse_ns = Original::new().coarse_unix_ns().unwrap();
        let coarse_s = u64::try_from(coarse_ns).unwrap() / 1_000_000_000;
        assert!((unix_s() - 60..=unix_s()).contains(&coarse_s), "{coarse_s}");
    }
}
