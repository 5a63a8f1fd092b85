//! Tells the linker where the program lies in memory.

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rustc-link-arg-bins=-T{}/link.ld", env!("CARGO_MANIFEST_DIR"));
    // The loader puts the program where it was linked, because nobody relocates it.
    println!("cargo::rustc-link-arg-bins=--no-pie");
}
