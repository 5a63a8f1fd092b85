//! Reads documents from files or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::document::{Document, SCHEMA};
use crate::words::with_path;

/// The longest document, bytes. A day of `watch` takes 10 MB, and a comparison of all pairs of
/// 1,024 CPUs takes 130 MB. The limit ends reads of devices such as /dev/zero.
const MAX_BYTES: u64 = 256 << 20;

/// Reads a document, as JSON and as the rules read it. The path `-` is standard input.
///
/// # Errors
///
/// If the file cannot be read, or is not a document of the present schema. The error names the
/// file.
pub(crate) fn read_document(path: &Path) -> io::Result<(Value, Document)> {
    let name = if is_stdin(path) {
        Path::new("standard input")
    } else {
        path
    };
    read_document_without_name(path).map_err(|error| with_path(name, &error))
}

/// As [`read_document`], but the error does not name the file.
pub(crate) fn read_document_without_name(path: &Path) -> io::Result<(Value, Document)> {
    let bytes = if is_stdin(path) {
        read_limited(io::stdin().lock(), MAX_BYTES)?
    } else {
        read_limited(File::open(path)?, MAX_BYTES)?
    };
    parse(&bytes)
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn read_limited(input: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::other(format!(
            "it has more than {max_bytes} bytes"
        )));
    }
    Ok(bytes)
}

pub(crate) fn parse(bytes: &[u8]) -> io::Result<(Value, Document)> {
    let bad = |reason: String| Err(io::Error::other(reason));
    if bytes.is_empty() {
        return bad("it is empty".to_owned());
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return bad(
            "it is UTF-16; save it as UTF-8 (PowerShell: Out-File -Encoding utf8)".to_owned(),
        );
    }
    // Editors on Windows write a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let document: Value = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => return bad(format!("it is not a document that --json writes: {error}")),
    };
    if !document["machine"].is_object() {
        return bad("it has no object 'machine', which --json writes".to_owned());
    }
    match document["schema"].as_str() {
        Some(SCHEMA) => {
            // `serde_path_to_error` puts the key into the error.
            let mut typed: Document =
                serde_path_to_error::deserialize(&document).map_err(io::Error::other)?;
            typed.machine.add_cloud_of_product();
            Ok((document, typed))
        }
        Some(other) => bad(format!(
            "its schema is '{other}'; this program reads '{SCHEMA}'"
        )),
        None => bad(format!("it has no 'schema'; this program reads '{SCHEMA}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_document_of_facts_is_refused() {
        for (bytes, part) in [
            (&b""[..], "it is empty"),
            (b"\xff\xfe{\0}\0", "UTF-16"),
            (
                b"{\"\xff\"}",
                "a document that --json writes: invalid unicode",
            ),
            (b"{", "a document that --json writes: EOF"),
            (b"\xef\xbb\xbf[]", "no object 'machine'"),
            (br#"{"machine": {}}"#, "no 'schema'"),
            (
                br#"{"machine": {}, "schema": "a/1"}"#,
                "its schema is 'a/1'; this program reads 'tickline/2'",
            ),
            (
                br#"{"machine": {"cpu": 1}, "schema": "tickline/2"}"#,
                "machine.cpu: invalid type: integer `1`",
            ),
            (
                br#"{"machine": {"ntp": {"tick_us": 1}}, "schema": "tickline/2"}"#,
                "machine.ntp: missing field",
            ),
        ] {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    /// Symptom: `--facts /dev/zero` never ended.
    #[test]
    fn a_document_without_an_end_is_refused() {
        let error = read_limited(io::repeat(b' '), 4).unwrap_err().to_string();
        assert_eq!(error, "it has more than 4 bytes");
    }

    #[test]
    fn a_document_may_be_as_long_as_the_limit() {
        assert_eq!(read_limited(&b"1234"[..], 4).unwrap(), b"1234");
        assert!(read_limited(&b"12345"[..], 4).is_err());
    }

    #[test]
    fn an_error_names_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = read_document(file.path()).unwrap_err().to_string();
        let name = file.path().display();
        assert_eq!(error, format!("{name}: it is empty"));
    }
}
