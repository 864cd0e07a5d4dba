#!/usr/bin/env bash
# Ties generated code to its sources by checksum, so that drift is found
# without building the generator. Usage: generated.sh record|check
set -euo pipefail
cd "$(dirname "$0")/.."

# sources lists the generated code that lies in a directory with everything it
# is made from.
sources() {
	case "$1" in
	internal/postgres/dbgen) find sqlc.yaml db/queries db/migrations "$1" -type f ! -name SHA256SUMS ;;
	internal/contextasm/contextpb) find "$1" -type f ! -name SHA256SUMS ;;
	web/templates) find "$1" -type f \( -name '*.templ' -o -name '*_templ.go' \) ;;
	esac | LC_ALL=C sort
}

each() {
	local failed=0
	for out in internal/postgres/dbgen internal/contextasm/contextpb web/templates; do "$1" "$out" || failed=1; done
	return $failed
}

record() { sources "$1" | xargs sha256sum >"$1/SHA256SUMS"; }

check() {
	diff <(sources "$1" | xargs sha256sum) "$1/SHA256SUMS" && return
	echo "$1 does not belong to its sources: run 'make generate' and commit the result" >&2
	return 1
}

case "${1:-}" in
record | check) each "$1" ;;
*)
	echo "usage: generated.sh record|check" >&2
	exit 2
	;;
esac
