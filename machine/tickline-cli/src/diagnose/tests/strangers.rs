//! An answer in chronyd's place that does not count.

use super::given::good_machine;
use crate::machine::{Channel, IgnoredAnswer, IgnoredBecause};

/// Symptom: a program of user nobody answered at chronyd's port of a container, and the doctor said
/// "OK, as chronyd claims".
#[test]
fn what_a_stranger_says_vouches_for_nothing() {
    for steered_ppb in [0, 30_000] {
        let machine = good_machine().with(|document| {
            let ntp = document.machine.ntp.as_mut().unwrap();
            ntp.maximum_error_us = 16_000_000;
            ntp.frequency_ppb = steered_ppb;
            ntp.flags = Some(vec!["PLL".to_owned(), "UNSYNC".to_owned()]);
            document.machine.ignored_answer = Some(IgnoredAnswer {
                channel: Channel::Udp,
                reason: IgnoredBecause::Stranger,
                user: Some(65_534),
            });
        });
        machine
            .only("ntp_unsynchronised")
            .shows("an answer by chronyd's UDP port does not count: the socket is user 65534's");
    }
}
