//! Sets the linker's arguments.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // `dlclose` must not unmap the library, because the vDSO's symbols lead to it.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
