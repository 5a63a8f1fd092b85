//! `cargo xtask api`: compares the public API of each published library, as cargo-public-api lists
//! it, with the list in `docs/api/`. `--write` stores the list.
//!
//! The program's API is its command line and its JSON (`machine/tickline-cli/schema/`).

use clap::Args;

use crate::command::{command, output};
use crate::files;
use crate::targets::{PROGRAM, PUBLISHED};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Stores the lists
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let mut code = 0;
    for name in PUBLISHED.iter().filter(|name| **name != PROGRAM) {
        // Use one target on every machine, because the public API differs between systems.
        let mut list = command(
            "cargo +nightly public-api --all-features -ss --target x86_64-unknown-linux-gnu -p",
        );
        // Share this directory with the other builds of the nightly compiler.
        let present = output(list.arg(name).env("CARGO_TARGET_DIR", "target/nightly"))? + "\n";
        let path = format!("docs/api/{name}.txt");
        if arguments.write {
            files::store(&path, &present)?;
        } else if files::read(&path)? != present {
            let new = format!("target/api/{name}.txt");
            files::store(&new, &present)?;
            println!("{name} has another public API; if it should: cargo xtask api --write");
            command("diff -u").args([&path, &new]).status().ok();
            code = 1;
        } else {
            println!("{name}: as stored");
        }
    }
    Ok(code)
}
