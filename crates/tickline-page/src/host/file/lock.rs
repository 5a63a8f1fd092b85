//! The lock of a page's one writer.

use std::format;
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

use super::error::{PageError, Why, foreign};
use crate::host::mapped::Place;
use crate::host::trust::refused;

/// Nobody but the owner may lock.
const LOCK_MODE: Mode = Mode::from_raw_mode(0o600);

/// A lock file, by device and inode, and the process that has it locked: a child of a fork finds
/// its parent's here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    device: u64,
    inode: u64,
    process: u32,
}

/// What this process has locked. A thread that opens a lock file holds this mutex until the file is
/// closed.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

impl Held {
    fn of(file: &Stat) -> Self {
        Self { device: file.st_dev, inode: file.st_ino, process: std::process::id() }
    }

    fn all() -> MutexGuard<'static, Vec<Self>> {
        HELD.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock of a page. Held until it is dropped, or until exec.
///
/// Two kinds of lock at once: `flock` also keeps out another writer in this process, and `fcntl`
/// tells others the process's number. The second one is lost when this process closes any
/// descriptor of the file (fcntl(2)), so it opens no file that is in [`HELD`].
#[derive(Debug)]
pub(super) struct Lock {
    held: Held,
    _file: OwnedFd,
}

impl Lock {
    pub(super) fn take(place: &Place<'_>) -> Result<Self, Why> {
        let failed = || refused(CANNOT_OPEN);
        let mut all = Held::all();
        if let Some(process) = own(place, &all) {
            return Err(taken(Some(process)));
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = openat(&place.folder, name(place), flags, LOCK_MODE).map_err(failed())?;
        // Before the lock counts: no other user has opened it, and nobody will.
        let found = fstat(&file).map_err(failed())?;
        if found.st_uid != geteuid().as_raw() {
            return Err(foreign(found.st_uid, geteuid().as_raw()));
        }
        fchmod(&file, LOCK_MODE).map_err(failed())?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive));
        match locked {
            Ok(()) => {
                let held = Held::of(&found);
                all.push(held);
                Ok(Self { held, _file: file })
            }
            Err(Errno::WOULDBLOCK | Errno::ACCESS) => Err(taken(holder(&file))),
            Err(error) => Err(refused("it cannot be locked")(error).into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        Held::all().retain(|held| *held != self.held);
    }
}

/// A process writes to the page: its number, where that can be known.
fn taken(process: Option<u32>) -> Why {
    let server = process.map_or("another process".into(), |process| format!("process {process}"));
    format!("{server} serves this page; a page has one server").into()
}

/// This process, if it has the lock.
fn own(place: &Place<'_>, all: &[Held]) -> Option<u32> {
    let found = statat(&place.folder, name(place), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let held = Held::of(&found);
    all.contains(&held).then_some(held.process)
}

/// The process that holds a lock, if it is another one, in this process's pid namespace.
fn holder(lock: impl AsFd) -> Option<u32> {
    let found = fcntl_getlk(lock, &Flock::from(FlockType::WriteLock)).ok()??;
    u32::try_from(found.pid?.as_raw_nonzero().get()).ok()
}

const CANNOT_OPEN: &str = "its lock cannot be opened";

fn name(place: &Place<'_>) -> Vec<u8> {
    [place.name, b".lock"].concat()
}

/// The process that has the lock of a page. `None` if no process has it, or if the holder is in a
/// pid namespace that this process does not see. Only the page's owner may ask.
///
/// # Errors
///
/// If the lock cannot be opened.
pub fn writer_of(path: &Path) -> Result<Option<u32>, PageError> {
    let ask = || {
        let place = Place::of(path.as_os_str().as_bytes())?;
        let all = Held::all();
        if let Some(process) = own(&place, &all) {
            return Ok(Some(process));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        match openat(&place.folder, name(&place), flags, Mode::empty()) {
            Ok(lock) => Ok(holder(&lock)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(refused(CANNOT_OPEN)(error)),
        }
    };
    ask().map_err(|error| PageError::new(path, error))
}
