//! A request to a daemon at a Unix socket of datagrams, which answers only to a socket with a path of
//! its own.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The user and the permissions of a file.
pub(crate) fn owner(path: &Path) -> io::Result<(u32, u32)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.uid(), metadata.mode()))
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
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!(
            "tickline.{}.{}.sock",
            std::process::id(),
            since_1970.as_nanos()
        );
        let path = folder.join(name);
        let socket = UnixDatagram::bind(&path)?;
        let mut bound = Self { socket, path };
        // A copy never gets the number of a standard stream that the program has closed.
        bound.socket = bound.socket.try_clone()?;
        Ok(bound)
    }

    /// Lets every user send to this socket who may enter its folder: the daemon has dropped the
    /// rights of root. The path may be replaced by a link to another file meanwhile, so the
    /// permissions are set of the file that was opened, if that is a socket.
    fn let_others_send(&self) -> io::Result<()> {
        let file: File = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(&self.path)?;
        if !file.metadata()?.file_type().is_socket() {
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
    // From then on the socket receives from the daemon alone. Before, nobody else may send to it.
    client.socket.connect(folder.join(name))?;
    client.let_others_send()?;
    client.socket.set_read_timeout(Some(timeout))?;
    client.socket.set_write_timeout(Some(timeout))?;
    let answer = client
        .socket
        .send(request)
        .and_then(|_| client.socket.recv(buffer));
    Ok(answer.ok())
}
