//! Where a page is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tickline_page::program::PAGE;

/// The page of this name; by default, that of root, or of the user.
pub(super) fn of(named: Option<&Path>) -> io::Result<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    named.map_or_else(|| by_default(is_root, env::var_os("XDG_RUNTIME_DIR")), |page| Ok(page.to_owned()))
}

/// Makes the folder of a default page, if it is not there.
pub(super) fn make_folder(page: &Path) -> io::Result<()> {
    let folder = page.parent().unwrap_or(page);
    let made = match DirBuilder::new().mode(0o755).create(folder) {
        // Whatever the umask, which can only take away.
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    };
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))
}

/// Where programs look for a page: that of the machine, then that of the user.
pub(crate) fn pages() -> Vec<PathBuf> {
    let of_user = by_default(false, env::var_os("XDG_RUNTIME_DIR")).ok();
    by_default(true, None).into_iter().chain(of_user).collect()
}

fn by_default(is_root: bool, runtime_folder: Option<OsString>) -> io::Result<PathBuf> {
    let page = Path::new(OsStr::from_bytes(PAGE.to_bytes()));
    if is_root {
        return Ok(page.to_owned());
    }
    let name = page.strip_prefix("/run").map_err(io::Error::other)?;
    let folder = runtime_folder.map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = folder.ok_or_else(|| {
        io::Error::other(
            "XDG_RUNTIME_DIR names no folder for the page of this user; name one with --page PATH",
        )
    })?;
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_users_have_pages_of_their_own() {
        let mine = || Some(OsString::from("/run/user/7"));
        assert_eq!(by_default(true, mine()).unwrap(), Path::new("/run/tickline/page.v1"));
        assert_eq!(by_default(false, mine()).unwrap(), Path::new("/run/user/7/tickline/page.v1"));
        assert!(by_default(false, Some(OsString::from("relative"))).is_err());
    }
}
