//! Prints and stores the tables of programs.

use super::{Row, judge, package};
use crate::files;
use crate::vm::table::conditions;

/// The page with the tables.
const STORED: &str = "docs/programs.md";

/// The results of all guests.
#[derive(Default)]
pub(super) struct Found {
    pub(super) programs: Vec<Row>,
    pub(super) steps: Vec<Row>,
    /// The programs that could not be built.
    pub(super) skipped: Vec<String>,
    pub(super) kernel: String,
}

/// A table, with remarks on its rows.
fn markdown(titles: &str, rows: &[Row]) -> String {
    let (mut text, mut notes) = (files::table_head(&format!("{titles} | result")), String::new());
    for row in rows {
        let word = if row.faults.is_empty() { "passed" } else { "FAILED" };
        text += &format!("| {} | {word} |\n", row.cells.join(" | "));
        let name = row.cells[..2].join(" ");
        row.faults.iter().for_each(|fault| notes += &format!("- {name}: FAILED: {fault}\n"));
        row.notes.iter().for_each(|note| notes += &format!("- {name}: {note}\n"));
    }
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}

impl Found {
    /// Each block of the stored page, with its titles and rows.
    fn tables(&self) -> [(&'static str, &'static str, &[Row]); 2] {
        [("programs", judge::TITLES, &self.programs), ("package", package::TITLES, &self.steps)]
    }

    /// The numbers of rows that passed and that failed.
    fn count(&self) -> (usize, usize) {
        let rows = self.tables().into_iter().flat_map(|(.., rows)| rows);
        let failed = rows.clone().filter(|row| !row.faults.is_empty()).count();
        (rows.count() - failed, failed)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.count().1 > 0
    }

    fn skipped(&self) -> String {
        let line = |name: &String| format!("\nSKIPPED {name}: it could not be built, and was NOT checked.\n");
        self.skipped.iter().map(line).collect()
    }

    pub(super) fn print(&self) {
        for (_, titles, rows) in self.tables().into_iter().filter(|(.., rows)| !rows.is_empty()) {
            println!("\n{}", markdown(titles, rows));
        }
        let (passed, failed) = self.count();
        println!("{}{passed} passed, {failed} failed, {} skipped", self.skipped(), self.skipped.len());
    }

    /// Writes the tables to the workspace.
    pub(super) fn store(&self) -> Result<(), String> {
        for (name, titles, rows) in self.tables() {
            let mut block = markdown(titles, rows);
            if name == "programs" {
                block = format!("{}\n\n{block}{}", conditions(&self.kernel), self.skipped());
            }
            files::store_block(STORED, name, &block)?;
        }
        Ok(())
    }
}
