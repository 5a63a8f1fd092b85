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
    use std::sync::{Arc, Mutex};

    /// Keeps each write on its own.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lengths at which a write of `len` bytes at `offset` may stop: at the end of each block,
    /// and at its own end.
    fn ends_of_blocks(offset: usize, len: usize) -> impl Iterator<Item = usize> {
        (1..=len).filter(move |part| (offset + part).is_multiple_of(BLOCK) || *part == len)
    }

    #[test]
    fn each_block_ends_with_a_whole_event() {
        let writes = Writes::default();
        let mut blocks = Blocks::new(writes.clone());
        blocks.push("[{\"n\":0}").unwrap();
        for n in 1..2_000_usize {
            let text = "x".repeat(n * 37 % 700);
            blocks.push(&format!(",\n{{\"n\":{n},\"text\":\"{text}\"}}")).unwrap();
            if n % 97 == 0 {
                blocks.flush().unwrap();
            }
        }
        blocks.flush().unwrap();
        let (mut whole, mut events) = (Vec::new(), 0);
        for write in writes.0.lock().unwrap().iter() {
            // Wherever the kernel stops, at the end of a block or of the write.
            for part in ends_of_blocks(whole.len(), write.len()) {
                let closed = [&whole[..], &write[..part], b"]"].concat();
                let parsed: serde_json::Value = serde_json::from_slice(&closed).unwrap();
                events = parsed.as_array().unwrap().len();
            }
            whole.extend_from_slice(write);
        }
        assert_eq!(events, 2_000);
    }
}
