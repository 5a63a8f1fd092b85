//! Chromium without a window, controlled over two pipes (`--remote-debugging-pipe`). Messages are
//! JSON, each ended by a zero byte (the DevTools protocol:
//! <https://chromedevtools.github.io/devtools-protocol/>).

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Names under which it is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser with one tab.
#[derive(Debug)]
pub(super) struct Browser {
    child: Child,
    commands: File,
    messages: BufReader<File>,
    session: String,
    last_id: u64,
    events: Vec<Value>,
}

/// Whether there is one.
pub(super) fn name() -> Option<&'static str> {
    let works = |name: &&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    NAMES.into_iter().find(works)
}

impl Browser {
    /// Its pipes and its profile are kept in `folder`; `options` are further ones of Chromium's.
    pub(super) fn start(folder: &Path, options: &[&str]) -> Result<Self, String> {
        let name = name().ok_or_else(|| format!("none of {} works here", NAMES.join(", ")))?;
        fs::create_dir_all(folder).map_err(text)?;
        for pipe in ["commands", "messages"] {
            fs::remove_file(folder.join(pipe)).ok();
            let made = Command::new("mkfifo").arg(folder.join(pipe)).status().map_err(text)?;
            made.success().then_some(()).ok_or("mkfifo failed")?;
        }
        // Chromium reads commands from descriptor 3 and writes messages to 4; the shell opens
        // them. As root it has no sandbox.
        let line = "exec \"$0\" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
                    --user-data-dir=profile --remote-debugging-pipe \"$@\" about:blank 3<commands 4>messages";
        let mut shell = Command::new("sh");
        shell.args(["-c", line, name]).args(options).current_dir(folder);
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(text)?;
        // In the order of the shell, because opening a pipe waits for its other end.
        let commands = File::options().write(true).open(folder.join("commands")).map_err(text)?;
        let messages = BufReader::new(File::open(folder.join("messages")).map_err(text)?);
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Self { child, commands, messages, session, last_id: 0, events };
        let tab = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attached = browser
            .call("Target.attachToTarget", &json!({ "targetId": tab["targetId"], "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method, and waits for the answer; keeps the events that come meanwhile.
    pub(super) fn call(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.commands.write_all(format!("{message}\0").as_bytes()).map_err(text)?;
        loop {
            let mut answer = self.message()?;
            if answer["id"] != self.last_id {
                self.events.push(answer);
            } else if answer["error"].is_null() {
                return Ok(answer["result"].take());
            } else {
                return Err(format!("{method}: {}", answer["error"]));
            }
        }
    }

    /// The value of an expression in the page, of a promise once it is kept.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        match answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].take()),
            ref exception => Err(format!("{expression}: {exception}")),
        }
    }

    /// Opens a page, and waits until it is loaded. Returns the browser's errors and the page's
    /// requests.
    pub(super) fn open(&mut self, address: &str) -> Result<Vec<String>, String> {
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": address }))?;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.message()?;
            self.events.push(event);
        }
        // Drawing the page may cause more requests.
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))")?;
        Ok(self.events.iter().filter_map(|event| objection(event, address)).collect())
    }

    fn message(&mut self) -> Result<Value, String> {
        let mut bytes = Vec::new();
        self.messages.read_until(0, &mut bytes).map_err(text)?;
        bytes.pop().ok_or("the browser has ended")?;
        serde_json::from_slice(&bytes).map_err(text)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session.clear();
        self.call("Browser.close", &json!({})).ok();
        self.child.wait().ok();
    }
}

/// What is wrong with an event, if anything is.
fn objection(event: &Value, address: &str) -> Option<String> {
    let parameters = &event["params"];
    match event["method"].as_str()? {
        "Runtime.consoleAPICalled" => Some(format!("console: {}", parameters["args"])),
        "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
        "Log.entryAdded" => Some(format!("log: {}", parameters["entry"]["text"])),
        "Network.requestWillBeSent" => {
            let asked = parameters["request"]["url"].as_str()?;
            let own = asked == address || asked.starts_with("data:");
            (!own).then(|| format!("request for {asked}"))
        }
        _ => None,
    }
}

/// Stores data that the protocol sends as base64.
pub(super) fn store(data: &Value, path: &Path) -> Result<(), String> {
    let data = data.as_str().ok_or("no data")?;
    fs::write(path, decoded(data).ok_or("no base64")?).map_err(text)
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    let digits = base64.bytes().filter(|byte| *byte != b'=').map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let digits: Vec<u8> = digits.collect::<Option<_>>()?;
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let bits =
            chunk.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - chunk.len()));
        bits.to_be_bytes()[1..chunk.len()].to_vec()
    });
    Some(bytes.collect())
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        for (base64, text) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmE=", "fooba")]
        {
            assert_eq!(decoded(base64).unwrap(), text.as_bytes());
        }
        assert_eq!(decoded("?"), None);
    }

    #[test]
    fn what_the_browser_says_is_an_objection() {
        let page = "file:///page.html";
        let event =
            |method: &str, url: &str| json!({ "method": method, "params": { "request": { "url": url } } });
        assert_eq!(objection(&event("Network.requestWillBeSent", page), page), None);
        assert!(objection(&event("Network.requestWillBeSent", "https://example.org/"), page).is_some());
        assert!(objection(&event("Runtime.consoleAPICalled", ""), page).is_some());
        assert_eq!(objection(&event("Page.loadEventFired", ""), page), None);
    }
}
