//! Whether a page counts for this process, and readings of a page that counts.

use tickline_core::sample::{Reference, Timescale};

use crate::Counter;
use crate::layout::{COUNTER, LAYOUT_VERSION, PAGE_BYTES, Page};
use crate::lease::{PageReading, ProcessHighWater, ReaderOs, read, read_first_line};

/// Where a process runs. A forked child asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootContext {
    /// The running boot: the 16 bytes that `/proc/sys/kernel/random/boot_id` spells.
    pub boot_id: [u8; 16],
    /// The inode number of `/proc/self/ns/time`; 0 where there are no time namespaces.
    pub time_namespace: u64,
    /// By how much this namespace's `CLOCK_MONOTONIC` is ahead of the initial one's, ns
    /// (`/proc/self/timens_offsets`). `None` if that is not known.
    pub monotonic_offset_ns: Option<i64>,
}

/// Why a process does not read a page. It then has the OS clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It does not begin with `tickline`.
    NotAPage,
    /// Its layout has another version.
    Version(u32),
    /// It has another size, bytes.
    Size(u32),
    /// It is of another boot.
    OtherBoot {
        /// The page's boot.
        page: [u8; 16],
        /// The running one.
        running: [u8; 16],
    },
    /// Its writer reads another counter.
    OtherCounter(u64),
    /// Its writer is in another time namespace, and one of the offsets is not known.
    OtherNamespace(u64),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAPage => f.write_str("the file does not begin with `tickline`"),
            Self::Version(found) => write!(f, "the page has layout {found}, not {LAYOUT_VERSION}"),
            Self::Size(found) => write!(f, "the page says {found} bytes, not {PAGE_BYTES}"),
            Self::OtherBoot { page, running } => {
                // As `/proc/sys/kernel/random/boot_id` spells them, without the hyphens.
                let [page, running] = [page, running].map(|boot_id| u128::from_be_bytes(*boot_id));
                write!(f, "the page is of boot {page:032x}, and this is boot {running:032x}")
            }
            Self::OtherCounter(found) => write!(f, "the page is for counter {found}, not {COUNTER}"),
            Self::OtherNamespace(found) => {
                write!(
                    f,
                    "the page is of time namespace {found}, and the offset between that namespace and this one is not known"
                )
            }
        }
    }
}

impl core::error::Error for Refusal {}

/// A page that counts for this process.
#[derive(Debug, Clone, Copy)]
pub struct AttachedPage<'a> {
    pub(crate) page: &'a Page,
    pub(crate) shift_ns: i64,
}

impl Page {
    /// Whether this page counts here. Call this only for a trusted file (the README's "What a
    /// reader must do"), and again in a forked child.
    ///
    /// # Errors
    ///
    /// The reason why the page does not count.
    pub fn attach(&self, context: &BootContext) -> Result<AttachedPage<'_>, Refusal> {
        let header = self.header().ok_or(Refusal::NotAPage)?;
        if header.version != LAYOUT_VERSION {
            return Err(Refusal::Version(header.version));
        }
        if usize::try_from(header.size) != Ok(PAGE_BYTES) {
            return Err(Refusal::Size(header.size));
        }
        if header.boot_id != context.boot_id {
            return Err(Refusal::OtherBoot { page: header.boot_id, running: context.boot_id });
        }
        if header.counter != COUNTER || COUNTER == 0 {
            return Err(Refusal::OtherCounter(header.counter));
        }
        let shift_ns = if header.time_namespace == context.time_namespace {
            0
        } else {
            let own_ns = context.monotonic_offset_ns.ok_or(Refusal::OtherNamespace(header.time_namespace))?;
            own_ns.wrapping_sub(header.monotonic_offset_ns)
        };
        Ok(AttachedPage { page: self, shift_ns })
    }
}

impl AttachedPage<'_> {
    /// By how much this process's `CLOCK_MONOTONIC` is ahead of the page's, ns.
    #[must_use]
    pub const fn shift_ns(&self) -> i64 {
        self.shift_ns
    }

    /// `CLOCK_MONOTONIC` of this process, ns. An ordered reading. `os` answers in this process's
    /// time namespace; `process_high_water` holds the page's time. Never panics.
    #[inline(always)]
    pub fn monotonic(
        &self,
        counter: &impl Counter,
        os: &impl ReaderOs,
        process_high_water: &ProcessHighWater,
    ) -> PageReading {
        let os = Shifted { os, shift_ns: self.shift_ns };
        let reading = read(self.page.words(), counter, &os, process_high_water, Timescale::Monotonic);
        PageReading { ns: reading.ns.wrapping_add(self.shift_ns), ..reading }
    }

    /// [`monotonic`](Self::monotonic) where a reading needs no OS clock and no waiting, which is
    /// nearly always. Otherwise `None`, and the caller calls `monotonic`. This calls nothing, so it
    /// takes few registers.
    #[inline(always)]
    pub fn monotonic_by_line(
        &self,
        counter: &impl Counter,
        process_high_water: &ProcessHighWater,
    ) -> Option<i64> {
        let ns = read_first_line(self.page.words(), counter, process_high_water)?;
        Some(ns.wrapping_add(self.shift_ns))
    }

    /// `CLOCK_REALTIME`, ns. Never panics.
    #[inline(always)]
    pub fn unix(
        &self,
        counter: &impl Counter,
        os: &impl ReaderOs,
        process_high_water: &ProcessHighWater,
    ) -> PageReading {
        read(self.page.words(), counter, os, process_high_water, Timescale::Unix)
    }

    /// Call this before the first reading. No later monotonic reading is then below a time of the
    /// OS clock that the process has read before (rule R8).
    pub fn begin(&self, os: &impl Reference, process_high_water: &ProcessHighWater) {
        process_high_water.raise(Shifted { os, shift_ns: self.shift_ns }.monotonic_ns());
    }
}

/// The OS clock in the page's time namespace.
struct Shifted<'a, O> {
    os: &'a O,
    shift_ns: i64,
}

impl<O: Reference> Reference for Shifted<'_, O> {
    #[inline(always)]
    fn monotonic_ns(&self) -> i64 {
        self.os.monotonic_ns().wrapping_sub(self.shift_ns)
    }
    #[inline(always)]
    fn realtime_ns(&self) -> i64 {
        self.os.realtime_ns()
    }
}

impl<O: ReaderOs> ReaderOs for Shifted<'_, O> {
    #[inline(always)]
    fn coarse_realtime_ns(&self) -> Option<i64> {
        self.os.coarse_realtime_ns()
    }
    #[inline(always)]
    fn pause(&self) {
        self.os.pause();
    }
}

#[cfg(test)]
mod tests;
