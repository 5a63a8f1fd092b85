//! Passes the program's memory layout to the linker.

fn main() {
    println!("cargo::rerun-if-changed=link.ld");
    println!(
        "cargo::rustc-link-arg-bins=-T{}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    // The program must run at the address for which it was linked, because no loader relocates it.
    println!("cargo::rustc-link-arg-bins=--no-pie");
}
