//! Tests of the repository as a whole, which `cargo test -p xtask` runs. No command uses them.

mod docs;
mod imports;
mod wings;
