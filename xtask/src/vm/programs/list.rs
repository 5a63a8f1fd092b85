//! The programs: how each is built and started, and what is expected of it.

/// How a load becomes a file that the guest can run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Build {
    /// A script, which is copied.
    Script,
    /// A command in the folder of the loads, separated by spaces; `OUT` is the file or folder to
    /// write, `ROOT` the guest's root.
    Command(&'static str),
}

/// How many times cheaper a call must be when it is served: goals of the project, which hold with
/// hpet and acpi_pm alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) build: Build,
    /// The load's file in `tests/vm/programs`.
    pub(super) source: &'static str,
    /// The command in the guest; `OUT` is what was built, or the script.
    pub(super) command: &'static str,
    /// Calls for a time: enough that starting them does not count.
    pub(super) calls: u64,
    /// The least ratio of native and served.
    pub(super) least: f64,
    pub(super) is_static: bool,
    pub(super) is_server: bool,
    /// Whether it also runs while the server is handed over.
    pub(super) is_handed_over: bool,
}

/// A load of its own.
const fn load(name: &'static str, source: &'static str, command: &'static str) -> Program {
    Program {
        name,
        about: "",
        build: Build::Script,
        source,
        command,
        calls: 20_000,
        least: 1.0,
        is_static: false,
        is_server: false,
        is_handed_over: true,
    }
}

/// A server of Debian's, which tells the time on request: how long a request takes says little of
/// the clock.
const fn server(name: &'static str, about: &'static str, command: &'static str, calls: u64) -> Program {
    Program {
        about,
        calls,
        least: 0.0,
        is_server: true,
        is_handed_over: false,
        ..load(name, "servers.py", command)
    }
}

/// musl-gcc's own words, with the headers and the files of the guest's root.
const MUSL: &str = "cc -O2 -fno-pie -no-pie -nostdinc -isystem ROOT/usr/include/x86_64-linux-musl -nostdlib -o OUT \
                    -Wl,-dynamic-linker,/lib/ld-musl-x86_64.so.1 ROOT/usr/lib/x86_64-linux-musl/crt1.o \
                    ROOT/usr/lib/x86_64-linux-musl/crti.o load.c -LROOT/usr/lib/x86_64-linux-musl -lc \
                    ROOT/usr/lib/x86_64-linux-musl/crtn.o";

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        about: "gcc, glibc, static",
        build: Build::Command("cc -O2 -static -o OUT load.c"),
        calls: 50_000,
        least: 8.0,
        is_static: true,
        ..load("static C", "load.c", "OUT")
    },
    Program {
        about: "gcc, Debian's musl, dynamic",
        build: Build::Command(MUSL),
        calls: 50_000,
        least: 8.0,
        ..load("musl C", "load.c", "OUT")
    },
    Program {
        about: "static",
        build: Build::Command("env CGO_ENABLED=0 go build -o OUT load.go"),
        calls: 30_000,
        least: 8.0,
        is_static: true,
        ..load("Go", "load.go", "OUT")
    },
    Program {
        about: "dynamic, with glibc",
        build: Build::Command("env CGO_ENABLED=1 go build -o OUT load.go load_cgo.go"),
        calls: 30_000,
        least: 8.0,
        ..load("Go with C", "load.go", "OUT")
    },
    Program {
        about: "Debian's openjdk-17, `System.nanoTime`",
        build: Build::Command("javac --release 17 -d OUT Load.java"),
        calls: 30_000,
        least: 4.0,
        ..load("Java", "Load.java", "java -cp OUT Load")
    },
    Program { about: "Debian's php, `hrtime`", least: 4.0, ..load("PHP", "load.php", "php OUT") },
    Program {
        about: "Debian's python3, `time.monotonic_ns`",
        least: 2.5,
        ..load("Python", "load.py", "python3 OUT")
    },
    Program { about: "Debian's nodejs, `process.hrtime.bigint`", ..load("Node", "load.js", "node OUT") },
    Program { about: "Debian's ruby, `Process.clock_gettime`", ..load("Ruby", "load.rb", "ruby OUT") },
    server("Redis", "Debian's redis-server, the command TIME", "python3 OUT redis", 300),
    server("nginx", "Debian's nginx, requests with their time in the log", "python3 OUT nginx", 300),
    Program {
        least: 1.0,
        ..server(
            "Postgres",
            "Debian's postgresql, `clock_timestamp()` of rows",
            "python3 OUT postgres",
            50_000,
        )
    },
];
