//! A trace that replaces an older file, but neither the file of a recorder nor that of a
//! `TraceFile`.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use crate::trace::capture::black_box::check_has_no_rings;
use crate::trace::own_file::check_has_no_trace;
use crate::trace::sys::temporary::replace;

/// Fails if a recorder's rings are in the file at `path`, or if a `TraceFile` of this process is
/// writing to it. A trace would replace this file, and its sink's later records would be lost.
pub(super) fn check_not_in_use(path: &Path) -> io::Result<()> {
    let check = |found: Metadata| {
        check_has_no_rings(&found, path)?;
        check_has_no_trace(&found)
    };
    match fs::metadata(path).and_then(check) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked,
    }
}

/// Writes a trace to the file at `path`, unless it is in use. A recorder or a `TraceFile` may start
/// there while the trace is written, which may take seconds, so a second check precedes the rename.
/// One that starts between the two, in some microseconds, still loses its file.
pub(super) fn replace_trace<T>(
    path: &Path,
    write: impl FnOnce(&File) -> io::Result<T>,
) -> io::Result<T> {
    check_not_in_use(path)?;
    replace(path, |file| {
        let written = write(file)?;
        check_not_in_use(path)?;
        Ok(written)
    })
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;
    use crate::flight::FlightRecorder;
    use crate::trace::capture::black_box;
    use crate::trace_file::TraceFile;

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
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        black_box::read(File::open(&path).unwrap()).unwrap();
    }

    /// Symptom: the trace replaced the file of the `TraceFile`, whose later records were then lost.
    #[test]
    fn a_trace_file_that_starts_while_a_trace_is_written_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let mut started = None;
        let start = |_: &File| {
            started = Some(TraceFile::builder().create(&path)?);
            Ok(())
        };
        let error = replace_trace(&path, start).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        let (_, guard) = started.unwrap();
        guard.finish().unwrap();
        assert!(fs::read(&path).unwrap().starts_with(b"["));
    }
}
