//! Every target, and what is done for it.

/// The crates that are published, in the order in which they can be.
pub(crate) const PUBLISHED: &[&str] = &[
    "tickline-core",
    "tickline-page",
    "tickline",
    "tickline-quanta",
    "tickline-tracing",
    "tickline-criterion",
    "tickline-cli",
];

/// Those that are libraries: for targets on which a program in a terminal means nothing.
pub(super) const LIBRARIES: &[&str] =
    &["tickline-core", "tickline-page", "tickline", "tickline-quanta", "tickline-tracing"];
const CORE: &[&str] = &["tickline-core"];

/// What runs a target's programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// This machine, as it is.
    Native,
    /// QEMU's user-mode emulation, with files about the target's counter for the test of the
    /// control loop. Unit tests see the host's own files, which name another counter, so most of
    /// them read the OS clock.
    Qemu {
        program: &'static str,
        libraries: &'static str,
        current: &'static str,
        available: &'static str,
    },
    Wine,
    Node,
    /// Nothing that is available here.
    Nothing,
}

/// The counter of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// `tests/control_loop.rs` and `tests/disassembly.rs` run.
    Read,
    /// `tests/control_loop.rs` runs.
    ReadUnchecked,
    /// None that a program can read: `examples/any_system.rs` runs, or nothing.
    None,
    /// There is one, but nothing here can run its programs.
    Unreachable,
}

/// One target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    /// What is compiled, and as the table calls it.
    pub(super) crates: (&'static [&'static str], &'static str),
    /// Empty where the compiler's own choice is right.
    pub(super) linker: &'static str,
    pub(super) runner: Runner,
    pub(super) counter: Counter,
    /// Why no unit tests of core and tickline run; empty where they do.
    pub(super) no_tests: &'static str,
    /// Whether the program is built as a static binary and run.
    pub(super) is_static: bool,
}

const fn published(triple: &'static str) -> Target {
    Target {
        triple,
        crates: (PUBLISHED, "published crates"),
        linker: "",
        runner: Runner::Nothing,
        counter: Counter::Unreachable,
        no_tests: "no",
        is_static: false,
    }
}

const fn bare(triple: &'static str, counter: Counter) -> Target {
    Target { crates: (CORE, "core"), counter, ..published(triple) }
}

const fn wasm(triple: &'static str) -> Target {
    Target {
        crates: (LIBRARIES, "libraries"),
        runner: Runner::Node,
        counter: Counter::None,
        ..published(triple)
    }
}

/// A target whose unit tests run.
const fn tested(triple: &'static str, linker: &'static str, runner: Runner, counter: Counter) -> Target {
    Target { linker, runner, counter, no_tests: "", ..published(triple) }
}

/// The machine that this was written on.
pub(super) const HOST: &str = "x86_64-unknown-linux-gnu";
pub(super) const RISC_V: &str = "riscv64gc-unknown-linux-gnu";

/// The emulated counter is CLOCK_MONOTONIC, cut to its resolution. CLOCK_MONOTONIC is not made of it, so
/// the clocksource is not arch_sys_counter, and the CPUs' counters are compared before use.
const QEMU_AARCH64: Runner = Runner::Qemu {
    program: "qemu-aarch64",
    libraries: "/usr/aarch64-linux-gnu",
    current: "host",
    available: "host arch_sys_counter",
};

/// The emulated counter is the host's TSC, and so is its clock. The emulator reads it by rdtsc without
/// lfence, whatever fences the program has. So there is no order between threads, and no comparison.
const QEMU_RISC_V: Runner = Runner::Qemu {
    program: "qemu-riscv64",
    libraries: "/usr/riscv64-linux-gnu",
    current: "riscv_clocksource",
    available: "riscv_clocksource",
};

pub(super) const TARGETS: [Target; 14] = [
    tested(HOST, "", Runner::Native, Counter::Read),
    Target {
        no_tests: "no: glibc's and i686's stand for them",
        is_static: true,
        ..tested("x86_64-unknown-linux-musl", "", Runner::Native, Counter::Read)
    },
    // A target without a counter that tickline reads, whose programs run on x86_64 as they are.
    tested("i686-unknown-linux-musl", "rust-lld", Runner::Native, Counter::None),
    tested("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc", QEMU_AARCH64, Counter::Read),
    tested(RISC_V, "riscv64-linux-gnu-gcc", QEMU_RISC_V, Counter::Read),
    tested("x86_64-pc-windows-gnu", "x86_64-w64-mingw32-gcc", Runner::Wine, Counter::ReadUnchecked),
    published("x86_64-apple-darwin"),
    published("aarch64-apple-darwin"),
    wasm("wasm32-wasip1"),
    wasm("wasm32-unknown-unknown"),
    bare("x86_64-unknown-none", Counter::Unreachable),
    bare("aarch64-unknown-none", Counter::Unreachable),
    bare("riscv64gc-unknown-none-elf", Counter::Unreachable),
    bare("thumbv7em-none-eabihf", Counter::None),
];
