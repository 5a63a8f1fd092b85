//! The pages for operators in the package, and their links.

/// Where readers of an installed page find the repository.
const URL: &str = "https://github.com/tickline/tickline/blob/main";

/// The folder and the name of each page for operators in the package.
pub(super) const PAGES: [(&str, &str); 4] = [
    ("machine/docs", "operators.md"),
    ("machine/docs", "fleet.md"),
    ("machine/docs", "right_time.md"),
    ("machine", "SECURITY.md"),
];

/// The other files in the package to which these pages link.
const BESIDE_PAGES: [&str; 3] = ["alerts.yaml", "dashboard.json", "kubernetes.yaml"];

/// A page of this folder, as the package has it. Its links to files outside of the package are
/// URLs. Its links to the package's pages of the folder above lead to the page beside it.
pub(super) fn with_urls(folder: &str, page: &str) -> String {
    let is_beside = |file: &str| PAGES.contains(&(folder, file)) || BESIDE_PAGES.contains(&file);
    let (above, _) = folder.rsplit_once('/').unwrap_or_default();
    // The package has all pages in one folder.
    let from_above = |link: &str| {
        let link = link.strip_prefix("../")?;
        let file = link.split(['#', ')']).next().unwrap_or_default();
        PAGES.contains(&(above, file)).then(|| link.to_owned())
    };
    let mut parts = page.split("](");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        linked += "](";
        if let Some(link) = from_above(part) {
            linked += &link;
            continue;
        }
        let file = part.split(['#', ')']).next().unwrap_or_default();
        if !file.is_empty() && !file.contains("://") && !is_beside(file) {
            linked += &format!("{URL}/{folder}/");
        }
        linked += part;
    }
    linked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    /// Symptom: 13 of 18 links of the installed page were dead.
    #[test]
    fn a_link_to_a_file_that_is_not_installed_is_a_url() {
        let page = "[a](#a) [b](alerts.yaml) [c](https://x.y) [d](lease.md#d) [e](../e.md) \
                    [f](../SECURITY.md#g) (f.md)";
        let linked = with_urls("machine/docs", page);
        let expected = "[a](#a) [b](alerts.yaml) [c](https://x.y) [d](URL/lease.md#d) \
                        [e](URL/../e.md) [f](SECURITY.md#g) (f.md)";
        assert_eq!(
            linked,
            expected.replace("URL", &format!("{URL}/machine/docs"))
        );
    }

    #[test]
    fn the_package_has_the_pages_with_these_links() {
        let manifest = files::read("machine/tickline-cli/Cargo.toml").unwrap();
        for (_, page) in PAGES {
            let asset = format!("[\"target/release/package/{page}\", \"usr/share/doc/tickline/\"");
            assert!(manifest.contains(&asset), "{page}");
        }
    }
}
