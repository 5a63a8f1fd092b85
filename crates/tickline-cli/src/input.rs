//! Documents that the program reads: from a file, or from standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use crate::document::{Document, SCHEMA};
use crate::output::naming;

/// The longest document, bytes: a day of `watch` takes 10 MB, a comparison of all pairs of 1,024
/// CPUs 130 MB.
const MAX_BYTES: u64 = 256 << 20;

/// A document, as it stands and as the rules read it.
///
/// # Errors
///
/// If the file cannot be read, or is not a document of the present schema. The error names the
/// file.
pub(crate) fn document(path: &Path) -> io::Result<(Value, Document)> {
    let name = if is_stdin(path) { Path::new("standard input") } else { path };
    read(path).and_then(|text| parse(&text)).map_err(|error| naming(name, &error))
}

pub(crate) fn parse(text: &str) -> io::Result<(Value, Document)> {
    let no_document = |error| io::Error::other(format!("it is not a document that --json writes: {error}"));
    let document: Value = serde_json::from_str(text).map_err(no_document)?;
    if !document["machine"].is_object() {
        return Err(io::Error::other("it has no object 'machine', which --json writes"));
    }
    let wrong = match document["schema"].as_str() {
        Some(SCHEMA) => {
            // The error names the key.
            let typed = serde_path_to_error::deserialize(&document).map_err(io::Error::other)?;
            return Ok((document, typed));
        }
        Some(other) => format!("its schema is '{other}'; this program reads '{SCHEMA}'"),
        None => format!("it has no 'schema'; this program reads '{SCHEMA}'"),
    };
    Err(io::Error::other(wrong))
}

/// The text of a file, or of standard input for `-`, without the byte order mark that editors on
/// Windows write.
///
/// # Errors
///
/// If the file cannot be read, is empty, has more than 256 MiB, or is not UTF-8.
fn read(path: &Path) -> io::Result<String> {
    if is_stdin(path) { text(io::stdin().lock(), MAX_BYTES) } else { text(File::open(path)?, MAX_BYTES) }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn text(input: impl Read, most_bytes: u64) -> io::Result<String> {
    let bad = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut bytes = Vec::new();
    input.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return bad("it is empty");
    }
    // A device such as /dev/zero has no end.
    if bytes.first() == Some(&0) {
        return bad("it begins with a zero byte, and JSON is text");
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > most_bytes) {
        return bad(&format!("it has more than {most_bytes} bytes"));
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return bad("it is UTF-16; save it as UTF-8 (PowerShell: Out-File -Encoding utf8)");
    }
    let Ok(text) = String::from_utf8(bytes) else { return bad("it is not UTF-8") };
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(text("\u{feff}{}".as_bytes(), 5).unwrap(), "{}", "editors on Windows write the mark");
        let repeated = |byte: u8| Box::new(io::repeat(byte)) as Box<dyn Read>;
        for (input, part) in [
            (Box::new(io::empty()) as Box<dyn Read>, "it is empty"),
            (Box::new(&b"\xff\xfe{\0}\0"[..]), "UTF-16"),
            (Box::new(&b"{\xff}"[..]), "not UTF-8"),
            // `--facts /dev/zero` never ended.
            (repeated(0), "zero byte"),
            (repeated(b' '), "more than 1000 bytes"),
        ] {
            let error = text(input, 1_000).unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        for (text, part) in [
            ("{", "a document that --json writes: EOF"),
            ("[]", "no object 'machine'"),
            (r#"{"machine": {}}"#, "no 'schema'"),
            (r#"{"machine": {}, "schema": "a/1"}"#, "its schema is 'a/1'; this program reads 'tickline/2'"),
            (r#"{"machine": {"cpu": 1}, "schema": "tickline/2"}"#, "machine.cpu: invalid type: integer `1`"),
            (r#"{"machine": {"ntp": {"tick_us": 1}}, "schema": "tickline/2"}"#, "machine.ntp: missing field"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
