#!/bin/sh
# Makes the disks for `cargo xtask vm --programs` in the folder $1: `root.img`, Debian with the programs,
# once from packages; and `own.img`, the files of `$1/own` and the loads. A load that cannot be built is
# left out and reported.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"

release=bookworm
# Its kernel is the one that boots.
packages=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,dbus,udev,iproute2,strace,procps,musl,musl-dev
packages=$packages,python3,php-cli,ruby,nodejs,openjdk-17-jre-headless
packages=$packages,redis-server,nginx-light,postgresql

# The mirrors of this machine for the release, as lines of a list of sources.
mirrors() {
    apt-get indextargets --format "deb \$(REPO_URI) \$(CODENAME) \$(COMPONENT)" 'Created-By: Packages' |
        awk -v release=$release '{ split($3, name, "-"); if (name[1] == release && $3 !~ /backports/) print }'
}

# The first program: it mounts the other disk and the file systems that Debian's init would mount.
init='#!/bin/sh
mount -o ro /dev/vdb /opt
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
ip link set lo up
exec /opt/init'

if [ "$(cat root.stamp 2>/dev/null)" != "$release $packages $init" ]; then
    echo "making Debian from packages, some minutes"
    rm -rf root root.img
    mirrors | mmdebstrap --quiet --variant=apt '--aptopt=Apt::Install-Recommends "false"' \
        --include=$packages $release root -
    echo "$init" >root/sbin/tickline-guest
    chmod 755 root/sbin/tickline-guest
    mke2fs -q -t ext4 -d root root.img 3G
    echo "$release $packages $init" >root.stamp
fi

root=$PWD/root
own=$PWD/own
musl=$root/usr/lib/x86_64-linux-musl

# Runs a command that writes $own/NAME.
built() {
    name=$1
    shift
    if ! (cd "$here" && "$@"); then
        echo "not built: $name"
        rm -rf "${own:?}/$name"
    fi
}

cp "$here"/load.* "$here"/servers.py "$own"
built static-C cc -O2 -static -o "$own/static-C" load.c
# These are musl-gcc's arguments, with the headers and the files of the guest's root.
built musl-C cc -O2 -fno-pie -no-pie -nostdinc -isystem "$root/usr/include/x86_64-linux-musl" -nostdlib \
    -o "$own/musl-C" -Wl,-dynamic-linker,/lib/ld-musl-x86_64.so.1 "$musl/crt1.o" "$musl/crti.o" load.c \
    "-L$musl" -lc "$musl/crtn.o"
built Go env CGO_ENABLED=0 go build -o "$own/Go" load.go
built Go-with-C env CGO_ENABLED=1 go build -o "$own/Go-with-C" load.go load_cgo.go
built Java javac --release 17 -d "$own/Java" Load.java

rm -f own.img
mke2fs -q -t ext4 -d own own.img 128M
