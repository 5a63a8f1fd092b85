//! `cargo xtask page`: opens a report in headless Chromium, at two widths, light and dark, and
//! prints it. A page fails if the browser reports an error, if the page requests anything, if it
//! is wider than the window, if texts of a chart overlap or are cut off, or if its data is not
//! what it should be. `--screenshot FILE` makes the picture of the documentation.

mod browser;
mod trace;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use browser::Browser;

/// Pixels: a desktop's window and a telephone's.
const WIDTHS: [u32; 2] = [1_280, 390];

const SCHEMES: [&str; 2] = ["light", "dark"];

/// The checks of a page: each is an expression that lists faults.
const CHECKS: [(&str, &str); 4] = [
    (
        "wider than the window",
        "[...document.querySelectorAll('body, body *')].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
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
        "beyond its card",
        "[...document.querySelectorAll('.charts > *, .tables > *, .log')].flatMap(card => {
            const edge = card.getBoundingClientRect();
            return [...card.querySelectorAll('*')].filter(e => {
                const inner = e.getBoundingClientRect();
                return inner.width > 0 && (inner.right > edge.right || inner.left < edge.left);
            }).map(e => e.outerHTML.slice(0, 80));
        })",
    ),
    (
        "data that is not there",
        "(() => {
            const data = JSON.parse(document.getElementById('data').textContent);
            const link = document.getElementById('download');
            return [data.schema === 'tickline/2', data.costs.length > 5, data.track.points.length > 5,
                data.latencies.length == 2, document.querySelectorAll('figure').length >= 3,
                !link.hidden, link.href.startsWith('blob:')].flatMap((ok, i) => ok ? [] : ['condition ' + i]);
        })()",
    ),
];

/// The lower end of the charts, in pixels of the page: the picture for the documentation ends
/// there.
const END_OF_CHARTS: &str =
    "document.querySelector('.charts').getBoundingClientRect().bottom + window.scrollY";

/// Faults that are printed.
const SHOWN: usize = 40;

fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf);
    root.join("target/page")
}

/// `--browser` only says whether there is one, so that CI can tell a step that was skipped from
/// one that has passed. Without an argument, a report of this machine and a sample are made and
/// checked; with a file's name, that page is. `--screenshot` stores the upper part of a report of
/// this machine. `trace` opens a trace of tickline-tracing in a viewer.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let result = match arguments {
        ["--browser"] => {
            return if browser::name().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        [] => report(Build::Debug).and_then(|report| check(&[report, sample()?])),
        ["--screenshot", picture] => {
            report(Build::Release).and_then(|report| screenshot(&report, Path::new(picture)))
        }
        ["trace"] => trace::check(&folder(), None),
        ["trace", "--screenshot", picture] => trace::check(&folder(), Some(Path::new(picture))),
        [page] if !page.starts_with('-') => check(&[PathBuf::from(page)]),
        _ => Err("usage: cargo xtask page [FILE | trace] [--screenshot FILE]".to_owned()),
    };
    match result {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in faults.iter().take(SHOWN) {
                println!("FAULT {fault}");
            }
            println!("{} faults, the first of them above", faults.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask page: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How the program is built that makes the report. A release build is for figures; it also
/// watches the clock for longer.
#[derive(Debug, Clone, Copy)]
enum Build {
    Debug,
    Release,
}

/// A report of this machine.
fn report(build: Build) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    let page = folder().join("report.html");
    let mut command = Command::new("cargo");
    command.args(["run", "-q", "-p", "tickline-cli"]);
    let secs = match build {
        Build::Debug => "2",
        Build::Release => {
            command.arg("--release");
            "20"
        }
    };
    command.args(["--", "report", "--secs", secs, "--out"]).arg(&page);
    let status = command.status().map_err(|error| error.to_string())?;
    // 1 is a machine whose counter cannot be used: its report is a page, too.
    match status.code() {
        Some(0 | 1) => Ok(page),
        _ => Err(format!("tickline report: {status}")),
    }
}

/// The page of an invented machine with everything that a page can show.
fn sample() -> Result<PathBuf, String> {
    let page = folder().join("sample.html");
    let mut command = Command::new("cargo");
    command.args(["test", "-q", "-p", "tickline-cli", "--bins", "hostile_facts"]).stdout(Stdio::null());
    let status = command.env("TICKLINE_WRITE_PAGE", &page).status().map_err(|error| error.to_string())?;
    if status.success() {
        Ok(page)
    } else {
        Err(format!("the test that writes {}: {status}", page.display()))
    }
}

/// The faults of the pages, at each width and in each scheme. Leaves screenshots and prints of
/// them in the folder.
fn check(pages: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut browser = Browser::start(&folder(), &[])?;
    let mut faults = Vec::new();
    for page in pages {
        let path = page.canonicalize().map_err(|error| format!("{}: {error}", page.display()))?;
        let address = format!("file://{}", path.display());
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (width, scheme) in WIDTHS.into_iter().flat_map(|width| SCHEMES.map(|scheme| (width, scheme))) {
            let name = format!("{stem}-{width}-{scheme}");
            let seen = look(&mut browser, &address, (width, scheme), &folder().join(format!("{name}.png")))?;
            println!("{name}: {} faults", seen.len());
            faults.extend(seen.into_iter().map(|fault| format!("{name}: {fault}")));
        }
        faults.extend(download(&mut browser)?.map(|fault| format!("{stem}: {fault}")));
        let printed = browser.call("Page.printToPDF", &json!({ "preferCSSPageSize": true }))?;
        browser::store(&printed["data"], &folder().join(format!("{stem}.pdf")))?;
    }
    println!("screenshots and prints are in {}", folder().display());
    Ok(faults)
}

/// Stores a picture of the page from its top to the end of the charts. Returns the page's faults,
/// as [`look`] does.
fn screenshot(page: &Path, picture: &Path) -> Result<Vec<String>, String> {
    let mut browser = Browser::start(&folder(), &[])?;
    let path = page.canonicalize().map_err(|error| format!("{}: {error}", page.display()))?;
    let [width, _] = WIDTHS;
    let whole = folder().join("whole.png");
    let faults = look(&mut browser, &format!("file://{}", path.display()), (width, SCHEMES[0]), &whole)?;
    let end = browser.evaluate(END_OF_CHARTS)?;
    let height = end.as_f64().ok_or_else(|| format!("the end of the charts: {end}"))?.ceil();
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    store_picture(&mut browser, &json!({ "captureBeyondViewport": true, "clip": clip }), picture)?;
    Ok(faults)
}

/// Stores what the browser shows, as a picture for the documentation.
fn store_picture(browser: &mut Browser, what: &Value, picture: &Path) -> Result<(), String> {
    let seen = browser.call("Page.captureScreenshot", what)?;
    browser::store(&seen["data"], picture)?;
    // 256 colours are enough for charts, and make a third of the file.
    let small =
        Command::new("pngquant").args(["--force", "--output"]).arg(picture).arg("--").arg(picture).status();
    let how =
        if small.is_ok_and(|status| status.success()) { "" } else { "; smaller with pngquant installed" };
    println!("{}{how}", picture.display());
    Ok(())
}

/// Opens the page and checks it. Returns its faults.
fn look(
    browser: &mut Browser,
    address: &str,
    (width, scheme): (u32, &str),
    picture: &Path,
) -> Result<Vec<String>, String> {
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
    let seen = browser.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }))?;
    browser::store(&seen["data"], picture)?;
    Ok(faults)
}

/// Clicks on the link to the data. Returns a fault of the download, if there is one.
fn download(browser: &mut Browser) -> Result<Option<String>, String> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let file = folder().join("tickline.json");
    std::fs::remove_file(&file).ok();
    browser.call("Browser.setDownloadBehavior", &json!({ "behavior": "allow", "downloadPath": folder() }))?;
    browser.evaluate("document.getElementById('download').click()")?;
    let start = Instant::now();
    while !file.exists() {
        if start.elapsed() > PATIENCE {
            return Ok(Some("the data cannot be downloaded".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let stored = std::fs::read(&file).map_err(|error| error.to_string())?;
    let shown = browser.evaluate("document.getElementById('data').textContent")?;
    let same = shown.as_str().is_some_and(|shown| shown.as_bytes() == stored);
    Ok((!same).then(|| "what is downloaded is not the page's data".to_owned()))
}
