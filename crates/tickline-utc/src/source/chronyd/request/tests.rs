#![cfg(all(target_os = "linux", not(miri)))]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use super::*;

/// A daemon answers within that time.
const PATIENCE: Duration = Duration::from_secs(20);

/// The wait for a daemon that does not answer.
const SHORT: Duration = Duration::from_millis(50);

/// The error of such a wait.
const SILENT: NoAnswer = NoAnswer::Silent { timeout: SHORT };

/// The error of a reply that is not chronyd's state.
fn unreadable(channel: Channel, length: usize) -> NoAnswer {
    NoAnswer::Unreadable { channel, length }
}

/// A folder for chronyd's socket, which is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let folder = Self(folder);
        folder.permit(0o750);
        folder
    }

    fn permit(&self, permissions: u32) {
        fs::set_permissions(&self.0, fs::Permissions::from_mode(permissions)).unwrap();
    }

    fn socket(&self) -> UnixDatagram {
        UnixDatagram::bind(self.0.join(SOCKET)).unwrap()
    }

    /// The files in the folder.
    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn ask(&self, port: u16, timeout: Duration) -> Result<Answer, NoAnswer> {
        let address = ChronydAddress {
            folder: &self.0,
            port,
        };
        ChronydClient::default().ask_at(&address, timeout)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A client whose socket has left so many requests in a row unanswered.
fn client_with(unanswered: u8) -> ChronydClient {
    ChronydClient {
        socket: SocketUse {
            unanswered,
            ..SocketUse::default()
        },
    }
}

/// A port at which nobody answers.
fn closed_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// chronyd's state at this stratum, without the number of a request.
fn reply(stratum: u8) -> Vec<u8> {
    let mut reply = vec![0; TRACKING_BYTES];
    reply[..2].copy_from_slice(&[6, 2]);
    reply[7] = 5;
    reply[53] = stratum;
    reply
}

/// This reply to this request: it repeats the request's number.
fn numbered(mut reply: Vec<u8>, request: &[u8]) -> Vec<u8> {
    if let Some(number) = reply.get_mut(16..20) {
        number.copy_from_slice(&request[8..12]);
    }
    reply
}

/// Answers one request at the socket with each of the replies, and returns the request.
fn answer_at(socket: UnixDatagram, replies: Vec<Vec<u8>>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut request = [0; 256];
        let (length, client) = socket.recv_from(&mut request).unwrap();
        let client = client.as_pathname().unwrap();
        for reply in replies {
            socket.send_to(&numbered(reply, &request), client).unwrap();
        }
        request[..length].to_vec()
    })
}

/// Answers one request at a port of its own.
fn answer_by_udp(reply: Vec<u8>) -> (u16, JoinHandle<UdpSocket>) {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let served = thread::spawn(move || {
        let mut request = [0; 256];
        let (_, from) = server.recv_from(&mut request).unwrap();
        server.send_to(&numbered(reply, &request), from).unwrap();
        server // Its user is listed while it is open.
    });
    (port, served)
}

#[test]
fn the_socket_is_asked_before_the_port() {
    let folder = Folder::new("before-the-port");
    let served = answer_at(folder.socket(), vec![reply(7)]);
    let answer = folder.ask(closed_port(), PATIENCE).unwrap();
    assert_eq!(
        (answer.channel, answer.user, answer.tracking.stratum),
        (Channel::Socket, sys::user(), 7)
    );
    let request = served.join().unwrap();
    let sequence = *request[8..].first_chunk().unwrap();
    assert_eq!(request, padded(sequence));
    assert_eq!(folder.names(), [SOCKET], "nothing is left");
}

#[test]
fn without_a_socket_the_port_is_asked() {
    let folder = Folder::new("the-port");
    let (port, served) = answer_by_udp(reply(7));
    let answer = folder.ask(port, PATIENCE).unwrap();
    assert_eq!(
        (answer.channel, answer.user, answer.tracking.stratum),
        (Channel::Udp, sys::user(), 7)
    );
    served.join().unwrap();
}

#[test]
fn a_socket_whose_daemon_has_ended_leads_to_the_port() {
    let folder = Folder::new("ended");
    drop(folder.socket());
    let (port, served) = answer_by_udp(reply(7));
    assert_eq!(folder.ask(port, PATIENCE).unwrap().channel, Channel::Udp);
    served.join().unwrap();
    assert_eq!(folder.names(), [SOCKET], "nothing is left");
}

#[test]
fn a_daemon_that_does_not_answer_is_silent() {
    let folder = Folder::new("silent");
    let _socket = folder.socket();
    let answer = folder.ask(closed_port(), SHORT);
    assert_eq!(answer.unwrap_err(), SILENT);
    assert_eq!(folder.names(), [SOCKET], "nothing is left");
}

#[test]
fn a_socket_that_never_answers_is_left_out_and_tried_again() {
    let mut socket = SocketUse::default();
    let asked: Vec<u8> = (0..=60)
        .filter(|_| {
            let is_due = socket.is_due();
            socket.record_answer_at_port();
            is_due
        })
        .collect();
    assert_eq!(asked, [0, 1, 2, 60]);
}

#[test]
fn a_request_that_only_the_port_answers_is_counted() {
    let folder = Folder::new("counted");
    let _socket = folder.socket();
    let (port, served) = answer_by_udp(reply(7));
    let address = ChronydAddress {
        folder: &folder.0,
        port,
    };
    let mut client = ChronydClient::default();
    // The port answers, on a busy machine after more than 50 ms.
    client.ask_at(&address, 40 * SHORT).unwrap();
    served.join().unwrap();
    assert_eq!(client.socket.unanswered, 1);
}

#[test]
fn a_request_that_leaves_the_socket_out_is_counted() {
    let folder = Folder::new("left-out-counted");
    // A daemon that nobody asks waits for ever, so nobody waits for it.
    let _waiting = answer_at(folder.socket(), vec![reply(7)]);
    let (port, served) = answer_by_udp(reply(7));
    let address = ChronydAddress {
        folder: &folder.0,
        port,
    };
    let mut client = client_with(SocketUse::MOST_UNANSWERED);
    let answer = client.ask_at(&address, PATIENCE).unwrap();
    served.join().unwrap();
    assert_eq!(
        (answer.channel, client.socket.unanswered),
        (Channel::Udp, SocketUse::MOST_UNANSWERED + 1)
    );
}

#[test]
fn a_request_that_the_socket_answers_ends_the_count() {
    let folder = Folder::new("count-ended");
    let served = answer_at(folder.socket(), vec![reply(7)]);
    let address = ChronydAddress {
        folder: &folder.0,
        port: closed_port(),
    };
    let mut client = client_with(2);
    client.ask_at(&address, PATIENCE).unwrap();
    served.join().unwrap();
    assert_eq!(client.socket.unanswered, 0);
}

/// Symptom: three slow answers, then a port that is closed for good, and nobody was asked any more.
#[test]
fn a_socket_that_is_left_out_is_tried_again_if_the_port_does_not_answer() {
    let folder = Folder::new("left-out");
    let served = answer_at(folder.socket(), vec![reply(7)]);
    let mut client = client_with(SocketUse::MOST_UNANSWERED);
    let address = ChronydAddress {
        folder: &folder.0,
        port: closed_port(),
    };
    let channels = [SHORT, PATIENCE].map(|timeout| client.ask_at(&address, timeout).ok());
    let channels = channels.map(|answer| Some(answer?.channel));
    // A daemon that nobody asks waits for ever.
    if channels[1].is_some() {
        served.join().unwrap();
    }
    assert_eq!(channels, [None, Some(Channel::Socket)]);
}

/// A datagram waits in the daemon's queue until the daemon reads it, and the queue is full.
#[test]
fn a_daemon_that_stands_still_is_silent() {
    let folder = Folder::new("full");
    let _socket = folder.socket();
    let client = UnixDatagram::unbound().unwrap();
    client.connect(folder.0.join(SOCKET)).unwrap();
    client.set_nonblocking(true).unwrap();
    while client.send(&[0]).is_ok() {}
    let answer = folder.ask(closed_port(), SHORT);
    assert_eq!(answer.unwrap_err(), SILENT);
    assert_eq!(folder.names(), [SOCKET], "nothing is left");
}

#[test]
fn a_reply_at_the_socket_that_is_not_chronyds_is_unreadable() {
    for (name, bytes) in [
        ("empty", vec![]),
        ("short", reply(7)[..103].to_vec()),
        ("long", [reply(7), vec![0]].concat()),
        ("huge", vec![7; 65_536]),
        ("another", [6, 2].repeat(TRACKING_BYTES / 2)),
        ("refused", [6, 2].repeat(REFUSAL_BYTES / 2)),
    ] {
        let folder = Folder::new(name);
        let error = unreadable(Channel::Socket, bytes.len().min(LONGEST_REPLY_BYTES));
        let served = answer_at(folder.socket(), vec![bytes]);
        let answer = folder.ask(closed_port(), PATIENCE);
        assert_eq!(answer.unwrap_err(), error, "{name}");
        served.join().unwrap();
        assert_eq!(folder.names(), [SOCKET], "nothing is left");
    }
}

/// Symptom: the number was the same in each request, so a stranger could answer one that he had not
/// got.
#[test]
fn a_reply_with_another_requests_number_is_unreadable() {
    let folder = Folder::new("number");
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let served = thread::spawn(move || {
        let mut first = [0; 256];
        server.recv_from(&mut first).unwrap();
        let (_, from) = server.recv_from(&mut [0; 256]).unwrap();
        server.send_to(&numbered(reply(7), &first), from).unwrap();
        server
    });
    assert_eq!(folder.ask(port, SHORT).unwrap_err(), SILENT);
    let answer = folder.ask(port, PATIENCE);
    let error = unreadable(Channel::Udp, TRACKING_BYTES);
    assert_eq!(answer.unwrap_err(), error);
    served.join().unwrap();
}

#[test]
fn a_reply_at_the_port_that_is_not_chronyds_is_unreadable() {
    let folder = Folder::new("unreadable-port");
    for bytes in [vec![], vec![7; 103], vec![7; 1_024]] {
        let error = unreadable(Channel::Udp, bytes.len());
        let (port, served) = answer_by_udp(bytes);
        let answer = folder.ask(port, PATIENCE);
        assert_eq!(answer.unwrap_err(), error);
        served.join().unwrap();
    }
}

/// Any user can answer at a socket in such a folder.
#[test]
fn a_folder_that_every_user_may_write_is_a_strangers() {
    let folder = Folder::new("writable");
    folder.permit(0o777);
    let _socket = folder.socket();
    let stranger = NoAnswer::Stranger {
        channel: Channel::Socket,
        user: None,
    };
    assert_eq!(folder.ask(closed_port(), SHORT).unwrap_err(), stranger);
    let (port, served) = answer_by_udp(reply(7));
    assert_eq!(folder.ask(port, PATIENCE).unwrap().channel, Channel::Udp);
    served.join().unwrap();
}

/// `/proc/net/udp` of a machine with a chronyd, and a socket of another user.
fn list(address: &str, user: u32) -> Option<String> {
    Some(format!(
        "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
         \x20 12: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 18 2 0000000000000000 0\n\
         \x20300: {address}:0143 00000000:0000 07 00000000:00000000 00:00000000 00000000 {user:5}        0 20 2 0000000000000000 0\n"
    ))
}

#[test]
fn the_users_of_a_port_are_in_the_kernels_lists() {
    let none = Some(String::new());
    for address in ["0100007F", "00000000"] {
        let lists = [list(address, 65_534), none.clone()];
        assert_eq!(users_of_port(&lists, 323), Some(vec![65_534]), "{address}");
        assert_eq!(users_of_port(&lists, 53).map(|users| users.len()), Some(1));
    }
    for address in [
        "00000000000000000000000000000000",
        "0000000000000000FFFF00000100007F",
    ] {
        let lists = [list("0100007F", 0), list(address, 65_534)];
        let users = Some(vec![0, 65_534]);
        assert_eq!(users_of_port(&lists, 323), users, "{address}");
    }
}

/// Symptom: a socket of 127.0.0.2:323 answered from 127.0.0.1:323 by `IP_PKTINFO`, and nobody
/// looked at its user.
#[test]
fn a_socket_at_another_address_may_answer_too() {
    // 127.0.0.2, and ::1.
    let lists = [
        list("0200007F", 65_534),
        list("00000000000000000000000001000000", 65_533),
    ];
    assert_eq!(users_of_port(&lists, 323), Some(vec![65_534, 65_533]));
}

#[test]
fn without_the_list_the_users_of_a_port_are_unknown() {
    assert_eq!(users_of_port(&[None, list("00000000", 0)], 323), None);
    assert_eq!(
        users_of_port(&[Some("\n300: x\n".to_owned()), None], 323),
        Some(vec![])
    );
}

/// Symptom: while other sockets were closed, chronyd was now and then taken for a stranger.
#[test]
fn lists_without_the_port_are_read_again() {
    let none = || Some(String::new());
    let mut readings = [[none(), none()], [list("0100007F", 0), none()]].into_iter();
    let users = listed_users(323, || readings.next().unwrap());
    assert_eq!(users, Some(vec![0]));
}

#[test]
fn lists_that_never_have_the_port_are_read_ten_times() {
    let mut readings = 0;
    let users = listed_users(323, || {
        readings += 1;
        [(); 2].map(|()| Some(String::new()))
    });
    assert_eq!(users, Some(vec![]));
    assert_eq!(readings, MOST_READINGS);
}

#[test]
fn lists_that_are_unreadable_are_read_once() {
    let mut readings = 0;
    let users = listed_users(323, || {
        readings += 1;
        [None, None]
    });
    assert_eq!(users, None);
    assert_eq!(readings, 1);
}

/// Symptom: what a process of user nobody said at chronyd's port was taken for chronyd's word.
#[test]
fn an_answer_counts_only_if_every_socket_at_the_port_may_be_chronyds() {
    let user = |users| user_of_port(users, |user| [0, 115].contains(&user));
    let stranger = |user| {
        Err(NoAnswer::Stranger {
            channel: Channel::Udp,
            user,
        })
    };
    for (users, expected) in [
        (None, Ok(None)),
        (Some(vec![0]), Ok(Some(0))),
        (Some(vec![115, 0]), Ok(Some(115))),
        (Some(vec![65_534]), stranger(Some(65_534))),
        (Some(vec![0, 65_534]), stranger(Some(65_534))),
        (Some(vec![]), stranger(None)),
    ] {
        assert_eq!(user(users.clone()), expected, "{users:?}");
    }
}

#[test]
fn chronyds_users_have_its_names() {
    let users = "root:x:0:0::/:/bin/sh\n_chrony:x:115:118:Chrony daemon,,,:/var/lib/chrony:/bin/false\n\
                 chrony:x:989:987::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nchrony:x\n\n";
    assert_eq!(chronyds_users(users).collect::<Vec<_>>(), [115, 989]);
}

#[test]
fn root_and_this_user_may_be_chronyd() {
    let own = sys::user().unwrap();
    assert_eq!([0, own].map(may_be_chronyd), [true, true]);
}

#[test]
fn another_user_may_not_be_chronyd() {
    let own = sys::user().unwrap();
    assert!(!may_be_chronyd(own.wrapping_add(4_000_000_000)));
}

#[test]
fn the_error_of_silence_says_who_was_asked_and_for_how_long() {
    assert_eq!(
        SILENT.to_string(),
        "nobody has answered within 50ms, neither at /run/chrony/chronyd.sock, if this user may ask there, nor \
         at UDP port 323: does chronyd run, with `cmdport 323`?"
    );
}

#[test]
fn the_error_of_an_unreadable_reply_has_its_length_and_the_expected_one() {
    assert_eq!(
        unreadable(Channel::Socket, 103).to_string(),
        "the reply at chronyd's Unix socket has 103 bytes, and chronyd's state has 104: does chronyd answer \
         there, of chrony 4? (`chronyc tracking`)"
    );
}

#[test]
fn the_error_of_an_unreadable_reply_of_the_expected_length_says_what_else_may_be_wrong() {
    assert_eq!(
        unreadable(Channel::Udp, 104).to_string(),
        "the reply at chronyd's UDP port has the length of chronyd's state, 104 bytes, but is another one, or \
         has another request's number: ask again, and compare `chronyc tracking`"
    );
}

#[test]
fn the_error_of_a_refusal_names_the_option_that_permits_the_request() {
    assert_eq!(
        unreadable(Channel::Udp, REFUSAL_BYTES).to_string(),
        "chronyd's UDP port refuses the request: `opencommands` in chrony.conf must have `tracking` \
         (`chronyc tracking`)"
    );
}

#[test]
fn the_error_of_a_strangers_answer_has_the_user_and_how_to_find_what_is_theirs() {
    let user = Some(1000);
    let errors = Channel::ALL.iter().map(|channel| NoAnswer::Stranger {
        channel: *channel,
        user,
    });
    let texts: Vec<_> = errors.map(|error| error.to_string()).collect();
    assert_eq!(
        texts,
        [
            "user 1000 may answer at chronyd's Unix socket, and is neither root, chronyd's user nor this \
             process's user: see whose it is (`ls -ld /run/chrony /run/chrony/chronyd.sock`)",
            "user 1000 may answer at chronyd's UDP port, and is neither root, chronyd's user nor this \
             process's user: see whose it is (`ss -ulnpe sport = :323`)",
        ]
    );
}

#[test]
fn the_error_of_an_unknown_stranger_says_why_nobody_is_known() {
    let errors = Channel::ALL.iter().map(|channel| NoAnswer::Stranger {
        channel: *channel,
        user: None,
    });
    let texts: Vec<_> = errors.map(|error| error.to_string()).collect();
    assert_eq!(
        texts,
        [
            "every user may replace chronyd's Unix socket: take the right to write /run/chrony from others \
             (`chmod o-w /run/chrony`)",
            "nobody has chronyd's UDP port any more, so whoever has answered is unknown: ask again",
        ]
    );
}
