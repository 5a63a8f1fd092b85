//! The lane `check`: checks for each commit, the cheap ones first.

use super::{published, workspaces};
use crate::step::Step;

pub(super) fn steps() -> Vec<Step> {
    // rustfmt would change no file, first of the workspace, then of those beside it.
    let mut steps = vec![Step::new("format", ["cargo", "fmt", "--all", "--check"])];
    steps.extend(workspaces::format());
    steps.extend(texts());
    steps.extend(builds_and_tests());
    steps
}

/// Scripts and the workflow, which need no build.
fn texts() -> Vec<Step> {
    vec![
        // shellcheck finds no fault.
        Step::new("the shell scripts", ["shellcheck", ".ci/run"])
            .args(["machine/tickline-cli/facts.sh"])
            .args(["machine/tickline-cli/debian/postrm"])
            .args(["machine/tickline-cli/openrc/tickline"])
            .args(["machine/tickline-cli/tests/openmetrics.sh"])
            .args(["tests/vm/programs/disks.sh"])
            .needs(["shellcheck", "--version"]),
        // actionlint finds no fault in `.github/workflows/`.
        Step::new("the workflow of the forge", ["actionlint"]).needs(["actionlint", "-version"]),
    ]
}

fn builds_and_tests() -> Vec<Step> {
    vec![
        // Everything compiles with all features, without a warning.
        Step::new("clippy", ["cargo", "clippy", "--workspace"])
            .args(["--all-targets", "--all-features"])
            .args(["--", "-D", "warnings"]),
        // rustdoc finds no broken link in the documentation of the published crates.
        Step::new("docs", ["cargo", "doc", "--no-deps", "--all-features"])
            .args(published())
            .env("RUSTDOCFLAGS", "-D warnings"),
        // This takes ten seconds.
        Step::new(
            "a hello-world is little larger than with std",
            ["cargo", "xtask", "size"],
        ),
        // The command that the README names passes.
        Step::new("tests, as in the README", ["cargo", "test"])
            .args(["--workspace", "--no-fail-fast"])
            .args(["--", "--show-output"]),
        // Two parsers accept the metrics of the program. This takes two seconds, with Debian's
        // packages python3-prometheus-client and prometheus.
        Step::new("OpenMetrics by two parsers", ["sh"])
            .args(["machine/tickline-cli/tests/openmetrics.sh"])
            .needs(["promtool", "--version"])
            .needs([
                "/usr/bin/python3",
                "-m",
                "prometheus_client.openmetrics.parser",
            ]),
        // A changed public item is in `docs/api/`. The tool must also be able to read the output of
        // this nightly compiler.
        Step::new("public API, as stored", ["cargo", "xtask", "api"])
            .needs(["cargo", "+nightly", "public-api", "--version"])
            .prepare_by([
                "cargo",
                "+nightly",
                "public-api",
                "-p",
                "tickline-core",
                "--target",
                "x86_64-unknown-linux-gnu",
                "-ss",
            ]),
    ]
}
