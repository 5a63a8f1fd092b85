//! Linux: the client's side of a daemon's management socket, a Unix datagram socket.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

/// The longest message of ptp4l (`struct message_data` in linuxptp's `msg.h`).
const MESSAGE_BYTES: usize = 1_500;

/// The most messages that are taken from the queue of a new socket. It holds 11, unless
/// `net.unix.max_dgram_qlen` is larger.
const MAX_EARLY_MESSAGES: u32 = 1_024;

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
        Self::connect_socket(socket, path, timeout)
    }

    /// Connects a socket that has an address. The name of the address is in `/proc/net/unix`, so anybody
    /// may have sent to it before it was connected, and the queue keeps that. It is emptied here: the
    /// daemon has not been asked yet, so nothing in it is an answer.
    fn connect_socket(socket: UnixDatagram, path: &Path, timeout: Duration) -> Option<Self> {
        socket.connect(path).ok()?;
        socket.set_nonblocking(true).ok()?;
        let is_empty = (0..MAX_EARLY_MESSAGES).any(|_| {
            let early = socket.recv(&mut [0]);
            early.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        if !is_empty {
            return None;
        }
        socket.set_nonblocking(false).ok()?;
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

/// A daemon's socket, and one that has an address, but is not connected yet.
#[cfg(test)]
fn sockets(name: &str) -> (std::path::PathBuf, UnixDatagram, UnixDatagram) {
    let name = format!("tickline-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(&name);
    let daemon = UnixDatagram::bind(&path).unwrap();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    (path, daemon, UnixDatagram::bind_addr(&address).unwrap())
}

/// Symptom: any user could answer in ptp4l's place. `/proc/net/unix` lists the address, and what comes
/// there before `connect` stays in the queue.
#[test]
fn what_came_before_the_daemon_was_asked_is_no_answer() {
    let (path, daemon, socket) = sockets("early");
    let address = socket.local_addr().unwrap();
    let intruder = UnixDatagram::unbound().unwrap();
    for message in [[7], [8]] {
        intruder.send_to_addr(&message, &address).unwrap();
    }
    let asker = ManagementSocket::connect_socket(socket, &path, Duration::from_secs(60)).unwrap();
    daemon.send_to_addr(&[1], &address).unwrap();
    assert_eq!(asker.receive(), Some(vec![1]));
    std::fs::remove_file(&path).unwrap();
}
