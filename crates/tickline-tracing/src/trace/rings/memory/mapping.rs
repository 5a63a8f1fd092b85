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

use core::sync::atomic::{AtomicU64, Ordering};
use core::{mem, ptr, slice};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use lock::{busy, lock, lock_soon, try_flock};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::fstatvfs;
use open_files::{PROTECTION, UnsharedFile, is_mapped, lock_files, release};

use crate::trace::sys::file_number::FileNumber;
use crate::trace::sys::temporary::{not_regular, with_suffix, with_temporary};

/// The mapping of a file, which this process has locked.
#[derive(Debug)]
pub(crate) struct Mapping {
    words: &'static [AtomicU64],
}

impl Mapping {
    /// Creates a file that begins with `head`; the rest is zeros. The file gets its name once it is
    /// complete. An older file with the same first word, of any version, is renamed to `path.old`
    /// before the new one is filled, so that there are never three files.
    pub(crate) fn create(path: &Path, words: usize, head: [u64; 3]) -> io::Result<Self> {
        let bytes = (words * size_of::<AtomicU64>()) as u64;
        check_limit(bytes)?;
        let before = older(path, head[0]).map_err(with_remedy)?;
        let old_path: &Path = &with_suffix(path, ".old");
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let create_new = |temporary: &_| UnsharedFile::open(&options, temporary);
        let made = with_temporary(path, create_new, |temporary, file| {
            file.0.set_len(bytes)?;
            let mapping = Self::lock_and_map(file, words)?;
            // What can fail for other reasons than a write fails before a file is renamed.
            check_links(temporary)?;
            // The file is opened once more, because a child that another thread forks meanwhile
            // keeps this descriptor, and must not keep the lock.
            let mut new = File::options().write(true).open(temporary)?;
            if let Some(before) = before {
                let old = open_old(path, old_path, head[0])?;
                check_room(&new, bytes, old.as_ref())?;
                rename_to_old(&before.0, path, old_path)?;
                // The end of the block closes both: an open file would keep its room.
            } else {
                check_room(&new, bytes, None)?;
            }
            write_zeros(&mut new, bytes)?;
            for (word, value) in mapping.words.iter().zip(head) {
                // ORDERING: Relaxed: no other thread has the file yet.
                word.store(value, Ordering::Relaxed);
            }
            link_to_new(temporary, path, head[0]).map_err(with_remedy)?;
            Ok(mapping)
        });
        made.map_err(|error| explained(error, [path, old_path]))
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
    /// Its file begins with `magic`, in any version.
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

/// Whether the open file still has this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(found)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    FileNumber::of(&open) == FileNumber::of(&found)
}

/// Opens and locks the file at `old_path`, which that at `path` is to replace, if there is one.
/// Fails if another recorder writes to it, or if it is not a recorder's.
fn open_old(path: &Path, old_path: &Path, magic: u64) -> io::Result<Option<UnsharedFile>> {
    older(old_path, magic).map_err(|error| {
        let text = format!(
            "{old_path:?} is in the way of the file of the process before, {path:?}: {error}; move \
             one of them away"
        );
        io::Error::new(error.kind(), text)
    })
}

/// Renames the file `before` from `path` to `old_path`. If it is gone from `path`, there is nothing
/// to do.
fn rename_to_old(before: &File, path: &Path, old_path: &Path) -> io::Result<()> {
    if is_at(before, path) {
        fs::rename(path, old_path)?;
    }
    Ok(())
}

/// Fails if the file system of the file `new` has no room for `bytes` bytes, even without the file
/// `old`, which is about to be replaced. A write would notice it only after it has filled the disk.
fn check_room(new: &File, bytes: u64, old: Option<&UnsharedFile>) -> io::Result<()> {
    let free = free_space(new)?;
    let gain = match old {
        Some(old) => room_of(&old.0)?,
        None => 0,
    };
    if u128::from(bytes) <= free.saturating_add(gain) {
        return Ok(());
    }
    let text = format!("it takes {bytes} bytes, and its file system has {free} bytes free");
    Err(io::Error::new(io::ErrorKind::StorageFull, text))
}

/// The bytes that become free if the file is removed.
fn room_of(file: &File) -> io::Result<u128> {
    let found = file.metadata()?;
    Ok(match found.nlink() {
        1 => u128::from(found.blocks()) * 512,
        // Another link keeps the room.
        _ => 0,
    })
}

/// The error. If the file system is full, it says what takes the room, and what would take less.
fn explained(error: io::Error, paths: [&Path; 2]) -> io::Error {
    if !is_full(&error) {
        return error;
    }
    let mut text = format!("{error}; fewer threads() or a smaller bytes_per_thread() take less");
    for path in paths {
        if let Ok(found) = fs::symlink_metadata(path) {
            text += &format!("; {path:?} takes {} bytes", found.len());
        }
    }
    io::Error::new(error.kind(), text)
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

/// Writes so many zeros. This allocates all blocks. Without it, a full disk would later end the
/// process by SIGBUS at a store to the mapping; here it is an error.
fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(bytes), file).map(drop)
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

    /// Symptom: a recorder whose file was larger than the free space filled the disk before it
    /// failed.
    #[test]
    fn a_file_for_which_no_space_is_free_is_refused() {
        let new = tempfile::tempfile().unwrap();
        let error = check_room(&new, u64::MAX, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains(&u64::MAX.to_string()), "{error}");
        check_room(&new, 1, None).unwrap();
    }

    #[test]
    fn a_file_with_another_name_gives_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("box.old");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        // A file system may store it later.
        file.sync_all().unwrap();
        assert!(room_of(&file).unwrap() > 0);
        fs::hard_link(&path, folder.path().join("kept")).unwrap();
        assert_eq!(room_of(&file).unwrap(), 0);
    }

    #[test]
    fn a_file_that_has_taken_the_place_of_the_one_before_is_not_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("box");
        fs::write(path, "before").unwrap();
        let before = File::open(path).unwrap();
        fs::rename(path, with_suffix(path, ".moved")).unwrap();
        fs::write(path, "a text").unwrap();
        rename_to_old(&before, path, &with_suffix(path, ".old")).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"a text");
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
