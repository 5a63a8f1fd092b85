//! `cargo xtask size`: by how much a hello-world with the library is larger than one with std. Both
//! are built by the default profile, and stripped.

use std::fs;

use crate::command::{command, output};
use crate::files::{read, root, store, target};

/// The most by which the program with the library may be larger, percent of the program with std.
/// It is 18 % on `x86_64` (63 of 351 KB; rustc 1.95, lld), of which three quarters are the machine
/// code of the control loop and of the gates. It is 20.4 % on aarch64 (68 of 332 KB; GNU ld).
/// Formatting, threads, files and sorting of std are not in it: each of them would add more than
/// the rest up to this limit.
const MAX_PERCENT: f64 = if cfg!(target_arch = "aarch64") {
    21.5
} else {
    19.0
};

/// Builds both programs, and compares their sizes.
pub(crate) fn run() -> Result<u8, String> {
    let by_std = build_hello("std", "")?;
    let library = root().join("crates/tickline");
    let by_library = build_hello("tickline", &format!("tickline = {{ path = {library:?} }}"))?;
    let more = percent_more(by_std, by_library);
    println!(
        "with std {by_std} bytes, with tickline {by_library}: {more:.1} % more, {MAX_PERCENT} % at most"
    );
    Ok(u8::from(more > MAX_PERCENT))
}

/// By how much `larger` is larger, percent.
#[expect(
    clippy::cast_precision_loss,
    reason = "a program is smaller than 2^53 bytes"
)]
fn percent_more(size: u64, larger: u64) -> f64 {
    (larger as f64 / size as f64 - 1.0) * 100.0
}

/// Builds a hello-world whose `Instant` comes from the module `time` of the crate `name`, or from
/// that crate. Returns the size of the program, bytes.
fn build_hello(name: &str, dependency: &str) -> Result<u64, String> {
    let folder = target().join("size").join(name);
    let manifest = format!(
        "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\n{dependency}\n[profile.release]\nstrip = true\n[workspace]\n"
    );
    let module = if name == "std" { "std::time" } else { name };
    let program =
        format!("fn main() {{ println!(\"{{:?}}\", {module}::Instant::now().elapsed()) }}\n");
    store(folder.join("Cargo.toml"), &manifest)?;
    store(folder.join("src/main.rs"), &program)?;
    // The versions of this project's dependencies.
    store(folder.join("Cargo.lock"), &read("Cargo.lock")?)?;
    let mut build = command("cargo build --release --quiet");
    build
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", folder.join("target"));
    output(&mut build)?;
    let built = folder.join("target/release/hello");
    let file = fs::metadata(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_compared_with_stds() {
        assert!((percent_more(400, 500) - 25.0).abs() < 1e-9);
    }
}
