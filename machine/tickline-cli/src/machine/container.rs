//! Finds out whether the process runs in a container, and what has made it. A container has the
//! clocks, the kernel and the firmware of its host.
//!
//! The files are those that `systemd-detect-virt --container` reads (`detect_container` in systemd's
//! `src/basic/virt.c`). A user namespace alone is no sign: sandboxes and services of a host have one,
//! too. A container in the PID namespace of its host (`docker run --pid=host`) is not seen, unless
//! one of the files names it.

use std::path::Path;
use std::{env, fs};

use super::{read_line, read_text};

/// The link to the first PID namespace, by its fixed number (`PROC_PID_INIT_INO` in Linux'
/// `include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What systemd calls WSL, which is a guest of Windows and no container.
const WSL: &str = "wsl";

/// The name of what has made the container; `None` if nothing shows a container.
pub(super) fn name() -> Option<String> {
    let by_files = by_files("");
    if by_files.as_deref() == Some(WSL) {
        return None;
    }
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let kernel = read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !is_separate(&namespace, &kernel) {
        return by_files;
    }
    // Kubernetes sets this in each pod. A shell on the node that was started from a pod has it, too.
    let is_pod = env::var_os("KUBERNETES_SERVICE_HOST").is_some_and(|host| !host.is_empty());
    // A machine's image may have this file, too, if it was made by `docker export`.
    let is_docker = Path::new("/.dockerenv").exists();
    Some(in_namespace(by_files, is_pod, is_docker))
}

/// The name in a PID namespace of its own, which shows a container in any case.
fn in_namespace(by_files: Option<String>, is_pod: bool, is_docker: bool) -> String {
    if is_pod {
        "kubernetes".to_owned()
    } else if let Some(name) = by_files {
        name
    } else if is_docker {
        "docker".to_owned()
    } else {
        "other".to_owned()
    }
}

/// The name by the files below `root`, which is empty for this machine: those that systemd and the
/// managers of containers write, and the environment of the first process, which only root may
/// read.
pub(super) fn by_files(root: &str) -> Option<String> {
    let by_podman = || {
        let exists = Path::new(&format!("{root}/run/.containerenv")).exists();
        exists.then(|| "podman".to_owned())
    };
    read_line(&format!("{root}/run/systemd/container"))
        .or_else(|| read_line(&format!("{root}/run/host/container-manager")))
        .or_else(|| by_first_process(root))
        .or_else(by_podman)
}

/// The variable `container` of the first process (systemd.io/CONTAINER_INTERFACE).
fn by_first_process(root: &str) -> Option<String> {
    let environment = read_text(format!("{root}/proc/1/environ"))?;
    let mut variables = environment.split('\0');
    let name = variables.find_map(|variable| variable.strip_prefix("container="))?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// Whether a process in this PID namespace is in a container, under a kernel of this release. An
/// unreadable namespace, which is empty here, shows none. WSL gives each distribution a PID
/// namespace.
fn is_separate(namespace: &Path, kernel: &str) -> bool {
    let kernel = kernel.to_lowercase();
    let is_wsl = kernel.contains("microsoft") || kernel.contains(WSL);
    let is_known = !namespace.as_os_str().is_empty();
    is_known && namespace != Path::new(FIRST_PID_NAMESPACE) && !is_wsl
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::machine::tests::{machine_by_facts_sh, write_sign};

    /// Files below a root, each with its text, and the container that they show.
    type Signs = (
        &'static [(&'static str, &'static str)],
        Option<&'static str>,
    );

    const SIGNS: [Signs; 8] = [
        (&[("run/systemd/container", "lxc\n")], Some("lxc")),
        (
            &[("run/host/container-manager", "systemd-nspawn\n")],
            Some("systemd-nspawn"),
        ),
        (
            &[("proc/1/environ", "PATH=/bin\0container=lxc\0TERM=linux\0")],
            Some("lxc"),
        ),
        (&[("run/.containerenv", "")], Some("podman")),
        // The file of Docker alone may be left over in a machine's image.
        (&[(".dockerenv", "")], None),
        (&[("run/systemd/container", "wsl\n")], None),
        (
            &[("proc/1/environ", "PATH=/bin\0a_container=lxc\0container=\0")],
            None,
        ),
        (&[], None),
    ];

    /// Writes the files below the root.
    fn write(root: &Path, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn the_files_of_a_container_name_what_has_made_it() {
        for (files, expected) in SIGNS {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), files);
            let found = by_files(root.path().to_str().unwrap());
            let found = found.filter(|name| name != WSL);
            assert_eq!(found.as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn facts_sh_names_each_container_as_the_program_does() {
        for (files, expected) in SIGNS {
            let root = tempfile::tempdir().unwrap();
            let log = write_sign(root.path(), &[]);
            write(root.path(), files);
            let facts = machine_by_facts_sh(root.path(), &log);
            assert_eq!(facts.container.as_deref(), expected, "{files:?}");
        }
    }

    /// The runtime of a pod has a name of its own, such as that of its files.
    #[test]
    fn a_pod_is_called_after_kubernetes_and_others_after_what_has_made_them() {
        let podman = || Some("podman".to_owned());
        assert_eq!(in_namespace(podman(), true, true), "kubernetes");
        assert_eq!(in_namespace(podman(), false, true), "podman");
        assert_eq!(in_namespace(None, false, true), "docker");
        assert_eq!(in_namespace(None, false, false), "other");
    }

    /// WSL is a guest of Windows, whose clock it has.
    #[test]
    fn another_pid_namespace_than_the_first_shows_a_container_but_not_under_wsl() {
        let is_separate = |namespace: &str, kernel: &str| is_separate(Path::new(namespace), kernel);
        assert!(is_separate("pid:[4026532201]", "6.8.12-4-pve"));
        assert!(!is_separate(FIRST_PID_NAMESPACE, "6.8.12-4-pve"));
        assert!(!is_separate("", "6.8.12-4-pve"));
        for kernel in [
            "5.15.153.1-microsoft-standard-WSL2",
            "4.4.0-19041-Microsoft",
            "6.12.9-locietta-WSL2-xanmod1",
        ] {
            assert!(!is_separate("pid:[4026532201]", kernel), "{kernel}");
        }
    }
}
