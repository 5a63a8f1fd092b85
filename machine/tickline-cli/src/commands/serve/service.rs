//! The commands of this machine that start a page's server and show its log.

use std::path::Path;

use crate::machine::page;
use crate::words::plain_path;

/// What runs the server of a page, if the server was installed as `machine/docs/operators.md` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceManager {
    /// systemd, by the machine's unit.
    Systemd,
    /// systemd, by the unit of this user.
    SystemdOfUser,
    /// OpenRC, by the script for the machine's page.
    OpenRc,
    /// A person or another program.
    Other,
}

impl ServiceManager {
    /// What runs the server of this page here.
    pub(super) fn of(page: &Path) -> Self {
        Self::choose(page, page::of_this_user().ok().as_deref(), Path::new("/"))
    }

    /// As [`of`](Self::of), by the path of this user's page, and by the folders below `root`:
    /// systemd makes the one (sd_booted(3)), and OpenRC the other.
    fn choose(page: &Path, own: Option<&Path>, root: &Path) -> Self {
        let has_systemd = root.join("run/systemd/system").exists();
        let has_openrc = root.join("run/openrc").exists();
        if page == page::of_machine() && has_systemd {
            Self::Systemd
        } else if page == page::of_machine() && has_openrc {
            Self::OpenRc
        } else if Some(page) == own && has_systemd {
            Self::SystemdOfUser
        } else {
            Self::Other
        }
    }

    /// How to start a server of this page.
    pub(super) fn start(self, page: &Path) -> String {
        match self {
            Self::Systemd => "systemctl start tickline, or `tickline serve`".to_owned(),
            Self::SystemdOfUser => {
                "systemctl --user start tickline, or `tickline serve`".to_owned()
            }
            Self::OpenRc => "rc-service tickline start, or `tickline serve`".to_owned(),
            Self::Other if page == page::of_machine() => "`tickline serve`, as root".to_owned(),
            Self::Other => format!("`tickline serve --page {}`", plain_path(page)),
        }
    }

    /// Where the server's state and its log are. On Alpine the second command of OpenRC finds the
    /// log.
    pub(super) const fn look(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl status tickline; journalctl -u tickline",
            Self::SystemdOfUser => {
                "systemctl --user status tickline; journalctl --user -u tickline"
            }
            Self::OpenRc => "rc-service tickline status; grep tickline /var/log/messages",
            Self::Other => "the log of the server: its standard error, or the system's log",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: `systemctl` on Alpine, and the machine's unit for a page of a user.
    #[test]
    fn each_manager_has_its_own_commands() {
        let machines = page::of_machine();
        for (manager, start, look) in [
            (
                ServiceManager::Systemd,
                "systemctl start",
                "journalctl -u tickline",
            ),
            (
                ServiceManager::SystemdOfUser,
                "systemctl --user start",
                "journalctl --user -u tickline",
            ),
            (
                ServiceManager::OpenRc,
                "rc-service tickline start",
                "/var/log/messages",
            ),
            (
                ServiceManager::Other,
                "`tickline serve`, as root",
                "its standard error",
            ),
        ] {
            assert!(manager.start(machines).starts_with(start), "{manager:?}");
            assert!(manager.look().contains(look), "{manager:?}");
        }
    }

    const OWN: &str = "/run/user/7/tickline/page.v1";
    const OTHER: &str = "/srv/page";

    /// What runs the servers of the machine's page, of the user's, and of another.
    fn managers(folder: &str) -> [ServiceManager; 3] {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
        [page::of_machine(), Path::new(OWN), Path::new(OTHER)]
            .map(|page| ServiceManager::choose(page, Some(Path::new(OWN)), root.path()))
    }

    #[test]
    fn systemd_has_a_unit_for_the_machines_page_and_one_for_the_users() {
        use ServiceManager::{Other, Systemd, SystemdOfUser};
        assert_eq!(
            managers("run/systemd/system"),
            [Systemd, SystemdOfUser, Other]
        );
    }

    #[test]
    fn openrc_has_a_script_for_the_machines_page() {
        use ServiceManager::{OpenRc, Other};
        assert_eq!(managers("run/openrc"), [OpenRc, Other, Other]);
    }

    #[test]
    fn elsewhere_nothing_is_known_to_run_a_server() {
        assert_eq!(managers("run"), [ServiceManager::Other; 3]);
    }

    #[test]
    fn a_page_that_no_service_is_for_is_named_in_the_command() {
        let start = ServiceManager::Other.start(Path::new(OTHER));
        assert_eq!(start, "`tickline serve --page /srv/page`");
    }
}
