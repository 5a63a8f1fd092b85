//! The examples in quanta's documentation, compiled against `tickline-quanta` and run.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, Result, failed, folder, output, over_the_network, root, target};

/// Runs those of one version. Most are marked `no_run` there, because they sleep; here they run.
pub(super) fn run(version: &str, patch: &str, source: &Path) -> Result<String> {
    let mut examples = Vec::new();
    for file in files(source)? {
        let text = fs::read_to_string(&file).map_err(failed("its sources"))?;
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        examples.extend(if is_rust { blocks(&documentation(&text)) } else { blocks(&text) });
    }
    if examples.is_empty() {
        return Err(Failure::Failed("there are no examples in its sources".to_owned()));
    }
    let folder = target().join(format!("quanta-{version}-examples"));
    let path = root().join("crates/tickline-quanta/patch").join(patch);
    let manifest = format!(
        "[package]\nname = \"quanta-examples\"\nedition = \"2021\"\n\n[dependencies]\nquanta = {{ path = {path:?} }}\n"
    );
    folder::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    let mut library = String::new();
    for (number, example) in examples.iter().enumerate() {
        library += &format!("#[doc = {:?}]\npub struct Example{number};\n", format!("```\n{example}```"));
    }
    folder::write(&folder.join("src/lib.rs"), library.as_bytes())?;
    over_the_network(&mut super::cargo("fetch", &folder)?)?;
    let mut command = super::cargo("test --offline --doc --target-dir", &folder)?;
    let (is_good, text) = output(command.arg(target().join("build")))?;
    let passed = super::passed(&text);
    if is_good && passed == examples.len() {
        Ok(format!("0 lines changed, {passed} ran"))
    } else {
        Err(Failure::Failed(format!("{passed} of {} passed:\n{text}", examples.len())))
    }
}

/// The README and the sources.
fn files(source: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (vec![source.join("README.md")], vec![source.join("src")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).map_err(failed("its sources"))? {
            let path = entry.map_err(failed("its sources"))?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// The text of the documentation comments of a Rust file.
fn documentation(source: &str) -> String {
    let comments = source.lines().filter_map(|line| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.strip_prefix(' ').unwrap_or(text))
    });
    comments.flat_map(|line| [line, "\n"]).collect()
}

/// The Rust code of the fenced blocks.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in markdown.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(_), Some((is_rust, block))) => blocks.extend(is_rust.then_some(block)),
            (Some(words), None) => {
                open = Some((matches!(words.trim(), "" | "rust" | "no_run" | "rust,no_run"), String::new()));
            }
            (None, Some((is_rust, block))) => open = Some((is_rust, block + line + "\n")),
            (None, None) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_the_rust_blocks_of_the_documentation() {
        let source = "//! ```\n//! one();\n//! ```\n/// ```text\n/// no\n/// ```\n    /// ```no_run\n    /// # two\n    /// ```\nlet x = 1;\n";
        assert_eq!(blocks(&documentation(source)), ["one();\n", "# two\n"]);
        assert!(blocks("no fence").is_empty());
    }
}
