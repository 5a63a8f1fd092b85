//! The lock of a page's one writer.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, Stat, fchmod, fcntl_lock, flock, fstat, openat, statat,
};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk, geteuid};

use crate::page_file::error::{PageError, PageErrorCause};
use crate::page_file::file_error::FileError;
use crate::page_file::mapped::{GUARDED, PagePath};

/// Only the owner and root may open, and so lock, the file.
const LOCK_MODE: Mode = Mode::from_raw_mode(0o600);

const LOCK_FLAGS: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(GUARDED);

/// A lock file, by device and inode, and the process that locked it: in a forked child, its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HeldLock {
    device: u64,
    inode: u64,
    process: u32,
}

/// The locks of this process, and their files: a list, as a process serves few pages. A call that
/// opens a lock file holds this mutex until it has locked or closed the file. A file in the list
/// closes when it leaves the list, so no other call finds it locked by nobody.
static HELD_LOCKS: Mutex<Vec<(HeldLock, OwnedFd)>> = Mutex::new(Vec::new());

fn held_locks() -> MutexGuard<'static, Vec<(HeldLock, OwnedFd)>> {
    HELD_LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldLock {
    fn from_stat(file: &Stat) -> Self {
        Self {
            device: file.st_dev,
            inode: file.st_ino,
            process: std::process::id(),
        }
    }
}

/// The lock of a page. Held until it is dropped, or until exec.
///
/// It consists of two locks: `flock` also keeps out another writer of this process, and `fcntl`
/// shows the process number to other processes. The process loses the second lock when it closes
/// any descriptor of the file (fcntl(2)), so it opens no file that is in [`HELD_LOCKS`].
#[derive(Debug)]
pub(super) struct Lock(HeldLock);

impl Lock {
    pub(super) fn acquire(path: &PagePath<'_>) -> Result<Self, PageErrorCause> {
        let mut held_locks = held_locks();
        if let Some(process) = holder_here(path, &held_locks) {
            return Err(PageErrorCause::Served {
                process: Some(process),
            });
        }
        let file = openat(&path.folder, lock_name(path), LOCK_FLAGS, LOCK_MODE)
            .map_err(failed("it can't be opened"))?;
        // These checks come before the lock: no other user has the file open, or can open it.
        let found = fstat(&file).map_err(failed("its owner can't be known"))?;
        if found.st_uid != geteuid().as_raw() {
            return Err(PageErrorCause::OtherOwner {
                owner: found.st_uid,
                user: geteuid().as_raw(),
            });
        }
        fchmod(&file, LOCK_MODE).map_err(failed("its mode can't be set"))?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive));
        match locked {
            Ok(()) => {
                let held = HeldLock::from_stat(&found);
                held_locks.push((held, file));
                Ok(Self(held))
            }
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(PageErrorCause::Served {
                process: holder_elsewhere(&file).ok().and_then(LockHolder::pid),
            }),
            Err(error) => Err(failed("it can't be locked")(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        held_locks().retain(|(held, _)| *held != self.0);
    }
}

/// This process, if it holds the lock.
fn holder_here(path: &PagePath<'_>, held_locks: &[(HeldLock, OwnedFd)]) -> Option<u32> {
    let found = statat(&path.folder, lock_name(path), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let here = HeldLock::from_stat(&found);
    let is_held = held_locks.iter().any(|(held, _)| *held == here);
    is_held.then_some(here.process)
}

/// Who holds the lock of a page, as another process can know it: the page's writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHolder {
    /// No process holds the lock.
    None,
    /// The process of this number.
    Process(u32),
    /// A process that has no number in this process's pid namespace.
    Invisible,
}

impl LockHolder {
    /// The number of the process, if it is visible here.
    #[must_use]
    pub const fn pid(self) -> Option<u32> {
        match self {
            Self::Process(pid) => Some(pid),
            Self::None | Self::Invisible => None,
        }
    }
}

/// The other process that holds a lock.
fn holder_elsewhere(lock: impl AsFd) -> Result<LockHolder, Errno> {
    let found = fcntl_getlk(lock, &Flock::from(FlockType::WriteLock))?;
    Ok(found.map_or(LockHolder::None, |lock| {
        let pid = lock.pid.map(|pid| pid.as_raw_nonzero().get());
        pid.and_then(|pid| u32::try_from(pid).ok())
            .map_or(LockHolder::Invisible, LockHolder::Process)
    }))
}

/// Converts an error of the system into that of a lock which has the `problem`.
fn failed(problem: &'static str) -> impl Fn(Errno) -> PageErrorCause {
    move |error| PageErrorCause::Lock(FileError::system(problem)(error))
}

fn lock_name(path: &PagePath<'_>) -> Vec<u8> {
    [path.name, b".lock"].concat()
}

/// The process that holds the lock of a page. Only the page's owner and root may ask.
///
/// # Errors
///
/// If the lock cannot be opened or asked. A writer makes the lock before the page, so without a
/// lock nothing is known: a container may have the page's file alone.
pub fn lock_holder(path: impl AsRef<Path>) -> Result<LockHolder, PageError> {
    let path = path.as_ref();
    let ask = || {
        let page_path = PagePath::resolve(path.as_os_str().as_bytes())?;
        let held_locks = held_locks();
        if let Some(process) = holder_here(&page_path, &held_locks) {
            return Ok(LockHolder::Process(process));
        }
        match openat(
            &page_path.folder,
            lock_name(&page_path),
            OFlags::RDONLY.union(GUARDED),
            Mode::empty(),
        ) {
            Ok(lock) => holder_elsewhere(&lock).map_err(failed("it can't be asked")),
            Err(error) => Err(failed("it can't be opened")(error)),
        }
    };
    ask().map_err(|error| PageError::new(path, error))
}
