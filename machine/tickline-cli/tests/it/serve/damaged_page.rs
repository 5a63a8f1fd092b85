//! Something other than a server has changed the page's file.

use std::fs::{self, File};
use std::path::Path;

use super::page_without_server;
use crate::common::assert_fails;
use crate::common::server::{Server, folder, run, status, wait_for_line};

/// Symptom: SIGBUS, or exit code 0 with "the page is switched off", which systemd takes for
/// success.
#[test]
fn a_server_whose_page_was_truncated_says_so() {
    for (bytes, expected, message) in [
        (&[0][..], 78, "0 bytes, not 4096"),
        (&[100], 78, "100 bytes"),
        // The file has its size again.
        (&[0, 4096], 2, "truncated"),
    ] {
        let (_folder, page) = folder();
        let mut server = Server::start(&page);
        wait_for_line(&page, &server);
        let file = File::options().write(true).open(&page).unwrap();
        // This happens between two steps of the server, which are half a second apart.
        for length in bytes {
            file.set_len(*length).unwrap();
        }
        let (code, messages) = server.ended();
        assert_eq!(
            (code, messages.contains(message)),
            (Some(expected), true),
            "{bytes:?}: {messages}"
        );
        assert!(!messages.contains("switched off"), "{messages}");
    }
}

/// Fills a page with ones but for its header, so it stays a page. Returns the file's content.
fn fill_with_ones(page: &Path) -> Vec<u8> {
    let mut ones = fs::read(page).unwrap();
    ones[64..].fill(0xff);
    fs::write(page, &ones).unwrap();
    ones
}

#[test]
fn no_server_starts_on_a_page_that_was_filled_with_ones() {
    let (_folder, page) = page_without_server();
    fill_with_ones(&page);
    assert_fails(&run(&page, &[]), 78, "no server has written its word");
}

#[test]
fn a_page_that_was_filled_with_ones_stays_as_it_is() {
    let (_folder, page) = page_without_server();
    let ones = fill_with_ones(&page);
    run(&page, &[]);
    assert!(fs::read(&page).unwrap() == ones);
}

#[test]
fn a_page_that_was_filled_with_ones_was_not_switched_off() {
    let (_folder, page) = page_without_server();
    fill_with_ones(&page);
    assert_eq!(status(&page).unwrap()["switched_off"], false);
}

/// Symptom: exit code 0 with "the page is switched off", which systemd takes for success.
#[test]
fn a_server_whose_page_is_filled_with_ones_ends_with_an_error() {
    let (_folder, page) = folder();
    let mut server = Server::start(&page);
    wait_for_line(&page, &server);
    File::options()
        .write(true)
        .open(&page)
        .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; 4096], 0))
        .unwrap();
    let (code, messages) = server.ended();
    assert_eq!(code, Some(2), "{messages}");
    assert!(!messages.contains("switched off"), "{messages}");
}

/// Symptom: "Is a directory", without a word on what had made it, or on what to do.
#[test]
fn a_folder_in_place_of_the_page_is_told_by_what_may_have_made_it() {
    let (_folder, page) = folder();
    fs::create_dir(&page).unwrap();
    for (words, code) in [(&[][..], 78), (&["status"], 2), (&["off"], 2)] {
        let output = run(&page, words);
        assert_fails(&output, code, "this is a folder, not a file: ");
        assert_fails(&output, code, "if Docker's -v made the folder");
    }
}
