#!/usr/bin/env bash
# Second step of action.yml: judges the paths, annotates them, and leaves report and SARIF for later steps. It does not fail
# itself, so that the SARIF is uploaded first; the last step does.
set -euo pipefail
: "${RUNNER_TEMP:?}" "${GITHUB_OUTPUT:?}" "${GITHUB_STEP_SUMMARY:?}"
paths=()
while IFS= read -r path; do
    path="${path#"${path%%[![:space:]]*}"}"
    path="${path%"${path##*[![:space:]]}"}"
    [ -z "$path" ] || paths+=("$path")
done <<<"${PATHS:-}"
if [ "${#paths[@]}" -eq 0 ]; then
    echo "::error title=dynamo-interconnect-check::the input paths is empty; name files or directories, one a line"
    exit 2
fi
options=()
[ -z "${FAIL_ON:-}" ] || options+=(--fail-on "$FAIL_ON")
[ -z "${CONFIG:-}" ] || options+=(--config "$CONFIG")
out=$(mktemp -d "$RUNNER_TEMP/interconnect-report.XXXXXX")
judge() { dynamo-interconnect-check env "${options[@]}" --output "$1" -- "${paths[@]}"; }
code=0
judge json >"$out/report.json" || code=$?
if [ "$code" -eq 2 ]; then
    # What is wrong stands above, in the words of the tool.
    echo "::error title=dynamo-interconnect-check::the inputs fail-on or config are wrong; the log says how"
    exit 2
fi
# The same run in other words: each ends with the same code.
judge github || [ "$?" -eq "$code" ]
judge markdown >>"$GITHUB_STEP_SUMMARY" || [ "$?" -eq "$code" ]
judge sarif >"$out/report.sarif" || [ "$?" -eq "$code" ]
# The member of the report itself, and none of a deployment in it.
trust=$(sed -n 's/^  "trust": "\([a-z-]*\)",\{0,1\}$/\1/p' "$out/report.json")
{
    echo "trust=$trust"
    echo "exit-code=$code"
    echo "report=$out/report.json"
    echo "sarif=$out/report.sarif"
} >>"$GITHUB_OUTPUT"
