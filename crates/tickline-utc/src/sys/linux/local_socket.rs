//! A request to a daemon at a Unix socket of datagrams, which answers only to a socket with a path
//! of its own.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tickline::backend::{OsClock, Reference as _};

use crate::deadline::Deadline;
use crate::sys::FileOwner;

/// Whose a file is; of a link, whose the link is.
pub(crate) fn owner(path: &Path) -> io::Result<FileOwner> {
    let metadata = fs::symlink_metadata(path)?;
    Ok(FileOwner {
        user: metadata.uid(),
        mode: metadata.mode(),
    })
}

/// The most messages that are taken from the queue of a new socket. It holds 11, unless
/// `net.unix.max_dgram_qlen` is larger.
const MAX_EARLY_MESSAGES: u32 = 1_024;

/// Connects a socket that has an address to the daemon's at `path`. From then on it receives from
/// the daemon alone. Others may have sent to it before (`/proc/net/unix` lists each address), and
/// the queue keeps that. It is emptied here: the daemon has not been asked yet, so nothing in it is
/// an answer.
pub(super) fn connect(socket: &UnixDatagram, path: &Path) -> io::Result<()> {
    socket.connect(path)?;
    socket.set_nonblocking(true)?;
    let is_empty = (0..MAX_EARLY_MESSAGES).any(|_| {
        let early = socket.recv(&mut [0]);
        early.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    });
    if !is_empty {
        return Err(io::ErrorKind::InvalidData.into());
    }
    socket.set_nonblocking(false)
}

/// A socket with a path, which is removed with it.
struct PathSocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl PathSocket {
    /// A socket in `folder`. Its name is new: another process with this number, of another PID
    /// namespace, may use the folder, too.
    fn bind(folder: &Path) -> io::Result<Self> {
        // Not by std's clock: it ends a process that may not read the counter.
        let since_1970_ns = OsClock.unix_ns();
        let name = format!("tickline.{}.{since_1970_ns}.sock", std::process::id());
        let path = folder.join(name);
        let socket = UnixDatagram::bind(&path)?;
        let mut bound = Self { socket, path };
        // A copy never gets the number of a standard stream that the program has closed.
        bound.socket = bound.socket.try_clone()?;
        Ok(bound)
    }

    /// Lets every user who may enter the socket's folder send to the socket: the daemon has dropped
    /// the rights of root. The folder's owner may replace the path by a link to another file
    /// meanwhile. So the permissions are set of the file that was opened, and only if that is a
    /// socket of this user with one name: a hard link gives a socket a second one.
    fn let_others_send(&self) -> io::Result<()> {
        let name = CString::new(self.path.as_os_str().as_bytes())?;
        // std's `OpenOptions` drops O_PATH with musl, where it is a part of O_ACCMODE.
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        let descriptor = unsafe { libc::open(name.as_ptr(), flags) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else closes it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let metadata = file.metadata()?;
        let is_own = metadata.file_type().is_socket()
            && metadata.nlink() == 1
            && Some(metadata.uid()) == super::user();
        if !is_own {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(opened, Permissions::from_mode(0o666))
    }
}

impl Drop for PathSocket {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// Sends `request` to the daemon's socket `name` in `folder`, and waits for the reply for at most
/// `timeout`: `Ok(None)` without one. `buffer` gets the reply, whose length is returned.
///
/// # Errors
///
/// If the daemon can't be asked in this way.
pub(crate) fn ask(
    folder: &Path,
    name: &str,
    request: &[u8],
    timeout: Duration,
    buffer: &mut [u8],
) -> io::Result<Option<usize>> {
    let client = PathSocket::bind(folder)?;
    connect(&client.socket, &folder.join(name))?;
    client.let_others_send()?;
    let deadline = Deadline::after(timeout);
    let socket = &client.socket;
    let sent = deadline.wait(
        |timeout| socket.set_write_timeout(timeout),
        || socket.send(request),
    );
    if sent.is_err() {
        return Ok(None);
    }
    let set_timeout = |timeout| socket.set_read_timeout(timeout);
    Ok(deadline.wait(set_timeout, || socket.recv(buffer)).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickline_observe::skip;

    /// Symptom: any user could answer in ptp4l's place, by a message that came before `connect`.
    #[test]
    fn what_came_before_the_daemon_was_asked_is_no_answer() {
        let path =
            |name| std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
        let [daemon, client] =
            ["daemon", "client"].map(|name| UnixDatagram::bind(path(name)).unwrap());
        let intruder = UnixDatagram::unbound().unwrap();
        for message in [[7], [8]] {
            intruder.send_to(&message, path("client")).unwrap();
        }
        connect(&client, &path("daemon")).unwrap();
        daemon.send_to(&[1], path("client")).unwrap();
        let mut message = [0];
        client.recv(&mut message).unwrap();
        assert_eq!(message, [1]);
        for name in ["daemon", "client"] {
            fs::remove_file(path(name)).unwrap();
        }
    }

    #[test]
    fn a_new_socket_of_this_user_is_opened_to_others() {
        let own = PathSocket::bind(&std::env::temp_dir()).unwrap();
        own.let_others_send().unwrap();
    }

    /// Symptom: chronyd's user could have root make any socket of root writable, by a hard link to
    /// it.
    #[test]
    fn a_socket_with_two_names_is_not_opened_to_others() {
        let folder = std::env::temp_dir();
        let linked = PathSocket::bind(&folder).unwrap();
        let link = folder.join(format!("tickline-link-{}", std::process::id()));
        fs::hard_link(&linked.path, &link).unwrap();
        let opened = linked.let_others_send();
        fs::remove_file(link).unwrap();
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_socket_of_another_user_is_not_opened_to_others() {
        let socket = PathSocket::bind(&std::env::temp_dir()).unwrap();
        if std::os::unix::fs::chown(&socket.path, Some(65_534), None).is_err() {
            return skip("only root may give a file away");
        }
        let opened = socket.let_others_send();
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_socket_that_is_gone_is_not_opened_to_others() {
        let socket = PathSocket::bind(&std::env::temp_dir()).unwrap();
        fs::remove_file(&socket.path).unwrap();
        let opened = socket.let_others_send();
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
