//! Linux: which CPUs the process may use, and putting a thread on one.

use core::mem;

/// CPUs that a mask of the size that libc knows can name. Machines with more make the calls below fail, and their CPUs count
/// as not known.
const MOST_CPUS: usize = libc::CPU_SETSIZE as usize;

/// The CPUs on which a thread of this process may run now, without those that the scheduler leaves alone; in ascending order.
/// Empty if nobody can say. Allocates.
pub(crate) fn comparable_cpus() -> Vec<u32> {
    let mut allowed = [false; MOST_CPUS];
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse::<libc::pid_t>().ok());
    // 0 is the calling thread, should /proc be hidden.
    for thread in threads.chain([0]) {
        if let Some(mask) = mask_of(thread) {
            for (cpu, allowed) in allowed.iter_mut().enumerate() {
                // SAFETY: the mask was written by the kernel, and `cpu` is below its size.
                *allowed |= unsafe { libc::CPU_ISSET(cpu, &mask) };
            }
        }
    }
    let allowed = (0_u32..).zip(allowed).filter(|(_, allowed)| *allowed).map(|(cpu, _)| cpu);
    allowed.filter(|cpu| !crate::facts::is_isolated(*cpu)).collect()
}

fn mask_of(thread: libc::pid_t) -> Option<libc::cpu_set_t> {
    // SAFETY: a mask is plain data.
    let mut mask: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the mask is valid for writes of its size; an unknown thread is an error code.
    let result = unsafe { libc::sched_getaffinity(thread, size_of_val(&mask), &raw mut mask) };
    (result == 0).then_some(mask)
}

/// Puts the calling thread on `cpu` alone. Returns whether that was possible.
pub(crate) fn pin_this_thread(cpu: u32) -> bool {
    let Some(cpu) = usize::try_from(cpu).ok().filter(|cpu| *cpu < MOST_CPUS) else { return false };
    // SAFETY: a mask is plain data.
    let mut mask: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: `cpu` is below the mask's size.
    unsafe { libc::CPU_SET(cpu, &mut mask) };
    // SAFETY: the mask is valid; 0 is the calling thread; a refusal is an error code.
    unsafe { libc::sched_setaffinity(0, size_of_val(&mask), &raw const mask) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_run_somewhere_and_be_put_there() {
        let Some(cpu) = comparable_cpus().first().copied() else {
            return; // a kernel that does not say, or isolated CPUs only
        };
        std::thread::spawn(move || {
            assert!(pin_this_thread(cpu));
            let mask = mask_of(0).expect("it could be set");
            let named = (0..MOST_CPUS).filter(|cpu| {
                // SAFETY: below the mask's size.
                unsafe { libc::CPU_ISSET(*cpu, &mask) }
            });
            assert_eq!(named.collect::<Vec<_>>(), [usize::try_from(cpu).unwrap()]);
        })
        .join()
        .unwrap();
        assert!(!pin_this_thread(u32::MAX));
    }
}
