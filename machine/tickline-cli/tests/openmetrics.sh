#!/bin/sh
# Checks that Prometheus' two parsers accept the stored outputs of `doctor --openmetrics` and of `serve status --openmetrics`,
# and the outputs for this machine and for each recorded machine, and refuse a damaged file. The client for Python parses OpenMetrics. promtool parses the
# older text format, and also checks names. promtool then checks the alert rules, runs their tests, and checks the
# expressions of the dashboard.
set -u
tests=machine/tickline-cli/tests
docs=machine/docs
stored=$tests/data/openmetrics_expected.txt
stored_page=$tests/data/openmetrics_page_expected.txt
program=${CARGO_TARGET_DIR:-target}/debug/tickline
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

openmetrics() {
    /usr/bin/python3 -c "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
counts = [len(list(families(open(name).read()))) for name in sys.argv[1:]]
print(len(counts), 'files have', sum(counts), 'families')" "$@"
}

text_format() {
    for file in "$@"; do
        promtool check metrics <"$file" || return 1
    done
}

cargo run -q -p tickline-cli -- doctor --openmetrics - >"$folder/live"
# The exit code is 1 if a gate is closed or a clock is slow.
[ $? -le 1 ] || exit 1
# Without a page the exit code is 2, and the figures say so.
cargo run -q -p tickline-cli -- serve status --page "$folder/page" --openmetrics - >"$folder/live_page" 2>/dev/null
[ $? -eq 2 ] || exit 1
for facts in "$tests"/facts/*.json; do
    "$program" doctor --facts "$facts" --openmetrics - >"$folder/recorded.$(basename "$facts" .json)"
    [ $? -le 1 ] || exit 1
done
sed 's/level="ok"/level="ok/' $stored >"$folder/damaged"
for parser in openmetrics text_format; do
    $parser $stored $stored_page "$folder"/live* "$folder"/recorded.* || { echo "FAILED by $parser" && exit 1; }
    $parser "$folder/damaged" >/dev/null 2>&1 && echo "FAILED: $parser accepts a damaged file" && exit 1
    echo "$parser accepts all, and refuses a damaged file"
done

promtool check rules $docs/alerts.yaml || { echo "FAILED: promtool does not accept the alerts" && exit 1; }
promtool test rules $tests/alerts_test.yaml || { echo "FAILED: the alerts say something else" && exit 1; }
/usr/bin/python3 -c "
import json, sys
panels = json.load(open(sys.argv[1]))['panels']
expressions = [target['expr'] for panel in panels for target in panel['targets']]
rules = [{'record': f'panel:{number}', 'expr': text} for number, text in enumerate(expressions)]
json.dump({'groups': [{'name': 'panels', 'rules': rules}]}, open(sys.argv[2], 'w'))
" $docs/dashboard.json "$folder/panels.yaml" || exit 1
promtool check rules "$folder/panels.yaml" || { echo "FAILED: promtool does not accept the dashboard" && exit 1; }
