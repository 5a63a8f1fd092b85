//! What CI checks.

use crate::step::Step;

const DENY: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

/// Tests leak their machines on purpose (`testing.rs`), and Miri has no clock of its own.
const MIRI: &[(&str, &str)] = &[("MIRIFLAGS", "-Zmiri-ignore-leaks")];

const AARCH64: &[(&str, &str)] = &[
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"),
    ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
    ("TICKLINE_TEST_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu"),
];

/// A target without a counter that tickline reads, whose programs run on x86_64 as they are.
const I686: &[(&str, &str)] = &[("CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")];

/// Every check, cheap ones first.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::new("format", "cargo fmt --all --check"),
        Step::new("clippy", "cargo clippy --workspace --all-targets -- -D warnings"),
        Step::new(
            "clippy, all features",
            "cargo clippy --workspace --all-targets --all-features -- -D warnings",
        ),
        Step::new("docs", "cargo doc --workspace --no-deps --all-features").with(DENY),
        Step::new("tests, as in the README", "cargo test --workspace"),
        Step::new("tests, all features", "cargo test -p tickline --all-features"),
        Step::new("tests, optimised", "cargo test -p tickline-core -p tickline --release --all-features"),
        Step::new("benches run", "cargo bench -- --test"),
        Step::new(
            "order between threads, 5 s",
            "cargo run --release -q -p tickline-benches --bin order -- --secs 5",
        ),
        Step::new("real kernels with bad clocks", "cargo xtask vm").needs(&["cargo xtask vm --prepare"]),
        Step::new(
            "oldest supported compiler",
            "cargo +1.86 check -p tickline -p tickline-cli --all-features",
        )
        .needs(&["rustup toolchain install 1.86 --profile minimal", "cargo +1.86 --version"]),
        Step::new("core for bare x86_64", "cargo build -p tickline-core --target x86_64-unknown-none")
            .needs(&["rustup target add x86_64-unknown-none"]),
        Step::new("core for bare aarch64", "cargo build -p tickline-core --target aarch64-unknown-none")
            .needs(&["rustup target add aarch64-unknown-none"]),
        Step::new("core for thumbv7em", "cargo build -p tickline-core --target thumbv7em-none-eabihf")
            .needs(&["rustup target add thumbv7em-none-eabihf"]),
        Step::new("Miri on core", "cargo +nightly miri test -p tickline-core")
            .with(MIRI)
            .needs(&["cargo +nightly miri --version", "cargo +nightly miri setup"]),
        Step::new(
            "core and tickline without a counter (i686, 32 bits, musl)",
            "cargo test -p tickline-core -p tickline --target i686-unknown-linux-musl",
        )
        .with(I686)
        .needs(&["rustup target add i686-unknown-linux-musl"]),
        Step::new(
            "core and tickline on aarch64, emulated",
            "cargo test -p tickline-core -p tickline --target aarch64-unknown-linux-gnu",
        )
        .with(AARCH64)
        .needs(&[
            "rustup target add aarch64-unknown-linux-gnu",
            "aarch64-linux-gnu-gcc --version",
            "qemu-aarch64 --version",
        ]),
    ]
}
