//! The load: processes that keep the CPUs busy.

use std::hint::black_box;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use core_affinity::CoreId;

/// More than the last-level caches of two cores hold.
const MEMORY_WORDS: usize = 4 << 20;

/// What the busy processes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Only the CPU is taken: registers.
    Arithmetic,
    /// The caches are emptied, too: writes of 32 MiB.
    Memory,
}

impl Work {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
        }
    }
}

/// The busy processes. They end when this value is dropped, or when this process ends.
#[derive(Debug)]
pub(crate) struct Load(Vec<Child>);

impl Load {
    /// Starts `per_cpu` processes on each CPU.
    pub(crate) fn start(per_cpu: u64, work: Work) -> io::Result<Self> {
        let mut load = Self(Vec::new());
        for core in core_affinity::get_core_ids().unwrap_or_default() {
            for _ in 0..per_cpu {
                let child = Command::new(std::env::current_exe()?)
                    .args(["--keep-busy", work.name(), "--cpu", &core.id.to_string()])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()?;
                load.0.push(child);
            }
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// The busy process itself. It ends when its standard input does.
pub(crate) fn keep_busy(work: Work, cpu: u64) -> ! {
    std::thread::spawn(|| {
        io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    if let Ok(id) = usize::try_from(cpu) {
        core_affinity::set_for_current(CoreId { id });
    }
    let words = match work {
        Work::Arithmetic => 1,
        Work::Memory => MEMORY_WORDS,
    };
    let mut memory = vec![0_u64; words];
    loop {
        for word in &mut memory {
            *word = black_box(word.wrapping_mul(5).wrapping_add(1));
        }
    }
}
