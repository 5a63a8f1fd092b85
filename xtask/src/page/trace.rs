//! `cargo xtask page trace`: a server's trace in a real viewer, the one that Chromium had at
//! `chrome://tracing` (catapult). Perfetto's viewer is a website, and its trace processor a
//! download from there; both need the network. This viewer is a file in a Python package.
//!
//! The server is `examples/flight_recorder.rs`. The check fails if the viewer warns of anything, or
//! finds other numbers of spans, events and threads than the server says that it has written, or
//! requests without their fields.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::browser::Browser;

/// The packages with the viewer, and with what it needs of browsers of its time.
const VIEWER: &str = "torch-tb-profiler==0.4.3";
const POLYFILL: &str = "webcomponents.js@0.7.24";

/// Loads a trace as the viewer's own page does.
const PAGE: &str = r#"<!DOCTYPE html>
<html><head><meta charset="utf-8">
<style>html, body { margin: 0; width: 100%; height: 100%; overflow: hidden } #viewer { width: 100%; height: 100% }</style>
<script>window.__hideTraceViewerPolyfillWarning = true;</script>
<script src="package/webcomponents.min.js"></script>
<link rel="import" href="torch_tb_profiler/static/trace_viewer_full.html">
<script>
const isReady = new Promise(done => document.addEventListener('WebComponentsReady', done));
async function show(text) {
  await isReady;
  const container = document.createElement('track-view-container');
  container.id = 'track_view_container';
  const viewer = document.createElement('tr-ui-timeline-view');
  viewer.track_view_container = container;
  Polymer.dom(viewer).appendChild(container);
  viewer.id = 'viewer';
  viewer.globalMode = true;
  Polymer.dom(document.body).appendChild(viewer);
  const model = new tr.Model();
  await new tr.importer.Import(model).importTracesWithProgressDialog([text]);
  viewer.model = model;
  viewer.viewTitle = 'examples/flight_recorder.rs';
  const events = [...model.getDescendantEvents()];
  const requests = events.filter(e => e instanceof tr.model.AsyncSlice && e.title === 'request');
  Object.assign(window, { model, viewer, requests });
  return {
    warnings: model.importWarnings.map(warning => warning.message),
    events: events.length,
    threads: model.getAllThreads().filter(thread => thread.sliceGroup.length > 0).length,
    requests: requests.filter(e => e.args.method === 'GET' && e.args.path && e.args.status === 200).length,
  };
}
</script></head><body></body></html>
"#;

/// Selects the slow request, so that the viewer shows its fields.
const SELECT: &str = "(async () => {
    const slow = requests.reduce((a, b) => a.duration > b.duration ? a : b);
    viewer.brushingStateController.changeSelectionFromTimeline(new tr.model.EventSet([slow]));
    await new Promise(done => setTimeout(done, 1500));
})()";

/// Runs the server, and checks its trace. With `picture`, also stores what the viewer shows.
pub(super) fn check(folder: &Path, picture: Option<&Path>) -> Result<Vec<String>, String> {
    let folder = folder.join("trace");
    fs::create_dir_all(&folder).map_err(text)?;
    let folder = folder.canonicalize().map_err(text)?;
    fetch(&folder)?;
    let trace = folder.join("flight.json");
    let said = run(Command::new("cargo")
        .args(["run", "-q", "--release", "-p", "tickline-tracing", "--example", "flight_recorder"])
        .arg(&trace))?;
    let number = |unit: &str| -> Result<u64, String> {
        let mut words = said.split([' ', '\n']).collect::<Vec<_>>().into_iter().rev();
        let found = words.find(|word| word.trim_end_matches(',') == unit).and_then(|_| words.next());
        found.and_then(|word| word.parse().ok()).ok_or_else(|| format!("no number of {unit} in {said:?}"))
    };
    let expected = json!({
        "warnings": [],
        "events": number("spans")? + number("events")?,
        "threads": threads(&trace)?,
        "requests": number("requests")?,
    });

    fs::write(folder.join("viewer.html"), PAGE).map_err(text)?;
    let mut browser = Browser::start(&folder, &["--allow-file-access-from-files"])?;
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        &json!({ "width": 1_280, "height": 560, "deviceScaleFactor": 1, "mobile": false }),
    )?;
    browser.open(&format!("file://{}", folder.join("viewer.html").display()))?;
    let trace = json!(fs::read_to_string(&trace).map_err(text)?);
    let found = browser.evaluate(&format!("show({trace})"))?;
    println!("the server says {expected}\nthe viewer finds {found}");
    if let Some(picture) = picture {
        browser.evaluate(SELECT)?;
        super::store_picture(&mut browser, &json!({}), picture)?;
    }
    let keys = ["warnings", "events", "threads", "requests"];
    let differs = |key: &&&str| found[**key] != expected[**key];
    let fault = |key: &&str| format!("{key}: {} in place of {}", shortened(&found[*key]), expected[*key]);
    Ok(keys.iter().filter(differs).map(fault).collect())
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}

/// Threads with a busy interval, by the file itself.
fn threads(trace: &Path) -> Result<usize, String> {
    let events: Vec<Value> = serde_json::from_slice(&fs::read(trace).map_err(text)?).map_err(text)?;
    let begins = events.iter().filter(|event| event["ph"] == "B");
    let mut threads: Vec<_> = begins.filter_map(|event| event["tid"].as_u64()).collect();
    threads.sort_unstable();
    threads.dedup();
    Ok(threads.len())
}

/// Gets the viewer, unless it is there.
fn fetch(folder: &Path) -> Result<(), String> {
    if !folder.join("torch_tb_profiler").exists() {
        run(Command::new("pip")
            .args(["install", "-q", "--no-deps", "--target", ".", VIEWER])
            .current_dir(folder))?;
    }
    if !folder.join("package").exists() {
        run(Command::new("npm").args(["pack", "--silent", POLYFILL]).current_dir(folder))?;
        let packed: PathBuf = POLYFILL.replace('@', "-").into();
        run(Command::new("tar").arg("xzf").arg(packed.with_extension("24.tgz")).current_dir(folder))?;
    }
    Ok(())
}

/// Returns what the command prints.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
