//! A mapped file that outlives the process.
//!
//! The mapping is shared, so its memory is the kernel's copy of the file. What a thread has stored
//! there is in the file, however the process ends.
//!
//! A forked child inherits the mapping, and would write to its parent's rings. So before `fork`
//! returns to the child, empty memory of its own takes the mapping's place (`pthread_atfork`).

use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

use super::Chunk;

/// The mapping of a file that this process has locked.
#[derive(Debug)]
pub(crate) struct Mapping {
    chunks: &'static [Chunk],
    place: &'static Place,
}

/// What a forked child needs to know of a mapping.
#[derive(Debug)]
struct Place {
    /// Null if there is no mapping.
    start: AtomicPtr<c_void>,
    bytes: AtomicUsize,
    /// The file, which is locked until its descriptors and its mappings are gone; -1 if the place
    /// is free.
    file: AtomicI32,
}

/// Recorders of one process that are in files: more than anyone needs.
const MOST: usize = 16;

static PLACES: [Place; MOST] = [const {
    Place { start: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0), file: AtomicI32::new(-1) }
}; MOST];

const PROTECTION: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Runs in a forked child, and does only what a signal's handler may do. If the kernel has no
/// memory for it, the child goes on to write to its parent's rings.
extern "C" fn leave_the_parents_files() {
    for place in &PLACES {
        // ORDERING: Acquire, pairs with the Release store in `remember`: `bytes` is known. No test
        // sees a weaker one: a child has what its parent's stores were at the fork.
        let start = place.start.load(Ordering::Acquire);
        if !start.is_null() {
            // ORDERING: Relaxed, behind the Acquire.
            let bytes = place.bytes.load(Ordering::Relaxed);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
            // SAFETY: it replaces a mapping of atomics, which may become 0 at any time.
            unsafe { libc::mmap(start, bytes, PROTECTION, flags, -1, 0) };
        }
        place.forget();
    }
}

impl Place {
    /// Remembers a mapping, and keeps its file open.
    fn remember(file: File, start: *mut c_void, bytes: usize) -> io::Result<&'static Self> {
        static INSTALLED: OnceLock<libc::c_int> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            // SAFETY: the handler may run at any fork.
            unsafe { libc::pthread_atfork(None, None, Some(leave_the_parents_files)) }
        });
        if *installed != 0 {
            return Err(io::Error::from_raw_os_error(*installed));
        }
        // ORDERING: Acquire, pairs with the Release swap in `forget`: the null of the last owner
        // comes before this one's start. No test sees a weaker one: Miri's stores to one place take
        // effect in the order in which they run.
        let is_taken = |place: &&Self| {
            place.file.compare_exchange(-1, file.as_raw_fd(), Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some(place) = PLACES.iter().find(is_taken) else {
            return Err(io::Error::other(format!("this process has {MOST} recorders in files")));
        };
        let _ = file.into_raw_fd();
        // ORDERING: Relaxed, published by the next store.
        place.bytes.store(bytes, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `leave_the_parents_files`. No test sees
        // a weaker one, as there.
        place.start.store(start, Ordering::Release);
        Ok(place)
    }

    /// Closes the file.
    fn forget(&self) {
        // ORDERING: Relaxed, published by the swap.
        self.start.store(ptr::null_mut(), Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire exchange in `remember`. No test sees a weaker
        // one, as there.
        let file = self.file.swap(-1, Ordering::Release);
        if file != -1 {
            // SAFETY: `remember` took the descriptor, and nobody else knows it.
            unsafe { libc::close(file) };
        }
    }
}

impl Mapping {
    /// A new file of zeros, which `fill` changes before it gets its name. An older file whose first
    /// word is `magic` becomes `path.old`.
    pub(crate) fn create(
        path: &Path,
        chunks: usize,
        magic: u64,
        fill: impl FnOnce(&[Chunk]),
    ) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let older = older(path, magic)?;
        // ORDERING: Relaxed, only the number counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // A file of this name was left by a process of the same number.
        let beside = with(path, &format!(".{}.{number}", process::id()));
        let _ = fs::remove_file(&beside);
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
        let created = Self::of(file, chunks).and_then(|mapping| {
            fill(mapping.chunks);
            if older.is_some() {
                fs::rename(path, with(path, ".old"))?;
            }
            // Unlike a rename this fails if another recorder was faster.
            fs::hard_link(&beside, path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => busy(),
                _ => error,
            })?;
            Ok(mapping)
        });
        let _ = fs::remove_file(&beside);
        created
    }

    /// Locks, fills and maps an empty file.
    fn of(mut file: File, chunks: usize) -> io::Result<Self> {
        let bytes = chunks * size_of::<Chunk>();
        lock(&file)?;
        // A mapping of blocks that the disk does not have would end the process by a SIGBUS when
        // the disk is full. Here that is an error.
        io::copy(&mut io::repeat(0).take(bytes as u64), &mut file)?;
        // SAFETY: a new mapping; no memory of the program's is touched.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, PROTECTION, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: so many bytes are mapped, from the beginning of a page, until `drop`; `chunks` of
        // this type lends them no longer. Any bytes are atomics.
        let chunks = unsafe { slice::from_raw_parts(start.cast(), chunks) };
        match Place::remember(file, start, bytes) {
            Ok(place) => Ok(Self { chunks, place }),
            Err(error) => {
                // SAFETY: nobody has the chunks.
                unsafe { libc::munmap(start, bytes) };
                Err(error)
            }
        }
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        self.chunks
    }

    /// Ends the file's lock, and closes it.
    pub(super) fn unlock(&self) {
        let start = self.chunks.as_ptr().cast_mut().cast();
        // ORDERING: Relaxed, the process's own store. In a forked child the place may be another's.
        if self.place.start.load(Ordering::Relaxed) == start {
            // ORDERING: Relaxed, as above.
            let file = self.place.file.load(Ordering::Relaxed);
            // The mapping keeps the file open, and so the lock.
            // SAFETY: the descriptor is open, or -1, which is an error.
            unsafe { libc::flock(file, libc::LOCK_UN) };
            self.place.forget();
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.unlock();
        let start = self.chunks.as_ptr().cast_mut().cast();
        // SAFETY: it is mapped until here, and no borrow of the chunks is left.
        unsafe { libc::munmap(start, size_of_val(self.chunks)) };
    }
}

/// `path` with something behind its name.
fn with(path: &Path, behind: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(behind);
    name.into()
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
    if error.kind() == io::ErrorKind::WouldBlock {
        return Err(busy());
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder may be stopped between its look at an old file and its lock. It would move the
    /// file of another one that has come first meanwhile.
    #[test]
    fn a_file_that_another_recorder_has_moved_is_not_locked() {
        let folder = std::env::temp_dir().join(format!("tickline-moved-{}", process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("box");
        fs::write(&path, "old").unwrap();
        let opened = File::open(&path).unwrap();
        lock_at(&opened, &path).unwrap();
        fs::rename(&path, with(&path, ".old")).unwrap();
        fs::write(&path, "new").unwrap();
        let refused = lock_at(&opened, &path).unwrap_err();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
    }
}
