//! The request to chronyd: by its Unix socket where this user may use it, else at its UDP port; and
//! whether the one who answers can be chronyd.
//!
//! The head of `chronyd.rs` says who can answer where, and which answers count. What the checks rest
//! on:
//!
//! - chronyd's folder has mode 0770 at most (`CNF_CreateDirs` in `conf.c`). In a folder that every
//!   user may write, the sticky bit protects a socket that is there.
//! - The kernel's list of the sockets at a port, with their users, is `/proc/net/udp`
//!   (proc_net_tcp(5)). The kernel hands out a long list in parts, and a socket can be missing if
//!   another one was closed between two parts. So a list without the port is read again. A
//!   stranger's socket beside chronyd's at the port can be missing in the same way.

use core::fmt;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::{LONGEST_REPLY_BYTES, TRACKING, TRACKING_BYTES, Tracking, ask_by};
use crate::source::daemon_socket::{NotAsked, user_of};
use crate::sys;

/// chronyd's folder and the socket in it (`DEFAULT_COMMAND_SOCKET`; chrony.conf(5),
/// `bindcmdaddress`).
const FOLDER: &str = "/run/chrony";
const SOCKET: &str = "chronyd.sock";

/// chronyd's command port (chrony.conf(5), `cmdport`).
const PORT: u16 = 323;

/// The users that distributions make for chronyd.
const USERS: [&str; 2] = ["chrony", "_chrony"];

/// The length of a reply without content, by which chronyd refuses a request (`RPY_NULL` and the
/// head of `CMD_Reply` in chrony's `candm.h`).
const REFUSAL_BYTES: usize = 28;

/// The kernel's lists of UDP sockets.
const LISTS: [&str; 2] = ["/proc/net/udp", "/proc/net/udp6"];

/// How often the lists are read if none has the port.
const MOST_READINGS: usize = 10;

tickline_core::named! {
    /// How chronyd was asked.
    ///
    /// ```
    /// use tickline_utc::sources::chronyd::Channel;
    ///
    /// assert_eq!(Channel::Socket.code(), "socket"); // for logs and metrics
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Channel {
        /// By its Unix socket, where only root, chronyd's user, this process's user, and the group
        /// of the socket's folder can answer.
        Socket => "socket": "chronyd's Unix socket",
        /// At its UDP port of this machine.
        Udp => "udp": "chronyd's UDP port",
    }
}

/// An answer of chronyd.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer {
    /// Its state.
    pub tracking: Tracking,
    /// How it was asked.
    pub channel: Channel,
    /// The user who answers, by the kernel; `None` if the kernel did not say.
    pub user: Option<u32>,
}

/// Why chronyd has not answered.
///
/// ```
/// use tickline_utc::sources::chronyd::{Channel, NoAnswer};
///
/// let stranger = NoAnswer::Stranger {
///     channel: Channel::Udp,
///     user: Some(1000),
/// };
/// assert!(stranger.to_string().starts_with("user 1000 may answer at chronyd's UDP port"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// Nobody has answered in time, or nobody can be asked.
    Silent {
        /// The longest wait for an answer by the socket, and for one at the port.
        timeout: Duration,
    },
    /// Somebody has answered, but not with chronyd's state: the reply has another length or another
    /// request's number, or it refuses the request, by 28 bytes.
    Unreadable {
        /// Where.
        channel: Channel,
        /// The length of the reply, bytes; 1,024 if it is longer. chronyd's state has 104 bytes.
        length: usize,
    },
    /// Somebody else may answer: the socket, its folder or a socket at the port is not root's,
    /// chronyd's user's or this process's user's, or every user may replace the socket.
    Stranger {
        /// Where.
        channel: Channel,
        /// Whose it is; `None` if every user may replace the socket, or nobody has the port any
        /// more.
        user: Option<u32>,
    },
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { timeout } => write!(
                f,
                "nobody has answered within {timeout:?}, neither at {FOLDER}/{SOCKET}, if this user may ask \
                 there, nor at UDP port {PORT}: does chronyd run, with `cmdport {PORT}`?"
            ),
            Self::Unreadable {
                channel,
                length: TRACKING_BYTES,
            } => write!(
                f,
                "the reply at {channel} has the length of chronyd's state, {TRACKING_BYTES} bytes, but is \
                 another one, or has another request's number: ask again, and compare `chronyc tracking`"
            ),
            Self::Unreadable {
                channel,
                length: REFUSAL_BYTES,
            } => write!(
                f,
                "{channel} refuses the request: `opencommands` in chrony.conf must have `tracking` \
                 (`chronyc tracking`)"
            ),
            Self::Unreadable { channel, length } => write!(
                f,
                "the reply at {channel} has {length} bytes, and chronyd's state has {TRACKING_BYTES}: does \
                 chronyd answer there, of chrony 4? (`chronyc tracking`)"
            ),
            Self::Stranger {
                channel,
                user: Some(user),
            } => {
                let look = match channel {
                    Channel::Socket => format!("ls -ld {FOLDER} {FOLDER}/{SOCKET}"),
                    Channel::Udp => format!("ss -ulnpe sport = :{PORT}"),
                };
                write!(
                    f,
                    "user {user} may answer at {channel}, and is neither root, chronyd's user nor this \
                     process's user: see whose it is (`{look}`)"
                )
            }
            Self::Stranger {
                channel: Channel::Socket,
                user: None,
            } => write!(
                f,
                "every user may replace chronyd's Unix socket: take the right to write {FOLDER} from others \
                 (`chmod o-w {FOLDER}`)"
            ),
            Self::Stranger {
                channel: Channel::Udp,
                user: None,
            } => f.write_str(
                "nobody has chronyd's UDP port any more, so whoever has answered is unknown: ask again",
            ),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Where chronyd is asked.
struct ChronydAddress<'a> {
    folder: &'a Path,
    port: u16,
}

/// Asks this machine's chronyd for its state. Waits for at most `timeout` for an answer by its Unix
/// socket, and as long for one at its port.
///
/// # Errors
///
/// [`NoAnswer`] if there is none that counts.
///
/// ```
/// use std::time::Duration;
/// use tickline_utc::sources::chronyd;
///
/// match chronyd::ask(Duration::from_millis(20)) {
///     Ok(answer) => println!("{} ns are left to correct", answer.tracking.correction_ns),
///     Err(why) => println!("{why}"),
/// }
/// ```
pub fn ask(timeout: Duration) -> Result<Answer, NoAnswer> {
    ChronydClient::default().ask(timeout)
}

/// When the socket is asked before the port.
#[derive(Debug, Default)]
struct SocketUse {
    /// Whether this user may not use the socket. A system that logs each refusal is not asked
    /// again.
    is_denied: bool,
    /// The requests in a row that chronyd has answered at its port, and not by its socket.
    unanswered: u8,
}

impl SocketUse {
    /// After so many requests the socket is left out: SELinux may let chronyd receive there, but
    /// not send.
    const MOST_UNANSWERED: u8 = 3;

    /// The requests from one such try to the next: the machine may have been busy.
    const REQUESTS_PER_TRY: u8 = 60;

    /// Whether the socket is asked at the next request.
    fn is_due(&self) -> bool {
        !self.is_denied && !self.is_left_out()
    }

    fn is_left_out(&self) -> bool {
        self.unanswered >= Self::MOST_UNANSWERED
    }

    /// chronyd has answered by its socket.
    fn record_answer(&mut self) {
        self.unanswered = 0;
    }

    /// chronyd has answered at its port, and its socket was silent or left out.
    fn record_answer_at_port(&mut self) {
        self.unanswered = (self.unanswered + 1) % Self::REQUESTS_PER_TRY;
    }

    /// chronyd has not answered at its port, so the socket is all that is left.
    fn record_silent_port(&mut self) {
        if self.is_left_out() {
            self.unanswered = 0;
        }
    }
}

/// A client that asks again and again.
#[derive(Debug, Default)]
pub(crate) struct ChronydClient {
    socket: SocketUse,
}

impl ChronydClient {
    /// See [`ask`]. Waits for `timeout` at most twice.
    pub(crate) fn ask(&mut self, timeout: Duration) -> Result<Answer, NoAnswer> {
        let this_machine = ChronydAddress {
            folder: Path::new(FOLDER),
            port: PORT,
        };
        self.ask_at(&this_machine, timeout)
    }

    fn ask_at(
        &mut self,
        address: &ChronydAddress<'_>,
        timeout: Duration,
    ) -> Result<Answer, NoAnswer> {
        let mut by_socket = NoAnswer::Silent { timeout };
        let mut is_silent = self.socket.is_left_out();
        if self.socket.is_due() {
            match ask_socket(address.folder, timeout) {
                Ok(Err(NoAnswer::Silent { .. })) => is_silent = true,
                Ok(answer) => {
                    self.socket.record_answer();
                    return answer;
                }
                Err(NotAsked::Stranger { user }) => {
                    let channel = Channel::Socket;
                    by_socket = NoAnswer::Stranger { channel, user };
                }
                Err(NotAsked::Failed(kind)) => {
                    self.socket.is_denied = kind == ErrorKind::PermissionDenied;
                }
            }
        }
        let by_port = ask_port(address.port, timeout);
        match by_port {
            Ok(_) if is_silent => self.socket.record_answer_at_port(),
            Ok(_) => {}
            Err(_) => self.socket.record_silent_port(),
        }
        match by_port {
            Err(NoAnswer::Silent { .. }) => Err(by_socket),
            by_port => by_port,
        }
    }
}

/// Asks by the socket, if not every user can answer there.
fn ask_socket(folder: &Path, timeout: Duration) -> Result<Result<Answer, NoAnswer>, NotAsked> {
    let user = user_of(&folder.join(SOCKET), may_be_chronyd)?;
    let sequence = sequence();
    let mut reply = [0; LONGEST_REPLY_BYTES];
    let length = sys::ask_by_socket(folder, SOCKET, &padded(sequence), timeout, &mut reply)
        .map_err(|error| NotAsked::Failed(error.kind()))?;
    Ok(match length {
        None => Err(NoAnswer::Silent { timeout }),
        Some(length) => {
            let reply = reply.get(..length).unwrap_or(&reply);
            answer(Channel::Socket, reply, sequence, Some(user))
        }
    })
}

/// Asks at the port.
fn ask_port(port: u16, timeout: Duration) -> Result<Answer, NoAnswer> {
    let sequence = sequence();
    let reply = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .ok()
        .and_then(|socket| ask_by(&socket, port, &padded(sequence), timeout))
        .ok_or(NoAnswer::Silent { timeout })?;
    let users = listed_users(port, || {
        LISTS.map(|list| std::fs::read_to_string(list).ok())
    });
    let user = user_of_port(users, may_be_chronyd)?;
    answer(Channel::Udp, &reply, sequence, user)
}

/// The user who answers at a port with sockets of these users; `None` if the kernel does not say.
/// Fails if that may be a stranger. A socket that is not listed any more may have been anybody's.
fn user_of_port(
    users: Option<Vec<u32>>,
    may_be_chronyd: impl Fn(u32) -> bool,
) -> Result<Option<u32>, NoAnswer> {
    let Some(users) = users else {
        return Ok(None);
    };
    let stranger = users.iter().find(|user| !may_be_chronyd(**user));
    if users.is_empty() || stranger.is_some() {
        return Err(NoAnswer::Stranger {
            channel: Channel::Udp,
            user: stranger.copied(),
        });
    }
    Ok(users.first().copied())
}

fn answer(
    channel: Channel,
    reply: &[u8],
    sequence: [u8; 4],
    user: Option<u32>,
) -> Result<Answer, NoAnswer> {
    let unreadable = NoAnswer::Unreadable {
        channel,
        length: reply.len(),
    };
    let reply = reply.try_into().map_err(|_| unreadable)?;
    let tracking = Tracking::parse(reply, sequence).ok_or(unreadable)?;
    Ok(Answer {
        tracking,
        channel,
        user,
    })
}

/// A sequence number that nobody can guess, so only a program that has received the request can
/// answer.
fn sequence() -> [u8; 4] {
    let number = RandomState::new().build_hasher().finish();
    let [.., first, second, third, fourth] = number.to_ne_bytes();
    [first, second, third, fourth]
}

/// The request, as long as its reply.
fn padded(sequence: [u8; 4]) -> [u8; TRACKING_BYTES] {
    let mut request = [0; TRACKING_BYTES];
    request[..TRACKING.len()].copy_from_slice(&TRACKING);
    request[TRACKING.len()..][..sequence.len()].copy_from_slice(&sequence);
    request
}

/// Whether what this user says can be chronyd's word: the user is root, chronyd's, or this
/// process's user, who could change this process anyway.
fn may_be_chronyd(user: u32) -> bool {
    let is_chronyds = || {
        std::fs::read_to_string("/etc/passwd")
            .is_ok_and(|users| chronyds_users(&users).any(|chronyds| chronyds == user))
    };
    user == 0 || Some(user) == sys::user() || is_chronyds()
}

/// The numbers of chronyd's users in a list of all users (passwd(5)).
fn chronyds_users(users: &str) -> impl Iterator<Item = u32> {
    users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        USERS.contains(&name).then_some(())?;
        fields.nth(1)?.parse().ok()
    })
}

/// The users of the sockets with this local port: `read_lists` is called again while there are
/// none, at most [`MOST_READINGS`] times.
fn listed_users(
    port: u16,
    mut read_lists: impl FnMut() -> [Option<String>; 2],
) -> Option<Vec<u32>> {
    for _ in 1..MOST_READINGS {
        let users = users_of_port(&read_lists(), port)?;
        if !users.is_empty() {
            return Some(users);
        }
    }
    users_of_port(&read_lists(), port)
}

/// The users of the sockets with this local port, by the kernel's lists of UDP sockets by IPv4 and
/// IPv6; `None` if the first can't be read. A socket with another address counts, too: it can send
/// from 127.0.0.1 all the same (`IP_PKTINFO`, ip(7)).
fn users_of_port(lists: &[Option<String>; 2], port: u16) -> Option<Vec<u32>> {
    let [by_ipv4, by_ipv6] = lists;
    let end = format!(":{port:04X}");
    let user = |line: &str| {
        let mut fields = line.split_whitespace();
        fields.nth(1)?.ends_with(&end).then_some(())?;
        // After the remote address, the state, the queues, the timer and the retransmissions.
        fields.nth(5)?.parse().ok()
    };
    let users = by_ipv4.as_ref()?.lines().filter_map(user);
    let by_ipv6 = by_ipv6.as_deref().unwrap_or_default();
    Some(users.chain(by_ipv6.lines().filter_map(user)).collect())
}

#[cfg(test)]
mod tests;
