//! A fake ptp4l at a Unix socket.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A path of a socket that no other test uses.
fn path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed, a number on its own.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tickline-ptp4l-{}-{number}", std::process::id()))
}

/// The longest wait for such a daemon.
const TIMEOUT: Duration = Duration::from_millis(500);

/// A path as [`ask_first_of`] takes it. A static keeps it reachable, so it is no leak.
fn kept(path: &Path) -> &'static str {
    static KEPT: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let path = path.to_str().unwrap().to_owned().leak();
    KEPT.lock().unwrap().push(path);
    path
}

/// Asks a daemon that answers each question by these messages.
fn ask(answers: impl Fn(Header, u16) -> Vec<Vec<u8>> + Sync) -> Result<PtpStatus, NoAnswer> {
    ask_at(path(), answers)
}

/// Asks such a daemon at this path.
fn ask_at(
    path: PathBuf,
    answers: impl Fn(Header, u16) -> Vec<Vec<u8>> + Sync,
) -> Result<PtpStatus, NoAnswer> {
    const END: &[u8] = b"end";
    let daemon = UnixDatagram::bind(&path).unwrap();
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut question = [0; 1_500];
            loop {
                let (length, asker) = daemon.recv_from(&mut question).unwrap();
                if &question[..length] == END {
                    return;
                }
                assert_eq!(length, REQUEST_BYTES);
                let header = Header {
                    domain: question[4],
                    transport: question[0] >> 4,
                };
                let id = half(&question, TLV_AT + 4).unwrap();
                for message in answers(header, id) {
                    // The asker may have got enough, and gone.
                    daemon.send_to_addr(&message, &asker).ok();
                }
            }
        });
        // The daemon may have its socket at any of the paths.
        let missing = self::path();
        let status = ask_first_of(&[&missing, &path].map(|path| kept(path)), TIMEOUT);
        let end = UnixDatagram::unbound().unwrap();
        end.send_to(END, &path).unwrap();
        status
    });
    std::fs::remove_file(&path).unwrap();
    status
}

/// A daemon that answers in one domain.
fn in_domain(header: Header, status: PtpStatus) -> impl Fn(Header, u16) -> Vec<Vec<u8>> {
    move |asked, id| {
        if asked != header {
            return Vec::new();
        }
        vec![answer(header, id, &data_of(&status, id))]
    }
}

/// Whether nobody has answered for as long as was waited.
fn is_silent(found: Result<PtpStatus, NoAnswer>) -> bool {
    matches!(found, Err(NoAnswer::Silent { timeout, .. }) if timeout == TIMEOUT)
}

/// Whether not all has come in that time.
fn is_incomplete(found: Result<PtpStatus, NoAnswer>) -> bool {
    matches!(found, Err(NoAnswer::Incomplete { timeout, .. }) if timeout == TIMEOUT)
}

#[test]
fn its_state_is_what_it_answers() {
    assert_eq!(ask(in_domain(DOMAIN_0, GOOD)), Ok(GOOD));
}

/// Symptom: any user could be ptp4l where `/run` may be written by all.
#[test]
fn in_a_folder_where_every_user_may_replace_the_socket_nobody_is_asked() {
    let folder = path();
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("ptp4l");
    let stranger = NoAnswer::Stranger {
        socket: kept(&path),
        user: None,
    };
    for (permissions, expected) in [
        (0o755, Ok(GOOD)),
        (0o777, Err(stranger)),
        (0o1777, Ok(GOOD)),
    ] {
        std::fs::set_permissions(&folder, Permissions::from_mode(permissions)).unwrap();
        let found = ask_at(path.clone(), in_domain(DOMAIN_0, GOOD));
        assert_eq!(found, expected, "{permissions:o}");
    }
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn it_is_found_in_each_domain_and_transport() {
    for &domain in DOMAINS {
        for transport in TRANSPORTS {
            let header = Header { domain, transport };
            let expected = PtpStatus { domain, ..GOOD };
            assert_eq!(ask(in_domain(header, GOOD)), Ok(expected));
        }
    }
}

#[test]
fn in_another_domain_it_is_not_found() {
    let header = Header {
        domain: 5,
        transport: 0,
    };
    assert!(is_silent(ask(in_domain(header, GOOD))));
}

#[test]
fn a_port_that_measures_is_not_one_that_follows() {
    let measuring = PtpStatus {
        port_state: PortState::Uncalibrated,
        is_end_to_end: false,
        ..GOOD
    };
    assert_eq!(ask(in_domain(DOMAIN_0, measuring)), Ok(measuring));
}

/// A boundary clock has a port that follows, and others that serve.
#[test]
fn one_of_several_ports_follows() {
    let found = ask(|header, id| {
        if header != DOMAIN_0 {
            return Vec::new();
        }
        let data = data_of(&GOOD, id);
        let mut messages = vec![answer(header, id, &data)];
        if id == PORT_DATA_SET {
            let mut serving = data;
            serving[10] = 6;
            messages.insert(0, answer(header, id, &serving));
        }
        messages
    });
    assert_eq!(found, Ok(GOOD));
}

#[test]
fn a_daemon_that_is_silent_is_not_waited_for() {
    assert!(is_silent(ask(|_, _| Vec::new())));
}

/// Symptom: each message was waited for anew, so a peer that sent one in each interval held up the
/// thread for seconds.
#[test]
fn messages_that_drip_do_not_move_the_deadline() {
    let last = Header {
        domain: 44,
        transport: 1,
    };
    let found = ask(|header, id| {
        if header == last {
            return vec![answer(header, id, &data_of(&GOOD, id))];
        }
        std::thread::sleep(Duration::from_millis(100));
        vec![vec![0xFF; 60]]
    });
    assert!(found.is_err());
}

#[test]
fn a_flood_of_other_messages_ends() {
    assert!(is_silent(ask(|_, _| vec![vec![0xFF; 1_500]; MAX_MESSAGES])));
}

#[test]
fn a_data_set_that_is_missing_makes_the_state_unknown() {
    for missing in DATA_SETS {
        let found = ask(|header, id| {
            if header != DOMAIN_0 || id == missing {
                return Vec::new();
            }
            vec![answer(header, id, &data_of(&GOOD, id))]
        });
        assert!(is_incomplete(found), "{missing:x}");
    }
}

#[test]
fn an_answer_that_is_cut_makes_the_state_unknown() {
    for cut in DATA_SETS {
        let found = ask(|header, id| {
            if header != DOMAIN_0 {
                return Vec::new();
            }
            let mut message = answer(header, id, &data_of(&GOOD, id));
            if id == cut {
                message.truncate(message.len() - 1);
            }
            vec![message]
        });
        assert!(is_incomplete(found), "{cut:x}");
    }
}

/// The best master has changed between two answers.
#[test]
fn answers_about_two_grandmasters_make_the_state_unknown() {
    let found = ask(|header, id| {
        if header != DOMAIN_0 {
            return Vec::new();
        }
        let grandmaster = if id == PARENT_DATA_SET {
            [9; 8]
        } else {
            GRANDMASTER
        };
        let status = PtpStatus {
            grandmaster,
            ..GOOD
        };
        vec![answer(header, id, &data_of(&status, id))]
    });
    assert!(is_incomplete(found));
}

#[test]
fn without_a_socket_there_is_no_daemon() {
    let found = ask_first_of(&[kept(&path())], REPLY_TIMEOUT);
    assert_eq!(found, Err(NoAnswer::NoSocket));
}

#[test]
fn the_error_is_of_the_first_socket_that_exists() {
    let dead = [path(), path()];
    for path in &dead {
        drop(UnixDatagram::bind(path).unwrap());
    }
    let [first, second] = dead.each_ref().map(|path| kept(path));
    let found = ask_first_of(&[kept(&path()), first, second], REPLY_TIMEOUT);
    for path in dead {
        std::fs::remove_file(path).unwrap();
    }
    let refused = NoAnswer::Unusable {
        socket: first,
        kind: io::ErrorKind::ConnectionRefused,
    };
    assert_eq!(found, Err(refused));
}

/// Another process of this machine can't answer in its place.
#[test]
fn only_the_daemon_can_answer() {
    let path = path();
    let daemon = UnixDatagram::bind(&path).unwrap();
    let socket = ManagementSocket::connect(&path, Deadline::after(REPLY_TIMEOUT)).unwrap();
    socket.send(&request(DOMAIN_0, TIME_STATUS_NP)).unwrap();
    let (_, asker) = daemon.recv_from(&mut [0; 64]).unwrap();
    let intruder = UnixDatagram::unbound().unwrap();
    let data = data_of(&GOOD, TIME_STATUS_NP);
    let message = answer(DOMAIN_0, TIME_STATUS_NP, &data);
    assert!(intruder.send_to_addr(&message, &asker).is_err());
    assert_eq!(socket.receive(), None);
    std::fs::remove_file(&path).unwrap();
}
