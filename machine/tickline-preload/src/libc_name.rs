//! The file names of libc's parts.
//!
//! The program has a list of its own, `is_libc` in `machine/tickline-cli/src/machine.rs`: it asks
//! only for `clock_gettime`, and takes fewer names. A test of the program includes this file, and
//! compares the two.

/// Whether an object of this file name is a part of libc: `libc.so.6`, `libc-2.31.so`,
/// `libc.musl-x86_64.so.1`. Older glibcs have parts of the time functions in librt and libpthread;
/// musl's linker is its libc.
pub(crate) fn is_of_libc(name: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"libc", b"librt", b"libpthread", b"ld"];
    starts.iter().any(|start| {
        name.strip_prefix(*start)
            .is_some_and(|rest| match rest.split_first() {
                Some((b'.', _)) => true,
                // glibc's version, or a linker's name.
                Some((b'-', rest)) => {
                    *start == b"ld" || rest.first().is_some_and(u8::is_ascii_digit)
                }
                _ => false,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_libc_have_its_names() {
        for name in [
            "libc.so.6",
            "libc-2.31.so",
            "libc.musl-x86_64.so.1",
            "librt.so.1",
            "librt-2.31.so",
            "libpthread.so.0",
            "ld-linux-x86-64.so.2",
            "ld-2.31.so",
            "ld-musl-x86_64.so.1",
        ] {
            assert!(is_of_libc(name.as_bytes()), "{name}");
        }
    }

    /// Symptom: an interposer with such a name counted as libc, and the clocks that it does not
    /// interpose were another program's.
    #[test]
    fn a_library_whose_name_begins_as_libcs_is_another() {
        for name in [
            "librtfake.so",
            "libcfaketime.so.1",
            "libc-offset.so",
            "libpthreadpool.so.0",
            "ldfake.so",
        ] {
            assert!(!is_of_libc(name.as_bytes()), "{name}");
        }
    }
}
