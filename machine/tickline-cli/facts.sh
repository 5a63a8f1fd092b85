#!/bin/sh
# Collects the facts about a machine's clocks as JSON, if the program tickline cannot run there.
# `tickline doctor --facts FILE` makes the diagnosis on another machine. The script changes nothing
# and measures no costs. It needs no root, but on some machines only root can read the kernel's log.
# It leaves out unreadable facts, which the doctor treats as unknown.
#
#   sh facts.sh > facts.json
#   sh facts.sh -r /host > facts.json    # in a container to which the host's / is mounted at /host
#
# With -r, facts about this script's own process are left out: those are the container's.

set -u
LC_ALL=C
export LC_ALL

usage() {
    echo "usage: sh facts.sh [-r ROOT] > FILE    (ROOT: where the machine's /proc and /sys are; by default, /)" >&2
    exit 2
}

# Times in ns need more than 32 bits.
if [ $((2147483647 + 1)) -lt 0 ]; then
    echo "facts.sh: this shell counts with 32 bits (mksh?): run it in bash, dash or busybox sh" >&2
    exit 2
fi

root=
while getopts r: option; do
    case $option in
    r) root=${OPTARG%/} ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || usage
if [ ! -r "$root/proc/cpuinfo" ]; then
    echo "facts.sh: $root/proc/cpuinfo cannot be read: is ROOT right, and is this Linux?" >&2
    exit 2
fi
clocksource=$root/sys/devices/system/clocksource/clocksource0

# The folder of this process. Another PID namespace than that of /proc calls another process $$.
own=/proc/$$
{ read -r pid _ </proc/self/stat && own=/proc/$pid; } 2>/dev/null

# The first line of a file.
line() {
    [ -r "$1" ] && head -n 1 "$1" 2>/dev/null
}

# Prints standard input as the inside of a JSON string: ASCII, without control characters.
escape() {
    tr '\t' ' ' | tr -d '\000-\011\013-\037\177-\377' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^ *//' -e 's/ *$//'
}

# Writes `"key": "text",`, or nothing for an empty text.
text() {
    escaped=$(printf '%s\n' "$2" | head -n 1 | escape)
    [ -z "$escaped" ] || printf '    "%s": "%s",\n' "$1" "$escaped"
}

# The first value of a key in /proc/cpuinfo.
cpuinfo() {
    sed -n "s/^$1[[:space:]]*: *//p" "$root/proc/cpuinfo" | head -n 1
}

# Whether the processor has a flag, as JSON.
flag() {
    case " $flags " in
    *" $1 "*) echo true ;;
    *) echo false ;;
    esac
}

log=$(dmesg 2>/dev/null)

# The kernel's messages about clocks, as the elements of a JSON array; fails if a program for that is
# missing. Which messages are kept is as in the program (machine/system/log.rs): of those of suspends
# and resumes, the newest before a message about clocks; of very many, the first and the last hundred,
# and all about a rejection.
messages() {
    found=$(printf '%s\n' "$log" |
        grep -i -E 'clocksource|(^|[^a-z0-9_]|[^a-z0-9_]rd)tsc[sp]?([^a-z0-9]|$)|hpet|kvm-clock|pvclock|sched_clock|timekeeping|refined-jiffies|hypervisor detected|fireck|starting gvisor|pm: .*(suspend|hibernation) (entry|exit)|waking up from system sleep state')
    [ $? -le 1 ] || return 1
    [ -n "$found" ] || return 0
    found=$(printf '%s\n' "$found" |
        awk '/PM: .*(suspend|hibernation) (entry|exit)/ { slept = $0; next }
            /Waking up from system sleep state/ { if (slept !~ /(suspend|hibernation) entry/) slept = $0; next }
            { before[++count] = slept; line[count] = $0; slept = "" }
            END {
                slept = ""
                for (i = 1; i <= count; i++) {
                    if (before[i] != "") slept = before[i]
                    if (i > 100 && i <= count - 100 && tolower(line[i]) !~ /unstable|tsc warp|skewed|(behind|ahead of) cpu|\(cycles\)|(wd|cs)_now:|clocksource: (watchdog|clocksource) .*interval:/) continue
                    if (slept != "") print slept
                    slept = ""
                    print line[i]
                }
            }') || return 1
    [ -n "$found" ] || return 0
    found=$(printf '%s\n' "$found" | escape | sed -e 's/.*/      "&",/' -e '$s/,$//') && [ -n "$found" ] || return 1
    printf '%s\n' "$found"
}

# A field of the firmware's DMI tables.
dmi() {
    line "$root/sys/class/dmi/id/$1"
}

product=$(printf '%s %s' "$(dmi sys_vendor)" "$(dmi product_name)")
flags=$(cpuinfo flags)

# The hypervisor that the first source names: the firmware and other exact names, as the program
# knows them (machine/platform.rs), then systemd, then the kernel.
hypervisor() {
    case $(line "$root/proc/version") in
    *'#1 SMP Sun Jan 10 15:06:54 PST 2016'*) echo gvisor && return ;;
    esac
    case $log in
    *'Starting gVisor'*) echo gvisor && return ;;
    *FIRECK*) echo firecracker && return ;;
    esac
    for device in "$root"/sys/bus/acpi/devices/*FCVMGID:*; do
        [ -e "$device" ] && echo firecracker && return
    done
    case $product in
    *VirtualBox*) echo virtualbox && return ;;
    *VMware*) echo vmware && return ;;
    *'Microsoft Corporation Virtual Machine'*) echo hyper_v && return ;;
    *'Xen HVM domU'*) echo xen && return ;;
    esac
    case $(line "$root/sys/hypervisor/type") in
    xen) echo xen && return ;;
    esac
    if [ -z "$root" ]; then
        case $(systemd-detect-virt --vm 2>/dev/null) in
        kvm | amazon | google) echo kvm && return ;;
        qemu) echo tcg && return ;;
        xen) echo xen && return ;;
        microsoft) echo hyper_v && return ;;
        vmware) echo vmware && return ;;
        oracle) echo virtualbox && return ;;
        esac
    fi
    case $(printf '%s\n' "$log" | sed -n 's/.*[Hh]ypervisor detected: //p' | head -n 1) in
    KVM*) echo kvm && return ;;
    VMware*) echo vmware && return ;;
    Xen*) echo xen && return ;;
    Microsoft*) echo hyper_v && return ;;
    esac
    # An x86 kernel shows this flag wherever CPUID names a hypervisor.
    [ -n "$flags" ] && [ "$(flag hypervisor)" = false ] && echo none
}

# Whether this is Xen's first domain (dom0), as the program reads it (machine.rs). Prints nothing if the
# kernel does not say it, as without Xen.
xen_dom0() {
    is_dom0=
    features=$(line "$root/sys/hypervisor/properties/features")
    case $features in
    '' | *[!0-9a-f]*) ;;
    *) if [ $((0x$features & 2048)) -ne 0 ]; then is_dom0=true; else is_dom0=false; fi ;;
    esac
    if [ "$is_dom0" != true ] && [ -r "$root/proc/xen/capabilities" ]; then
        case ,$(line "$root/proc/xen/capabilities"), in
        *,control_d,*) is_dom0=true ;;
        *) is_dom0=${is_dom0:-false} ;;
        esac
    fi
    [ -z "$is_dom0" ] || printf '    "xen_dom0": %s,\n' "$is_dom0"
}

# The cloud that the firmware names, as the program knows it (machine/platform.rs).
cloud() {
    case $(dmi sys_vendor) in
    *'Amazon EC2'*) echo ec2_nitro && return ;;
    *Xen*) case $(dmi bios_version) in *amazon*) echo ec2_xen && return ;; esac ;;
    esac
    case $(dmi product_name) in *'Google Compute Engine'*) echo google && return ;; esac
    case $(dmi chassis_asset_tag) in *7783-7084-3265-9085-8269-3286-77*) echo azure ;; esac
}

# What has made the container, by the signs that the program knows (machine/container.rs).
container() {
    name=$(line "$root/run/systemd/container")
    [ -n "$name" ] || name=$(line "$root/run/host/container-manager")
    [ -n "$name" ] || name=$({ tr '\000' '\n' <"$root/proc/1/environ" | sed -n 's/^container=//p' | head -n 1; } 2>/dev/null)
    [ -n "$name" ] || [ ! -e "$root/run/.containerenv" ] || name=podman
    if [ "$name" = wsl ]; then return; fi
    if ! in_pid_namespace; then
        if [ -n "$name" ]; then echo "$name"; fi
    elif [ -n "${KUBERNETES_SERVICE_HOST-}" ]; then
        echo kubernetes
    elif [ -n "$name" ]; then
        echo "$name"
    elif [ -e /.dockerenv ]; then
        echo docker
    else
        echo other
    fi
}

# Whether this process has another PID namespace than the first, 4026531836, and not by WSL. A root
# of files has no process.
in_pid_namespace() {
    [ -z "$root" ] || return 1
    case $(readlink "$own/ns/pid" 2>/dev/null) in '' | 'pid:[4026531836]') return 1 ;; esac
    case $(line /proc/sys/kernel/osrelease) in *[Mm]icrosoft* | *WSL* | *wsl*) return 1 ;; esac
}

# The tool or the file that changes the kernel's command line, as the program knows it (machine.rs).
boot_loader() {
    if [ -e "$root/run/ostree-booted" ]; then
        if [ -e "$root/usr/bin/rpm-ostree" ]; then echo rpm_ostree; else echo ostree; fi
        return
    fi
    [ -e "$root/etc/kernel/proxmox-boot-uuids" ] && echo proxmox && return
    [ -e "$root/usr/bin/kernelstub" ] && [ -e "$root/sys/firmware/efi" ] && echo kernelstub && return
    for file in /usr/sbin/grubby /sbin/grubby /usr/bin/grubby; do
        [ -e "$root$file" ] && echo grubby && return
    done
    if [ -e "$root/usr/sbin/update-grub" ] && [ -e "$root/etc/default/grub" ]; then
        # systemd-boot reads the other file.
        [ -e "$root/etc/kernel/cmdline" ] || echo grub
    elif [ -e "$root/etc/update-extlinux.conf" ]; then
        echo extlinux
    elif [ -e "$root/boot/firmware/cmdline.txt" ] || [ -e "$root/boot/cmdline.txt" ]; then
        echo cmdline_txt
    fi
}

# The answerer of clock_gettime REALTIME, by strace. `date +%N` must read that clock, and strace shows
# only system calls. Prints nothing if strace or date fails.
served() {
    trace=$(strace -e trace=clock_gettime,gettimeofday date +%N 2>&1) || return
    case $trace in
    *clock_gettime\(*) echo system_call ;;
    *gettimeofday\(*) ;;
    *) printf '%s\n' "$trace" | grep -q -E '^[0-9]{9}$' && echo vdso ;;
    esac
}

# The offset of a clock of this process's time namespace in ns, as JSON.
namespace_offset_ns() {
    # shellcheck disable=SC2046 # Seconds and ns are two words.
    set -- $(sed -n "s/^$1[[:space:]]//p" "$own/timens_offsets")
    if [ $# -eq 2 ]; then echo $(($1 * 1000000000 + $2)); else echo null; fi
}

# The time namespace of this process, as the program reads it (machine/system.rs). A program that the
# shell starts may be in another one, so /proc/self is of no use.
time_namespace() {
    namespace=$(readlink "$own/ns/time" 2>/dev/null) || return
    [ -r "$own/timens_offsets" ] || return
    monotonic=null boottime=null elsewhere=true
    if [ "$namespace" = "$(readlink "$own/ns/time_for_children")" ]; then
        monotonic=$(namespace_offset_ns monotonic) boottime=$(namespace_offset_ns boottime) elsewhere=false
    fi
    printf '    "time_namespace": {\n      "monotonic_offset_ns": %s,\n' "$monotonic"
    printf '      "boottime_offset_ns": %s,\n      "children_elsewhere": %s\n    },\n' "$boottime" "$elsewhere"
}

# The facts about this process, as JSON.
of_this_process() {
    tracer=$(sed -n 's/^TracerPid:[[:space:]]*//p' "$own/status" 2>/dev/null)
    [ -z "$tracer" ] || printf '    "tracer_pid": %s,\n' "$tracer"
    time_namespace
    text allowed_cpus "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>/dev/null)"
}

# The byte at an offset in $bytes; 0 beyond their end.
byte() {
    at=$1
    # shellcheck disable=SC2086 # Each byte is a word.
    set -- $bytes
    if [ $# -le "$at" ]; then echo 0 && return; fi
    shift "$at"
    echo "$1"
}

# The little-endian number of eight bytes at an offset in $bytes, as JSON.
long() {
    at=$1
    # shellcheck disable=SC2086 # Each byte is a word.
    set -- $bytes
    if [ $# -lt $((at + 8)) ]; then echo null && return; fi
    shift "$at"
    printf '%u\n' $(($1 | $2 << 8 | $3 << 16 | $4 << 24 | $5 << 32 | $6 << 40 | $7 << 48 | $8 << 56))
}

# What a hypervisor tells by a VMClock, as the program reads it (machine/system/vmclock.rs).
vmclock() {
    device=$root/dev/vmclock0
    [ -e "$device" ] && command -v od >/dev/null || return
    if ! bytes=$(od -A n -v -t u1 -N 112 "$device" 2>/dev/null); then
        error=$(od -N 1 "$device" 2>&1 >/dev/null)
        printf '    "vmclock": {\n      "device": "/dev/vmclock0",\n'
        printf '      "unreadable": "%s"\n    },\n' "$(printf '%s\n' "${error##*: }" | head -n 1 | escape)"
        return
    fi
    # shellcheck disable=SC2086 # Each byte is a word.
    set -- $bytes
    [ "${1-} ${2-} ${3-} ${4-}" = '86 67 76 75' ] || return
    # VMCLOCK_FLAG_VM_GEN_COUNTER_PRESENT is bit 8, so bit 0 of the second byte of the flags.
    generation=null
    [ $(($(byte 25) & 1)) -eq 0 ] || generation=$(long 104)
    case $(byte 34) in
    1) state=initialising ;;
    2) state=synchronised ;;
    3) state=free_running ;;
    4) state=unreliable ;;
    *) state=unknown ;;
    esac
    printf '    "vmclock": {\n      "device": "/dev/vmclock0",\n      "disruption_marker": %s,\n' "$(long 16)"
    printf '      "clock_status": "%s",\n      "vm_generation": %s\n    },\n' "$state" "$generation"
}

case $(uname -m) in
i?86) architecture=x86 ;;
amd64) architecture=x86_64 ;;
armv*) architecture=arm ;;
*) architecture=$(uname -m) ;;
esac

# The output of adjtimex(2), if the program adjtimex or busybox can print it.
timex=$(adjtimex --print 2>/dev/null || busybox adjtimex 2>/dev/null)
timex() {
    printf '%s\n' "$timex" | sed -n "s/^[-a-z ]*$1: *\(-\{0,1\}[0-9]\{1,\}\).*/\1/p" | head -n 1
}
# The names of the bits of the status, from the lowest (include/uapi/linux/timex.h).
status_flags() {
    bit=1
    separator=
    for name in PLL PPSFREQ PPSTIME FLL INS DEL UNSYNC FREQHOLD PPSSIGNAL PPSJITTER PPSWANDER PPSERROR CLOCKERR NANO MODE CLK; do
        if [ $((status & bit)) -ne 0 ]; then
            printf '%s"%s"' "$separator" "$name"
            separator=', '
        fi
        bit=$((bit * 2))
    done
}

# The facts, as JSON.
collect() {
    printf '{\n  "schema": "tickline/2",\n  "command": "facts.sh",\n'
    printf '  "taken_at": "%s",\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    printf '  "machine": {\n'
    text cpu "$(cpuinfo 'model name')"
    text architecture "$architecture"
    text kernel "$(line "$root/proc/sys/kernel/osrelease")"
    text kernel_command_line "$(line "$root/proc/cmdline")"
    text clocksource "$(line "$clocksource/current_clocksource")"
    text available_clocksources "$(line "$clocksource/available_clocksource")"
    text hypervisor "$(hypervisor)"
    xen_dom0
    text product "$product"
    text cloud "$(cloud)"
    text container "$(container)"
    [ -n "$root" ] || of_this_process
    text online_cpus "$(line "$root/sys/devices/system/cpu/online")"
    if [ -n "$flags" ]; then
        printf '    "cpuid": {\n'
        # The kernel sets nonstop_tsc where CPUID calls the TSC invariant (early_init_amd,
        # early_init_intel).
        printf '      "invariant_tsc": %s,\n' "$(flag nonstop_tsc)"
        printf '      "rdtscp": %s,\n      "hypervisor": %s\n    },\n' "$(flag rdtscp)" "$(flag hypervisor)"
    fi
    if [ -r /proc/self/maps ]; then
        if grep -q '\[vdso\]' /proc/self/maps; then vdso=true; else vdso=false; fi
        printf '    "vdso_mapped": %s,\n' "$vdso"
    fi
    vmclock
    # The log is empty where this user may not read it, and in some containers.
    if [ -n "$log" ] && messages=$(messages); then
        printf '    "kernel_log": [\n%s\n    ],\n' "$messages"
    fi
    offset=$(timex offset) frequency=$(timex 'freq[a-z.]*') error=$(timex maxerror) likely=$(timex esterror)
    status=$(timex status) tick=$(timex tick) constant=$(timex 'time_\{0,1\}constant')
    if [ -n "$offset" ] && [ -n "$frequency" ] && [ -n "$error" ] && [ -n "$likely" ] && [ -n "$status" ] && [ -n "$tick" ]; then
        # STA_NANO and STA_UNSYNC; the frequency has 16 binary places of ppm.
        [ $((status & 8192)) -ne 0 ] || offset=$((offset * 1000))
        if [ $((status & 64)) -eq 0 ]; then synchronised=true; else synchronised=false; fi
        printf '    "ntp": {\n      "synchronised": %s,\n      "frequency_ppb": %s,\n' "$synchronised" $((frequency * 1000 / 65536))
        printf '      "tick_us": %s,\n      "offset_ns": %s,\n      "time_constant": %s,\n' "$tick" "$offset" "${constant:-null}"
        printf '      "maximum_error_us": %s,\n      "estimated_error_us": %s,\n' "$error" "$likely"
        printf '      "flags": [%s]\n    },\n' "$(status_flags)"
    fi
    # chronyc's fields, with times in seconds: reference, its name, stratum, time of the update, offset,
    # ..., frequency and skew in ppm, root delay, root dispersion, interval, leap status. In busybox's
    # awk, a comparison in the arguments of printf needs parentheses.
    chronyc -c -n tracking 2>/dev/null | awk -F, 'NF == 14 {
        printf "    \"ntp_daemon\": {\n      \"name\": \"chronyd\",\n"
        printf "      \"synchronised\": %s,\n", ($14 == "Not synchronised" || $1 == "7F7F0101" ? "false" : "true")
        printf "      \"reference\": \"%s\",\n      \"stratum\": %d,\n", ($2 == "" ? "none" : $2), $3
        offset = ($5 < 0 ? -$5 : $5)
        printf "      \"offset_ns\": %.0f,\n      \"bound_ns\": %.0f,\n", $5 * 1e9, (offset + $11 / 2 + $12) * 1e9
        leap = "null"
        if ($14 == "Normal") leap = "\"none\""
        if ($14 == "Insert second") leap = "\"insert\""
        if ($14 == "Delete second") leap = "\"delete\""
        printf "      \"leap\": %s,\n", leap
        printf "      \"frequency_ppb\": %.0f,\n      \"skew_ppb\": %.0f,\n", $8 * 1e3, $10 * 1e3
        printf "      \"root_delay_ns\": %.0f,\n      \"root_dispersion_ns\": %.0f\n    },\n", $11 * 1e9, $12 * 1e9
    }'
    text boot_loader "$(boot_loader)"
    if [ -d "$root/run/systemd/system" ]; then echo '    "systemd": true,'; else echo '    "systemd": false,'; fi
    printf '    "counters": "not compared by facts.sh"\n  }'
    served=$(served)
    if [ -n "$served" ]; then
        printf ',\n  "costs": [\n    { "clock": "clock_gettime REALTIME", "served_by": "%s" }\n  ]' "$served"
    fi
    printf '\n}\n'
}

# One write, so that a failure has one message.
facts=$(collect)
printf '%s\n' "$facts" || exit 2
