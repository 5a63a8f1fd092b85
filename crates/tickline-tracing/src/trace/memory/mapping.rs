//! A mapped file that outlives the process.
//!
//! The mapping is shared, so its memory is the kernel's copy of the file. What a thread has stored
//! there is in the file, however the process ends.
//!
//! A forked child inherits the mapping, and would write to its parent's rings. So before `fork`
//! returns to the child, empty memory of its own takes the mapping's place (`pthread_atfork`).

use core::sync::atomic::{AtomicU64, Ordering};
use core::{mem, ptr, slice};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::OnceLock;

use spin::mutex::SpinMutex;

use crate::open_spans::lock_briefly;
use crate::trace::{beside, with_suffix};

/// The mapping of a file that this process has locked.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: &'static [AtomicU64],
}

/// The words and the file of each mapping. A file is locked until its descriptors and its mappings
/// are gone.
static FILES: SpinMutex<Vec<(&[AtomicU64], File)>> = SpinMutex::new(Vec::new());

const PROTECTION: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Another thread of the parent does not have the lock at the fork.
extern "C" fn before_fork() {
    mem::forget(lock_briefly(&FILES));
}

extern "C" fn in_parent() {
    // SAFETY: this thread has locked it in `before_fork`.
    unsafe { FILES.force_unlock() };
}

/// Runs in a forked child, and does only what a signal's handler may do. If the kernel has no
/// memory for it, the child goes on to write to its parent's rings.
extern "C" fn in_child() {
    in_parent();
    for (words, _file) in lock_briefly(&FILES).drain(..) {
        let start = words.as_ptr().cast_mut().cast();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
        // SAFETY: it replaces a mapping of atomics, which may become 0 at any time.
        unsafe { libc::mmap(start, size_of_val(words), PROTECTION, flags, -1, 0) };
    }
}

/// Makes sure that a forked child leaves this process's files.
fn prepare_for_forks() -> io::Result<()> {
    static PREPARED: OnceLock<libc::c_int> = OnceLock::new();
    let prepared = PREPARED.get_or_init(|| {
        // SAFETY: the handlers may run at any fork.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) }
    });
    match *prepared {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Mapping {
    /// A new file, which begins with `head` before it gets its name. The rest is zeros. An older file
    /// with the same first word becomes `path.old`.
    pub(crate) fn create(path: &Path, words: usize, head: [u64; 3]) -> io::Result<Self> {
        let older = older(path, head[0])?;
        beside(path, |beside| {
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(beside)?;
            let mapping = Self::of(file, words)?;
            for (word, value) in mapping.words.iter().zip(head) {
                // ORDERING: Relaxed: nobody knows the file yet.
                word.store(value, Ordering::Relaxed);
            }
            if older.is_some() {
                fs::rename(path, with_suffix(path, ".old"))?;
            }
            // Unlike a rename this fails if another recorder was faster.
            fs::hard_link(beside, path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => busy(),
                _ => error,
            })?;
            Ok(mapping)
        })
    }

    /// Locks, fills and maps an empty file.
    fn of(mut file: File, words: usize) -> io::Result<Self> {
        let bytes = words * size_of::<AtomicU64>();
        prepare_for_forks()?;
        lock(&file)?;
        // A mapping of blocks that the disk does not have would end the process by a SIGBUS when
        // the disk is full. Here that is an error.
        io::copy(&mut io::repeat(0).take(bytes as u64), &mut file)?;
        let mut files = lock_briefly(&FILES);
        // SAFETY: a new mapping; no memory of the program's is touched.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, PROTECTION, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: so many bytes are mapped, from the beginning of a page, until `drop`; `words` of
        // this type lends them no longer. Any bytes are atomics.
        let words = unsafe { slice::from_raw_parts(start.cast(), words) };
        // This may allocate. An allocator that locks itself at a fork does so behind `before_fork`,
        // because it was there before, and the last handler comes first.
        files.push((words, file));
        Ok(Self { words })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.words
    }

    /// Ends the file's lock, and closes it.
    pub(crate) fn unlock(&self) {
        let entry = {
            let mut files = lock_briefly(&FILES);
            let index = files.iter().position(|(words, _)| ptr::eq(*words, self.words));
            index.map(|index| files.swap_remove(index))
        };
        // A forked child has left it.
        if let Some((_, file)) = entry {
            // The mapping keeps the file open, and so the lock.
            // SAFETY: the descriptor is open.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.unlock();
        let start = self.words.as_ptr().cast_mut().cast();
        // SAFETY: it is mapped until here, and no borrow of the words is left.
        unsafe { libc::munmap(start, size_of_val(self.words)) };
    }
}

/// The file that is there, locked, if a process has left it.
fn older(path: &Path, magic: u64) -> io::Result<Option<File>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(found) if found.is_file() => {}
        found => return found.and(Err(io::Error::other("it is no regular file"))),
    }
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut word = [0; 8];
    if file.read_exact(&mut word).is_err() || u64::from_ne_bytes(word) != magic {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a recorder's, so it stays"));
    }
    lock_at(&file, path)?;
    Ok(Some(file))
}

/// Locks the file that was opened at `path`. Another recorder may have taken it over since: it has
/// moved that file, released its lock, and put its own in the place.
fn lock_at(file: &File, path: &Path) -> io::Result<()> {
    lock(file)?;
    let (locked, found) = (file.metadata()?, fs::symlink_metadata(path)?);
    match (locked.dev(), locked.ino()) == (found.dev(), found.ino()) {
        true => Ok(()),
        false => Err(busy()),
    }
}

fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another recorder writes to it")
}

fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(if error.kind() == io::ErrorKind::WouldBlock { busy() } else { error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder may be stopped between its look at an old file and its lock. It would move the
    /// file of another one that has come first meanwhile.
    #[test]
    fn a_file_that_another_recorder_has_moved_is_not_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        fs::write(&path, "old").unwrap();
        let opened = File::open(&path).unwrap();
        lock_at(&opened, &path).unwrap();
        fs::rename(&path, with_suffix(&path, ".old")).unwrap();
        fs::write(&path, "new").unwrap();
        assert_eq!(lock_at(&opened, &path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }
}
