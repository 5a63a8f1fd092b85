//! Linux: small files of sysfs, and the memory of a device, read without allocating.

use core::ffi::CStr;
use core::ptr::{self, NonNull};

/// An open file, closed when it is dropped. Each use opens the file again: a program that becomes a
/// daemon may close a descriptor that is kept, and the number may become another file's.
pub(crate) struct File(libc::c_int);

impl File {
    pub(crate) fn open(path: &CStr, flags: libc::c_int) -> Option<Self> {
        // SAFETY: the path is a C string; no memory is passed on.
        let file = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        let file = beyond_standard_streams(file);
        (file >= 0).then_some(Self(file))
    }

    /// Whether this is a character device, or a regular file of at least `bytes` bytes: a load from
    /// a page beyond a file's end raises SIGBUS.
    fn has_a_page(&self, bytes: usize) -> bool {
        let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: `status` is valid for a write.
        let result = unsafe { libc::fstat(self.0, status.as_mut_ptr()) };
        if result != 0 {
            return false;
        }
        // SAFETY: `stat` is plain data, of which all zeros is a valid value.
        let status = unsafe { status.assume_init() };
        match status.st_mode & libc::S_IFMT {
            libc::S_IFCHR => true,
            libc::S_IFREG => usize::try_from(status.st_size).is_ok_and(|size| size >= bytes),
            _ => false,
        }
    }

    /// Reads the next bytes. Returns their number, 0 at the end; `None` if the file cannot be read.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the buffer is valid for writes of its length.
        let length = unsafe { libc::read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(length).ok()
    }
}

/// `descriptor`, or a copy of it if a standard stream has its number. The kernel gives out such a
/// number if the program has closed that stream; a program that reads its standard input would then
/// read from tickline's descriptor. -1 is returned unchanged.
pub(super) fn beyond_standard_streams(descriptor: libc::c_int) -> libc::c_int {
    if !(0..=libc::STDERR_FILENO).contains(&descriptor) {
        return descriptor;
    }
    // SAFETY: the call takes no pointer.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    // SAFETY: the caller has just made the descriptor, and nothing uses it yet.
    unsafe { libc::close(descriptor) };
    copy
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this `File`'s own, and is closed once.
        unsafe { libc::close(self.0) };
    }
}

/// Reads the beginning of a small file into `buffer`, and returns it; no bytes if the file cannot
/// be read.
pub(crate) fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    File::open(path, libc::O_RDONLY)
        .and_then(|file| file.read(buffer))
        .and_then(|length| buffer.get(..length))
        .unwrap_or(&[])
}

/// Maps the first page of a device or of a regular file with that much in it, read-only. The page
/// stays mapped if `accept` returns true. Returns the result of `accept`; `None` if the page can't
/// be mapped. A pipe is not waited for.
pub(crate) fn map_beginning(path: &CStr, accept: impl FnOnce(NonNull<u8>) -> bool) -> Option<bool> {
    /// The length of the mapping, bytes. The kernel rounds it up to whole pages.
    const MAPPED_BYTES: usize = 4_096;
    let file = File::open(path, libc::O_RDONLY | libc::O_NONBLOCK)?;
    if !file.has_a_page(MAPPED_BYTES) {
        return None;
    }
    // SAFETY: the mapping is new and read-only, and overlaps no other memory.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            MAPPED_BYTES,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.0,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    let is_accepted = NonNull::new(page.cast()).is_some_and(accept);
    if !is_accepted {
        // SAFETY: the mapping is this function's own.
        unsafe { libc::munmap(page, MAPPED_BYTES) };
    }
    Some(is_accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_this_one_becomes_does_not_inherit_the_file() {
        // No file of /proc: QEMU's user-mode emulation makes up some of these, without the flag.
        let file = File::open(c"/dev/null", libc::O_RDONLY).expect("a device");
        // SAFETY: the call takes no pointer.
        let flags = unsafe { libc::fcntl(file.0, libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
    }

    /// A pipe with a name has a reader only while a descriptor of it is open for reading.
    #[test]
    fn a_file_that_is_dropped_is_closed() {
        let path = std::env::temp_dir().join(format!("tickline-pipe-{}", std::process::id()));
        let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes())
            .expect("a path without zeros");
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        let reader = File::open(&path, libc::O_RDONLY | libc::O_NONBLOCK);
        assert!(reader.is_some());
        drop(reader);
        let writer = File::open(&path, libc::O_WRONLY | libc::O_NONBLOCK);
        // SAFETY: the path is a C string.
        unsafe { libc::unlink(path.as_ptr()) };
        assert!(writer.is_none(), "there is a reader");
    }
}
