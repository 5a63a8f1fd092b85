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
    /// systemd, by the unit of this user.
    SystemdOfUser,
    /// OpenRC, by the script for the machine's page.
    OpenRc,
    /// What the page's owner runs, who is another user, or who writes to the page elsewhere, such
    /// as on the host of a container.
    Elsewhere,
    /// A person or another program, such as a container's runtime.
    Other,
}

/// The folders below which systemd looks for units (systemd.unit(5)), as far as packages and
/// administrators write to them.
const UNIT_FOLDERS: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];

/// The folder below which systemd looks first for a unit of this user.
fn config_folder() -> Option<PathBuf> {
    let named = |variable: &str| {
        let folder = env::var_os(variable).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))
}

/// Whether the page at this path is not for this user to write here: its mount is read-only, or it
/// is another user's. If there is no page yet, the nearest folder decides.
fn is_elsewhere(page: &Path) -> bool {
    let flags = statvfs(page).map(|mounted| mounted.f_flag);
    if flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY)) {
        return true;
    }
    let nearest = page.ancestors().find_map(|path| path.metadata().ok());
    let owner = nearest.map_or(0, |found| found.uid());
    is_for_another(owner, geteuid())
}

/// Whether only another user than `user` serves pages in a folder of `owner`. A folder of root,
/// such as /tmp, may be open to every user. Root serves no page in the folder of another user,
/// because that user could not serve it later. In a user namespace the number 65534 stands for
/// every user outside of it (user_namespaces(7)), such as the host's root.
fn is_for_another(owner: u32, user: Uid) -> bool {
    owner == 65_534 || (owner != 0 && owner != user.as_raw())
}

impl ServiceManager {
    /// What runs the server of this page here.
    pub(super) fn of(page: &Path) -> Self {
        if is_elsewhere(page) {
            return Self::Elsewhere;
        }
        let own = page::of_this_user().ok();
        let config = config_folder();
        Self::choose(page, own.as_deref(), Path::new("/"), config.as_deref())
    }

    /// As [`of`](Self::of), for a page that this user may serve. `own` is the path of this user's
    /// page. systemd runs if its folder is below `root` (sd_booted(3)), and OpenRC likewise.
    /// Neither runs the server if it has no unit or script of tickline, as on a node of Kubernetes,
    /// or if only the mask of a unit is there, as after `apt remove`. Units of this user may also
    /// be below `config`.
    fn choose(page: &Path, own: Option<&Path>, root: &Path, config: Option<&Path>) -> Self {
        let has = |path: &str| root.join(path).exists();
        let has_unit = |kind: &str, config: Option<&Path>| {
            let unit = format!("systemd/{kind}/tickline.service");
            let folders = UNIT_FOLDERS.iter().map(|folder| root.join(folder));
            let mut folders = config.map(PathBuf::from).into_iter().chain(folders);
            // A mask is no file, but a link to the device /dev/null.
            has("run/systemd/system") && folders.any(|folder| folder.join(&unit).is_file())
        };
        if page == page::of_machine() {
            if has_unit("system", None) {
                return Self::Systemd;
            }
            if has("run/openrc") && has("etc/init.d/tickline") {
                return Self::OpenRc;
            }
        }
        if Some(page) == own && has_unit("user", config) {
            Self::SystemdOfUser
        } else {
            Self::Other
        }
    }

    /// The command of this program with these words, such as `serve on`, for this page. If another
    /// user must run it, or must run it elsewhere, says so. Elsewhere this program may have another
    /// path.
    pub(super) fn command_for(self, words: &str, page: &Path) -> String {
        if self != Self::Elsewhere {
            return command(words, page);
        }
        let there = command_of_user(words, page, None, None, "tickline");
        let who = if page == page::of_machine() {
            "on the host, if this is a container"
        } else {
            "as the owner of the page or its folder; in a container, on its host, by the page's \
             path there"
        };
        format!("{there} ({who})")
    }

    /// How to start a server of this page. A server that was switched off ends within half a
    /// second, and until then its unit is active, so that `start` does nothing.
    pub(super) fn start(self, page: &Path) -> String {
        let is_machines = page == page::of_machine();
        let serve = if is_machines && self != Self::Elsewhere {
            format!("`{} serve`, as root", sudo::this_program())
        } else {
            self.command_for("serve", page)
        };
        match self {
            Self::Systemd | Self::SystemdOfUser | Self::OpenRc => {
                format!("{}, or {serve}", self.restart(page))
            }
            Self::Other if !is_machines => serve,
            Self::Elsewhere | Self::Other => format!(
                "restart what runs one, such as a pod, container or unit; if nothing does, {serve}"
            ),
        }
    }

    /// How to end the server of this page that runs, and start another; for a service, also how to
    /// start one.
    pub(super) fn restart(self, page: &Path) -> String {
        let unmask = "if the unit is masked, unmask it first";
        match self {
            Self::Systemd => format!("systemctl restart tickline, as root ({unmask})"),
            Self::SystemdOfUser => format!("systemctl --user restart tickline ({unmask})"),
            Self::OpenRc => "rc-service tickline restart, as root".to_owned(),
            Self::Elsewhere | Self::Other => {
                let option = if page == page::of_machine() {
                    ""
                } else {
                    "--user "
                };
                format!(
                    "as its user, and where it runs, restart what runs it (its pod or container, \
                     or its unit by `systemctl {option}restart tickline`), or end its process and \
                     start another"
                )
            }
        }
    }

    /// What to do if there is no page at this path, and then what to look at. A container mostly
    /// lacks the mount.
    pub(super) fn next_without_page(self, page: &Path) -> String {
        let look = self.look();
        let start = self.start(page);
        let mount = if self == Self::Other && page == page::of_machine() {
            "in a container, mount the host's page at this path, read-only; elsewhere, "
        } else {
            ""
        };
        format!("{mount}start a server: {start}. To see why there is none: {look}")
    }

    /// Where the server's state and its log are. On Alpine the second command of OpenRC finds the
    /// log.
    pub(super) const fn look(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl status tickline; sudo journalctl -u tickline",
            Self::SystemdOfUser => {
                "systemctl --user status tickline; journalctl --user -u tickline"
            }
            Self::OpenRc => "rc-service tickline status; grep tickline /var/log/messages",
            Self::Elsewhere | Self::Other => {
                "the log of the server, where it runs (its standard error, the system's log, or \
                 that of a pod or container)"
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

/// As [`command`]. `program` is this program's name for a shell, `owner` the user who owns the
/// page, if the page exists, and `own` the page that this user serves by default. For a page of
/// root, any other user runs the command by sudo.
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
                ServiceManager::Other,
                "restart what runs one, ",
                "its standard error",
            ),
            (
                ServiceManager::Elsewhere,
                "restart what runs one, ",
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
        [page::of_machine(), Path::new(OWN), Path::new(OTHER)]
            .map(|page| ServiceManager::choose(page, own, root.path(), Some(&config)))
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

    /// Symptom: after `systemctl mask`, the advice to restart a pod, and not a word of the mask;
    /// after `systemctl mask --runtime`, an `unmask` that does not undo it.
    #[test]
    fn a_masked_unit_is_unmasked_before_it_is_started() {
        for mask in [MASK, "run/systemd/system/tickline.service"] {
            let managers = managers_with_masks("run/systemd/system", &[UNITS[0]], &[mask]);
            assert_eq!(managers[0], ServiceManager::Systemd, "{mask}");
        }
        let mask = "home/.config/systemd/user/tickline.service";
        let managers = managers_with_masks("run/systemd/system", &[UNITS[1]], &[mask]);
        assert_eq!(managers[1], ServiceManager::SystemdOfUser);
        for (manager, page) in [
            (ServiceManager::Systemd, page::of_machine()),
            (ServiceManager::SystemdOfUser, Path::new(OWN)),
        ] {
            let start = manager.start(page);
            let first = " (if the unit is masked, unmask it first), or ";
            assert!(start.contains(first), "{start}");
        }
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
        assert!(first.contains("such as a pod, container "), "{start}");
        let program = sudo::this_program();
        assert_eq!(then, format!("if nothing does, `{program} serve`, as root"));
    }

    /// Symptom: on a node of Kubernetes, `tickline serve`, which no shell found.
    #[test]
    fn the_start_of_the_machines_server_names_the_program_by_its_path() {
        use ServiceManager::{OpenRc, Other, Systemd};
        let serve = format!("`{} serve`, as root", sudo::this_program());
        for manager in [Systemd, OpenRc, Other] {
            let start = manager.start(page::of_machine());
            assert!(start.ends_with(&serve), "{start}");
        }
    }

    /// Symptom: root was to restart a pod, or to end a process that its unit did not start again.
    #[test]
    fn a_server_that_no_service_of_this_user_runs_is_restarted_by_its_own_user() {
        for manager in [ServiceManager::Elsewhere, ServiceManager::Other] {
            let restart = manager.restart(Path::new(OTHER));
            assert!(restart.starts_with("as its user"), "{restart}");
            assert!(restart.contains("`systemctl --user restart"), "{restart}");
        }
    }

    /// Symptom: `systemctl --user restart tickline` for the server of the machine's page, which no
    /// user's unit runs.
    #[test]
    fn the_server_of_the_machines_page_is_restarted_by_its_pod_or_by_the_systems_unit() {
        for manager in [ServiceManager::Elsewhere, ServiceManager::Other] {
            let restart = manager.restart(page::of_machine());
            let by = "(its pod or container, or its unit by `systemctl restart tickline`)";
            assert!(restart.contains(by), "{restart}");
        }
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

    /// Symptom: in a container, `sudo tickline serve on` alone, which its read-only mount refuses;
    /// and a command for the page of another user, without a word of that user.
    #[test]
    fn a_page_that_this_user_can_only_read_is_switched_by_its_owner() {
        let on = |manager: ServiceManager, page| manager.command_for("serve on", page);
        let [machines, other] = [page::of_machine(), Path::new(OTHER)];
        assert_eq!(
            on(ServiceManager::Elsewhere, machines),
            "`sudo tickline serve on` (on the host, if this is a container)"
        );
        assert_eq!(
            on(ServiceManager::Elsewhere, other),
            "`tickline serve on --page /srv/page` (as the owner of the page or its folder; in a \
             container, on its host, by the page's path there)"
        );
        let here = on(ServiceManager::Other, other);
        assert_eq!(here, command("serve on", other));
    }

    /// Symptom: "do so as the owner of the page", without a command that starts a server.
    #[test]
    fn a_server_that_is_to_start_elsewhere_has_its_command() {
        for (page, serve) in [
            (page::of_machine(), "`sudo tickline serve`"),
            (Path::new(OTHER), "`tickline serve --page /srv/page`"),
        ] {
            let start = ServiceManager::Elsewhere.start(page);
            let last = format!("; if nothing does, {serve} (");
            assert!(start.contains(&last), "{start}");
        }
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

    /// Symptom: root's shell was to serve a page in the folder of a user; in a container,
    /// `serve status` said to start a server there.
    #[test]
    fn a_page_in_the_folder_of_a_user_is_served_by_that_user() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("tickline/page.v1");
        // Only root can give the folder away.
        let expected = if chown(folder.path(), Some(7), None).is_ok() && geteuid().is_root() {
            ServiceManager::Elsewhere
        } else {
            ServiceManager::Other
        };
        assert_eq!(ServiceManager::of(&page), expected);
        let start = ServiceManager::Elsewhere.start(&page);
        assert!(start.contains("as the owner of the page"), "{start}");
    }

    /// Symptom: in a user namespace, "`tickline serve`, as user 65534", whom `serve` refuses.
    #[test]
    fn a_place_of_a_user_outside_of_the_user_namespace_is_for_another() {
        assert!(is_for_another(65_534, Uid::ROOT));
        assert!(is_for_another(65_534, Uid::from_raw(7)));
    }

    /// Symptom: a user was told to serve a page in the folder of another, and had no right to.
    #[test]
    fn a_place_of_another_user_is_for_that_user() {
        let [root, user, other] = [Uid::ROOT, Uid::from_raw(7), Uid::from_raw(8)];
        assert!(is_for_another(7, root));
        assert!(is_for_another(7, other));
        assert!(!is_for_another(7, user));
        assert!(!is_for_another(0, root));
        assert!(!is_for_another(0, user));
    }

    /// Symptom: in a container without the mount, the advice was to start a server there.
    #[test]
    fn a_container_without_the_page_is_told_to_mount_it_before_a_server_is_started() {
        let next = ServiceManager::Other.next_without_page(page::of_machine());
        let mount =
            "in a container, mount the host's page at this path, read-only; elsewhere, start a ";
        assert!(next.starts_with(mount), "{next}");
    }

    /// Symptom: the command that starts a server stood at the end of 450 characters.
    #[test]
    fn without_a_page_the_start_of_a_server_comes_before_its_log() {
        let manager = ServiceManager::Systemd;
        let next = manager.next_without_page(page::of_machine());
        let start = "start a server: systemctl restart tickline, as root";
        assert!(next.starts_with(start), "{next}");
        let look = format!(". To see why there is none: {}", manager.look());
        assert!(next.ends_with(&look), "{next}");
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

    #[test]
    fn a_page_on_a_read_only_mount_is_served_elsewhere() {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut paths = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let path = Path::new(words.next()?);
            let options = words.nth(1)?;
            (options.split(',').next() == Some("ro") && path.is_file()).then_some(path)
        });
        // A container has such files, and a host may have none.
        if let Some(path) = paths.next() {
            assert!(is_elsewhere(path), "{}", path.display());
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_elsewhere(folder.path()));
    }
}
