//! Decides whether a page counts for this process, and reads a page that counts.

use tickline_core::reference::{Reference, Timescale};

use crate::Counter;
use crate::layout::{COUNTER_ID, LAYOUT_VERSION, PAGE_BYTES, Page};
use crate::lease::{
    Attachment, PageReading, ProcessHighWater, ReaderOs, read, read_first_line, read_forked,
};

/// The boot and the time namespace of a process. A forked child must collect them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootContext {
    /// The id of the running boot: the 16 bytes of `/proc/sys/kernel/random/boot_id`.
    pub boot_id: [u8; 16],
    /// The inode number of `/proc/self/ns/time`; 0 if the kernel has no time namespaces.
    pub time_namespace: u64,
    /// `CLOCK_MONOTONIC` in this time namespace minus that in the initial one, ns
    /// (`/proc/self/timens_offsets`). `None` if it is not known.
    pub monotonic_offset_ns: Option<i64>,
}

/// The error of a process for which a page does not count. The process then uses the OS clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// The page does not begin with `tickline`.
    NotAPage,
    /// The page's layout has another version.
    OtherVersion {
        /// The version.
        version: u32,
    },
    /// The page has another size.
    OtherSize {
        /// The size that the page states, bytes.
        bytes: u32,
    },
    /// The page is of another boot.
    OtherBoot {
        /// The id of the page's boot.
        page: [u8; 16],
        /// The id of the running boot.
        running: [u8; 16],
    },
    /// The page's writer reads another counter.
    OtherCounter {
        /// The id of that counter.
        counter_id: u64,
    },
    /// The page's writer is in another time namespace, and the reader's own offset is not known.
    OtherNamespace {
        /// The inode number of the writer's time namespace.
        namespace: u64,
    },
}

impl core::fmt::Display for AttachError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAPage => {
                f.write_str("the file does not begin with `tickline`, so it is not a page")
            }
            Self::OtherVersion { version } => {
                write!(
                    f,
                    "the page has layout {version}, not {LAYOUT_VERSION}: use programs and a server of one release"
                )
            }
            Self::OtherSize { bytes } => write!(
                f,
                "the page says {bytes} bytes, not {PAGE_BYTES}: use programs and a server of one release"
            ),
            Self::OtherBoot { page, running } => {
                // The digits of `/proc/sys/kernel/random/boot_id`, without the hyphens.
                let [page, running] = [page, running].map(|boot_id| u128::from_be_bytes(*boot_id));
                write!(
                    f,
                    "the page is of boot {page:032x}, and this is boot {running:032x}: a server of this boot replaces it"
                )
            }
            Self::OtherCounter { .. } if COUNTER_ID == 0 => {
                f.write_str("this target has no counter that a page can be for")
            }
            Self::OtherCounter { counter_id } => {
                let [page, own] = [*counter_id, COUNTER_ID].map(counter_name);
                write!(
                    f,
                    "the page is for {page} (id {counter_id}), and this target has {own}"
                )
            }
            Self::OtherNamespace { namespace } => write!(
                f,
                "the page is of time namespace {namespace}, and the offset between that namespace and this one is not known"
            ),
        }
    }
}

impl core::error::Error for AttachError {}

/// The counter with this id ([`COUNTER_ID`]).
const fn counter_name(counter_id: u64) -> &'static str {
    match counter_id {
        1 => "x86-64's TSC",
        2 => "aarch64's cntvct_el0",
        3 => "riscv64's time",
        _ => "an unknown counter",
    }
}

/// A page that counts for this process.
#[derive(Debug, Clone, Copy)]
pub struct AttachedPage<'a> {
    pub(crate) page: &'a Page,
    pub(crate) page_offset_ns: i64,
}

impl Page {
    /// Attaches to the page, if it counts for this process. Call this only for a trusted file (the
    /// README's "What a reader must do"), and again in a forked child. Before the first reading,
    /// call [`AttachedPage::raise_to_os_clock`].
    ///
    /// # Errors
    ///
    /// The reason why the page does not count.
    pub fn attach(&self, context: &BootContext) -> Result<AttachedPage<'_>, AttachError> {
        let header = self.header().ok_or(AttachError::NotAPage)?;
        if header.version != LAYOUT_VERSION {
            return Err(AttachError::OtherVersion {
                version: header.version,
            });
        }
        if usize::try_from(header.size) != Ok(PAGE_BYTES) {
            return Err(AttachError::OtherSize { bytes: header.size });
        }
        if header.boot_id != context.boot_id {
            return Err(AttachError::OtherBoot {
                page: header.boot_id,
                running: context.boot_id,
            });
        }
        if header.counter_id != COUNTER_ID || COUNTER_ID == 0 {
            return Err(AttachError::OtherCounter {
                counter_id: header.counter_id,
            });
        }
        let page_offset_ns = if header.time_namespace == context.time_namespace {
            0
        } else {
            let error = AttachError::OtherNamespace {
                namespace: header.time_namespace,
            };
            context
                .monotonic_offset_ns
                .ok_or(error)?
                .wrapping_sub(header.monotonic_offset_ns)
        };
        Ok(AttachedPage {
            page: self,
            page_offset_ns,
        })
    }
}

impl AttachedPage<'_> {
    /// This process's `CLOCK_MONOTONIC` minus the page's, ns: 0 in the page's time namespace.
    #[must_use]
    pub const fn page_offset_ns(&self) -> i64 {
        self.page_offset_ns
    }

    /// An ordered reading of `CLOCK_MONOTONIC` of this process, ns. `os` must return times of this
    /// process's time namespace; `process_high_water` is in the page's time. Never panics.
    #[inline(always)]
    pub fn monotonic(
        &self,
        counter: &impl Counter,
        os: &impl ReaderOs,
        process_high_water: &ProcessHighWater,
    ) -> PageReading {
        let os = InPageTime {
            os,
            page_offset_ns: self.page_offset_ns,
        };
        let reading = read(
            self.page.cell(),
            counter,
            &os,
            process_high_water,
            Timescale::Monotonic,
        );
        PageReading {
            ns: reading.ns.wrapping_add(self.page_offset_ns),
            ..reading
        }
    }

    /// Reads `CLOCK_MONOTONIC`, ns, in a forked child that may be in another time namespace than
    /// its parent. `self` is the parent's. In the parent's namespace the reading is ordered like
    /// [`monotonic`](Self::monotonic), and may attach the child: see [`Attachment::is_attached`].
    /// Never panics.
    pub fn monotonic_of_forked(
        &self,
        counter: &impl Counter,
        os: &impl ReaderOs,
        process_high_water: &ProcessHighWater,
        attachment: &Attachment,
    ) -> PageReading {
        let os = InPageTime {
            os,
            page_offset_ns: self.page_offset_ns,
        };
        let reading = read_forked(
            self.page.cell(),
            counter,
            &os,
            process_high_water,
            attachment,
        );
        PageReading {
            ns: reading.ns.wrapping_add(self.page_offset_ns),
            ..reading
        }
    }

    /// An ordered reading of `CLOCK_MONOTONIC`, ns, if the page's first line suffices, as it nearly
    /// always does. Otherwise `None`, and the caller must call [`monotonic`](Self::monotonic). This
    /// method calls no function but `counter`, so it needs few registers.
    #[inline(always)]
    pub fn monotonic_by_line(
        &self,
        counter: &impl Counter,
        process_high_water: &ProcessHighWater,
    ) -> Option<i64> {
        let ns = read_first_line(self.page.cell(), counter, process_high_water)?;
        Some(ns.wrapping_add(self.page_offset_ns))
    }

    /// Reads `CLOCK_REALTIME`, ns. Never panics.
    #[inline(always)]
    pub fn unix(
        &self,
        counter: &impl Counter,
        os: &impl ReaderOs,
        process_high_water: &ProcessHighWater,
    ) -> PageReading {
        read(
            self.page.cell(),
            counter,
            os,
            process_high_water,
            Timescale::Unix,
        )
    }

    /// Raises the process's high-water mark to the OS clock (rule R8). Call this after each attach,
    /// before the first reading: no later monotonic reading is then below an earlier read of the OS
    /// clock.
    pub fn raise_to_os_clock(&self, os: &impl Reference, process_high_water: &ProcessHighWater) {
        process_high_water.raise(
            InPageTime {
                os,
                page_offset_ns: self.page_offset_ns,
            }
            .monotonic_ns(),
        );
    }
}

/// The OS clock in the page's time namespace.
struct InPageTime<'a, O> {
    os: &'a O,
    page_offset_ns: i64,
}

impl<O: Reference> Reference for InPageTime<'_, O> {
    #[inline(always)]
    fn monotonic_ns(&self) -> i64 {
        self.os.monotonic_ns().wrapping_sub(self.page_offset_ns)
    }
    #[inline(always)]
    fn unix_ns(&self) -> i64 {
        self.os.unix_ns()
    }
}

impl<O: ReaderOs> ReaderOs for InPageTime<'_, O> {
    #[inline(always)]
    fn coarse_unix_ns(&self) -> Option<i64> {
        self.os.coarse_unix_ns()
    }
    #[inline(always)]
    fn pause(&self) {
        self.os.pause();
    }
}

#[cfg(test)]
mod tests;
