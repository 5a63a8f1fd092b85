#!/bin/sh
# Makes the disks for `cargo xtask vm --programs` in the folder $1: `root.img`, Debian with the programs,
# once from packages; `own.img`, what `$1/own` has, with the loads and the programs' own tests for time.
# A load or a suite that cannot be had is left out, and said. The host's lists of packages are left alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"

release=bookworm
# Its kernel is the one that boots.
packages=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,dbus,udev,iproute2,strace,procps,musl,musl-dev
packages=$packages,python3,libpython3.11-testsuite,php-cli,ruby,nodejs,openjdk-17-jre-headless
packages=$packages,redis-server,nginx-light,postgresql

# Where this machine has the release from, as lines of a list of sources.
mirrors() {
    apt-get indextargets --format "$1 \$(REPO_URI) \$(CODENAME) \$(COMPONENT)" 'Created-By: Packages' |
        awk -v release=$release '{ split($3, name, "-"); if (name[1] == release && $3 !~ /backports/) print }'
}

# The first program: the disk that changes, and what Debian's init would give the programs.
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
    mirrors deb | mmdebstrap --quiet --variant=apt '--aptopt=Apt::Install-Recommends "false"' \
        --include=$packages $release root -
    echo "$init" >root/sbin/tickline-guest
    chmod 755 root/sbin/tickline-guest
    mke2fs -q -t ext4 -d root root.img 3G
    echo "$release $packages $init" >root.stamp
fi

root=$PWD/root
own=$PWD/own
musl=$root/usr/lib/x86_64-linux-musl

# A load or a suite: a command that writes $own/NAME.
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
# musl-gcc's own words, with the headers and the files of the guest's root.
built musl-C cc -O2 -fno-pie -no-pie -nostdinc -isystem "$root/usr/include/x86_64-linux-musl" -nostdlib \
    -o "$own/musl-C" -Wl,-dynamic-linker,/lib/ld-musl-x86_64.so.1 "$musl/crt1.o" "$musl/crti.o" load.c \
    "-L$musl" -lc "$musl/crtn.o"
built Go env CGO_ENABLED=0 go build -o "$own/Go" load.go
built Go-with-C env CGO_ENABLED=1 go build -o "$own/Go-with-C" load.go load_cgo.go
built Java javac --release 17 -d "$own/Java" Load.java

# These parts of the source of a package, in the version that the guest has, or else in the release's: not
# each mirror has the sources of security updates. The parts are upstream's, without Debian's patches.
unpacked() {
    package=$1 to=$2
    shift 2
    version=$(dpkg-query "--admindir=$root/var/lib/dpkg" -W -f='${source:Package}=${source:Version}' "$package") || return
    fetched=$(dirname "$root")/sources/$package
    mkdir -p "$fetched/lists/partial"
    mirrors deb-src >"$fetched/sources.list"
    apt="apt-get -qq -o Dir::Etc::SourceList=$fetched/sources.list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$fetched/lists"
    cd "$fetched" || return
    $apt update || return
    $apt source --download-only "$version" || $apt source --download-only "${version%%=*}/$release" || return
    archive=$(find . -name '*.orig.tar.*' ! -name '*.asc' | head -1)
    tar -xf "$archive" -C "$to" --strip-components=1 --wildcards --no-wildcards-match-slash "$@"
}

python() { cp "$here/suite.py" "$own/suites/Python" && test -f "$root/usr/lib/python3.11/test/test_time.py"; }

# Where the tests look for zones and for files of their own.
go_time() {
    place=$own/suites/Go
    mkdir -p "$place/src/time" "$place/lib/time"
    CGO_ENABLED=0 go test -c -o "$place/src/time/time.test" time &&
        cp "$(go env GOROOT)/lib/time/zoneinfo.zip" "$place/lib/time" &&
        cp -r "$(go env GOROOT)/src/time/testdata" "$place/src/time"
}

# Of PHP's tests for dates, those whose own part reads the present clock.
php() {
    place=$own/suites/PHP
    unpacked php8.2-cli "$place" '*/run-tests.php' '*/ext/standard/tests/time' '*/ext/standard/tests/hrtime' \
        '*/ext/date/tests' || return
    cd "$place" || return
    {
        ls ext/standard/tests/time/*.phpt ext/standard/tests/hrtime/*.phpt
        for test in ext/date/tests/*.phpt; do
            sed -n '/^--FILE--/,/^--EXPECT/p' "$test" |
                grep -qE "microtime\(|hrtime\(|gettimeofday\(|time\(\)|[\"']now|new DateTime(Immutable)?\(\)|sleep\(" &&
                echo "$test"
        done
    } | sort >list
}

ruby() {
    unpacked ruby3.1 "$own/suites/Ruby" '*/tool/lib' '*/test/ruby/test_time.rb' '*/test/ruby/test_process.rb' &&
        cp "$here/suite.rb" "$own/suites/Ruby"
}

mkdir -p "$own/suites/Python" "$own/suites/Go" "$own/suites/PHP" "$own/suites/Ruby"
built suites/Python python
built suites/Go go_time
built suites/PHP php
built suites/Ruby ruby

rm -f own.img
mke2fs -q -t ext4 -d own own.img 128M
