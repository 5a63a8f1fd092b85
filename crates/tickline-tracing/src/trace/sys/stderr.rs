//! Lines on standard error, for errors that no call can return.

use core::fmt;
use std::io;

/// [`try_say`] for a line that nobody needs later.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    _ = try_say(text);
}

/// Writes a line to standard error. On Unix the call ends soon even if nobody reads a full pipe,
/// except if another thread or process fills the pipe between the poll and the write: the write
/// then waits.
///
/// # Errors
///
/// - [`WouldBlock`](io::ErrorKind::WouldBlock) if standard error takes nothing for 100 ms.
/// - The system's error, for example if standard error is closed.
pub(crate) fn try_say(text: fmt::Arguments<'_>) -> io::Result<()> {
    write(format!("tickline: {text}\n").as_bytes())
}

/// Writes without std's lock, which a thread of the parent may have held when this process was
/// forked. A line of at most 512 bytes is one write.
#[cfg(all(unix, not(miri)))]
fn write(mut line: &[u8]) -> io::Result<()> {
    use core::time::Duration;
    use std::os::fd::AsFd;
    use std::time::Instant;

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::unistd;

    /// A reader that is alive takes a line sooner.
    const LONGEST_WAIT: Duration = Duration::from_millis(100);

    /// A pipe that is writable takes so many bytes at once: the least `PIPE_BUF` of POSIX.
    const PIPE_BUF_BYTES: usize = 512;

    let stderr = io::stderr();
    let start = Instant::now();
    while !line.is_empty() {
        let left = LONGEST_WAIT.saturating_sub(start.elapsed());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        let written = match poll(&mut polled, timeout) {
            Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => unistd::write(&stderr, &line[..line.len().min(PIPE_BUF_BYTES)]),
            Err(error) => Err(error),
        };
        match written {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => line = &line[bytes..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits for standard error, as long as that takes.
#[cfg(any(not(unix), miri))]
fn write(line: &[u8]) -> io::Result<()> {
    use std::io::Write;

    io::stderr().write_all(line)
}
