//! Linux: the CPU masks of threads, and the ids that CPUs may have.

use core::ops::RangeInclusive;

use crate::sys::cpu_list;

/// A set of CPUs, by their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuMask([libc::c_ulong; MASK_WORDS]);

/// The largest number of CPUs that Linux can be configured for (`NR_CPUS` with `MAXSMP`,
/// `arch/x86/Kconfig`); `cpu_set_t` has 1,024.
const MAX_CPUS: u32 = 8192;
const MASK_BITS: usize = MAX_CPUS as usize;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
const MASK_WORDS: usize = MASK_BITS / WORD_BITS;
const MASK_BYTES: usize = size_of::<CpuMask>();

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
    fn single(cpu: u32) -> Option<Self> {
        let cpu = cpu as usize;
        let mut mask = Self([0; MASK_WORDS]);
        *mask.0.get_mut(cpu / WORD_BITS)? |= 1 << (cpu % WORD_BITS);
        Some(mask)
    }

    /// Whether the set has `cpu`.
    pub(crate) fn contains(&self, cpu: u32) -> bool {
        let cpu = cpu as usize;
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
    fn restore(&self) {
        if !self.apply() {
            // The kernel ignores CPUs that do not exist, or that the process may not use.
            Self([libc::c_ulong::MAX; MASK_WORDS]).apply();
        }
    }
}

/// Pins the calling thread to one CPU after the other. Dropped, it gives the thread its former mask
/// back.
///
/// A mask that somebody else sets meanwhile, as `taskset -p` does, becomes the former mask. The
/// mask that the kernel sets if the pinned CPU goes offline or leaves the cpuset does not: then the
/// thread can't be pinned to that CPU again. A mask goes unnoticed if it comes in the microsecond
/// between the check and the next pin, or if it has exactly the pinned CPU.
#[derive(Debug)]
pub(crate) struct AffinityGuard {
    former: CpuMask,
    /// The mask that the thread had at the last check or pin.
    last: CpuMask,
}

impl AffinityGuard {
    /// For the calling thread, whose mask is `mask`.
    pub(crate) fn new(mask: CpuMask) -> Self {
        Self {
            last: mask.clone(),
            former: mask,
        }
    }

    /// The mask that the thread would get back now.
    pub(crate) fn former(&self) -> &CpuMask {
        &self.former
    }

    /// Pins the thread to `cpu`, on which it runs at the return. Returns whether that was possible.
    pub(crate) fn pin(&mut self, cpu: u32) -> bool {
        self.check();
        let Some(mask) = CpuMask::single(cpu).filter(CpuMask::apply) else {
            return false;
        };
        self.last = mask;
        true
    }

    /// Takes over a mask that neither this guard nor the kernel has set.
    fn check(&mut self) {
        let now = CpuMask::for_current_thread();
        let Some(mask) = now.filter(|now| *now != self.last) else {
            return;
        };
        let is_of_the_kernel = !self.last.apply();
        if is_of_the_kernel {
            self.last = mask;
        } else {
            self.former = mask;
        }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        self.check();
        if self.last != self.former {
            self.former.restore();
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
        masks.iter().any(|mask| mask.contains(*cpu))
            && !isolated
                .iter()
                .any(|range| range.contains(&(*cpu as usize)))
    };
    (0..MAX_CPUS).filter(allowed).collect()
}

/// Binds the calling thread to `cpu`, on which it runs at the return. Returns whether that was
/// possible.
pub(crate) fn pin_this_thread(cpu: u32) -> bool {
    CpuMask::single(cpu).is_some_and(|mask| mask.apply())
}

// Miri does not show a program the machine's CPUs.
#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::skip;

    fn cpus_of(mask: &CpuMask) -> Vec<u32> {
        (0..MAX_CPUS).filter(|cpu| mask.contains(*cpu)).collect()
    }

    fn own_cpus() -> Vec<u32> {
        cpus_of(&CpuMask::for_current_thread().unwrap())
    }

    /// The largest id of this thread's CPUs.
    fn last_own_cpu() -> u32 {
        *own_cpus().last().unwrap()
    }

    /// Runs `run` on a thread of its own, whose mask it may change.
    fn on_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    #[test]
    fn a_mask_of_one_cpu_has_only_this_cpu() {
        let word_bits = libc::c_ulong::BITS;
        for cpu in [0, 1, word_bits - 1, word_bits, word_bits + 1, MAX_CPUS - 1] {
            assert_eq!(cpus_of(&CpuMask::single(cpu).unwrap()), [cpu]);
        }
    }

    #[test]
    fn no_mask_has_a_cpu_beyond_its_end() {
        assert!(CpuMask::single(MAX_CPUS).is_none());
    }

    #[test]
    fn a_cpu_beyond_the_end_of_a_mask_is_not_in_it() {
        assert!(!CpuMask([libc::c_ulong::MAX; MASK_WORDS]).contains(MAX_CPUS));
    }

    #[test]
    fn a_thread_that_does_not_exist_has_no_mask() {
        assert!(CpuMask::for_thread(libc::pid_t::MAX).is_none());
    }

    #[test]
    fn a_pinned_thread_may_run_only_on_its_cpu() {
        let cpu = last_own_cpu();
        let (is_pinned, cpus) = on_thread(|| (pin_this_thread(cpu), own_cpus()));
        assert_eq!((is_pinned, cpus), (true, vec![cpu]));
    }

    #[test]
    fn no_thread_is_pinned_to_a_cpu_that_does_not_exist() {
        assert!(!on_thread(|| pin_this_thread(MAX_CPUS - 1)));
    }

    /// Runs `run` with a guard, on a thread of its own. Returns the CPUs before it and after it.
    fn guarded(run: impl FnOnce(&mut AffinityGuard) + Send) -> [Vec<u32>; 2] {
        on_thread(|| {
            let mask = CpuMask::for_current_thread().unwrap();
            let before = cpus_of(&mask);
            run(&mut AffinityGuard::new(mask));
            [before, own_cpus()]
        })
    }

    #[test]
    fn a_guard_gives_the_thread_its_cpus_back() {
        let [before, after] = guarded(|guard| {
            for cpu in own_cpus() {
                assert!(guard.pin(cpu));
                assert_eq!(own_cpus(), [cpu]);
            }
        });
        assert_eq!(after, before);
    }

    /// Symptom: the pass over the CPUs undid the operator's `taskset`.
    #[test]
    fn a_mask_that_was_set_between_pins_stays() {
        let [first, .., last] = own_cpus()[..] else {
            return skip("the thread has only one CPU");
        };
        let [_, after] = guarded(|guard| {
            assert!(guard.pin(last));
            assert!(CpuMask::single(first).unwrap().apply());
            assert!(guard.pin(last));
        });
        assert_eq!(after, [first]);
    }

    #[test]
    fn a_mask_that_was_set_after_the_last_pin_stays() {
        let [first, .., last] = own_cpus()[..] else {
            return skip("the thread has only one CPU");
        };
        let [_, after] = guarded(|guard| {
            assert!(guard.pin(last));
            assert!(CpuMask::single(first).unwrap().apply());
        });
        assert_eq!(after, [first]);
    }

    /// Symptom, by reading: the kernel gives such a thread all CPUs, and it kept them.
    #[test]
    fn a_guard_whose_cpu_has_gone_offline_gives_the_former_cpus_back() {
        let [first, .., _] = own_cpus()[..] else {
            return skip("the thread has only one CPU");
        };
        let after = on_thread(|| {
            let mut guard = AffinityGuard::new(CpuMask::single(first).unwrap());
            guard.last = CpuMask::single(MAX_CPUS - 1).unwrap();
            drop(guard);
            own_cpus()
        });
        assert_eq!(after, [first]);
    }

    #[test]
    fn a_guard_that_reaches_no_cpu_leaves_the_mask() {
        let [before, after] = guarded(|guard| assert!(!guard.pin(MAX_CPUS - 1)));
        assert_eq!(after, before);
    }

    /// Otherwise the thread would stay pinned to the CPU that it calibrated last.
    #[test]
    fn a_thread_that_has_lost_its_cpus_may_run_on_those_of_the_process() {
        let (before, after) = on_thread(|| {
            let before = own_cpus();
            assert!(pin_this_thread(last_own_cpu()));
            CpuMask::single(MAX_CPUS - 1).unwrap().restore();
            (before, own_cpus())
        });
        assert!(
            before.iter().all(|cpu| after.contains(cpu)),
            "{before:?} {after:?}"
        );
    }

    #[test]
    fn a_list_that_cannot_be_read_has_no_cpus() {
        assert_eq!(ranges_in("/proc/self/no-such-list"), []);
    }

    /// The kernel ends its list with the largest id.
    #[test]
    fn the_number_of_cpu_ids_is_one_more_than_the_largest_id() {
        let Ok(possible) = std::fs::read_to_string("/sys/devices/system/cpu/possible") else {
            return skip("the kernel does not list the possible CPUs");
        };
        let largest = possible.trim_end().rsplit([',', '-']).next().unwrap();
        assert_eq!(cpu_ids(), Some(largest.parse::<usize>().unwrap() + 1));
    }

    #[test]
    fn comparable_cpus_are_those_of_the_process_without_isolated_ones() {
        let isolated = ranges_in("/sys/devices/system/cpu/isolated");
        let is_isolated = |cpu: u32| isolated.iter().any(|range| range.contains(&(cpu as usize)));
        let mut expected = own_cpus();
        expected.retain(|cpu| !is_isolated(*cpu));
        assert_eq!(comparable_cpus(), expected);
    }

    /// Its other threads may run elsewhere.
    #[test]
    fn a_thread_that_is_pinned_takes_no_cpu_from_the_comparable_ones() {
        let before = comparable_cpus();
        let cpu = last_own_cpu();
        let after = on_thread(|| {
            assert!(pin_this_thread(cpu));
            comparable_cpus()
        });
        assert_eq!(after, before);
    }
}
