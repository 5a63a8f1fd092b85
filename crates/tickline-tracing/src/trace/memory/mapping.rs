//! A mapped file that outlives the process.
//!
//! The mapping is shared, so its memory is the kernel's copy of the file. What a thread has stored
//! there is in the file, however the process ends.
//!
//! A forked child inherits the mapping, and would write to its parent's rings. So before `fork`
//! returns to the child, empty memory of its own takes the mapping's place (`pthread_atfork`).

use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::ffi::c_void;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Once;

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
    /// The file, which is locked until its last descriptor is closed; -1 if the place is free.
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
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler may run at any fork.
            unsafe { libc::pthread_atfork(None, None, Some(leave_the_parents_files)) };
        });
        // ORDERING: Relaxed: each place is its own.
        let (order, free) = (Ordering::Relaxed, -1);
        let is_taken =
            |place: &&Self| place.file.compare_exchange(free, file.as_raw_fd(), order, order).is_ok();
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

    /// Closes the file, which ends its lock.
    fn forget(&self) {
        // ORDERING: Relaxed, nothing is published.
        self.start.store(ptr::null_mut(), Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        let file = self.file.swap(-1, Ordering::Relaxed);
        if file != -1 {
            // SAFETY: `remember` took the descriptor, and nobody else knows it.
            unsafe { libc::close(file) };
        }
    }
}

impl Mapping {
    /// See [`Memory::create`](super::Memory::create).
    pub(super) fn create(
        path: &Path,
        chunks: usize,
        is_ours: impl Fn(u64) -> bool,
        fill: impl FnOnce(&[Chunk]),
    ) -> io::Result<Self> {
        let older = older(path, is_ours)?;
        // A file of this name was left by a process of the same number.
        let beside = with(path, &format!(".{}", process::id()));
        let _ = fs::remove_file(&beside);
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&beside)?;
        let created = Self::of(file, chunks).and_then(|mapping| {
            fill(mapping.chunks);
            if older.is_some() {
                fs::rename(path, with(path, ".old"))?;
            }
            fs::rename(&beside, path)?;
            Ok(mapping)
        });
        if created.is_err() {
            let _ = fs::remove_file(&beside);
        }
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
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start = self.chunks.as_ptr().cast_mut().cast();
        // ORDERING: Relaxed, the process's own store. In a forked child the place may be another's.
        if self.place.start.load(Ordering::Relaxed) == start {
            self.place.forget();
        }
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
fn older(path: &Path, is_ours: impl Fn(u64) -> bool) -> io::Result<Option<File>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(found) if found.is_file() => {}
        found => return found.and(Err(io::Error::other("it is no regular file"))),
    }
    let mut file = File::options().read(true).write(true).open(path)?;
    let mut word = [0; 8];
    if file.read_exact(&mut word).is_err() || !is_ours(u64::from_ne_bytes(word)) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a recorder's, so it stays"));
    }
    lock(&file).map(|()| Some(file))
}

fn lock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another recorder writes to it"));
    }
    Err(error)
}
