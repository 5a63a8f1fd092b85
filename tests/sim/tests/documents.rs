//! Checks the numbers of `tickline-core` that documents state. Everywhere else prose says "the
//! margin", so nothing but these rows changes with the number.

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
fn the_tables_of_words_state_the_margin() {
    let margin = format!(": {} us", MEETING_MARGIN_NS / 1_000);
    for (document, word) in [("DESIGN.md", "margin"), ("machine/docs/lease.md", "d")] {
        let row = row(document, word);
        assert!(
            row.contains(&margin),
            "{document} should state{margin}, and says: {row}"
        );
    }
}
