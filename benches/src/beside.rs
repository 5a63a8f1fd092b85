//! Measurements on one CPU while another thread on another CPU does the same.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Measures `subjects` in turns, in so many rounds: the times of each. The functions make what each
/// of the two threads needs, on that thread. The other thread then calls its own for the number of
/// the subject that is being measured, over and over.
///
/// # Panics
///
/// If a thread does.
pub fn measure<O, M>(
    subjects: usize,
    rounds: u32,
    other: impl FnOnce() -> O + Send,
    measured: impl FnOnce() -> M + Send,
) -> Vec<Vec<f64>>
where
    O: FnMut(usize),
    M: FnMut(usize) -> f64,
{
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    let pin = |index: usize| {
        if let Some(cpu) = cpus.get(index) {
            core_affinity::set_for_current(*cpu);
        }
    };
    let (current, running, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            let mut run = other();
            // ORDERING: Relaxed for all: hints about what to do next.
            while !stop.load(Ordering::Relaxed) {
                // ORDERING: as above.
                let subject = current.load(Ordering::Relaxed);
                run(subject);
                // ORDERING: as above.
                running.store(subject, Ordering::Relaxed);
            }
        });
        let measured = scope.spawn(|| {
            pin(0);
            let mut time = measured();
            let mut times = vec![Vec::new(); subjects];
            for _ in 0..rounds {
                for (index, times) in times.iter_mut().enumerate() {
                    // ORDERING: Relaxed, as above.
                    current.store(index, Ordering::Relaxed);
                    // ORDERING: as above.
                    while running.load(Ordering::Relaxed) != index {
                        spin_loop();
                    }
                    times.push(time(index));
                }
            }
            // ORDERING: Relaxed, as above.
            stop.store(true, Ordering::Relaxed);
            times
        });
        measured.join().expect("the measuring thread")
    })
}
