//! Tells the program that has started the server that its page is there, by the protocol of
//! sd_notify(3): one datagram to the socket that `NOTIFY_SOCKET` names.
//!
//! A send never blocks. The program that reads the socket may be stopped, and its queue full; and
//! the server blocks stop signals except during its sleep, so none could end a send that blocks.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's name. An empty value counts as none.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The message that programs that start from now on find the page.
#[derive(Debug)]
pub(super) struct ReadyMessage {
    /// The socket's name. `None` if nobody asks, and once the message was sent or can't be sent.
    socket: Option<OsString>,
    /// How many times the socket's queue was full.
    full_count: u64,
}

impl ReadyMessage {
    /// The message to the socket that the environment names.
    pub(super) fn of_environment() -> Self {
        Self {
            socket: env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()),
            full_count: 0,
        }
    }

    /// Whether the message is still to be sent.
    pub(super) const fn is_pending(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends the message, unless nothing is left to send. If the socket's queue is full, the next
    /// call tries again. Never waits.
    ///
    /// # Errors
    ///
    /// For the log: if the message can't be sent, and once if the queue is still full at the second
    /// call.
    pub(super) fn send(&mut self) -> io::Result<()> {
        let Some(name) = self.socket.take() else {
            return Ok(());
        };
        let Err(error) = send(&name) else {
            return Ok(());
        };
        let is_full = error.kind() == io::ErrorKind::WouldBlock;
        let problem = if is_full {
            "the socket's queue is full, so whoever has started this server learns only later that \
             it is ready, once the socket's program reads"
                .to_owned()
        } else {
            format!("{error}; whoever has started this server does not learn that it is ready")
        };
        let text = format!("{SOCKET_VARIABLE}={}: {problem}", name.display());
        if is_full {
            self.socket = Some(name);
            self.full_count += 1;
            if self.full_count != 2 {
                return Ok(());
            }
        }
        Err(io::Error::new(error.kind(), text))
    }
}

fn send(name: &OsStr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(b"READY=1", &address(name)?)?;
    Ok(())
}

/// The address of a socket: a path from `/`, or `@` and a name without a file (unix(7),
/// "Abstract").
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is neither a path from / nor an abstract socket (@NAME)",
        )),
    }
}
