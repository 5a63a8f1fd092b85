//! The pages that show the records: tables between markers, written anew by each record.

use super::harnesses;
use super::short;
use super::spans;
use super::stored::Record;
use super::tables;

/// Writes a block from the records.
type Write = fn(&[Record]) -> Result<String, String>;

/// A file with blocks between markers.
#[derive(Debug)]
pub(super) struct Page {
    /// Its path, seen from the workspace's root.
    pub(super) path: &'static str,
    /// Its blocks, by their markers' names.
    blocks: &'static [(&'static str, Write)],
}

/// Every page. The README has the short table, the page of the measurements all of them.
pub(super) const PAGES: [Page; 2] = [
    Page { path: "README.md", blocks: &[("short", short::block)] },
    Page {
        path: "benches/README.md",
        blocks: &[
            ("machine", tables::machines_block),
            ("clocks", tables::clocks_block),
            ("tickline", tables::tickline_block),
            ("spans", spans::block),
        ],
    },
];

/// The pages of `tickline-criterion`, with the figures of harnesses.
pub(super) const HARNESS_PAGES: [Page; 3] = [
    Page {
        path: "crates/tickline-criterion/README.md",
        blocks: &[("harnesses", harnesses::harnesses_block)],
    },
    Page {
        path: "crates/tickline-criterion/docs/known_delays.md",
        blocks: &[("delays", harnesses::delays_block)],
    },
    Page {
        path: "crates/tickline-criterion/docs/compare.md",
        blocks: &[("compare", harnesses::compare_block)],
    },
];

impl Page {
    /// The page's blocks, by their markers' names.
    pub(super) fn blocks(&self, records: &[Record]) -> Result<Vec<(&'static str, String)>, String> {
        self.blocks.iter().map(|(name, write)| Ok((*name, write(records)?))).collect()
    }

    /// The page's text with the records' blocks.
    pub(super) fn rewritten(&self, old: &str, records: &[Record]) -> Result<String, String> {
        let mut text = old.to_owned();
        for (block, body) in self.blocks(records)? {
            let (start, end) = self.place(&text, block)?;
            text.replace_range(start..end, &format!("\n{body}"));
        }
        Ok(text)
    }

    /// Whether every block has a place.
    pub(super) fn check_markers(&self, text: &str) -> Result<(), String> {
        self.blocks.iter().try_for_each(|(block, _)| self.place(text, block).map(drop))
    }

    /// What is between a block's markers.
    fn place(&self, text: &str, block: &str) -> Result<(usize, usize), String> {
        let path = self.path;
        let find = |marker: &str| match text.match_indices(marker).collect::<Vec<_>>()[..] {
            [(at, _)] => Ok(at),
            ref found => Err(format!("{path}: the marker {marker} is there {} times, not once", found.len())),
        };
        let (first, last) = (format!("<!-- record:{block} -->"), format!("<!-- /record:{block} -->"));
        let (start, end) = (find(&first)? + first.len(), find(&last)?);
        if start <= end { Ok((start, end)) } else { Err(format!("{path}: {last} comes before {first}")) }
    }
}

#[cfg(test)]
mod tests;
