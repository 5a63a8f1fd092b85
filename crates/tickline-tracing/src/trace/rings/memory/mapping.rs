//! A mapped file that outlives the process.
//!
//! The mapping is shared, so its memory is the kernel's page cache of the file. A thread's stores
//! there survive every end of the process.
//!
//! A forked child inherits the mapping, and would write to its parent's rings. Therefore, before
//! `fork` returns in the child, a handler (`pthread_atfork`) replaces the mapping by empty private
//! memory. The handler also closes the file, which the child would otherwise keep locked. It knows
//! a file from the file's opening on.

mod lock;
mod open_files;
mod rename;

use core::sync::atomic::{AtomicU64, Ordering};
use core::{mem, ptr, slice};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use lock::{busy, lock, lock_soon, try_flock};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::fstatvfs;
use open_files::{PROTECTION, UnsharedFile, is_mapped, lock_files, release};
use rename::{is_at, rename_to_new};

use crate::trace::sys::file_number::FileNumber;
use crate::trace::sys::temporary::{not_regular, with_suffix, with_temporary};

/// The mapping of a file, which this process has locked.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: &'static [AtomicU64],
}

impl Mapping {
    /// Creates a file that begins with `head`; the rest is zeros. The file gets its name once it is
    /// complete. An older file with the same first word, of any version, is renamed to `path.old`.
    /// If there is no room beside both, an older `path.old` is removed before the file is filled.
    pub(crate) fn create(path: &Path, words: usize, head: [u64; 3]) -> io::Result<Self> {
        check_limit((words * size_of::<AtomicU64>()) as u64)?;
        let older = older(path, head[0]).map_err(with_remedy)?;
        let mut room = Room {
            path,
            old_path: &with_suffix(path, ".old"),
            old: None,
            is_removed: false,
        };
        if older.is_some() {
            room.old = room.open_old(head[0])?;
        }
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let create_new = |temporary: &_| UnsharedFile::open(&options, temporary);
        let made = with_temporary(path, create_new, |temporary, file| {
            file.0.set_len((words * size_of::<AtomicU64>()) as u64)?;
            let mapping = Self::lock_and_map(file, words)?;
            // What can fail for other reasons than room fails before anything is removed.
            check_links(temporary)?;
            room.fill(temporary, size_of_val(mapping.words) as u64)?;
            for (word, value) in mapping.words.iter().zip(head) {
                // ORDERING: Relaxed: no other thread has the file yet.
                word.store(value, Ordering::Relaxed);
            }
            if let Some(older) = &older {
                room.rename(&older.0)?;
            }
            link_to_new(temporary, path, head[0]).map_err(with_remedy)?;
            Ok(mapping)
        });
        made.map_err(|error| room.explained(error))
    }

    /// Locks and maps a file of this length.
    fn lock_and_map(file: UnsharedFile, words: usize) -> io::Result<Self> {
        lock(&file.0)?;
        let descriptor = file.0.as_raw_fd();
        let mut files = lock_files();
        // SAFETY: the call makes a new mapping, and changes no memory of the program.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                words * size_of::<AtomicU64>(),
                PROTECTION,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `words` words are mapped, from the beginning of a page, until `drop`, and the
        // method `words` does not lend them for longer. All bytes are valid atomics.
        let words = unsafe { slice::from_raw_parts(start.cast(), words) };
        // From now on the mapping closes the file.
        mem::forget(file);
        let entry = files.iter_mut().find(|file| file.descriptor == descriptor);
        // The file's own opening has made the entry, which `release` alone removes.
        entry.expect("the entry of an open file").words = words;
        Ok(Self { words })
    }

    /// Whether a recorder of a process that runs on this machine has its rings in the file `found`,
    /// to which this path leads, be it through links; or in the file that has meanwhile come there.
    /// A recorder's file begins with `magic`, in any version.
    pub(crate) fn is_any_in(found: &Metadata, path: &Path, magic: u64) -> io::Result<bool> {
        if !found.is_file() {
            return Ok(false);
        }
        Ok(is_mapped(FileNumber::of(found)) || is_locked_at(path, magic)?)
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        self.words
    }

    /// Unlocks and closes the file.
    pub(crate) fn unlock(&self) {
        release(|file| ptr::eq(file.words, self.words));
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.unlock();
        let start = self.words.as_ptr().cast_mut().cast();
        // SAFETY: the words are mapped until here, and no borrow of them is left.
        unsafe { libc::munmap(start, size_of_val(self.words)) };
    }
}

/// Links the new file to `path`. Unlike a rename, this fails if there is a file, which may have
/// come while the new one was filled.
fn link_to_new(new: &Path, path: &Path, magic: u64) -> io::Result<()> {
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // If it is a recorder's, that recorder was faster.
            Err(older(path, magic).err().unwrap_or_else(busy))
        }
        linked => linked,
    }
}

/// The error of a file that stays at the path of the new one, with what to do.
fn with_remedy(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ (io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists) => io::Error::new(
            kind,
            format!("{error}: choose another path, such as one with the time of the start"),
        ),
        _ => error,
    }
}

/// Opens and locks the file of an ended process at `path`, if there is one.
fn older(path: &Path, magic: u64) -> io::Result<Option<UnsharedFile>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(found) if found.is_file() => {}
        found => return Err(not_regular(found?.file_type())),
    }
    let file = UnsharedFile::open(File::options().read(true).write(true), path)?;
    if !begins_with(&file.0, magic) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "it is not a recorder's file, so it stays",
        ));
    }
    lock_at(&file.0, path)?;
    Ok(Some(file))
}

/// Whether the file begins with this word, of any version of the format.
fn begins_with(mut file: &File, magic: u64) -> bool {
    let mut word = [0; 8];
    // The most significant byte is the version.
    file.read_exact(&mut word).is_ok() && (u64::from_ne_bytes(word) ^ magic) << 8 == 0
}

/// Whether another process has locked the recorder's file at `path`. If a recorder starts there at
/// this very moment, it finds the file locked.
fn is_locked_at(path: &Path, magic: u64) -> io::Result<bool> {
    let mut options = File::options();
    // A pipe may have taken the file's place.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = match options.open(path) {
        // A recorder's file has mode 600: who may not read it may not write to it either.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        opened => opened?,
    };
    if !begins_with(&file, magic) {
        return Ok(false);
    }
    // Two that ask at once do not refuse each other.
    match try_flock(&file, libc::LOCK_SH) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(true),
        locked => locked?,
    }
    // A close would not unlock it while a child that was forked meanwhile has it open.
    try_flock(&file, libc::LOCK_UN).map(|()| false)
}

/// Locks the file that was opened at `path`. Fails if another recorder has meanwhile renamed that
/// file, unlocked it, and put its own file at `path`.
fn lock_at(file: &File, path: &Path) -> io::Result<()> {
    lock_soon(|| lock(file))?;
    if is_at(file, path) {
        Ok(())
    } else {
        Err(busy())
    }
}

/// The files beside which a new file needs room.
struct Room<'a> {
    path: &'a Path,
    old_path: &'a Path,
    /// The file at `old_path`, locked, if the new file may have its room.
    old: Option<UnsharedFile>,
    /// Whether the file at `old_path` was removed.
    is_removed: bool,
}

impl Room<'_> {
    /// Opens and locks the file at `old_path`, which a rename is to replace, if there is one. Fails
    /// if another recorder writes to it, or if it is not a recorder's.
    fn open_old(&self, magic: u64) -> io::Result<Option<UnsharedFile>> {
        older(self.old_path, magic)
            .map_err(|error| self.in_the_way(error.kind(), &error.to_string()))
    }

    /// The error of a file at `old_path` that stays.
    fn in_the_way(&self, kind: io::ErrorKind, reason: &str) -> io::Error {
        let (path, old_path) = (self.path, self.old_path);
        let text = format!(
            "{old_path:?} is in the way of the file of the process before, {path:?}: {reason}; move one \
             of them away"
        );
        io::Error::new(kind, text)
    }

    /// Renames the file `older` from `path` to `old_path`. The new file was filled since both paths
    /// were looked at, which takes seconds if it is large. If the file is gone from `path`, nothing
    /// is to do; what has come to `old_path` stays.
    fn rename(&self, older: &File) -> io::Result<()> {
        if !is_at(older, self.path) {
            return Ok(());
        }
        let old = self.old.as_ref();
        if old.is_some_and(|old| is_at(&old.0, self.old_path)) {
            return fs::rename(self.path, self.old_path);
        }
        rename_to_new(self.path, self.old_path).map_err(|error| match error.kind() {
            kind @ io::ErrorKind::AlreadyExists => self.in_the_way(kind, "it was made meanwhile"),
            _ => error,
        })
    }

    /// Writes `bytes` zeros to the file at `new`. Removes the old file if that makes the room.
    /// The file at `new` is opened once more, because a child that another thread forks meanwhile
    /// keeps this descriptor, and must not keep the lock.
    fn fill(&mut self, new: &Path, bytes: u64) -> io::Result<()> {
        let file = &mut File::options().write(true).open(new)?;
        let free = free_space(file)?;
        let (error, room) = if u128::from(bytes) <= free {
            // The free space may not be there for this user, as with a quota.
            match write_zeros(file, bytes) {
                Ok(()) => return Ok(()),
                Err(error) => (error, file.stream_position()?.into()),
            }
        } else {
            // The write would notice it only after it has filled the disk.
            let text = format!("it takes {bytes} bytes, and its file system has {free} bytes free");
            (io::Error::new(io::ErrorKind::StorageFull, text), free)
        };
        let old = match self.old.take() {
            Some(old) if is_full(&error) => old,
            _ => return Err(error),
        };
        let found = old.0.metadata()?;
        // Another link would keep the room.
        let gain = match found.nlink() {
            1 => u128::from(found.blocks()) * 512,
            _ => 0,
        };
        if room + gain < bytes.into() || !is_at(&old.0, self.old_path) {
            return Err(error);
        }
        fs::remove_file(self.old_path)?;
        self.is_removed = true;
        // An open file keeps its room.
        drop(old);
        write_zeros(file, bytes)
    }

    /// The error with what was removed, and, if the file system is full, with what takes the room
    /// and what would take less.
    fn explained(&self, error: io::Error) -> io::Error {
        let (mut text, kind) = (String::new(), error.kind());
        if is_full(&error) {
            text += "; fewer threads() or a smaller bytes_per_thread() take less";
            for path in [self.path, self.old_path] {
                if let Ok(found) = fs::symlink_metadata(path) {
                    text += &format!("; {path:?} takes {} bytes", found.len());
                }
            }
        }
        if self.is_removed {
            text += &format!("; {:?} was removed for its room", self.old_path);
        }
        if text.is_empty() {
            return error;
        }
        io::Error::new(kind, format!("{error}{text}"))
    }
}

/// Fails if this process may not make a file of so many bytes. Without the check, the system would
/// end the process by SIGXFSZ.
fn check_limit(bytes: u64) -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE)?;
    // The system's type of a limit is signed on some, and unsigned on others.
    if i128::from(bytes) <= i128::from(limit) {
        return Ok(());
    }
    let text = format!(
        "it takes {bytes} bytes, and a file of this process may have at most {limit} bytes \
         (RLIMIT_FSIZE): raise the limit (ulimit -f), or choose fewer threads() or a smaller \
         bytes_per_thread()"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

/// Fails if the file at `temporary` can't get another name.
fn check_links(temporary: &Path) -> io::Result<()> {
    let link = with_suffix(temporary, ".link");
    fs::hard_link(temporary, &link)?;
    fs::remove_file(link)
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Writes zeros from the present position up to this length. This allocates all blocks. Without it,
/// a full disk would later end the process by SIGBUS at a store to the mapping; here it is an
/// error.
fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    let left = bytes.saturating_sub(file.stream_position()?);
    io::copy(&mut io::repeat(0).take(left), file).map(drop)
}

/// The free bytes of the file's system, without those that only root may use.
fn free_space(file: &File) -> io::Result<u128> {
    let found = fstatvfs(file)?;
    // Some file systems state no size: ramfs, and tmpfs without a limit.
    if found.blocks() == 0 {
        return Ok(u128::MAX);
    }
    Ok(u128::from(found.blocks_available()) * u128::from(found.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A room whose old file has this content, in this folder.
    fn run_with_old_file<T>(content: &[u8], run: impl FnOnce(Room<'_>) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let (path, old_path) = (folder.path().join("box"), folder.path().join("box.old"));
        fs::write(&old_path, content).unwrap();
        run(Room {
            path: &path,
            old_path: &old_path,
            old: Some(UnsharedFile::open(File::options().read(true), &old_path).unwrap()),
            is_removed: false,
        })
    }

    /// Symptom: a recorder whose file was larger than the free space filled the disk before it
    /// failed.
    #[test]
    fn a_file_for_which_no_space_is_free_is_refused_before_it_is_filled() {
        run_with_old_file(&[1], |mut room| {
            let new = room.path;
            let file = File::create(new).unwrap();
            let error = room.fill(new, u64::MAX).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert!(error.to_string().contains(&u64::MAX.to_string()), "{error}");
            assert_eq!(file.metadata().unwrap().len(), 0);
            room.fill(new, 1).unwrap();
        });
    }

    /// The file system of `/dev/full` has free space, and each write to it fails.
    #[cfg(target_os = "linux")]
    const FULL: &str = "/dev/full";

    /// Symptom: after a write that failed for another reason than the free space, as with a quota,
    /// the old file was removed in vain.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_old_file_stays_if_its_room_and_what_was_written_are_not_enough() {
        run_with_old_file(&[1; 4_096], |mut room| {
            room.fill(Path::new(FULL), 1 << 20).unwrap_err();
            assert!(room.old_path.exists());
        });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_error_says_that_the_old_file_was_removed() {
        run_with_old_file(&[1; 1 << 20], |mut room| {
            let error = room.fill(Path::new(FULL), 4_096).unwrap_err();
            assert!(!room.old_path.exists());
            let expected = format!("; {:?} was removed for its room", room.old_path);
            let error = room.explained(error).to_string();
            assert!(error.ends_with(&expected), "{error}");
        });
    }

    /// Moves the file at `old_path` away, and puts another one in its place.
    fn put_another(room: &Room<'_>) {
        fs::rename(room.old_path, with_suffix(room.old_path, ".moved")).unwrap();
        fs::write(room.old_path, "a text").unwrap();
    }

    fn is_the_other_there(room: &Room<'_>) -> bool {
        fs::read(room.old_path).unwrap() == b"a text"
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_has_taken_the_old_files_place_is_not_removed_for_its_room() {
        run_with_old_file(&[1; 1 << 20], |mut room| {
            put_another(&room);
            room.fill(Path::new(FULL), 4_096).unwrap_err();
            assert!(is_the_other_there(&room));
        });
    }

    /// Renames the file of the process before, and asserts that the other one at `old_path` stays.
    fn rename_beside_another(room: &Room<'_>) {
        fs::write(room.path, "before").unwrap();
        let older = File::open(room.path).unwrap();
        let error = room.rename(&older).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(
            error.to_string().contains("it was made meanwhile"),
            "{error}"
        );
        assert!(is_the_other_there(room));
    }

    /// Symptom: a file that a user made while the new one was filled was lost.
    #[test]
    fn a_file_that_has_got_the_old_name_meanwhile_stays() {
        run_with_old_file(&[1], |mut room| {
            room.old = None;
            put_another(&room);
            rename_beside_another(&room);
        });
    }

    #[test]
    fn a_file_that_has_taken_the_old_files_place_stays() {
        run_with_old_file(&[1], |room| {
            put_another(&room);
            rename_beside_another(&room);
        });
    }

    #[test]
    fn the_old_file_itself_is_replaced() {
        run_with_old_file(&[1], |room| {
            fs::write(room.path, "before").unwrap();
            room.rename(&File::open(room.path).unwrap()).unwrap();
            assert_eq!(fs::read(room.old_path).unwrap(), b"before");
        });
    }

    #[test]
    fn a_file_that_has_taken_the_place_of_the_one_before_is_not_renamed() {
        run_with_old_file(&[1], |room| {
            fs::write(room.path, "before").unwrap();
            let older = File::open(room.path).unwrap();
            fs::rename(room.path, with_suffix(room.path, ".moved")).unwrap();
            fs::write(room.path, "a text").unwrap();
            room.rename(&older).unwrap();
            assert_eq!(fs::read(room.path).unwrap(), b"a text");
        });
    }

    /// A recorder may be preempted between its open of an old file and its lock. Without the check
    /// it would then rename the file of another recorder.
    #[test]
    fn a_file_that_another_recorder_has_moved_is_not_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        fs::write(&path, "old").unwrap();
        let opened = File::open(&path).unwrap();
        lock_at(&opened, &path).unwrap();
        fs::rename(&path, with_suffix(&path, ".old")).unwrap();
        fs::write(&path, "new").unwrap();
        assert_eq!(
            lock_at(&opened, &path).unwrap_err().kind(),
            io::ErrorKind::ResourceBusy
        );
    }

    /// Symptom: as of `a_forked_child_does_not_keep_a_file_that_is_being_made`.
    #[test]
    #[cfg(not(miri))]
    fn a_forked_child_does_not_keep_the_file_of_the_process_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        fs::write(&path, 1_u64.to_ne_bytes()).unwrap();
        assert!(!open_files::tests::is_open_in_child(
            &older(&path, 1).unwrap().unwrap()
        ));
    }

    /// The kind of error if a file with this first word has come to the path of the new one.
    fn link_beside(found: u64) -> io::ErrorKind {
        let folder = tempfile::tempdir().unwrap();
        let (new, path) = (folder.path().join("new"), folder.path().join("box"));
        fs::write(&new, "").unwrap();
        fs::write(&path, found.to_ne_bytes()).unwrap();
        link_to_new(&new, &path, 1).unwrap_err().kind()
    }

    #[test]
    fn another_recorder_that_was_faster_is_one_that_writes_to_the_path() {
        assert_eq!(link_beside(1), io::ErrorKind::ResourceBusy);
    }

    /// Symptom: the error said that another recorder writes to the file.
    #[test]
    fn another_programs_file_that_has_come_to_the_path_exists_already() {
        assert_eq!(link_beside(2), io::ErrorKind::AlreadyExists);
    }

    /// Symptom: a restart failed as long as a child lived that was forked during the start before.
    #[test]
    fn a_file_that_a_child_has_inherited_does_not_stay_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box");
        fs::write(&path, 1_u64.to_ne_bytes()).unwrap();
        let older = older(&path, 1).unwrap().unwrap();
        // As in a child, the copy has the lock, too.
        let _inherited = older.0.try_clone().unwrap();
        drop(older);
        lock(&File::open(&path).unwrap()).unwrap();
    }

    /// Whether this memory is mapped (mincore(2)).
    fn is_mapped(words: *const AtomicU64) -> bool {
        let mut is_resident = 0_u8;
        let (start, resident) = (words.cast_mut().cast(), (&raw mut is_resident).cast());
        // SAFETY: the call only asks, and writes a byte for each page of the length, which is one.
        unsafe { libc::mincore(start, 1, resident) == 0 }
    }

    /// Other threads may map memory at some of the addresses meanwhile.
    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_file_that_is_dropped_leaves_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let mappings = [(); 64].map(|()| {
            let path = tempfile::tempdir_in(&folder).unwrap().keep().join("box");
            Mapping::create(&path, 512, [1, 2, 3]).unwrap()
        });
        let memory = mappings.each_ref().map(|mapping| mapping.words.as_ptr());
        assert!(memory.iter().all(|words| is_mapped(*words)));
        drop(mappings);
        assert!(!memory.iter().all(|words| is_mapped(*words)));
    }
}
