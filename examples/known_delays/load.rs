//! A busy machine: a thread for each CPU that does nothing but compute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The threads; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let cpus = core_affinity::get_core_ids().unwrap_or_default();
        let threads = cpus.into_iter().map(|cpu| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                core_affinity::set_for_current(cpu);
                // ORDERING: Relaxed: the flag carries nothing but itself.
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::black_box((0..1_000_u64).fold(3, u64::wrapping_mul));
                }
            })
        });
        Self { threads: threads.collect(), is_over }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
