//! Linux: readings do not change `errno`.

/// Puts `errno` back when it is dropped. A reading may make system calls that fail, perhaps in a
/// signal handler, while the program is about to read its own `errno`.
#[derive(Debug)]
pub(crate) struct PreserveErrno(libc::c_int);

impl PreserveErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: the address of this thread's errno is valid as long as the thread runs.
        Self(unsafe { *place })
    }
}

impl Drop for PreserveErrno {
    fn drop(&mut self) {
        // SAFETY: takes nothing.
        let place = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { *place = self.0 };
    }
}
