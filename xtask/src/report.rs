//! `cargo xtask report`: opens a report in headless Chromium, at two widths, light and dark. A
//! report fails in these cases (`report.js`):
//!
//! - The browser reports an error.
//! - The report requests anything.
//! - It is wider than the window.
//! - Texts of a chart overlap or are cut off.
//! - Two cards touch.
//! - Its data is wrong.
//!
//! `--screenshot FILE` makes the documentation's picture.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use clap::Args;
use serde::Deserialize;

use crate::command::{command, exit_code, must_succeed, output, words};
use crate::files::{self, read, store};

/// The script that runs before the report's own scripts. It collects errors, requests that the
/// report's policy forbids, and the data for the download. It keeps the data when the report makes
/// its `Blob`: to read a `Blob` is an exchange with another process, and Chromium's virtual time
/// does not wait for it.
const FIRST: &str = "<script>window.faults = []; addEventListener('error', e => faults.push(e.message)); \
    addEventListener('securitypolicyviolation', e => faults.push('request for ' + e.blockedURI)); \
    for (const name of ['error', 'warn', 'log']) console[name] = (...what) => faults.push(name + ' ' + what); \
    window.Blob = class extends Blob { constructor(parts, options) { super(parts, options); \
    window.download = parts.join(''); } };</script>";

/// The widths of a desktop's window and of a telephone's, pixels.
const WIDTHS: [u32; 2] = [1_280, 390];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A report, in place of a new one of this machine
    file: Option<String>,
    /// Makes the documentation's pictures of a new report of this machine
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    screenshot: Option<String>,
}

/// Checks the report in the named file. Without an argument, checks a report of this machine, and a
/// report of an invented machine that shows everything that a report can show.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    if let Some(file) = &arguments.file {
        return print_faults(&files::root().join(file));
    }
    let folder = files::target().join("report");
    files::make_folder(&folder)?;
    let report = folder.join("report.html");
    if let Some(picture) = &arguments.screenshot {
        make_report(&report, Build::Optimised, 20)?;
        take_pictures(&report, picture)?;
        return print_faults(&report);
    }
    make_report(&report, Build::Debug, 2)?;
    // As `cargo test --workspace` has built it.
    let mut test = command("cargo test -q --workspace --bin tickline hostile_facts");
    output(test.env("TICKLINE_WRITE", "1"))?;
    // The test does not know `CARGO_TARGET_DIR`.
    let sample = files::root().join("target/report/sample.html");
    Ok(print_faults(&report)? | print_faults(&sample)?)
}

/// Takes a picture of a report in each scheme.
fn take_pictures(report: &Path, picture: &str) -> Result<(), String> {
    let whole = files::target().join("report/whole.png");
    // The window shows the report up to the end of the charts.
    let mut option = OsString::from("--screenshot=");
    option.push(&whole);
    for (scheme, picture) in [
        (Scheme::Light, picture.to_owned()),
        (Scheme::Dark, picture.replace(".png", "-dark.png")),
    ] {
        must_succeed(
            browser(scheme, report)
                .arg(&option)
                .arg("--window-size=1280,1634"),
        )?;
        // 256 colours are enough for charts, and shrink the file to a third.
        must_succeed(
            command("pngquant --force --output")
                .args([&picture, "--"])
                .arg(&whole),
        )?;
    }
    Ok(())
}

/// How the program is built.
#[derive(Debug, Clone, Copy)]
enum Build {
    Debug,
    Optimised,
}

/// Makes a report of this machine. Useful figures need an optimised program and a long watch.
fn make_report(report: &Path, build: Build, secs: u32) -> Result<(), String> {
    let mut run = match build {
        Build::Debug => command("cargo run -q -p tickline-cli -- report"),
        Build::Optimised => command("cargo run -q -p tickline-cli --release -- report"),
    };
    run.arg(format!("--duration={secs}s"))
        .arg("--out")
        .arg(report);
    match exit_code(&mut run)? {
        // The code is 1 if this machine's counter cannot be used. There is a report anyway.
        0 | 1 => Ok(()),
        code => Err(format!("`{}`: exit code {code}", words(&run))),
    }
}

/// Prints the faults of a report, at each width and in each scheme. Returns 1 if there is a fault.
fn print_faults(report: &Path) -> Result<u8, String> {
    let text = read(report)?;
    let (head, body) = text.split_once("<head>").ok_or("the report has no head")?;
    let (body, end) = body
        .rsplit_once("</body>")
        .ok_or("the report has no body")?;
    let judged = report.with_extension("judged.html");
    store(
        &judged,
        &format!(
            "{head}<head>{FIRST}{body}<script>{}</script></body>{end}",
            include_str!("report.js")
        ),
    )?;
    let mut code = 0;
    for width in WIDTHS {
        for scheme in [Scheme::Light, Scheme::Dark] {
            let mut browser = browser(scheme, &judged);
            browser.arg(format!("--window-size={width},900"));
            let dom = output(browser.args(["--virtual-time-budget=10000", "--dump-dom"]))?;
            let faults = faults(&dom, scheme)?;
            println!(
                "{}, {width} pixels, dark: {}: {} faults",
                report.display(),
                scheme == Scheme::Dark,
                faults.len()
            );
            for fault in &faults {
                println!("FAULT {fault}");
            }
            code |= u8::from(!faults.is_empty());
        }
    }
    Ok(code)
}

/// The command that opens a page in a scheme; further options follow.
fn browser(scheme: Scheme, page: &Path) -> Command {
    let mut browser = command("chromium --headless --no-sandbox --disable-gpu --hide-scrollbars");
    let scheme = scheme.of_chromium();
    browser
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(page);
    browser
}

/// A color scheme of the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    /// Chromium's number (`blink::mojom::PreferredColorScheme`).
    const fn of_chromium(self) -> u8 {
        match self {
            Self::Dark => 0,
            Self::Light => 1,
        }
    }
}

/// What `report.js` leaves in a report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    faults: Vec<String>,
    #[serde(rename = "isDark")]
    is_dark: bool,
}

/// The faults of a report that the browser has shown in a scheme.
fn faults(dom: &str, scheme: Scheme) -> Result<Vec<String>, String> {
    let found = dom
        .split_once("id=\"faults\">")
        .and_then(|(_, rest)| rest.split_once("</script>"));
    let (json, _) = found.ok_or("the report was not judged")?;
    let mut judged: Judged = serde_json::from_str(json)
        .map_err(|error| format!("the report was not judged: {error}"))?;
    if judged.is_dark != (scheme == Scheme::Dark) {
        let fault = "the browser did not use the scheme";
        judged.faults.push(fault.to_owned());
    }
    Ok(judged.faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The faults of a report in which `report.js` has left this.
    fn faults_of(json: &str, scheme: Scheme) -> Vec<String> {
        let dom = format!("<body><script id=\"faults\">{json}</script></body>");
        faults(&dom, scheme).unwrap()
    }

    const LIGHT: &str = "{\"faults\":[],\"isDark\":false}";
    const DARK: &str = "{\"faults\":[],\"isDark\":true}";

    #[test]
    fn a_report_in_which_nothing_is_found_has_no_fault() {
        assert_eq!(faults_of(LIGHT, Scheme::Light), [""; 0]);
        assert_eq!(faults_of(DARK, Scheme::Dark), [""; 0]);
    }

    #[test]
    fn what_the_browser_finds_is_a_fault() {
        let left = "{\"faults\":[\"request for a.org\"],\"isDark\":false}";
        assert_eq!(faults_of(left, Scheme::Light), ["request for a.org"]);
    }

    #[test]
    fn another_scheme_than_that_of_the_browser_is_a_fault() {
        let fault = ["the browser did not use the scheme"];
        assert_eq!(faults_of(DARK, Scheme::Light), fault);
        assert_eq!(faults_of(LIGHT, Scheme::Dark), fault);
    }

    #[test]
    fn a_report_that_was_not_judged_has_not_passed() {
        for dom in ["<body></body>", "<script id=\"faults\"></script>", ""] {
            assert!(
                faults(dom, Scheme::Light)
                    .unwrap_err()
                    .starts_with("the report was not judged")
            );
        }
    }
}
