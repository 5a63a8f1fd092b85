//! Linux: the client's side of a daemon's management socket, a Unix datagram socket.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use super::local_socket::connect;
use crate::deadline::Deadline;

/// The longest message of ptp4l (`struct message_data` in linuxptp's `msg.h`).
const MESSAGE_BYTES: usize = 1_500;

/// A socket that is connected to a daemon's. The kernel hands it messages of that daemon alone.
pub(crate) struct ManagementSocket {
    socket: UnixDatagram,
    deadline: Deadline,
}

impl ManagementSocket {
    /// Connects to the socket at `path`. Fails if there is none, or this user may not write to it.
    /// Messages are waited for until `deadline`.
    pub(crate) fn connect(path: &Path, deadline: Deadline) -> io::Result<Self> {
        // The answers need an address. An abstract one needs no file, and no right to make one.
        let number = RandomState::new().build_hasher().finish();
        let name = format!("tickline-utc-{number:016x}");
        let address = SocketAddr::from_abstract_name(name)?;
        // A copy never gets the number of a standard stream that the program has closed.
        let socket = UnixDatagram::bind_addr(&address)?.try_clone()?;
        connect(&socket, path)?;
        Ok(Self { socket, deadline })
    }

    /// Sends a message; `None` if the daemon is gone, or does not read its messages in time.
    pub(crate) fn send(&self, message: &[u8]) -> Option<()> {
        let set_timeout = |timeout| self.socket.set_write_timeout(timeout);
        let sent = self
            .deadline
            .wait(set_timeout, || self.socket.send(message));
        sent.ok().map(|_| ())
    }

    /// The next message, cut to the longest one; `None` if there is none until the deadline.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut message = vec![0; MESSAGE_BYTES];
        let set_timeout = |timeout| self.socket.set_read_timeout(timeout);
        let length = self
            .deadline
            .wait(set_timeout, || self.socket.recv(&mut message));
        message.truncate(length.ok()?);
        Some(message)
    }
}
