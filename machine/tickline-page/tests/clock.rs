//! Tests of clocks that read a page, on every system.

#![cfg(feature = "clock")]

use std::error::Error as _;
use std::path::Path;

use tickline::Probes;
#[cfg(any(not(target_os = "linux"), miri))]
use tickline_page::page_file::PageErrorCause;

/// A program may do without a missing page, and stop at a refused one. Systems other than Linux,
/// and Miri, have no pages.
#[test]
fn a_page_that_is_missing_differs_from_one_that_is_refused() {
    let is_missing = |path: &Path| {
        let error = tickline_page::open(path).unwrap_err();
        assert_eq!(error.path(), path);
        assert!(error.source().is_none(), "the text is complete: {error}");
        error.is_not_found()
    };
    let has_pages = cfg!(all(target_os = "linux", not(miri)));
    assert_eq!(is_missing("no-folder/page".as_ref()), has_pages);
    assert!(!is_missing(&std::env::temp_dir()), "a folder is no page");
}

#[test]
#[cfg(any(not(target_os = "linux"), miri))]
fn a_system_without_pages_says_what_they_need() {
    let error = tickline_page::open("page").unwrap_err();
    assert_eq!(*error.cause(), PageErrorCause::NoPages);
    assert_eq!(error.to_string(), "page: pages need Linux");
}

#[test]
fn a_page_that_is_refused_is_so_with_any_probes() {
    for probes in [Probes::Full, Probes::Minimal] {
        let error = tickline_page::open_with_probes("no-folder/page", probes).unwrap_err();
        assert!(error.to_string().starts_with("no-folder/page: "), "{error}");
    }
}
