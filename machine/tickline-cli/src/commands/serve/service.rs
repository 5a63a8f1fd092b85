//! The commands of this machine that start a page's server and show its log.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{Uid, geteuid};

use crate::machine::page;
use crate::sudo;
use crate::words::{plain_path, shell_word};

/// What runs the server of a page, if the server was installed as `machine/docs/operators.md` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceManager {
    /// systemd, by the machine's unit.
    Systemd,
    /// systemd, if an administrator had not masked the machine's unit.
    SystemdMasked,
    /// systemd, by the unit of this user.
    SystemdOfUser,
    /// OpenRC, by the script for the machine's page.
    OpenRc,
    /// What runs where the page can be written, which it can't be here: usually the host of a
    /// container.
    Elsewhere,
    /// The user of this number, whose folder has the page, while another user runs this process.
    User(u32),
    /// A person or another program, such as a container's runtime.
    Other,
}

/// The folders below which systemd looks for units (systemd.unit(5)), as far as packages and
/// administrators write to them, in the order of precedence.
const UNIT_FOLDERS: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];

/// The folder below which systemd looks first for a unit of this user.
fn config_folder() -> Option<PathBuf> {
    let named = |variable: &str| {
        let folder = env::var_os(variable).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))
}

/// Who may write to the place of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nobody here: its mount is read-only, or its owner is outside of this user namespace.
    ReadOnly,
    /// The user of this number, while another user runs this process. Root makes no page there: the
    /// user could not serve it later.
    OfUser(u32),
    /// As far as is known, this process's user.
    Writable,
}

impl Place {
    /// The place of this page, which may not exist yet.
    fn of(page: &Path) -> Self {
        let flags = statvfs(page).map(|mounted| mounted.f_flag);
        if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY)) {
            return Self::ReadOnly;
        }
        let nearest = page.ancestors().find_map(|path| path.metadata().ok());
        let owner = nearest.map_or(0, |found| found.uid());
        Self::of_owner(owner, geteuid())
    }

    /// The place in a folder of the user `owner`, for this `user`. A folder of root, such as /tmp,
    /// may be open to every user. In a user namespace the number 65534 stands for every user outside
    /// of it (user_namespaces(7)), such as the host's root.
    fn of_owner(owner: u32, user: Uid) -> Self {
        match owner {
            65_534 => Self::ReadOnly,
            1.. if owner != user.as_raw() => Self::OfUser(owner),
            _ => Self::Writable,
        }
    }
}

/// A unit of tickline, as systemd sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Missing,
    /// A mask, which is a link to /dev/null, precedes the unit.
    Masked,
    Present,
}

impl ServiceManager {
    /// What runs the server of this page here.
    pub(super) fn of(page: &Path) -> Self {
        let own = page::of_this_user().ok();
        let config = config_folder();
        Self::choose(
            page,
            Place::of(page),
            own.as_deref(),
            Path::new("/"),
            config.as_deref(),
        )
    }

    /// As [`of`](Self::of), by the place of the page, by the path of this user's page, and by the
    /// files below `root` and below this user's folder `config`. systemd runs if its folder is
    /// there (sd_booted(3)), and OpenRC likewise. Neither runs the server if it has no unit or
    /// script of tickline, as on a node of Kubernetes, or if only the mask of a unit is there, as
    /// after `apt remove`.
    fn choose(
        page: &Path,
        place: Place,
        own: Option<&Path>,
        root: &Path,
        config: Option<&Path>,
    ) -> Self {
        match place {
            Place::ReadOnly => return Self::Elsewhere,
            Place::OfUser(user) => return Self::User(user),
            Place::Writable => {}
        }
        let has = |path: &str| root.join(path).exists();
        let unit = |kind: &str, config: Option<&Path>| {
            if !has("run/systemd/system") {
                return Unit::Missing;
            }
            let unit = format!("systemd/{kind}/tickline.service");
            let folders = UNIT_FOLDERS.iter().map(|folder| root.join(folder));
            let folders = config.map(PathBuf::from).into_iter().chain(folders);
            let paths = folders.map(|folder| folder.join(&unit));
            let found: Vec<PathBuf> = paths.filter(|path| path.exists()).collect();
            // A mask is no file, but the device /dev/null.
            match found.iter().position(|path| path.is_file()) {
                None => Unit::Missing,
                Some(0) => Unit::Present,
                Some(_) => Unit::Masked,
            }
        };
        let has_script = || has("run/openrc") && has("etc/init.d/tickline");
        if page == page::of_machine() {
            match unit("system", None) {
                Unit::Present => return Self::Systemd,
                Unit::Masked => return Self::SystemdMasked,
                Unit::Missing if has_script() => return Self::OpenRc,
                Unit::Missing => {}
            }
        }
        if Some(page) == own && unit("user", config) == Unit::Present {
            Self::SystemdOfUser
        } else {
            Self::Other
        }
    }

    /// The command that switches this page off or on: `word` is `off` or `on`. A page that can't be
    /// written here is switched on the host, where this program may have another path.
    pub(super) fn switch(self, word: &str, page: &Path) -> String {
        let words = format!("serve {word}");
        if self == Self::Elsewhere {
            let there = command_of_user(&words, page, None, None, "tickline");
            format!("{there} on the host of this container")
        } else {
            command(&words, page)
        }
    }

    /// How to start a server of this page. A server that was switched off ends within half a second,
    /// and until then its unit is active, so that `start` does nothing.
    pub(super) fn start(self, page: &Path) -> String {
        match self {
            Self::Systemd => "systemctl restart tickline, or `tickline serve`, as root".to_owned(),
            Self::SystemdMasked => "sudo systemctl unmask tickline (an administrator has masked \
                                    the unit), then sudo systemctl restart tickline"
                .to_owned(),
            Self::SystemdOfUser => {
                format!(
                    "systemctl --user restart tickline, or {}",
                    command("serve", page)
                )
            }
            Self::OpenRc => "rc-service tickline restart, or `tickline serve`, as root".to_owned(),
            Self::Other if page == page::of_machine() => {
                "restart what runs one here, such as a pod or container; if nothing does, \
                 `tickline serve`, as root"
                    .to_owned()
            }
            Self::Elsewhere => "do so where the page can be written, such as on the host of a \
                                container (it can't be written here)"
                .to_owned(),
            Self::User(user) => format!("{}, as user {user}", command("serve", page)),
            Self::Other => command("serve", page),
        }
    }

    /// How to end the server that runs, and start another.
    pub(super) const fn restart(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl restart tickline, as root",
            Self::SystemdOfUser => "systemctl --user restart tickline",
            Self::OpenRc => "rc-service tickline restart, as root",
            Self::Elsewhere => "do so there",
            Self::SystemdMasked | Self::User(_) | Self::Other => {
                "restart what runs it, such as a pod or container, or end its process and start \
                 another"
            }
        }
    }

    /// What to look at if there is no page at this path. A container mostly lacks the mount.
    pub(super) fn next_without_page(self, page: &Path) -> String {
        let (look, start) = (self.look(), self.start(page));
        let mount = if self == Self::Other && page == page::of_machine() {
            "in a container, mount the host's page at this path, read-only; "
        } else {
            ""
        };
        format!("{look}; {mount}to start a server: {start}")
    }

    /// Where the server's state and its log are. On Alpine the second command of OpenRC finds the
    /// log.
    pub(super) const fn look(self) -> &'static str {
        match self {
            Self::Systemd | Self::SystemdMasked => {
                "systemctl status tickline; sudo journalctl -u tickline"
            }
            Self::SystemdOfUser => {
                "systemctl --user status tickline; journalctl --user -u tickline"
            }
            Self::OpenRc => "rc-service tickline status; grep tickline /var/log/messages",
            Self::Elsewhere => "`tickline serve status` on the host, if this is a container",
            Self::User(_) | Self::Other => {
                "the log of the server (its standard error, the system's log, or that of a pod \
                 or container)"
            }
        }
    }
}

/// The command of this program with these words, such as `serve on`, for this page.
pub(super) fn command(words: &str, page: &Path) -> String {
    let own = super::served_page(None).ok();
    let owner = page.metadata().ok().map(|found| found.uid());
    command_of_user(words, page, owner, own.as_deref(), &sudo::this_program())
}

/// As [`command`], by `program`, for a page of `owner`, if the page exists, and for a user who serves
/// the page `own` unless another is named. For a page of root such a user becomes root.
fn command_of_user(
    words: &str,
    page: &Path,
    owner: Option<u32>,
    own: Option<&Path>,
    program: &str,
) -> String {
    let machines = Some(page::of_machine());
    let needs_root = own != machines && (Some(page) == machines || owner == Some(0));
    let sudo = if needs_root { "sudo " } else { "" };
    let default = if needs_root { machines } else { own };
    if Some(page) == default {
        format!("`{sudo}{program} {words}`")
    } else {
        let page = shell_word(&plain_path(page));
        format!("`{sudo}{program} {words} --page {page}`")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// Symptom: `systemctl` on Alpine, and the machine's unit for a page of a user.
    #[test]
    fn each_manager_has_its_own_commands() {
        let machines = page::of_machine();
        for (manager, start, look) in [
            (
                ServiceManager::Systemd,
                "systemctl restart tickline",
                "; sudo journalctl -u tickline",
            ),
            (
                ServiceManager::SystemdOfUser,
                "systemctl --user restart tickline",
                "; journalctl --user -u tickline",
            ),
            (
                ServiceManager::OpenRc,
                "rc-service tickline restart",
                "/var/log/messages",
            ),
            (
                ServiceManager::SystemdMasked,
                "sudo systemctl unmask tickline (an administrator has masked the unit), then sudo \
                 systemctl restart tickline",
                "; sudo journalctl -u tickline",
            ),
            (
                ServiceManager::Other,
                "restart what runs one here",
                "its standard error",
            ),
        ] {
            assert!(manager.start(machines).starts_with(start), "{manager:?}");
            assert!(manager.look().contains(look), "{manager:?}");
        }
    }

    const OWN: &str = "/run/user/7/tickline/page.v1";
    const OTHER: &str = "/srv/page";

    /// What runs the servers of the machine's page, of the user's, and of another, if the machine
    /// has this folder and these files.
    fn managers(folder: &str, files: &[&str]) -> [ServiceManager; 3] {
        managers_with_masks(folder, files, &[])
    }

    /// As [`managers`], if these files are links to /dev/null. The user's folder for settings is
    /// `home/.config`.
    fn managers_with_masks(folder: &str, files: &[&str], masks: &[&str]) -> [ServiceManager; 3] {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(folder)).unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        for mask in masks {
            let mask = root.path().join(mask);
            fs::create_dir_all(mask.parent().unwrap()).unwrap();
            symlink("/dev/null", mask).unwrap();
        }
        let config = root.path().join("home/.config");
        let own = Some(Path::new(OWN));
        [page::of_machine(), Path::new(OWN), Path::new(OTHER)].map(|page| {
            ServiceManager::choose(page, Place::Writable, own, root.path(), Some(&config))
        })
    }

    const UNITS: [&str; 2] = [
        "usr/lib/systemd/system/tickline.service",
        "usr/lib/systemd/user/tickline.service",
    ];
    const SCRIPT: &str = "etc/init.d/tickline";
    const MASK: &str = "etc/systemd/system/tickline.service";

    #[test]
    fn systemd_has_a_unit_for_the_machines_page_and_one_for_the_users() {
        use ServiceManager::{Other, Systemd, SystemdOfUser};
        assert_eq!(
            managers("run/systemd/system", &UNITS),
            [Systemd, SystemdOfUser, Other]
        );
    }

    #[test]
    fn a_unit_may_be_in_the_folder_of_the_administrator() {
        let unit = "etc/systemd/system/tickline.service";
        let [of_machine, _, _] = managers("run/systemd/system", &[unit]);
        assert_eq!(of_machine, ServiceManager::Systemd);
    }

    #[test]
    fn a_unit_of_the_user_may_be_in_the_users_own_folder() {
        use ServiceManager::{Other, SystemdOfUser};
        let unit = "home/.config/systemd/user/tickline.service";
        assert_eq!(
            managers("run/systemd/system", &[unit]),
            [Other, SystemdOfUser, Other]
        );
    }

    /// Symptom: after `apt remove`, `systemctl restart tickline`, which fails ("Unit is masked").
    #[test]
    fn a_mask_without_a_unit_runs_no_server() {
        let [of_machine, _, _] = managers_with_masks("run/systemd/system", &[], &[MASK]);
        assert_eq!(of_machine, ServiceManager::Other);
    }

    /// Symptom: after `systemctl mask`, the advice to restart a pod, and not a word of the mask.
    #[test]
    fn a_unit_below_a_mask_is_masked() {
        let [of_machine, _, _] = managers_with_masks("run/systemd/system", &[UNITS[0]], &[MASK]);
        assert_eq!(of_machine, ServiceManager::SystemdMasked);
    }

    #[test]
    fn openrc_has_a_script_for_the_machines_page() {
        use ServiceManager::{OpenRc, Other};
        assert_eq!(managers("run/openrc", &[SCRIPT]), [OpenRc, Other, Other]);
    }

    /// Symptom: on a node of Kubernetes, `systemctl restart tickline`, of a unit that the node does
    /// not have.
    #[test]
    fn a_manager_without_a_unit_or_script_runs_no_server() {
        for folder in ["run/systemd/system", "run/openrc"] {
            assert_eq!(
                managers(folder, &[]),
                [ServiceManager::Other; 3],
                "{folder}"
            );
        }
    }

    /// An image may have the package, and no systemd.
    #[test]
    fn a_unit_without_systemd_and_a_script_without_openrc_run_no_server() {
        for file in [UNITS[0], SCRIPT] {
            assert_eq!(
                managers("run", &[file]),
                [ServiceManager::Other; 3],
                "{file}"
            );
        }
    }

    /// Symptom: `tickline serve`, as root, which took the page away from the server of a pod.
    #[test]
    fn what_runs_the_server_of_the_machines_page_is_restarted_before_another_is_started() {
        let start = ServiceManager::Other.start(page::of_machine());
        let (first, then) = start.split_once("; ").unwrap();
        assert!(first.contains("such as a pod or container"), "{start}");
        assert_eq!(then, "if nothing does, `tickline serve`, as root");
    }

    #[test]
    fn a_page_that_no_service_is_for_is_named_in_the_command() {
        let start = ServiceManager::Other.start(Path::new(OTHER));
        let program = sudo::this_program();
        assert_eq!(start, format!("`{program} serve --page /srv/page`"));
    }

    /// Symptom: a shell took the path for two words.
    #[test]
    fn a_page_whose_path_is_no_word_is_quoted_in_the_command() {
        let start = ServiceManager::Other.start(Path::new("/srv/my page"));
        let program = sudo::this_program();
        assert_eq!(start, format!("`{program} serve --page '/srv/my page'`"));
    }

    /// Symptom: "switched off, until `tickline serve on`", which switched another page on.
    #[test]
    fn a_command_names_each_page_but_the_one_that_it_takes_by_itself() {
        let [machines, own, other] = [page::of_machine(), Path::new(OWN), Path::new(OTHER)];
        let of = |page, own| command_of_user("serve on", page, None, own, "tickline");
        assert_eq!(of(own, Some(own)), "`tickline serve on`");
        assert_eq!(of(machines, Some(machines)), "`tickline serve on`");
        assert_eq!(of(machines, Some(own)), "`sudo tickline serve on`");
        assert_eq!(of(machines, None), "`sudo tickline serve on`");
        let with_page = format!("`tickline serve on --page {OTHER}`");
        assert_eq!(of(other, Some(own)), with_page);
        assert_eq!(of(other, None), with_page);
    }

    /// Symptom: on a node of Kubernetes, `sudo tickline serve on` said "command not found".
    #[test]
    fn a_command_names_the_program_as_sudo_finds_it() {
        let [machines, own, other] = [page::of_machine(), Path::new(OWN), Path::new(OTHER)];
        let program = "/opt/tickline/tickline";
        for page in [machines, own, other] {
            let command = command_of_user("serve on", page, None, Some(own), program);
            assert!(
                command.contains("/opt/tickline/tickline serve on"),
                "{command}"
            );
        }
    }

    /// Symptom: in a container, `sudo tickline serve on`, which its read-only mount refuses.
    #[test]
    fn a_page_that_can_only_be_read_is_switched_on_the_host() {
        let on = ServiceManager::Elsewhere.switch("on", page::of_machine());
        let expected = "`sudo tickline serve on` on the host of this container";
        assert_eq!(on, expected);
        let on = ServiceManager::Other.switch("on", Path::new(OTHER));
        assert_eq!(on, command("serve on", Path::new(OTHER)));
    }

    /// Symptom: "permission denied" for a user who ran the command that `serve status` had printed.
    #[test]
    fn the_command_for_a_page_of_root_is_run_by_root() {
        let [machines, own, other] = [page::of_machine(), Path::new(OWN), Path::new(OTHER)];
        let of_roots =
            |page, own| command_of_user("serve on", page, Some(0), Some(own), "tickline");
        let by_root = format!("`tickline serve on --page {OTHER}`");
        assert_eq!(of_roots(other, machines), by_root);
        let by_user = by_root.replace("tickline", "sudo tickline");
        assert_eq!(of_roots(other, own), by_user);
    }

    /// Symptom: root's shell was to serve a page in the folder of a user.
    #[test]
    fn a_page_in_the_folder_of_a_user_is_served_by_that_user() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("tickline/page.v1");
        // Only root can give the folder away.
        let expected = if chown(folder.path(), Some(7), None).is_ok() && geteuid().is_root() {
            ServiceManager::User(7)
        } else {
            ServiceManager::Other
        };
        assert_eq!(ServiceManager::of(&page), expected);
        let start = ServiceManager::User(7).start(Path::new(OTHER));
        let program = sudo::this_program();
        let expected = format!("`{program} serve --page /srv/page`, as user 7");
        assert_eq!(start, expected);
    }

    /// Symptom: in a user namespace, "`tickline serve`, as user 65534", whom `serve` refuses.
    #[test]
    fn a_page_of_a_user_outside_of_the_user_namespace_can_only_be_read() {
        let [root, user] = [Uid::ROOT, Uid::from_raw(7)];
        assert_eq!(Place::of_owner(65_534, root), Place::ReadOnly);
        assert_eq!(Place::of_owner(65_534, user), Place::ReadOnly);
    }

    /// Symptom: a user was told to serve a page in the folder of another, and had no right to.
    #[test]
    fn a_place_of_another_user_is_for_that_user() {
        let [root, user, other] = [Uid::ROOT, Uid::from_raw(7), Uid::from_raw(8)];
        assert_eq!(Place::of_owner(7, root), Place::OfUser(7));
        assert_eq!(Place::of_owner(7, other), Place::OfUser(7));
        assert_eq!(Place::of_owner(7, user), Place::Writable);
        assert_eq!(Place::of_owner(0, root), Place::Writable);
        assert_eq!(Place::of_owner(0, user), Place::Writable);
    }

    /// Symptom: in a container without the mount, the advice was to start a server there.
    #[test]
    fn a_container_without_the_page_is_told_to_mount_it_before_a_server_is_started() {
        let next = ServiceManager::Other.next_without_page(page::of_machine());
        let mount = "; in a container, mount the host's page at this path, read-only; to start a ";
        assert!(next.contains(mount), "{next}");
    }

    #[test]
    fn the_mount_is_for_the_machines_page_where_no_service_is_installed() {
        let [machines, other] = [page::of_machine(), Path::new(OTHER)];
        for (manager, page) in [
            (ServiceManager::Systemd, machines),
            (ServiceManager::OpenRc, machines),
            (ServiceManager::Other, other),
        ] {
            let next = manager.next_without_page(page);
            assert!(!next.contains("mount"), "{next}");
        }
    }

    /// Symptom: in a container, `serve status` said to start a server there.
    #[test]
    fn a_page_that_can_only_be_read_is_served_elsewhere() {
        let page = page::of_machine();
        let manager = ServiceManager::choose(page, Place::ReadOnly, None, Path::new("/"), None);
        assert!(manager.start(page).contains("the host of a container"));
    }

    #[test]
    fn a_page_on_a_read_only_mount_can_only_be_read() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut paths = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = Path::new(words.next()?);
            let options = words.nth(1)?;
            (options.split(',').next() == Some("ro") && path.is_file()).then_some(path)
        });
        // A container has such files, and a host may have none.
        if let Some(path) = paths.next() {
            assert_eq!(Place::of(path), Place::ReadOnly, "{}", path.display());
        }
        let folder = tempfile::tempdir().unwrap();
        assert_ne!(Place::of(folder.path()), Place::ReadOnly);
    }
}
