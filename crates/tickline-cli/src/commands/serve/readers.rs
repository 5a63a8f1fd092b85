//! Finds the processes that have a page mapped, by `/proc/PID/maps`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};
use serde::Serialize;
use tickline_page::program::LIBRARY;

use crate::machine;

/// A process that has the page mapped.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reader {
    pub(super) pid: u32,
    /// The process's name (`/proc/PID/comm`).
    pub(super) name: String,
    /// Whether the library of `tickline run` reads the page. Otherwise the program itself does.
    pub(super) by_library: bool,
}

/// All readers except `server` and this process, and the number of processes not readable.
pub(super) fn find(page: &Path, server: Option<u32>) -> io::Result<(Vec<Reader>, usize)> {
    let file = fs::metadata(page)?;
    let (device, inode) =
        (format!("{:02x}:{:02x}", major(file.dev()), minor(file.dev())), file.ino().to_string());
    let (mut readers, mut unreadable) = (Vec::new(), 0);
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if Some(pid) == server || pid == std::process::id() {
            continue;
        }
        match fs::read(format!("/proc/{pid}/maps")) {
            Ok(maps) => {
                let Some(by_library) = maps_page(&String::from_utf8_lossy(&maps), &device, &inode) else {
                    continue;
                };
                let name = machine::process_name(pid).unwrap_or_default();
                readers.push(Reader { pid, name, by_library });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => unreadable += 1,
            // The process has ended.
            Err(_) => {}
        }
    }
    readers.sort_by_key(|reader| reader.pid);
    Ok((readers, unreadable))
}

/// Whether the library is mapped, too; `None` if no file of this device and inode is mapped. The
/// fourth and the fifth word of a line are device and inode (proc_pid_maps(5)).
fn maps_page(maps: &str, device: &str, inode: &str) -> Option<bool> {
    let is_page = |line: &str| line.split_ascii_whitespace().skip(3).take(2).eq([device, inode]);
    maps.lines().any(is_page).then(|| maps.contains(LIBRARY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_device_and_inode() {
        const MAPS: &str = "7f0-7f1 r--s 00000000 00:19 42      /run/tickline/page.v1\n\
                            7f2-7f3 r-xp 00000000 fe:01 99      /usr/lib/libtickline_preload.so\n";
        assert_eq!(maps_page(MAPS, "00:19", "42"), Some(true));
        assert_eq!(maps_page(MAPS.lines().next().unwrap(), "00:19", "42"), Some(false));
        assert_eq!(maps_page(MAPS, "00:19", "99"), None, "an inode of another device");
        assert_eq!(maps_page("", "00:19", "42"), None);
    }
}
