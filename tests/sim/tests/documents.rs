//! Checks the number of `tickline-core` that a document states. Everywhere else prose says "the
//! margin", so only this row changes with the number.

use std::path::Path;

use tickline_core::control::MEETING_MARGIN_NS;

/// The row of a document's table of words that explains `word`.
fn row(document: &str, word: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(document);
    let text = std::fs::read_to_string(&path).expect("a document of this repository");
    text.lines()
        .find(|line| line.starts_with(&format!("| {word} |")))
        .unwrap_or_else(|| panic!("{document} does not explain `{word}`"))
        .to_owned()
}

#[test]
fn the_table_of_words_states_the_margin() {
    let margin = format!(": {} us", MEETING_MARGIN_NS / 1_000);
    let row = row("DESIGN.md", "margin");
    assert!(
        row.contains(&margin),
        "DESIGN.md should state{margin}, and says: {row}"
    );
}
