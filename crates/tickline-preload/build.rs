//! How the library is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // The vDSO's symbols lead to it for as long as the program lives: `dlclose` leaves it
        // there.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
