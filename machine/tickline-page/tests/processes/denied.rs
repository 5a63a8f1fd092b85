//! A process that loses the right to read the counter (`PR_SET_TSC`), and then opens a page.

use tickline::{Clock, Driver, Probes};
use tickline_observe::skip;
use tickline_page::page_file::LockedPageFile;

use super::writer::{folder, given_page, output_of};

/// The child process of the test below. Does nothing by itself.
#[test]
fn role_denied_the_counter() {
    let Some(page) = given_page() else { return };
    // With minimal probes `tickline` reads the OS clocks through libc from now on, without asking
    // whether the process may read the counter.
    let minimal = Clock::builder().probes(Probes::Minimal);
    let _clock = minimal.driver(Driver::Manual).build().unwrap();
    // SAFETY: the call takes numbers.
    if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) } != 0 {
        return println!("said: SKIPPED: the counter can't be denied here");
    }
    let clock = tickline_page::open(&page).unwrap();
    let earlier = clock.now();
    let is_ordered = clock.now() >= earlier && clock.unix_now().as_nanos() > 0;
    // std's clocks would end this thread.
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE, 0, 0, 0) };
    println!("said: in order: {is_ordered}");
}

/// The page's clock asks the kernel itself whether the process may read the counter, so it does not
/// depend on what another clock of the process has chosen.
#[test]
fn a_process_that_is_denied_the_counter_reads_a_page_beside_a_clock_with_minimal_probes() {
    let (_folder, page) = folder();
    let _writer = LockedPageFile::create(&page).unwrap();
    let said = output_of("denied::role_denied_the_counter", &page, || Ok(())).unwrap();
    if let Some(reason) = said.strip_prefix("SKIPPED: ") {
        return skip(reason);
    }
    assert_eq!(said, "in order: true");
}
