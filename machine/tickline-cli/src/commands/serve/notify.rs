//! Tells the program that has started the server that its page is there, by the protocol of
//! sd_notify(3): one datagram to the socket that `NOTIFY_SOCKET` names.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's name.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Says that programs that start from now on find the page. Does nothing if nobody asks.
///
/// # Errors
///
/// If the datagram can't be sent.
pub(super) fn page_is_there() -> io::Result<()> {
    let Some(name) = env::var_os(SOCKET_VARIABLE) else {
        return Ok(());
    };
    send(&name).map_err(|error| {
        let name = name.display();
        io::Error::new(error.kind(), format!("{SOCKET_VARIABLE}={name}: {error}"))
    })
}

fn send(name: &OsStr) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address(name)?)?;
    Ok(())
}

/// The address of a socket: a path from `/`, or `@` and a name without a file (unix(7), "Abstract").
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
