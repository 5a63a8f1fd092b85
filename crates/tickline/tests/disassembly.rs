//! The machine code of the hot paths in an optimised build for the target of this test.
//!
//! The test reads each function from its entry to its first `ret`: the path on which no branch is
//! taken. [`X86_64`], [`AARCH64`] and [`RISCV64`] have the rules for this path.
#![cfg(target_os = "linux")]
#![cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]

mod common;

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a function reads the counter, which decides how many instructions of a kind it has.
#[derive(Clone, Copy)]
enum Read {
    Plain,
    Ordered,
}

/// The functions, in the order of [`Expected::most_instructions`].
const FUNCTIONS: [(&str, Read); 3] = [
    ("tickline_hot_now_ns", Read::Plain),
    ("tickline_hot_now_ordered_ns", Read::Ordered),
    ("tickline_hot_unix_ns", Read::Plain),
];

/// The number of instructions of a kind in a function.
struct Count {
    plain: usize,
    ordered: usize,
}

impl Count {
    const fn each(count: usize) -> Self {
        Self {
            plain: count,
            ordered: count,
        }
    }

    fn by(&self, read: Read) -> usize {
        match read {
            Read::Plain => self.plain,
            Read::Ordered => self.ordered,
        }
    }
}

/// Whether an instruction, in the disassembler's words with single spaces, is of a kind.
type Kind = fn(&str) -> bool;

/// The count of a kind of instructions.
struct Rule {
    what: &'static str,
    count: Count,
    is: Kind,
}

const fn rule(what: &'static str, count: Count, is: Kind) -> Rule {
    Rule { what, count, is }
}

/// The kind does not occur.
const fn none(what: &'static str, is: Kind) -> Rule {
    rule(what, Count::each(0), is)
}

/// The machine code of an architecture.
struct Expected {
    /// The compiler's name of the target, without the C library.
    target: &'static str,
    objdump: &'static str,
    /// From the entry to the return, for each of [`FUNCTIONS`]. They are the present counts.
    most_instructions: [usize; 3],
    reads_counter: Kind,
    rules: &'static [Rule],
    /// Kinds of which a function has one instruction at most, in this order.
    in_order: &'static [(&'static str, Kind)],
    /// A load of the whole state: one before the counter. `None` if the state is portable.
    is_wide_load: Option<Kind>,
    /// A load from memory, except for the frame.
    is_load: Kind,
    /// The second load of the state, and before it on aarch64 the load that depends on the counter.
    /// In an ordered reading also start and window, which a plain reading has loaded before.
    loads_behind_counter: Count,
}

const ONE_IF_ORDERED: Count = Count {
    plain: 0,
    ordered: 1,
};

const X86_64: Expected = Expected {
    target: "x86_64-unknown-linux-",
    objdump: "x86_64-linux-gnu-objdump",
    most_instructions: [28, 29, 29],
    reads_counter: |line| line.starts_with("rdtsc"),
    rules: &[
        rule("barriers", ONE_IF_ORDERED, x86_64::is_barrier),
        rule("first loads", Count::each(1), x86_64::is_first_load),
        rule("second loads of b", Count::each(1), x86_64::is_load_of_b),
        rule("second loads of m", Count::each(1), x86_64::is_load_of_m),
        none("locks", |line| {
            line.contains("lock ") || line.starts_with("xchg")
        }),
        none("calls", |line| line.starts_with("call")),
        none("divisions", |line| line.starts_with("div")),
    ],
    in_order: &[
        ("first load", x86_64::is_first_load),
        ("barrier", x86_64::is_barrier),
        ("read of the counter", |line| line.starts_with("rdtsc")),
        ("second load of b", x86_64::is_load_of_b),
        ("second load of m", x86_64::is_load_of_m),
    ],
    is_wide_load: Some(x86_64::is_first_load),
    is_load: |line| line.contains("(%") && !line.contains("(%rip)") && !line.starts_with("lea"),
    loads_behind_counter: Count {
        plain: 2,
        ordered: 4,
    },
};

/// The two loads of the state. The second one compares the halves with memory.
mod x86_64 {
    pub(super) fn is_first_load(line: &str) -> bool {
        line.starts_with("movdqa (")
    }

    pub(super) fn is_load_of_b(line: &str) -> bool {
        line.contains(",0x8(%")
    }

    pub(super) fn is_load_of_m(line: &str) -> bool {
        line.contains(",(%")
    }

    pub(super) fn is_barrier(line: &str) -> bool {
        line.contains("fence")
    }
}

const AARCH64: Expected = Expected {
    target: "aarch64-unknown-linux-",
    objdump: "aarch64-linux-gnu-objdump",
    most_instructions: [26, 28, 27],
    reads_counter: |line| line.contains("cntvct_el0"),
    rules: &[
        // The two loads of the state.
        rule("loads of 16 bytes", Count::each(2), is_load_of_pair),
        // After the first load, before the second, and before an ordered read.
        rule(
            "barriers for loads",
            Count {
                plain: 2,
                ordered: 3,
            },
            |line| line.starts_with("dmb ishld"),
        ),
        none("barriers of another kind", |line| {
            begins_with_one_of(line, &["dsb", "dmb"]) && !line.starts_with("dmb ishld")
        }),
        rule("barriers for instructions", ONE_IF_ORDERED, |line| {
            line.starts_with("isb")
        }),
        none("exclusive accesses", |line| {
            begins_with_one_of(line, &["ldx", "ldax", "stx", "stlx"])
        }),
        // `cas` is also the function that the compiler calls for `casp`.
        none("atomic accesses", |line| {
            begins_with_one_of(line, &["cas", "swp", "ldadd", "ldset", "ldclr"])
        }),
        none("stores", |line| {
            line.starts_with("st") && !line.contains("[sp")
        }),
        none("calls", |line| begins_with_one_of(line, &["bl ", "blr "])),
        none("divisions", |line| {
            begins_with_one_of(line, &["udiv", "sdiv"])
        }),
    ],
    in_order: &[],
    is_wide_load: Some(is_load_of_pair),
    is_load: |line| line.starts_with("ld") && !line.contains("[sp"),
    loads_behind_counter: Count {
        plain: 2,
        ordered: 4,
    },
};

fn is_load_of_pair(line: &str) -> bool {
    line.starts_with("ldp ") && !line.contains("[sp")
}

const RISCV64: Expected = Expected {
    target: "riscv64gc-unknown-linux-",
    objdump: "riscv64-linux-gnu-objdump",
    most_instructions: [41, 42, 42],
    reads_counter: |line| line.starts_with("rdtime"),
    rules: &[
        rule("barriers behind the counter", Count::each(1), |line| {
            line.starts_with("fence i,r")
        }),
        rule("barriers before the counter", ONE_IF_ORDERED, |line| {
            line.starts_with("fence ir,ir")
        }),
        // A load of the portable state loads the word, an entry, and the word again, and adds the
        // tag.
        rule("acquiring barriers", Count::each(5), |line| {
            line.starts_with("fence r,rw")
        }),
        none("other barriers", |line| {
            line.starts_with("fence")
                && !begins_with_one_of(line, &["fence i,r", "fence ir,ir", "fence r,rw"])
        }),
        none("atomic accesses", |line| {
            begins_with_one_of(line, &["amo", "lr.", "sc."])
        }),
        none("stores", |line| {
            line.starts_with("sd ") && !line.contains("(sp)")
        }),
        none("calls", |line| line.starts_with("jal")),
        none("divisions", |line| line.starts_with("div")),
    ],
    in_order: &[],
    is_wide_load: None,
    is_load: |line| begins_with_one_of(line, &["ld ", "lw "]) && !line.contains("(sp)"),
    loads_behind_counter: Count {
        plain: 4,
        ordered: 6,
    },
};

fn begins_with_one_of(line: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| line.starts_with(start))
}

fn expected() -> &'static Expected {
    match ARCH {
        "x86_64" => &X86_64,
        "aarch64" => &AARCH64,
        _ => &RISCV64,
    }
}

fn count(path: &[String], is: Kind) -> usize {
    path.iter().filter(|line| is(line)).count()
}

/// The optimised example. It is built into a folder of its own, so that it does not disturb the
/// build that runs this test. It keeps its symbols; settings in the environment may otherwise take
/// them from a release.
fn example(target: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("disassembly");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = format!(
        "{target}{}",
        if cfg!(target_env = "musl") {
            "musl"
        } else {
            "gnu"
        }
    );
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "--config",
            "profile.release.strip=false",
        ])
        .args(["--example", "hot_path", "--target", &target])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(&folder)
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    folder.join(target).join("release/examples/hot_path")
}

/// The listing, by the first disassembler that knows this target.
fn listing(example: &Path, objdump: &str) -> Option<String> {
    [objdump, "objdump"].iter().find_map(|program| {
        let output = Command::new(program)
            .args(["-d", "--no-show-raw-insn"])
            .arg(example)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// The instructions of `function` from its entry to its first return, with single spaces: the path
/// on which no branch is taken.
fn straight_path(listing: &str, function: &str) -> Vec<String> {
    let start = format!("<{function}>:");
    let mut path = Vec::new();
    for line in listing
        .lines()
        .skip_while(|line| !line.contains(&start))
        .skip(1)
    {
        let Some((_, instruction)) = line.split_once(":\t") else {
            break;
        };
        path.push(instruction.split_whitespace().collect::<Vec<_>>().join(" "));
        if instruction.starts_with("ret") {
            return path;
        }
    }
    panic!("no {function} with a return in the listing: {path:#?}");
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "builds an optimised example: `cargo test --release -p tickline`"
)]
fn the_hot_paths_keep_their_instructions() {
    let expected = expected();
    let Some(listing) = listing(&example(expected.target), expected.objdump) else {
        return common::skip(
            "no installed objdump knows this target, the machine code of the hot path was NOT checked",
        );
    };
    for ((name, read), most) in FUNCTIONS.into_iter().zip(expected.most_instructions) {
        let path = straight_path(&listing, name);
        let shown = format!("{name}:\n{}", path.join("\n"));
        for Rule {
            what,
            count: expected,
            is,
        } in expected.rules
        {
            assert_eq!(count(&path, *is), expected.by(read), "{what} in {shown}");
        }
        let position = |is: Kind| path.iter().position(|line| is(line));
        let places = expected.in_order.iter().filter_map(|(_, is)| position(*is));
        let order: Vec<_> = expected.in_order.iter().map(|(what, _)| what).collect();
        assert!(places.is_sorted(), "not in the order {order:?}: {shown}");

        assert_eq!(
            count(&path, expected.reads_counter),
            1,
            "reads of the counter in {shown}"
        );
        let at = position(expected.reads_counter).expect("the only read");
        assert_eq!(
            count(&path[at + 1..], expected.is_load),
            expected.loads_behind_counter.by(read),
            "loads behind the counter in {shown}"
        );
        if let Some(is_wide_load) = expected.is_wide_load {
            assert_eq!(
                count(&path[..at], is_wide_load),
                1,
                "loads of 16 bytes before the counter in {shown}"
            );
        }
        assert!(
            path.len() <= most,
            "{} instructions, {most} allowed, in {shown}",
            path.len()
        );
    }
}
