//! `cargo xtask page`: opens a report in headless Chromium, at two widths, light and dark, and prints it. A page fails if the
//! browser has something to say about it, if it asks for anything from anywhere, if it is wider than the window, if
//! texts of a chart overlap or are cut off, or if its data is not what it should be.

mod browser;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use browser::Browser;

/// Pixels: a desktop's window and a telephone's.
const WIDTHS: [u32; 2] = [1_280, 390];

const SCHEMES: [&str; 2] = ["light", "dark"];

/// What must hold in the page, each an expression that lists what is wrong.
const CHECKS: [(&str, &str); 4] = [
    (
        "wider than the window",
        "[...document.querySelectorAll('body, body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.outerHTML.slice(0, 80))",
    ),
    (
        "overlapping texts",
        "[...document.querySelectorAll('svg')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
            return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
                q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => a + ' / ' + b));
        })",
    ),
    (
        "texts beyond their chart's card",
        "[...document.querySelectorAll('figure svg text')].filter(e => {
            const text = e.getBoundingClientRect(), card = e.closest('figure').getBoundingClientRect();
            return text.left < card.left || text.right > card.right;
        }).map(e => e.textContent)",
    ),
    (
        "data that is not there",
        "(() => {
            const data = JSON.parse(document.getElementById('data').textContent);
            const link = document.getElementById('download');
            return [data.schema === 'tickline/1', data.costs.length > 5, data.track.points.length > 5,
                data.latencies.length == 2, document.querySelectorAll('figure').length >= 3,
                !link.hidden, link.href.startsWith('blob:')].flatMap((ok, i) => ok ? [] : ['condition ' + i]);
        })()",
    ),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/page")
}

/// `--browser` only says whether there is one, so that CI can tell a step that was skipped from one that has passed. Without
/// an argument, a report of this machine is made and opened; else the page that is named.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let result = match arguments {
        ["--browser"] => {
            return if browser::name().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        [] => report().and_then(|page| check(&page)),
        [page] => check(Path::new(page)),
        _ => Err("usage: cargo xtask page [FILE]".to_owned()),
    };
    match result {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in &faults {
                println!("FAULT {fault}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask page: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A report of this machine.
fn report() -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    let page = folder().join("report.html");
    let mut command = Command::new("cargo");
    command.args(["run", "-q", "-p", "tickline-cli", "--", "report", "--secs", "2", "--out"]).arg(&page);
    let status = command.status().map_err(|error| error.to_string())?;
    // 1 is a machine whose counter cannot be used: its report is a page, too.
    match status.code() {
        Some(0 | 1) => Ok(page),
        _ => Err(format!("tickline report: {status}")),
    }
}

/// What is wrong with the page, everywhere.
fn check(page: &Path) -> Result<Vec<String>, String> {
    let path = page.canonicalize().map_err(|error| format!("{}: {error}", page.display()))?;
    let address = format!("file://{}", path.display());
    let mut browser = Browser::start(&folder())?;
    let mut faults = Vec::new();
    for width in WIDTHS {
        for scheme in SCHEMES {
            let seen = look(&mut browser, &address, width, scheme)?;
            println!("{width} pixels, {scheme}: {} faults", seen.len());
            faults.extend(seen.into_iter().map(|fault| format!("at {width} pixels, {scheme}: {fault}")));
        }
    }
    let printed = browser.call("Page.printToPDF", &json!({ "preferCSSPageSize": true }))?;
    browser::store(&printed["data"], &folder().join("report.pdf"))?;
    println!("screenshots and a print are in target/page");
    Ok(faults)
}

/// Opens the page and looks at it.
fn look(browser: &mut Browser, address: &str, width: u32, scheme: &str) -> Result<Vec<String>, String> {
    let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", &screen)?;
    let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    browser.call("Emulation.setEmulatedMedia", &media)?;
    let mut faults = browser.open(address)?;
    for (name, expression) in CHECKS {
        let found = browser.evaluate(expression)?;
        let list = found.as_array().ok_or_else(|| format!("{name}: {found}"))?;
        faults.extend(list.iter().map(|what| format!("{name}: {}", what.as_str().unwrap_or_default())));
    }
    let dark = browser.evaluate("getComputedStyle(document.body).color.match(/\\d+/g)[0] > 128")?;
    if dark != Value::Bool(scheme == "dark") {
        faults.push("the colours are those of the other scheme".to_owned());
    }
    let picture = browser.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }))?;
    browser::store(&picture["data"], &folder().join(format!("{width}-{scheme}.png")))?;
    Ok(faults)
}
