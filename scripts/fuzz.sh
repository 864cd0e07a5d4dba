#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

grep -rlE '^func Fuzz' --include='*_test.go' internal cmd | while read -r file; do
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | awk '{print $2}' | while read -r target; do
		echo "== $target ($(dirname "$file"))"
		go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 20x
	done
done
