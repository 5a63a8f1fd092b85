//! The machine code of the hot paths in an optimised build for the target of this test.
//!
//! The test reads each function from its entry to its first `ret`: the path on which no branch is
//! taken.
#![cfg(target_os = "linux")]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of this test, as compilers name it; the C library, and the same as binutils name it.
const TARGET: (&str, &str) = if cfg!(target_arch = "x86_64") {
    ("x86_64-unknown-linux-", "x86_64-linux-gnu-objdump")
} else if cfg!(target_arch = "aarch64") {
    ("aarch64-unknown-linux-", "aarch64-linux-gnu-objdump")
} else {
    ("riscv64gc-unknown-linux-", "riscv64-linux-gnu-objdump")
};

/// The C library in a target's name.
const LIBC: &str = if cfg!(target_env = "musl") { "musl" } else { "gnu" };

/// A function, and its rules.
struct Function {
    name: &'static str,
    /// Ordered reads of the counter.
    ordered: usize,
    /// Instructions from the entry to the return on x86_64, aarch64 and RISC-V: as many as today,
    /// and no more.
    most_instructions: [usize; 3],
}

const FUNCTIONS: [Function; 3] = [
    Function { name: "tickline_hot_now_ns", ordered: 0, most_instructions: [28, 26, 39] },
    Function { name: "tickline_hot_now_ordered_ns", ordered: 1, most_instructions: [29, 28, 40] },
    Function { name: "tickline_hot_unix_ns", ordered: 0, most_instructions: [27, 27, 40] },
];

/// The place of this target in [`Function::most_instructions`].
const COLUMN: usize = if cfg!(target_arch = "x86_64") {
    0
} else if cfg!(target_arch = "aarch64") {
    1
} else {
    2
};

/// How many instructions of a kind a function must have.
struct Rule {
    what: &'static str,
    expected: fn(&Function) -> usize,
    is: fn(&str) -> bool,
}

#[cfg(target_arch = "x86_64")]
const RULES: &[Rule] = &[
    Rule { what: "reads of the counter", expected: |_| 1, is: |i| i.starts_with("rdtsc") },
    Rule { what: "barriers", expected: |function| function.ordered, is: |i| i.contains("fence") },
    // The two looks at the state. The first one must be whole, which Intel promises of `movdqa`.
    Rule { what: "first looks", expected: |_| 1, is: |i| i.starts_with("movdqa (") },
    Rule { what: "second looks", expected: |_| 1, is: |i| i.starts_with("pcmpeqd (") },
    Rule { what: "locks", expected: |_| 0, is: |i| i.contains("lock ") || i.starts_with("xchg") },
    Rule { what: "calls", expected: |_| 0, is: |i| i.starts_with("call") },
    Rule { what: "divisions", expected: |_| 0, is: |i| i.starts_with("div") },
];

#[cfg(target_arch = "aarch64")]
const RULES: &[Rule] = &[
    Rule { what: "reads of the counter", expected: |_| 1, is: |i| i.contains("cntvct_el0") },
    // The two looks at the state.
    Rule { what: "loads of 16 bytes", expected: |_| 2, is: is_wide_load },
    // After the first look, before the second, and before an ordered read.
    Rule {
        what: "barriers for loads",
        expected: |function| 2 + function.ordered,
        is: |i| i.starts_with("dmb ishld"),
    },
    Rule {
        what: "barriers of another kind",
        expected: |_| 0,
        is: |i| i.starts_with("dsb") || (i.starts_with("dmb") && i != "dmb ishld"),
    },
    Rule {
        what: "barriers for instructions",
        expected: |function| function.ordered,
        is: |i| i.starts_with("isb"),
    },
    // ldxp, ldaxp, stxp, stlxp; casp and the function that the compiler calls for it; swp, ldadd
    // and similar ones.
    Rule {
        what: "exclusive or atomic accesses",
        expected: |_| 0,
        is: |i| {
            ["ldx", "ldax", "stx", "stlx", "cas", "swp", "ldadd", "ldset", "ldclr"]
                .iter()
                .any(|name| i.starts_with(name))
        },
    },
    Rule { what: "stores", expected: |_| 0, is: |i| i.starts_with("st") && !i.contains("[sp") },
    Rule { what: "calls", expected: |_| 0, is: |i| i.starts_with("bl ") || i.starts_with("blr ") },
    Rule { what: "divisions", expected: |_| 0, is: |i| i.starts_with("udiv") || i.starts_with("sdiv") },
];

#[cfg(target_arch = "riscv64")]
const RULES: &[Rule] = &[
    Rule { what: "reads of the counter", expected: |_| 1, is: |i| i.starts_with("rdtime") },
    Rule { what: "barriers behind the counter", expected: |_| 1, is: |i| i.starts_with("fence i,r") },
    Rule {
        what: "barriers before the counter",
        expected: |function| function.ordered,
        is: |i| i.starts_with("fence ir,ir"),
    },
    // Each look at the portable state is a load of the word, one of the pair and one of the word.
    Rule { what: "acquiring barriers", expected: |_| 5, is: |i| i.starts_with("fence r,rw") },
    Rule {
        what: "barriers of another kind",
        expected: |_| 0,
        is: |i| {
            i.starts_with("fence")
                && !["fence i,r", "fence ir,ir", "fence r,rw"].iter().any(|known| i.starts_with(known))
        },
    },
    Rule {
        what: "atomic accesses",
        expected: |_| 0,
        is: |i| i.starts_with("amo") || i.starts_with("lr.") || i.starts_with("sc."),
    },
    Rule { what: "stores", expected: |_| 0, is: |i| i.starts_with("sd ") && !i.ends_with("(sp)") },
    Rule { what: "calls", expected: |_| 0, is: |i| i.starts_with("jal") },
    Rule { what: "divisions", expected: |_| 0, is: |i| i.starts_with("div") },
];

/// A load of the state: on x86_64 the second look is a comparison with memory.
fn is_wide_load(instruction: &str) -> bool {
    if cfg!(target_arch = "x86_64") {
        instruction.starts_with("movdqa (") || instruction.starts_with("pcmpeqd (")
    } else {
        instruction.starts_with("ldp ") && !instruction.contains("[sp")
    }
}

/// Loads from memory after the read of the counter, without those of the frame: the second look at
/// the state, and before it on aarch64 the load that depends on the counter. Everything that is used
/// of the slot was loaded before.
const LOADS_BEHIND_THE_COUNTER: usize = if cfg!(target_arch = "x86_64") {
    1
} else if cfg!(target_arch = "aarch64") {
    2
} else {
    4
};

fn is_load(instruction: &str) -> bool {
    if cfg!(target_arch = "x86_64") {
        instruction.contains("(%") && !instruction.contains("(%rip)") && !instruction.starts_with("lea")
    } else if cfg!(target_arch = "aarch64") {
        instruction.starts_with("ld") && !instruction.contains("[sp")
    } else {
        (instruction.starts_with("ld ") || instruction.starts_with("lw ")) && !instruction.ends_with("(sp)")
    }
}

/// What the program prints; `None` if it is not there, or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The optimised example, built into a folder of its own so that it does not disturb the build that
/// runs this test; with its symbols, which settings in the environment may take from a release.
fn example() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("disassembly");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = format!("{}{LIBC}", TARGET.0);
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--config", "profile.release.strip=false"])
        .args(["--example", "hot_path", "--target", &target])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .arg("--target-dir")
        .arg(&folder)
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder.join(target).join("release/examples/hot_path")
}

/// The listing, by the first disassembler that knows this target.
fn listing(example: &Path) -> Option<String> {
    let path = example.to_str().expect("a path in UTF-8");
    [TARGET.1, "objdump"].iter().find_map(|program| output(program, &["-d", "--no-show-raw-insn", path]))
}

/// The instructions of `function` from its entry to its first return, with single spaces: the path
/// on which no branch is taken.
fn straight_way(listing: &str, function: &str) -> Vec<String> {
    let start = format!("<{function}>:");
    let mut way = Vec::new();
    for line in listing.lines().skip_while(|line| !line.contains(&start)).skip(1) {
        let Some((_, instruction)) = line.split_once(":\t") else { break };
        way.push(instruction.split_whitespace().collect::<Vec<_>>().join(" "));
        if instruction.starts_with("ret") {
            return way;
        }
    }
    panic!("no {function} with a return in the listing: {way:#?}");
}

#[test]
fn the_hot_paths_keep_their_instructions() {
    if ![TARGET.1, "objdump"].iter().any(|program| output(program, &["--version"]).is_some()) {
        common::skip("objdump is not installed, the machine code of the hot path was NOT checked");
        return;
    }
    let Some(listing) = listing(&example()) else {
        common::skip("no objdump here knows this target, the machine code of the hot path was NOT checked");
        return;
    };
    for function in FUNCTIONS {
        let way = straight_way(&listing, function.name);
        let shown = format!("{}:\n{}", function.name, way.join("\n"));
        for rule in RULES {
            let found = way.iter().filter(|instruction| (rule.is)(instruction)).count();
            assert_eq!(found, (rule.expected)(&function), "{} in {shown}", rule.what);
        }
        let behind = way.iter().skip_while(|instruction| !(RULES[0].is)(instruction)).skip(1);
        let loads = behind.filter(|instruction| is_load(instruction)).count();
        assert_eq!(loads, LOADS_BEHIND_THE_COUNTER, "loads behind the counter in {shown}");
        if !cfg!(target_arch = "riscv64") {
            let before = way.iter().take_while(|instruction| !(RULES[0].is)(instruction));
            let wide = before.filter(|instruction| is_wide_load(instruction)).count();
            assert_eq!(wide, 1, "loads of 16 bytes before the counter in {shown}");
        }
        let most = function.most_instructions[COLUMN];
        assert!(way.len() <= most, "{} instructions, {most} allowed, in {shown}", way.len());
    }
}
