//! The table of targets, printed and stored.

use super::Row;
use crate::mutate::tree;

/// Where the table is kept, seen from the workspace's root, and the lines between which it stands.
const STORED: &str = "PLATFORM.md";
const BEGIN: &str = "<!-- begin: cargo xtask targets --write -->";
const END: &str = "<!-- end -->";

const TITLES: [&str; 5] =
    ["target", "compiled", "unit tests run", "control loop run", "counter path checked"];

fn cells(row: &Row) -> [String; 5] {
    let [compiled, tests, control_loop, path] = row.outcomes.each_ref().map(super::Outcome::text);
    [row.triple.to_owned(), compiled, tests, control_loop, path]
}

/// Prints the table, with the time that each target took.
pub(super) fn print(rows: &[Row]) {
    println!("\n{}", TITLES.join(" | "));
    for row in rows {
        println!("{} | {:.0} s", cells(row).join(" | "), row.seconds);
    }
}

fn markdown(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&TITLES.map(str::to_owned));
    text.push_str("|---|---|---|---|---|\n");
    for row in rows {
        text.push_str(&line(&cells(row)));
    }
    text
}

/// `document` with `table` between the two lines.
fn replaced(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// Puts the table into the document.
pub(super) fn store(rows: &[Row]) -> Result<(), String> {
    let document = replaced(&tree::stored(STORED)?, &markdown(rows))
        .ok_or_else(|| format!("{STORED} has no place for it: {BEGIN} ... {END}"))?;
    tree::store(STORED, &document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replaced(&document, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&once, "new\n").unwrap(), once);
        assert_eq!(replaced("a", "new\n"), None);
    }
}
