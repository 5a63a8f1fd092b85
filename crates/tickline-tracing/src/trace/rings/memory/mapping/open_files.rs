//! The open files of a process, which its forked children do not keep.
//!
//! A child that kept a file would keep its lock, and the next start would be refused for as long as
//! the child lives. The child would also write to its parent's rings by the mapping.

use core::mem::{self, ManuallyDrop};
use core::sync::atomic::AtomicU64;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::layer::process_mutex::spin_then_sleep;
use crate::trace::sys::file_number::FileNumber;

/// The files that this process has open. A file is locked until mapping and descriptor are gone.
static FILES: SpinMutex<Files> = SpinMutex::new(Vec::new());

pub(super) type Files = Vec<OpenFile>;

/// A file that this process has open.
pub(super) struct OpenFile {
    /// None before the file is mapped.
    pub(super) words: &'static [AtomicU64],
    pub(super) descriptor: RawFd,
}

/// Locks the list, which threads do only briefly.
pub(super) fn lock_files() -> SpinMutexGuard<'static, Files> {
    FILES.try_lock().unwrap_or_else(|| spin_then_sleep(&FILES))
}

pub(super) const PROTECTION: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Locks the list, so that no other thread of the parent holds the lock at the fork.
extern "C" fn before_fork() {
    mem::forget(lock_files());
}

extern "C" fn in_parent() {
    // SAFETY: this thread has locked `FILES` in `before_fork`.
    unsafe { FILES.force_unlock() };
}

/// Closes the files and replaces their mappings in a forked child. If the kernel has no memory for
/// a replacement, the child continues to write to its parent's rings.
extern "C" fn in_child() {
    in_parent();
    for OpenFile { words, descriptor } in lock_files().drain(..) {
        // SAFETY: the child does not use the descriptor: a mapping has no other access to it, and
        // the thread that prepares a file is not in the child.
        unsafe { libc::close(descriptor) };
        if words.is_empty() {
            continue;
        }
        let start = words.as_ptr().cast_mut().cast();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
        // SAFETY: the call replaces a mapping of atomics, and an atomic may become 0 at any time.
        unsafe { libc::mmap(start, size_of_val(words), PROTECTION, flags, -1, 0) };
    }
}

/// The result of `pthread_atfork`, once it was called.
static PREPARED: OnceLock<libc::c_int> = OnceLock::new();

/// Registers the fork handlers, once.
fn prepare_for_forks() -> io::Result<()> {
    let prepared = PREPARED.get_or_init(|| {
        // SAFETY: the handlers must be callable at each later fork: they are functions. glibc
        // forgets the handlers of code that it unloads, and musl unloads none. In a child of a
        // process with threads a handler may only do what waits for no other thread. Of the calls
        // of `in_child`, POSIX says it of close (signal-safety(7)). mmap is only a system call in
        // glibc; in musl it first waits for a lock, which fork has freed in the child. The lock of
        // `FILES` is free, because `before_fork` has taken it in this thread.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) }
    });
    if *prepared == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(*prepared))
    }
}

/// Unlocks and closes the file of which `is_it` is true. In a forked child there is none, because
/// `in_child` has removed the entry.
pub(super) fn release(is_it: impl FnMut(&OpenFile) -> bool) {
    let mut files = lock_files();
    let Some(index) = files.iter().position(is_it) else {
        return;
    };
    let OpenFile { descriptor, .. } = files.swap_remove(index);
    // A close would not release the lock while a mapping keeps the file open, or a child that a
    // bare `clone` has made.
    // SAFETY: the descriptor is open, because it was in the list.
    unsafe { libc::flock(descriptor, libc::LOCK_UN) };
    // A fork waits for this, too: a child would keep the file open, and with it the room of one
    // that is removed.
    // SAFETY: as above; whoever had the entry removed uses the descriptor no more.
    unsafe { libc::close(descriptor) };
}

/// Whether this process has mapped the file. In a forked child none of its parent's is.
pub(super) fn is_mapped(number: FileNumber) -> bool {
    // Before a first file, no handler keeps another thread from having the lock at a fork. A child
    // would then wait for it for ever.
    if PREPARED.get() != Some(&0) {
        return false;
    }
    let has_number = |descriptor| {
        // SAFETY: the descriptor is open while it is in the list, and is not closed here.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        file.metadata()
            .is_ok_and(|found| FileNumber::of(&found) == number)
    };
    let files = lock_files();
    let mut mapped = files.iter().filter(|file| !file.words.is_empty());
    mapped.any(|file| has_number(file.descriptor))
}

/// An open file that no forked child shares, until it is mapped. Its drop unlocks it.
pub(super) struct UnsharedFile(pub(super) ManuallyDrop<File>);

impl UnsharedFile {
    pub(super) fn open(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        prepare_for_forks()?;
        // A fork waits until the file is in the list.
        let mut files = lock_files();
        let file = options.open(path)?;
        // This may allocate under the lock. It can't deadlock with an allocator that locks itself
        // at a fork: its handler is older than `before_fork`, so it runs later.
        files.push(OpenFile {
            words: &[],
            descriptor: file.as_raw_fd(),
        });
        Ok(Self(ManuallyDrop::new(file)))
    }
}

impl Drop for UnsharedFile {
    fn drop(&mut self) {
        let own = self.0.as_raw_fd();
        release(|file| file.descriptor == own);
    }
}

#[cfg(all(test, not(miri)))]
pub(super) mod tests {
    #[cfg(target_os = "linux")]
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use tickline_observe::fork::code_of_fork;

    /// Whether a child that is forked now has the descriptor of the file.
    pub(crate) fn is_open_in_child(file: &UnsharedFile) -> bool {
        let descriptor = file.0.as_raw_fd();
        // SAFETY: the call takes numbers, and fails if the descriptor is not open.
        let is_open = || unsafe { libc::fcntl(descriptor, libc::F_GETFD) } != -1;
        code_of_fork(|| is_open().into()) != 0
    }

    /// Symptom: a child was forked while its parent made a file, and outlived it. The next start
    /// was refused, because the child kept the lock.
    #[test]
    fn a_forked_child_does_not_keep_a_file_that_is_being_made() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = File::options();
        options.write(true).create_new(true);
        let file = UnsharedFile::open(&options, &folder.path().join("box")).unwrap();
        assert!(!is_open_in_child(&file));
    }

    /// Whether this process has a descriptor of the file at `path`.
    #[cfg(target_os = "linux")]
    fn is_open_here(path: &Path) -> bool {
        let mut descriptors = std::fs::read_dir("/proc/self/fd").expect("a folder");
        descriptors.any(|descriptor| {
            let file = std::fs::read_link(descriptor.expect("an entry").path());
            file.is_ok_and(|file| file == path)
        })
    }

    /// Symptom: a child that was forked while another thread closed a file kept it open. The room
    /// of an old file that was removed for its room did not become free.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_forked_child_does_not_keep_a_file_that_is_being_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        std::fs::write(&path, "").unwrap();
        let has_ended = AtomicBool::new(false);
        let open_and_close = || {
            // ORDERING: Relaxed for this and the store: the flag orders no memory.
            while !has_ended.load(Ordering::Relaxed) {
                drop(UnsharedFile::open(File::options().read(true), &path).unwrap());
            }
        };
        let codes = std::thread::scope(|scope| {
            scope.spawn(open_and_close);
            scope.spawn(open_and_close);
            let codes = [(); 150].map(|()| code_of_fork(|| is_open_here(&path).into()));
            // ORDERING: Relaxed, as above.
            has_ended.store(true, Ordering::Relaxed);
            codes
        });
        assert_eq!(codes, [0; 150]);
    }
}
