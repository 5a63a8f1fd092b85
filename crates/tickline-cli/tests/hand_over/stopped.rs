//! A server that is stopped at each of its stores to the page, for less and for more than its
//! leases, while two processes hand readings to each other.
//!
//! The processor's debug registers stop it behind a store (Intel SDM Vol. 3B, "Debug Registers"),
//! by ptrace(2).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::common::server::{Server, folder, status, wait_for_line};
use crate::game::{self, Game};

/// The page (`tickline-page`, `layout.rs`): a header, the word in a cache line of its own, slots.
const WORD: u64 = 64;
const SLOTS: u64 = 128;
const SLOT_BYTES: u64 = 64;
const SLOT_COUNT: u64 = 8;

/// How long the server is stopped, ms: within a lease, and beyond it.
const STOPS_MS: [u64; 4] = [1_700, 3, 250, 900];

/// How long to wait for a store of one kind. A server publishes twice a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many instructions after a store to a slot, no more is expected.
const LONGEST_GAP: usize = 1_000;

/// Where the server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Behind the first store to a slot, and so many more.
    Slot(usize),
    /// [`LONGEST_GAP`] behind a slot's last store that changes it, so many after the first. A store
    /// of what was there already is not seen.
    Passed(usize),
    /// Behind the store to the word, and so many instructions.
    Word(usize),
    /// Between the look at the counter and the store to the word: so many instructions behind the
    /// store that announces a restartable sequence (rseq(2)).
    Sequence(usize),
}

fn places() -> impl Iterator<Item = Place> {
    let between = [0, 2, 4, 9].map(Place::Sequence).into_iter();
    (0..8).map(Place::Slot).chain(between).chain([0, 40].map(Place::Word))
}

#[test]
#[ignore = "half a minute: `cargo xtask ci nightly` has ten rounds"]
fn no_step_back_while_the_server_is_stopped_at_each_store() {
    let (folder, page) = folder();
    let server = Server::start(&page);
    let serves = wait_for_line(&page, &server);
    if !serves {
        eprintln!("SKIPPED: the counter does not serve here, so nothing is published");
        return;
    }
    let traced = match Traced::seize(&server, &page) {
        Ok(traced) => traced,
        Err(error) => {
            eprintln!("SKIPPED: the server cannot be traced here: {error}");
            return;
        }
    };
    let mut game = Game::start(&page, folder.path());
    let mut stops = BTreeMap::<_, u32>::new();
    for round in 0..game::rounds() {
        for (index, place) in places().enumerate() {
            let turn = round + index;
            if matches!(place, Place::Sequence(_)) && traced.sequence.is_none() {
                eprintln!("SKIPPED: {place:?}: no restartable sequences here");
                continue;
            }
            let reached = traced.stops_at(place, turn);
            let place = reached.unwrap_or_else(|| panic!("{place:?}: no such store in {PATIENCE:?}"));
            let stop_ms = STOPS_MS[turn % STOPS_MS.len()];
            game.go_on(Duration::from_millis(stop_ms));
            let phase = status(&page).expect("a page")["phase"].as_str().expect("a name").to_owned();
            *stops.entry((format!("{place:?}"), phase)).or_default() += 1;
        }
    }
    ptrace::detach(traced.pid, None).expect("it is stopped");
    game.go_on(Duration::from_millis(700));
    let lines = stops.iter().map(|((place, phase), count)| format!("{place} {phase}: {count}"));
    eprintln!("stopped at: {}", lines.collect::<Vec<_>>().join(", "));
    game.end(serves);
    let stopped_in = |wanted: &str| stops.keys().any(|(_, phase)| phase == wanted);
    assert!(stopped_in("published") && stopped_in("first_publication"), "{stops:?}");
    let between_stores = format!("{:?}", Place::Slot(1));
    assert!(stops.keys().any(|(place, _)| *place == between_stores), "{stops:?}");
}

/// The first thread of a server, which publishes: traced by this thread, and stopped.
struct Traced {
    pid: Pid,
    /// Where it has the page.
    page: u64,
    /// Where its thread announces restartable sequences, if it does.
    sequence: Option<u64>,
    /// The page's file.
    file: fs::File,
}

/// ptrace(2), Linux 5.13.
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;

/// `struct ptrace_rseq_configuration` (linux/ptrace.h): an address, and three numbers of 32 bits.
type RseqConfiguration = [u64; 3];

/// `rseq_cs` in `struct rseq` (linux/rseq.h).
const SEQUENCE: u64 = 8;

impl Traced {
    fn seize(server: &Server, page: &Path) -> io::Result<Self> {
        let pid = Pid::from_raw(server.pid().try_into().expect("a process"));
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let name = page.to_str().expect("a name");
        let line = maps.lines().find(|line| line.ends_with(name)).expect("the page is mapped");
        let start = line.split('-').next().expect("an address");
        let page_start = u64::from_str_radix(start, 16).expect("an address");
        ptrace::seize(pid, Options::empty())?;
        ptrace::interrupt(pid)?;
        let mut traced = Self { pid, page: page_start, sequence: None, file: fs::File::open(page)? };
        assert!(traced.stopped(), "it stops when it is told to");
        let mut found = RseqConfiguration::default();
        let size = size_of::<RseqConfiguration>();
        // SAFETY: there is room for the answer.
        let known =
            unsafe { libc::ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid.as_raw(), size, &raw mut found) };
        traced.sequence = (known != -1 && found[0] != 0).then(|| found[0] + SEQUENCE);
        Ok(traced)
    }

    /// Waits for a stop that is no signal's; signals are passed on. `false` if there is none in
    /// time.
    fn stopped(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)).expect("a child") {
                WaitStatus::StillAlive => std::thread::yield_now(),
                WaitStatus::Stopped(_, Signal::SIGTRAP) | WaitStatus::PtraceEvent(..) => return true,
                WaitStatus::Stopped(_, signal) => ptrace::cont(self.pid, signal).expect("it is stopped"),
                ended => panic!("the server has ended: {ended:?}"),
            }
        }
        false
    }

    fn set_register(&self, register: usize, value: u64) {
        let offset = offset_of!(libc::user, u_debugreg) + 8 * register;
        let value = value.try_into().expect("an address of a program");
        ptrace::write_user(self.pid, ptr::without_provenance_mut(offset), value).expect("a debug register");
    }

    /// Has the processor stop the server behind stores to 8 bytes at these places, and no others.
    fn watch(&self, places: &[u64]) {
        self.set_register(7, 0);
        let mut control = 0;
        for (register, place) in places.iter().enumerate() {
            self.set_register(register, *place);
            // On for this thread; stores; 8 bytes.
            control |= 1 << (2 * register) | 0b1001 << (16 + 4 * register);
        }
        self.set_register(7, control);
    }

    /// Lets the server run to its next store to one of these places. `false` if there is none.
    fn runs_to(&self, places: &[u64]) -> bool {
        self.watch(places);
        ptrace::cont(self.pid, None).expect("it is stopped");
        let comes = self.stopped();
        if !comes {
            ptrace::interrupt(self.pid).expect("it runs");
            assert!(self.stopped(), "it stops when it is told to");
        }
        self.watch(&[]);
        comes
    }

    fn step(&self) {
        ptrace::step(self.pid, None).expect("it is stopped");
        assert!(self.stopped(), "an instruction ends");
    }

    fn slots(&self) -> [u8; 512] {
        let mut bytes = [0; 512];
        self.file.read_exact_at(&mut bytes, SLOTS).expect("the page");
        bytes
    }

    /// Lets the server run until it comes to `place`, and leaves it stopped there, or at
    /// [`Place::Passed`]. Returns where that is; `None` if it does not come there.
    fn stops_at(&self, place: Place, turn: usize) -> Option<Place> {
        let watched = match place {
            Place::Slot(_) | Place::Passed(_) => {
                let slots: Vec<_> =
                    (0..SLOT_COUNT).map(|slot| self.page + SLOTS + slot * SLOT_BYTES).collect();
                // The processor watches four places. The writer uses some slots for a while.
                (0..3).any(|next| self.runs_to(slots.chunks(3).nth((turn + next) % 3).expect("slots")))
            }
            Place::Word(_) => self.runs_to(&[self.page + WORD]),
            Place::Sequence(_) => self.runs_to(&[self.sequence.expect("asked before")]),
        };
        if !watched {
            return None;
        }
        match place {
            Place::Slot(stores) | Place::Passed(stores) => {
                for seen in 0..stores {
                    let before = self.slots();
                    let changes = (0..LONGEST_GAP).any(|_| {
                        self.step();
                        self.slots() != before
                    });
                    if !changes {
                        return Some(Place::Passed(seen));
                    }
                }
            }
            Place::Word(instructions) | Place::Sequence(instructions) => {
                (0..instructions).for_each(|_| self.step());
            }
        }
        Some(place)
    }
}
