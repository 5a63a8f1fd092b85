//! Output in which each block of the file ends with a whole event.

use std::io::{self, Write};

/// Bytes that the kernel writes without a check for `SIGKILL` in between: the smallest page of
/// memory of any Linux.
const BLOCK: usize = 4_096;

/// Bytes after which a write is due: 16 blocks.
const BUFFER: usize = 16 * BLOCK;

/// Collects events, and fills a block up with blanks if the next one does not fit.
#[derive(Debug)]
pub(super) struct Blocks<W> {
    output: W,
    /// What is not written yet.
    buffer: Vec<u8>,
    /// Bytes of the present block that are written.
    offset: usize,
}

impl<W: Write> Blocks<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, buffer: Vec::with_capacity(BUFFER + BLOCK), offset: 0 }
    }

    /// Adds text that must not be split between blocks. Only text longer than a block is split.
    pub(super) fn push(&mut self, text: &str) -> io::Result<()> {
        let left = BLOCK - (self.offset + self.buffer.len()) % BLOCK;
        if text.len() > left {
            // JSON allows white space between the elements of an array.
            self.buffer.resize(self.buffer.len() + left, b' ');
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
        }
        self.buffer.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.output.write_all(&self.buffer)?;
            self.offset = (self.offset + self.buffer.len()) % BLOCK;
            self.buffer.clear();
        }
        self.output.flush()
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.push("\n]\n")?;
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever the kernel stops, at the end of a block or of a write.
    #[test]
    fn each_block_ends_with_a_whole_event() {
        let (mut blocks, mut flushed) = (Blocks::new(Vec::new()), Vec::new());
        for n in 0..2_000_usize {
            let (comma, text) = (if n == 0 { "[" } else { ",\n" }, "x".repeat(n * 37 % 700));
            blocks.push(&format!("{comma}{{\"n\":{n},\"text\":\"{text}\"}}")).unwrap();
            if n % 97 == 0 {
                blocks.flush().unwrap();
                flushed.push(blocks.output.len());
            }
        }
        blocks.flush().unwrap();
        let (mut start, mut events) = (0, 0);
        flushed.extend((BLOCK..blocks.output.len()).step_by(BLOCK));
        flushed.push(blocks.output.len());
        flushed.sort_unstable();
        for end in flushed {
            let part =
                str::from_utf8(&blocks.output[start..end]).unwrap().trim_start_matches(['[', ',', '\n']);
            let parsed: Vec<serde_json::Value> = serde_json::from_str(&format!("[{part}]")).unwrap();
            (start, events) = (end, events + parsed.len());
        }
        assert_eq!(events, 2_000);
    }
}
