//! Linux: the CPU masks of threads, and the ids that CPUs may have.

use core::ops::RangeInclusive;

use crate::sys::cpu_list;

/// A set of CPUs, by their ids.
#[derive(Debug, Clone)]
pub(crate) struct CpuMask([libc::c_ulong; MASK_WORDS]);

/// The largest number of CPUs that Linux can be configured for (`NR_CPUS` with `MAXSMP`,
/// `arch/x86/Kconfig`); `cpu_set_t` has 1,024.
const MAX_CPUS: u32 = 8192;
const MASK_BITS: usize = MAX_CPUS as usize;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
const MASK_WORDS: usize = MASK_BITS / WORD_BITS;
const MASK_BYTES: usize = MASK_BITS / 8;

impl CpuMask {
    /// The CPUs on which the calling thread may run: its own mask, without CPUs that are offline or
    /// not in the cpuset. `None` if the kernel does not say.
    pub(crate) fn for_current_thread() -> Option<Self> {
        Self::for_thread(0)
    }

    /// The mask of the thread with this id; 0 is the calling thread.
    fn for_thread(thread: libc::pid_t) -> Option<Self> {
        let mut mask = Self([0; MASK_WORDS]);
        // SAFETY: the mask is valid for writes of its length. It is no less aligned than
        // `cpu_set_t`, an array of the same words. The call takes any length. An unknown thread is
        // an error code.
        let result =
            unsafe { libc::sched_getaffinity(thread, MASK_BYTES, mask.0.as_mut_ptr().cast()) };
        (result == 0).then_some(mask)
    }

    /// A mask of one CPU; `None` if no mask is that long.
    fn single(cpu: usize) -> Option<Self> {
        let mut mask = Self([0; MASK_WORDS]);
        *mask.0.get_mut(cpu / WORD_BITS)? |= 1 << (cpu % WORD_BITS);
        Some(mask)
    }

    /// Whether the set has `cpu`.
    pub(crate) fn contains(&self, cpu: usize) -> bool {
        self.0
            .get(cpu / WORD_BITS)
            .is_some_and(|word| word & (1 << (cpu % WORD_BITS)) != 0)
    }

    /// Lets the calling thread run only on these CPUs. The thread is on one of them at the return.
    /// `false` if the process may use none of them now.
    fn apply(&self) -> bool {
        // SAFETY: the mask is valid for reads of its length, and is aligned as in `for_thread`.
        unsafe { libc::sched_setaffinity(0, MASK_BYTES, self.0.as_ptr().cast()) == 0 }
    }

    /// Lets the calling thread run on these CPUs again. If the process has lost all of them, the
    /// thread may run on the CPUs that the process has.
    pub(crate) fn restore(&self) {
        if !self.apply() {
            // The kernel ignores CPUs that do not exist, or that the process may not use.
            Self([libc::c_ulong::MAX; MASK_WORDS]).apply();
        }
    }
}

/// The CPUs that the kernel lists in this file; empty if the file can't be read.
fn ranges_in(file: &str) -> Vec<RangeInclusive<usize>> {
    std::fs::read(file)
        .ok()
        .and_then(|list| cpu_list::ranges(&list))
        .unwrap_or_default()
}

/// How many CPU ids this kernel can ever have, by its own list
/// (`Documentation/admin-guide/cputopology.rst`), else how many are configured.
pub(crate) fn cpu_ids() -> Option<usize> {
    let possible = ranges_in("/sys/devices/system/cpu/possible");
    possible
        .iter()
        .filter_map(|range| range.end().checked_add(1))
        .max()
        .or_else(|| {
            // SAFETY: the call takes no pointer.
            usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) })
                .ok()
                .filter(|count| *count > 0)
        })
}

/// The CPUs on which a thread of this process may run now, without isolated ones, in ascending
/// order. Empty if the system does not say. Allocates.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    // 0 is the calling thread, in case `/proc` is hidden.
    let masks: Vec<CpuMask> = threads.chain([0]).filter_map(CpuMask::for_thread).collect();
    // CPUs that the administrator keeps free of other threads (`isolcpus`):
    // `Documentation/ABI/testing/sysfs-devices-system-cpu`.
    let isolated = ranges_in("/sys/devices/system/cpu/isolated");
    let allowed = |cpu: &u32| {
        usize::try_from(*cpu).is_ok_and(|cpu| {
            masks.iter().any(|mask| mask.contains(cpu))
                && !isolated.iter().any(|range| range.contains(&cpu))
        })
    };
    (0..MAX_CPUS).filter(allowed).collect()
}

/// Binds the calling thread to `cpu`, on which it runs at the return. Returns whether that was
/// possible.
pub(crate) fn pin_this_thread(cpu: u32) -> bool {
    usize::try_from(cpu)
        .ok()
        .and_then(CpuMask::single)
        .is_some_and(|mask| mask.apply())
}
