//! `serve` says when the page is there, by the socket that systemd names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Stdio;

use tickline_page::page_file::AttachedFile;

use super::page_without_server;
use crate::common::server::{Server, folder, run, serve};
use crate::common::wait_for;

/// A server that is told this socket.
fn server(page: &Path, socket: impl AsRef<OsStr>) -> Server {
    let mut command = serve(page, &[]);
    command.env("NOTIFY_SOCKET", socket);
    Server(command.stderr(Stdio::piped()).spawn().unwrap())
}

/// The next message to the socket.
fn message(socket: &UnixDatagram) -> String {
    socket.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64];
    let length = wait_for("a message", || socket.recv(&mut bytes).ok());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Symptom: systemd called the unit started before the page's file was there, and a program that
/// was ordered after it kept the OS clock.
#[test]
fn a_server_is_ready_when_programs_can_attach_to_its_page() {
    let (folder, page) = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let _server = server(&page, &path);
    assert_eq!(message(&socket), "READY=1");
    AttachedFile::open(&page).unwrap();
}

#[test]
fn a_server_is_ready_by_an_abstract_socket() {
    let (_folder, page) = folder();
    let name = format!("tickline-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    let _server = server(&page, format!("@{name}"));
    assert_eq!(message(&socket), "READY=1");
}

/// systemd calls a unit `failed` whose server ends before it is ready, whatever its code, and
/// starts it again.
#[test]
fn a_server_of_a_page_that_is_switched_off_is_ready_before_it_ends() {
    let (folder, page) = page_without_server();
    run(&page, &["off"]);
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let (code, messages) = server(&page, &path).ended();
    assert_eq!(code, Some(0), "{messages}");
    assert_eq!(message(&socket), "READY=1");
}

/// A socket at this path whose program does not read, and whose queue is full.
fn full_socket(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    let error = loop {
        if let Err(error) = sender.send_to(b"X", path) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    socket
}

/// Symptom: the server hung in its send, published no line, and only SIGKILL ended it.
#[test]
fn a_server_whose_message_finds_no_room_ends_by_a_signal() {
    let (folder, page) = folder();
    let path = folder.path().join("notify");
    let _socket = full_socket(&path);
    let mut server = server(&page, &path);
    wait_for("the page is there", || page.exists().then_some(()));
    server.signal(libc::SIGTERM);
    let (code, messages) = server.ended();
    assert_eq!(code, Some(0), "{messages}");
}

/// A server of the page that has found no room for its message in the socket at `path`.
fn server_without_room(page: &Path, path: &Path) -> Server {
    let log = path.with_extension("log");
    let mut command = serve(page, &[]);
    command.env("NOTIFY_SOCKET", path);
    let stderr = File::create(&log).unwrap();
    let server = Server(command.stderr(stderr).spawn().unwrap());
    wait_for("the server has found no room", || {
        let log = fs::read_to_string(&log).unwrap();
        log.contains("notify: the socket's queue is full, so whoever has started this server")
            .then_some(())
    });
    server
}

fn exit_code(mut server: Server) -> Option<i32> {
    wait_for("the server ends", || server.0.try_wait().unwrap()).code()
}

fn wait_until_ready(socket: &UnixDatagram) {
    wait_for("the message", || {
        (message(socket) == "READY=1").then_some(())
    });
}

#[test]
fn a_server_whose_message_finds_no_room_sends_it_later() {
    let (folder, page) = folder();
    let path = folder.path().join("notify");
    let socket = full_socket(&path);
    let _server = server_without_room(&page, &path);
    wait_until_ready(&socket);
}

/// Symptom: it ended at once, so systemd called the unit failed, and started it again.
#[test]
fn a_server_of_a_page_that_is_switched_off_waits_for_room() {
    let (folder, page) = page_without_server();
    run(&page, &["off"]);
    let path = folder.path().join("notify");
    let socket = full_socket(&path);
    let server = server_without_room(&page, &path);
    wait_until_ready(&socket);
    assert_eq!(exit_code(server), Some(0));
}

#[test]
fn a_signal_ends_a_server_that_waits_for_room() {
    let (folder, page) = page_without_server();
    run(&page, &["off"]);
    let path = folder.path().join("notify");
    let _socket = full_socket(&path);
    let server = server_without_room(&page, &path);
    server.signal(libc::SIGTERM);
    assert_eq!(exit_code(server), Some(0));
}

/// Symptom: "NOTIFY_SOCKET=: this is neither a path from / nor an abstract socket (@NAME)".
#[test]
fn a_socket_without_a_name_counts_as_none() {
    let (_folder, page) = folder();
    let mut server = server(&page, "");
    wait_for("the page is there", || page.exists().then_some(()));
    server.signal(libc::SIGTERM);
    let (_, messages) = server.ended();
    assert!(!messages.contains("NOTIFY_SOCKET"), "{messages}");
}

/// Nobody waits for this server, or whoever waits ends it.
#[test]
fn a_server_that_can_not_say_that_it_is_ready_serves_all_the_same() {
    for (socket, expected) in [
        (
            "/nonexistent/notify",
            "NOTIFY_SOCKET=/nonexistent/notify: No such file or directory (os error 2); whoever has started",
        ),
        (
            "vsock:2:1",
            "NOTIFY_SOCKET=vsock:2:1: this is neither a path",
        ),
    ] {
        let (_folder, page) = folder();
        let mut server = server(&page, socket);
        wait_for("the page is there", || page.exists().then_some(()));
        assert_eq!(server.0.try_wait().unwrap(), None, "{socket}");
        server.signal(libc::SIGTERM);
        let (code, messages) = server.ended();
        assert_eq!(code, Some(0), "{messages}");
        assert!(messages.contains(expected), "{messages}");
    }
}
