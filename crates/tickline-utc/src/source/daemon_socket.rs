//! Whose a daemon's Unix socket is.
//!
//! The members of a group that may write to the socket's folder are trusted: they can put another
//! socket in its place. So it is with the folder that chronyd makes.

use std::io::ErrorKind;
use std::path::Path;

use crate::sys;

/// The bit of a folder's permissions by which every user may write it.
const OTHERS_WRITE: u32 = 0o002;

/// The sticky bit, by which a file in the folder is replaced by its owner or the folder's alone.
const STICKY: u32 = 0o1000;

/// Why a daemon is not asked by its socket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAsked {
    /// Another user may answer there.
    Stranger {
        /// `None` if every user may.
        user: Option<u32>,
    },
    Failed(ErrorKind),
}

/// The user of the socket at `path`, which has no link in it, if only users who `may_answer`, and
/// members of the folder's group, can have a socket there.
pub(super) fn user_of(path: &Path, may_answer: impl Fn(u32) -> bool) -> Result<u32, NotAsked> {
    let owner = |path| sys::owner(path).map_err(|error| NotAsked::Failed(error.kind()));
    let folder = path.parent().ok_or(NotAsked::Failed(ErrorKind::NotFound))?;
    let folder = owner(folder)?;
    let socket = owner(path)?;
    if folder.mode & OTHERS_WRITE != 0 && folder.mode & STICKY == 0 {
        return Err(NotAsked::Stranger { user: None });
    }
    let stranger = [folder.user, socket.user]
        .into_iter()
        .find(|user| !may_answer(*user));
    match stranger {
        Some(_) => Err(NotAsked::Stranger { user: stranger }),
        None => Ok(socket.user),
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_user_is_a_strangers() {
        let path = std::env::temp_dir().join(format!("tickline-stranger-{}", std::process::id()));
        let _socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let user = user_of(&path, |_| false);
        let folder = sys::owner(path.parent().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let stranger = NotAsked::Stranger {
            user: Some(folder.user),
        };
        assert_eq!(user, Err(stranger));
    }

    #[test]
    fn a_socket_that_does_not_exist_is_nobodys() {
        let missing = std::env::temp_dir().join("tickline-no-socket");
        let found = user_of(&missing, |_| true);
        assert_eq!(found, Err(NotAsked::Failed(ErrorKind::NotFound)));
    }
}
