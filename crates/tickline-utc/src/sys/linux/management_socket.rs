//! Linux: the client's side of a daemon's management socket, a Unix datagram socket.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use super::local_socket::connect;

/// The longest message of ptp4l (`struct message_data` in linuxptp's `msg.h`).
const MESSAGE_BYTES: usize = 1_500;

/// A socket that is connected to a daemon's. The kernel hands it messages of that daemon alone.
pub(crate) struct ManagementSocket(UnixDatagram);

impl ManagementSocket {
    /// Connects to the socket at `path`; `None` if there is none, or this user may not write to it. A
    /// message is waited for until `timeout`.
    pub(crate) fn connect(path: &Path, timeout: Duration) -> Option<Self> {
        // The answers need an address. An abstract one needs no file, and no right to make one.
        let number = RandomState::new().build_hasher().finish();
        let name = format!("tickline-utc-{number:016x}");
        let address = SocketAddr::from_abstract_name(name).ok()?;
        // A copy never gets the number of a standard stream that the program has closed.
        let socket = UnixDatagram::bind_addr(&address).ok()?.try_clone().ok()?;
        connect(&socket, path).ok()?;
        socket.set_read_timeout(Some(timeout)).ok()?;
        socket.set_write_timeout(Some(timeout)).ok()?;
        Some(Self(socket))
    }

    /// Sends a message; `None` if the daemon is gone, or does not read its messages.
    pub(crate) fn send(&self, message: &[u8]) -> Option<()> {
        self.0.send(message).ok().map(|_| ())
    }

    /// The next message, cut to the longest one; `None` after the timeout.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut message = vec![0; MESSAGE_BYTES];
        let length = self.0.recv(&mut message).ok()?;
        message.truncate(length);
        Some(message)
    }
}
