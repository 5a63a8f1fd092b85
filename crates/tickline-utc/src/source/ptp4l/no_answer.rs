//! Why ptp4l has not answered.

use core::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::{DOMAINS, SOCKETS};
use crate::source::daemon_socket::NotAsked;

/// Why ptp4l has not answered.
///
/// ```
/// use tickline_utc::sources::ptp4l::NoAnswer;
///
/// assert!(NoAnswer::NoSocket.to_string().starts_with("ptp4l has no socket"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// None of [`SOCKETS`] exists.
    NoSocket,
    /// A socket, or its folder, can't be used.
    Unusable {
        /// Its path.
        socket: &'static str,
        /// Why.
        kind: ErrorKind,
    },
    /// Somebody else may answer at the socket: it or its folder is neither root's nor this
    /// process's user's.
    Stranger {
        /// Its path.
        socket: &'static str,
        /// Whose it is; `None` if every user may replace it.
        user: Option<u32>,
    },
    /// There was no usable answer in time in any of [`DOMAINS`].
    Silent {
        /// The path of the socket.
        socket: &'static str,
        /// The longest wait.
        timeout: Duration,
    },
    /// Some of the answers have come, but not all in time; or they were cut, or about two
    /// grandmasters.
    Incomplete {
        /// The path of the socket.
        socket: &'static str,
        /// The longest wait.
        timeout: Duration,
    },
}

impl NoAnswer {
    /// Why the socket at this path is not asked.
    pub(super) fn not_asked(socket: &'static str, why: NotAsked) -> Self {
        match why {
            NotAsked::Stranger { user } => Self::Stranger { socket, user },
            NotAsked::Failed(kind) => Self::unusable(socket, kind),
        }
    }

    /// The socket at this path can't be used for this reason.
    pub(super) fn unusable(socket: &'static str, kind: ErrorKind) -> Self {
        if kind == ErrorKind::NotFound {
            return Self::NoSocket;
        }
        Self::Unusable { socket, kind }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = |socket| {
            Path::new(socket)
                .parent()
                .unwrap_or(Path::new("/"))
                .display()
        };
        match *self {
            Self::NoSocket => write!(
                f,
                "ptp4l has no socket at {}: does it run, with the default `uds_address`?",
                SOCKETS.join(", ")
            ),
            Self::Unusable { socket, kind } => write!(
                f,
                "ptp4l's socket {socket} can't be used ({kind}): does ptp4l run, and may this user write to \
                 the socket? In linuxptp 4 every user may by `uds_ro_file_mode`, before only root"
            ),
            Self::Stranger {
                socket,
                user: Some(user),
            } => write!(
                f,
                "user {user} may answer at ptp4l's socket {socket}, and is neither root nor this process's \
                 user: see whose it is (`ls -ld {} {socket}`)",
                folder(socket)
            ),
            Self::Stranger { socket, user: None } => write!(
                f,
                "every user may replace ptp4l's socket {socket}: take the right to write its folder from \
                 others (`chmod o-w {}`)",
                folder(socket)
            ),
            Self::Silent { socket, timeout } => write!(
                f,
                "ptp4l gave no usable answer within {timeout:?} at {socket}, in any of the domains {}: is it in \
                 another domain, or another network namespace? (`sudo pmc -u -b 0 -d DOMAIN 'GET TIME_STATUS_NP'`)",
                DOMAINS
                    .iter()
                    .map(u8::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::Incomplete { socket, timeout } => write!(
                f,
                "ptp4l's answers at {socket} were not all there within {timeout:?}, or were about two \
                 grandmasters: ask again, with a longer timeout"
            ),
        }
    }
}

impl std::error::Error for NoAnswer {}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: &str = SOCKETS[1];
    const TIMEOUT: Duration = Duration::from_millis(20);

    #[test]
    fn without_a_socket_the_error_has_all_paths() {
        assert_eq!(
            NoAnswer::NoSocket.to_string(),
            "ptp4l has no socket at /var/run/ptp/ptp4lro, /var/run/ptp4lro, /var/run/ptp/ptp4l, /var/run/ptp4l: \
             does it run, with the default `uds_address`?"
        );
    }

    #[test]
    fn a_socket_that_is_not_found_is_none() {
        let not_found = NoAnswer::unusable(SOCKET, ErrorKind::NotFound);
        assert_eq!(not_found, NoAnswer::NoSocket);
    }

    #[test]
    fn the_error_of_an_unusable_socket_has_the_reason_of_the_system() {
        let denied = NotAsked::Failed(ErrorKind::PermissionDenied);
        assert_eq!(
            NoAnswer::not_asked(SOCKET, denied).to_string(),
            "ptp4l's socket /var/run/ptp4lro can't be used (permission denied): does ptp4l run, and may this \
             user write to the socket? In linuxptp 4 every user may by `uds_ro_file_mode`, before only root"
        );
    }

    #[test]
    fn the_error_of_a_strangers_socket_has_the_user_or_says_that_every_user_may_replace_it() {
        let text = |user| NoAnswer::not_asked(SOCKET, NotAsked::Stranger { user }).to_string();
        assert_eq!(
            text(Some(1000)),
            "user 1000 may answer at ptp4l's socket /var/run/ptp4lro, and is neither root nor this process's \
             user: see whose it is (`ls -ld /var/run /var/run/ptp4lro`)"
        );
        assert_eq!(
            text(None),
            "every user may replace ptp4l's socket /var/run/ptp4lro: take the right to write its folder from \
             others (`chmod o-w /var/run`)"
        );
    }

    #[test]
    fn the_error_of_silence_has_the_wait_and_the_domains() {
        let socket = SOCKET;
        let timeout = TIMEOUT;
        assert_eq!(
            NoAnswer::Silent { socket, timeout }.to_string(),
            "ptp4l gave no usable answer within 20ms at /var/run/ptp4lro, in any of the domains 0, 24, 44: is it \
             in another domain, or another network namespace? (`sudo pmc -u -b 0 -d DOMAIN 'GET TIME_STATUS_NP'`)"
        );
    }

    #[test]
    fn the_error_of_answers_that_are_not_complete_has_the_wait() {
        let socket = SOCKET;
        let timeout = TIMEOUT;
        assert_eq!(
            NoAnswer::Incomplete { socket, timeout }.to_string(),
            "ptp4l's answers at /var/run/ptp4lro were not all there within 20ms, or were about two \
             grandmasters: ask again, with a longer timeout"
        );
    }
}
