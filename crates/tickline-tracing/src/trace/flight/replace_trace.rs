//! A trace that replaces an older file, but not the file of a recorder.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::trace::capture::black_box;
use crate::trace::sys::temporary::replace;

/// Fails if a recorder's rings are in the file at `path`. A trace would replace this file.
pub(super) fn check_has_no_rings(path: &Path) -> io::Result<()> {
    let check = |found| black_box::check_has_no_rings(&found, path, io::ErrorKind::InvalidInput);
    match fs::metadata(path).and_then(check) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked,
    }
}

/// Writes a trace to the file at `path`, unless a recorder's rings are there. A recorder may start
/// there while the trace is written, which may take seconds.
pub(super) fn replace_trace<T>(
    path: &Path,
    write: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    check_has_no_rings(path)?;
    replace(path, |file| {
        let written = write(file)?;
        check_has_no_rings(path)?;
        Ok(written)
    })
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use crate::flight::FlightRecorder;

    /// Symptom: the trace replaced the file of the recorder, whose later records were then lost.
    #[test]
    fn a_recorder_that_starts_while_a_trace_is_written_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        let mut recorder = None;
        let builder = FlightRecorder::builder().bytes_per_thread(1);
        let start = |_: &File| {
            recorder = Some(builder.in_file(&path).threads(1).build()?);
            Ok(())
        };
        let error = replace_trace(&path, start).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        black_box::read(File::open(&path).unwrap()).unwrap();
    }
}
