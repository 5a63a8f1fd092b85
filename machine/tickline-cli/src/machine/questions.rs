//! What rules and texts ask about a machine, this one or a recorded one. A missing fact is unknown.

use tickline_core::clocksource::{Acceptance, Clocksource};

use super::{Hypervisor, Leap, Machine, Ntp};
use crate::clocksources::{is_of_host, is_of_x86, is_paravirtual};

impl Machine {
    /// Whether the machine is a sandbox of gVisor, whose CPUID is the host's: by the hypervisor's
    /// name, by the log, or by the kernel's release. A host that runs gVisor may have these words
    /// as well, but it has a clocksource, which gVisor has not.
    pub(crate) fn is_gvisor(&self) -> bool {
        let release = self.kernel.as_deref().unwrap_or_default();
        let has_words = || {
            self.lower_case_log()
                .any(|line| line.contains("starting gvisor"))
                || release.to_lowercase().contains("gvisor")
        };
        self.hypervisor == Some(Hypervisor::Gvisor) || self.clocksource.is_none() && has_words()
    }

    /// The messages of the kernel's log, in lower case.
    fn lower_case_log(&self) -> impl Iterator<Item = String> {
        let log = self.kernel_log.as_deref().unwrap_or_default();
        log.iter().map(|line| line.to_lowercase())
    }

    /// Whether the machine is a guest of a hypervisor, known or not, or a sandbox; `None` if that
    /// is unknown.
    pub(crate) fn is_guest(&self) -> Option<bool> {
        /// Words in the vendor and product that the firmware of hypervisors names, some of which
        /// hide from CPUID.
        const PRODUCTS: [&str; 12] = [
            "QEMU",
            "Bochs",
            "KVM",
            "Virtual",
            "VMware",
            "BHYVE",
            "HVM domU",
            "OpenStack",
            "OxVM",
            "Parallels",
            "Droplet",
            "vServer",
        ];
        let product = self.product.as_deref().unwrap_or_default();
        if self.is_gvisor() || PRODUCTS.iter().any(|word| product.contains(word)) {
            return Some(true);
        }
        // Whatever names Xen in dom0. Under another hypervisor, Xen itself is a guest.
        let is_under_xen_alone = matches!(
            self.hypervisor,
            None | Some(Hypervisor::NoneNamed | Hypervisor::Xen)
        );
        if self.is_xen_dom0() && is_under_xen_alone {
            return Some(false);
        }
        let by_cpuid = self.cpuid.as_ref().and_then(|cpuid| cpuid.hypervisor);
        let is_named = self
            .hypervisor
            .as_ref()
            .is_some_and(|named| *named != Hypervisor::NoneNamed);
        if is_named || by_cpuid == Some(true) {
            return Some(true);
        }
        let signs = self.signs_of_host();
        let may_be_of_dom0 = |sign: &String| sign.contains("xen") && !sign.contains("xen hvm");
        if !signs.iter().all(may_be_of_dom0) {
            return Some(true);
        }
        // Only `none` is left of the names.
        let by_processor = if self.hypervisor.is_some() {
            Some(false)
        } else {
            by_cpuid
        };
        if signs.is_empty() {
            return by_processor;
        }
        // The kernel may not say which domain of Xen this is. Xen's first domain (dom0) has the
        // same signs on real firmware, which it may update. The firmware of Xen's guests names Xen,
        // or nothing. A paravirtual guest and dom0 may both see the CPUID of the bare processor.
        match (&self.product, by_processor) {
            (Some(product), _) if !product.contains("Xen") => by_processor,
            (None, Some(false)) => None,
            _ => Some(true),
        }
    }

    /// Whether the machine is known to be Xen's first domain (dom0), which runs the other domains.
    pub(crate) fn is_xen_dom0(&self) -> bool {
        self.xen_dom0 == Some(true)
    }

    /// The kernel's messages and the names of clocksources, in lower case, that a guest has. A
    /// paravirtual guest of Xen may have nothing else to show it. On the list of a processor
    /// without a hypervisor, the clocksources of other hypervisors show nothing.
    fn signs_of_host(&self) -> Vec<String> {
        // The kernel's own message, after its time stamp if there is one.
        let is_of_kernel = |line: &str| {
            let message = line.split_once("] ").map_or(line, |(_, message)| message);
            message.trim_start().starts_with("hypervisor detected: ")
        };
        let mut signs: Vec<String> = self
            .lower_case_log()
            .filter(|line| is_of_kernel(line))
            .collect();
        let is_bare = self.hypervisor == Some(Hypervisor::NoneNamed);
        let offered = self.available_clocksources.as_deref().unwrap_or_default();
        for name in offered.split_whitespace() {
            if is_of_host(name) && (name == "xen" || !is_bare) {
                signs.push(name.to_owned());
            }
        }
        if self.has_host_clock() {
            signs.extend(self.clocksource.clone());
        }
        signs
    }

    /// Whether the clocksource is a clock that the host keeps for its guest.
    pub(crate) fn has_host_clock(&self) -> bool {
        self.clocksource.as_deref().is_some_and(is_of_host)
    }

    /// The kernel's clocksource.
    pub(crate) fn clocksource(&self) -> Option<&str> {
        self.clocksource.as_deref()
    }

    /// The clocksource, if it is paravirtual: that of KVM or Xen.
    pub(crate) fn paravirtual_clock(&self) -> Option<&str> {
        self.clocksource().filter(|name| is_paravirtual(name))
    }

    /// Whether the kernel accepts the TSC as its clocksource; `None` if that is unknown. Its list
    /// may still name a TSC that it has rejected.
    pub(crate) fn accepts_tsc(&self) -> Option<bool> {
        let list = self.available_clocksources.as_deref()?;
        Some(
            Clocksource::Tsc.acceptance(list.as_bytes()) == Acceptance::Accepted
                && self.rejection().is_none(),
        )
    }

    /// Whether the list of available clocksources names this clocksource, accepted or not.
    pub(crate) fn lists_clocksource(&self, clocksource: &str) -> bool {
        let list = self.available_clocksources.as_deref().unwrap_or_default();
        list.split_whitespace().any(|name| name == clocksource)
    }

    /// The parameters of the kernel's command line.
    pub(crate) fn kernel_parameters(&self) -> impl Iterator<Item = &str> {
        self.kernel_command_line
            .as_deref()
            .unwrap_or_default()
            .split_whitespace()
    }

    /// The parameters that keep the kernel from another clocksource.
    pub(crate) fn clocksource_parameters(&self) -> impl Iterator<Item = &str> {
        self.kernel_parameters()
            .filter(|parameter| match parameter.strip_prefix("clocksource=") {
                Some(name) => self.clocksource() == Some(name),
                None => *parameter == "no-kvmclock",
            })
    }

    /// Whether the kernel's release is at least this version; `None` if the release is unknown.
    pub(crate) fn is_kernel_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        let release = self.kernel.as_deref()?;
        let mut numbers = release
            .split(|character: char| !character.is_ascii_digit())
            .map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(first)), Some(Ok(second))) => Some((first, second) >= (major, minor)),
            _ => None,
        }
    }

    /// Whether the machine is x86. If the architecture was not recorded, the clocksource decides:
    /// hpet and acpi_pm exist only on x86.
    pub(crate) fn is_x86(&self) -> bool {
        match self.architecture.as_deref() {
            Some(architecture) => matches!(architecture, "x86_64" | "x86"),
            None => self.clocksource().is_some_and(is_of_x86),
        }
    }

    /// Whether the machine is x86, or its architecture was not recorded.
    pub(crate) fn may_be_x86(&self) -> bool {
        let architecture = self.architecture.as_deref();
        architecture.is_none_or(|name| matches!(name, "x86_64" | "x86"))
    }

    /// Whether the process is a 32-bit process on x86. The kernel may have 64 bits.
    pub(crate) fn is_x86_32(&self) -> bool {
        self.architecture.as_deref() == Some("x86")
    }

    /// Whether the kernel's command line has this parameter.
    pub(crate) fn has_parameter(&self, parameter: &str) -> bool {
        self.kernel_parameters().any(|known| known == parameter)
    }

    /// Whether the system is NixOS, whose configuration alone changes `/etc` and the kernel's
    /// command line: its first process comes from the store.
    pub(crate) fn is_nixos(&self) -> bool {
        self.last_parameter("init=/nix/store/").is_some()
    }

    /// The last parameter of the kernel's command line that begins with `name`, which the kernel
    /// obeys.
    pub(crate) fn last_parameter(&self, name: &str) -> Option<&str> {
        self.kernel_parameters()
            .filter(|parameter| parameter.starts_with(name))
            .last()
    }

    /// The parameters that select a clocksource, if the last, which the kernel obeys, selects
    /// another one than the TSC.
    pub(crate) fn selections_against_tsc(&self) -> Vec<&str> {
        const SELECTION: &str = "clocksource=";
        match self.last_parameter(SELECTION) {
            None | Some("clocksource=tsc") => Vec::new(),
            Some(_) => self
                .kernel_parameters()
                .filter(|parameter| parameter.starts_with(SELECTION))
                .collect(),
        }
    }

    /// Whether CPUID states that the TSC runs at one rate in all power states.
    pub(crate) fn has_invariant_tsc(&self) -> Option<bool> {
        self.cpuid.as_ref()?.invariant_tsc
    }

    /// The leap second, by the kernel, or else by the daemon that answers. A daemon without the
    /// kernel's loop, such as chronyd with `leapsecmode slew`, does not tell the kernel. It may
    /// announce a second that the kernel knows to be over.
    pub(crate) fn leap(&self) -> Option<Leap> {
        let daemon = self.ntp_daemon.as_ref();
        if self.ntp.is_none() && daemon.is_none() {
            return None;
        }
        let by_daemon = daemon.and_then(|daemon| daemon.leap);
        match self.ntp.as_ref().and_then(Ntp::leap) {
            Some(Leap::None) | None => by_daemon.or(Some(Leap::None)),
            by_kernel => by_kernel,
        }
    }

    /// Whether the kernel's own loop steers its clock (`STA_PLL` or `STA_FLL`), which a daemon has
    /// switched on.
    pub(crate) fn has_kernel_loop(&self) -> bool {
        let ntp = self.ntp.as_ref();
        ntp.is_some_and(|ntp| ntp.has_flag("PLL") || ntp.has_flag("FLL"))
    }
}
