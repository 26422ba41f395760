#!/usr/bin/env bash
# Builds and tests the contracts: format, the committed artifacts, all tests, what each
# step costs, and how much of the code the tests reach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PATH="$PWD/node_modules/.bin:$PATH"

# The least share of lines and branches, in percent, that tests must reach in each file.
least=95

forge fmt --check
forge build --sizes >/dev/null
node artifacts.mjs --check
forge test --gas-snapshot-check=true

# Another compilation, without the optimizer: what it costs says nothing, and invariants
# reach nothing that the other tests do not.
report=$(forge coverage --ir-minimum --gas-snapshot-emit=false --no-match-contract 'Gas|Invariants' --exclude-tests)
grep '|' <<<"$report" | grep -E '% Lines|\.sol|Total'
awk -F'|' -v least="$least" '
  /\.sol|Total/ {
    split($3, lines, "%"); split($5, branches, "%")
    if (lines[1] + 0 < least || branches[1] + 0 < least) { print "too little is tested:" $2; bad = 1 }
    seen = seen || /Total/
  }
  END { if (!seen) { print "no coverage was measured"; bad = 1 } exit bad }' <<<"$(grep '|' <<<"$report")"
