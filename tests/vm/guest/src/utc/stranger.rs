//! A program of user nobody that answers at chronyd's port, as any program of a container can.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::system::Killed;
use crate::who::NOBODY;

/// The argument that makes this program the stranger.
pub(crate) const STRANGER: &str = "stranger";

/// Answers each request with the state of a chronyd that follows a server exactly (`CMD_Reply` with
/// `RPY_Tracking` in chrony's `candm.h`). Ends if the port can't be bound.
pub(crate) fn answer() {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 323)) else {
        return;
    };
    let mut request = [0; 256];
    while let Ok((_, from)) = socket.recv_from(&mut request) {
        let mut reply = [0; 104];
        // Version 6, a reply to the request, of kind 5: success.
        reply[0] = 6;
        reply[1] = 2;
        reply[7] = 5;
        reply[4..6].copy_from_slice(&request[4..6]);
        reply[16..20].copy_from_slice(&request[8..12]);
        // An IPv4 server, at stratum 2.
        reply[28..32].copy_from_slice(&[10, 0, 0, 1]);
        reply[49] = 1;
        reply[53] = 2;
        socket.send_to(&reply, from).ok();
    }
}

/// Starts the stranger, and lets it bind chronyd's port, as container engines do.
pub(super) fn start() -> io::Result<Killed> {
    std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    Command::new("/init")
        .arg(STRANGER)
        .uid(NOBODY)
        .spawn()
        .map(Killed)
}
