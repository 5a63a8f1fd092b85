use super::super::samples::samples;
use super::*;

/// A page with each of its blocks, between texts.
fn text_of(page: &Page) -> String {
    let block = |(name, _): &(&str, Write)| {
        format!("<!-- record:{name} -->\nold\n<!-- /record:{name} -->\nkept {name}\n")
    };
    let blocks: String = page.blocks.iter().map(block).collect();
    format!("# head\n{blocks}tail\n")
}

#[test]
fn only_what_is_between_markers_changes_and_once_more_changes_nothing() {
    for page in &PAGES {
        let once = page.rewritten(&text_of(page), &samples()).unwrap();
        assert!(!once.contains("old"), "{once}");
        let (first, _) = page.blocks[0];
        assert!(once.starts_with(&format!("# head\n<!-- record:{first} -->\n")), "{once}");
        assert!(once.ends_with("tail\n"), "{once}");
        for (block, _) in page.blocks {
            assert!(once.contains(&format!("\n<!-- /record:{block} -->\nkept {block}\n")), "{once}");
        }
        assert_eq!(page.rewritten(&once, &samples()).unwrap(), once);
    }
}

#[test]
fn a_marker_that_is_missing_twice_there_or_astray_is_an_error_that_names_it() {
    for (page, block) in PAGES.iter().flat_map(|page| page.blocks.iter().map(move |(block, _)| (page, block)))
    {
        let [first, last] = [format!("<!-- record:{block} -->"), format!("<!-- /record:{block} -->")];
        for marker in [&first, &last] {
            let without = text_of(page).replace(marker, "");
            let twice = format!("{}{marker}", text_of(page));
            for (text, times) in [(without, "0 times"), (twice, "2 times")] {
                for error in [page.check_markers(&text), page.rewritten(&text, &samples()).map(drop)] {
                    let message = error.unwrap_err();
                    let named = [page.path, marker, times].iter().all(|part| message.contains(part));
                    assert!(named, "{message}");
                }
            }
        }
        let astray = text_of(page).replace(&last, "swap").replace(&first, &last).replace("swap", &first);
        let message = page.check_markers(&astray).unwrap_err();
        assert!(message.contains(&format!("{last} comes before")), "{message}");
    }
}

#[test]
fn what_the_record_lacks_is_an_error_that_names_it() {
    let without = |section: &str, field: &str| {
        let mut records = samples();
        records[1].json[section].as_object_mut().unwrap().remove(field);
        PAGES.each_ref().map(|page| page.rewritten(&text_of(page), &records).map(drop))
    };
    let full = |section: &str, field: &str| without(section, field)[1].clone().unwrap_err();
    assert!(full("machine", "cpus").contains("cpus"));
    assert!(full("drift", "watched_s").contains("drift.watched_s"));
    assert!(full("order", "plain").contains("plain.backward"));
    assert!(full("spans", "spans").contains("spans.spans"));
    assert!(full("accuracy_reader", "outside").contains("outside"));
    let short = |section: &str, field: &str| without(section, field)[0].clone().unwrap_err();
    assert!(short("cost", "clocks").contains("clocks"));
    assert!(short("startup", "hello").contains("startup.hello"));
    assert!(short("accuracy_thread", "bound_violated").contains("bound_violated"));
}
