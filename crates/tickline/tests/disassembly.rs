//! The machine code of the hot paths in an optimised build for the target of this test.
//!
//! Looked at is each function from its entry to its first `ret`, the way that is taken when no branch is. RISC-V's portable
//! cell chooses between its slots by branches; there it is every way that reads the counter and calls nothing.
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

/// A function that is looked at.
struct Function {
    name: &'static str,
    /// Ordered reads of the counter.
    ordered: usize,
    /// Words that are loaded from the line's slot, with acquire; on x86_64 every load is one.
    #[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "plain loads there"))]
    slot_words: usize,
}

const FUNCTIONS: [Function; 3] = [
    Function { name: "tickline_hot_now_ns", ordered: 0, slot_words: 1 },
    Function { name: "tickline_hot_now_ordered_ns", ordered: 1, slot_words: 1 },
    Function { name: "tickline_hot_unix_ns", ordered: 0, slot_words: 2 },
];

/// How many instructions of a kind a function must have.
struct Rule {
    what: &'static str,
    expected: fn(&Function) -> usize,
    is: fn(&str) -> bool,
}

#[cfg(target_arch = "x86_64")]
const RULES: &[Rule] = &[
    Rule { what: "reads of the counter", expected: |_| 1, is: |i| i.starts_with("rdtsc") },
    // The state, and the second look.
    Rule { what: "16-byte loads", expected: |_| 2, is: |i| i.starts_with("movdqa") && i.contains('(') },
    Rule { what: "barriers", expected: |function| function.ordered, is: |i| i.contains("fence") },
    Rule { what: "locks", expected: |_| 0, is: |i| i.contains("lock ") || i.starts_with("xchg") },
    Rule { what: "calls", expected: |_| 0, is: |i| i.starts_with("call") },
    Rule { what: "divisions", expected: |_| 0, is: |i| i.starts_with("div") },
];

#[cfg(target_arch = "aarch64")]
const RULES: &[Rule] = &[
    Rule { what: "reads of the counter", expected: |_| 1, is: |i| i.contains("cntvct_el0") },
    // The frame's registers are a pair on the stack.
    Rule { what: "16-byte loads", expected: |_| 1, is: |i| i.starts_with("ldp") && !i.contains("[sp") },
    // The slot's words, and the second look.
    Rule {
        what: "acquiring loads",
        expected: |function| function.slot_words + 1,
        is: |i| i.starts_with("ldar"),
    },
    // After the state, before the second look, and before an ordered read.
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
    // ldxp, ldaxp, stxp, stlxp; casp and what the compiler calls for it; swp, ldadd and their like.
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
    // The state's word and base, the slot's words, the second look.
    Rule {
        what: "acquiring loads",
        expected: |function| 3 + function.slot_words,
        is: |i| i.starts_with("fence r,rw"),
    },
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
    Rule { what: "divisions", expected: |_| 0, is: |i| i.starts_with("div") },
];

/// Whether the hot path is the way that is taken when no branch is.
const STRAIGHT: bool = !cfg!(target_arch = "riscv64");

/// The longest way so far is 40 instructions.
const MOST_INSTRUCTIONS: usize = 45;

/// What the program prints; `None` if it cannot be had or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The optimised example, built into a folder of its own so that it does not disturb the build that runs this test; with its
/// symbols, which settings in the environment may take from a release.
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

/// An instruction, with single spaces, and its address.
type Instruction = (u64, String);

/// The instructions of `function`.
fn body(listing: &str, function: &str) -> Vec<Instruction> {
    let start = format!("<{function}>:");
    let lines = listing.lines().skip_while(|line| !line.contains(&start)).skip(1);
    lines
        .map_while(|line| {
            let (address, instruction) = line.split_once(":\t")?;
            let address = u64::from_str_radix(address.trim(), 16).ok()?;
            Some((address, instruction.split_whitespace().collect::<Vec<_>>().join(" ")))
        })
        .collect()
}

/// From the entry to the first return: the way that is taken when no branch is.
fn straight_way(body: &[Instruction]) -> Vec<String> {
    let end = body.iter().position(|(_, instruction)| instruction.starts_with("ret"));
    let end = end.expect("a return");
    body[..=end].iter().map(|(_, instruction)| instruction.clone()).collect()
}

/// Every way from the entry to a return that reads the counter and calls nothing. For code without loops.
fn ways_by_the_counter(body: &[Instruction]) -> Vec<Vec<String>> {
    let place = |instruction: &str| {
        let target = instruction.split_once(" <")?.0.rsplit([' ', ',']).next()?;
        let target = u64::from_str_radix(target, 16).ok()?;
        body.iter().position(|(address, _)| *address == target)
    };
    let (mut open, mut ways) = (vec![(0, Vec::new())], Vec::new());
    while let Some((at, mut way)) = open.pop() {
        let Some((_, instruction)) = body.get(at) else { continue };
        assert!(way.len() < body.len(), "a loop");
        way.push(instruction.clone());
        if instruction.starts_with("ret") {
            if way.iter().any(|instruction| (RULES[0].is)(instruction)) {
                ways.push(way);
            }
        } else if instruction.starts_with("j ") {
            open.extend(place(instruction).map(|target| (target, way)));
        } else if !instruction.starts_with('j') {
            // A branch may be taken or not.
            if instruction.starts_with('b') {
                open.extend(place(instruction).map(|target| (target, way.clone())));
            }
            open.push((at + 1, way));
        }
    }
    ways
}

#[test]
fn the_hot_paths_are_what_they_should_be() {
    if ![TARGET.1, "objdump"].iter().any(|program| output(program, &["--version"]).is_some()) {
        common::skip("objdump is not installed, the machine code of the hot path was NOT checked");
        return;
    }
    let Some(listing) = listing(&example()) else {
        common::skip("no objdump here knows this target, the machine code of the hot path was NOT checked");
        return;
    };
    for function in FUNCTIONS {
        let body = body(&listing, function.name);
        assert!(!body.is_empty(), "no {} in the listing", function.name);
        let ways = if STRAIGHT { vec![straight_way(&body)] } else { ways_by_the_counter(&body) };
        assert!(!ways.is_empty(), "{} has no way by the counter:\n{body:#?}", function.name);
        for way in ways {
            let shown = format!("{}:\n{}", function.name, way.join("\n"));
            for rule in RULES {
                let found = way.iter().filter(|instruction| (rule.is)(instruction)).count();
                assert_eq!(found, (rule.expected)(&function), "{} in {shown}", rule.what);
            }
            assert!(way.len() <= MOST_INSTRUCTIONS, "{} instructions in {shown}", way.len());
        }
    }
}
