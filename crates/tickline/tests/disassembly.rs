//! The machine code of the hot paths in an optimised build for the target of this test.
//!
//! The test reads each function from its entry to its first `ret`: the path on which no branch is
//! taken.
#![cfg(target_os = "linux")]
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// What is expected of this target's machine code.
struct Expected {
    /// The target, as compilers name it, without the C library; and its disassembler.
    target: &'static str,
    objdump: &'static str,
    /// Instructions from the entry to the return of each of [`FUNCTIONS`]: as many as today, and no
    /// more.
    most_instructions: [usize; 3],
    /// The first one is about reads of the counter.
    rules: &'static [Rule],
    /// Loads of the state. On x86_64 the second look is a comparison with memory. Empty where the
    /// state is portable.
    wide_loads: Kind,
    /// Loads from memory, without those of the frame.
    loads: Kind,
    /// How many follow the read of the counter: the second look at the state, and before it on
    /// aarch64 the load that depends on the counter. Everything that is used of the slot was loaded
    /// before.
    loads_behind_the_counter: usize,
}

/// How many instructions of a kind a function has with a plain read of the counter, and with an
/// ordered one.
struct Rule(&'static str, [usize; 2], Kind);

/// How instructions of a kind begin, or with a star before it: what they contain. The second list
/// has the exceptions.
struct Kind(&'static [&'static str], &'static [&'static str]);

impl Kind {
    fn has(&self, instruction: &str) -> bool {
        let is_one = |pattern: &&str| match pattern.strip_prefix('*') {
            Some(part) => instruction.contains(part),
            None => instruction.starts_with(pattern),
        };
        self.0.iter().any(is_one) && !self.1.iter().any(is_one)
    }
}

/// The functions, and whether their read of the counter is ordered.
const FUNCTIONS: [(&str, bool); 3] =
    [("tickline_hot_now_ns", false), ("tickline_hot_now_ordered_ns", true), ("tickline_hot_unix_ns", false)];

#[cfg(target_arch = "x86_64")]
const EXPECTED: Expected = Expected {
    target: "x86_64-unknown-linux-",
    objdump: "x86_64-linux-gnu-objdump",
    most_instructions: [28, 29, 27],
    rules: &[
        Rule("reads of the counter", [1, 1], Kind(&["rdtsc"], &[])),
        Rule("barriers", [0, 1], Kind(&["*fence"], &[])),
        // The two looks at the state. The first one must be whole, which Intel promises of
        // `movdqa`.
        Rule("first looks", [1, 1], Kind(&["movdqa ("], &[])),
        Rule("second looks", [1, 1], Kind(&["pcmpeqd ("], &[])),
        Rule("locks", [0, 0], Kind(&["*lock ", "xchg"], &[])),
        Rule("calls", [0, 0], Kind(&["call"], &[])),
        Rule("divisions", [0, 0], Kind(&["div"], &[])),
    ],
    wide_loads: Kind(&["movdqa (", "pcmpeqd ("], &[]),
    loads: Kind(&["*(%"], &["*(%rip)", "lea"]),
    loads_behind_the_counter: 1,
};

#[cfg(target_arch = "aarch64")]
const EXPECTED: Expected = Expected {
    target: "aarch64-unknown-linux-",
    objdump: "aarch64-linux-gnu-objdump",
    most_instructions: [26, 28, 27],
    rules: &[
        Rule("reads of the counter", [1, 1], Kind(&["*cntvct_el0"], &[])),
        // The two looks at the state.
        Rule("loads of 16 bytes", [2, 2], Kind(&["ldp "], &["*[sp"])),
        // After the first look, before the second, and before an ordered read.
        Rule("barriers for loads", [2, 3], Kind(&["dmb ishld"], &[])),
        Rule("barriers of another kind", [0, 0], Kind(&["dsb", "dmb"], &["dmb ishld"])),
        Rule("barriers for instructions", [0, 1], Kind(&["isb"], &[])),
        Rule("exclusive accesses", [0, 0], Kind(&["ldx", "ldax", "stx", "stlx"], &[])),
        // `cas` is also the function that the compiler calls for `casp`.
        Rule("atomic accesses", [0, 0], Kind(&["cas", "swp", "ldadd", "ldset", "ldclr"], &[])),
        Rule("stores", [0, 0], Kind(&["st"], &["*[sp"])),
        Rule("calls", [0, 0], Kind(&["bl ", "blr "], &[])),
        Rule("divisions", [0, 0], Kind(&["udiv", "sdiv"], &[])),
    ],
    wide_loads: Kind(&["ldp "], &["*[sp"]),
    loads: Kind(&["ld"], &["*[sp"]),
    loads_behind_the_counter: 2,
};

#[cfg(target_arch = "riscv64")]
const EXPECTED: Expected = Expected {
    target: "riscv64gc-unknown-linux-",
    objdump: "riscv64-linux-gnu-objdump",
    most_instructions: [39, 40, 40],
    rules: &[
        Rule("reads of the counter", [1, 1], Kind(&["rdtime"], &[])),
        Rule("barriers behind the counter", [1, 1], Kind(&["fence i,r"], &[])),
        Rule("barriers before the counter", [0, 1], Kind(&["fence ir,ir"], &[])),
        // Each look at the portable state is a load of the word, one of the pair and one of the
        // word.
        Rule("acquiring barriers", [5, 5], Kind(&["fence r,rw"], &[])),
        Rule("others", [0, 0], Kind(&["fence"], &["fence i,r", "fence ir,ir", "fence r,rw"])),
        Rule("atomic accesses", [0, 0], Kind(&["amo", "lr.", "sc."], &[])),
        Rule("stores", [0, 0], Kind(&["sd "], &["*(sp)"])),
        Rule("calls", [0, 0], Kind(&["jal"], &[])),
        Rule("divisions", [0, 0], Kind(&["div"], &[])),
    ],
    wide_loads: Kind(&[], &[]),
    loads: Kind(&["ld ", "lw "], &["*(sp)"]),
    loads_behind_the_counter: 4,
};

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
    let target = format!("{}{}", EXPECTED.target, if cfg!(target_env = "musl") { "musl" } else { "gnu" });
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
    [EXPECTED.objdump, "objdump"]
        .iter()
        .find_map(|program| output(program, &["-d", "--no-show-raw-insn", path]))
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
    let Some(listing) = listing(&example()) else {
        return common::skip(
            "no installed objdump knows this target, the machine code of the hot path was NOT checked",
        );
    };
    let Rule(_, _, counter) = &EXPECTED.rules[0];
    for ((name, is_ordered), most) in FUNCTIONS.into_iter().zip(EXPECTED.most_instructions) {
        let way = straight_way(&listing, name);
        let shown = format!("{name}:\n{}", way.join("\n"));
        for Rule(what, expected, kind) in EXPECTED.rules {
            let found = way.iter().filter(|instruction| kind.has(instruction)).count();
            assert_eq!(found, expected[usize::from(is_ordered)], "{what} in {shown}");
        }
        let at = way.iter().position(|instruction| counter.has(instruction)).expect("the first rule");
        let (before, behind) = (&way[..at], &way[at + 1..]);
        let loads = behind.iter().filter(|instruction| EXPECTED.loads.has(instruction)).count();
        assert_eq!(loads, EXPECTED.loads_behind_the_counter, "loads behind the counter in {shown}");
        if !cfg!(target_arch = "riscv64") {
            let wide = before.iter().filter(|instruction| EXPECTED.wide_loads.has(instruction)).count();
            assert_eq!(wide, 1, "loads of 16 bytes before the counter in {shown}");
        }
        assert!(way.len() <= most, "{} instructions, {most} allowed, in {shown}", way.len());
    }
}
