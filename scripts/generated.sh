#!/usr/bin/env bash
# Ties generated code to its sources by checksum, so that drift is found
# without building the generator. Usage: generated.sh record|check
set -euo pipefail
cd "$(dirname "$0")/.."

out=internal/postgres/dbgen
sums=$out/SHA256SUMS

files() { find sqlc.yaml db/queries db/migrations "$out" -type f ! -name SHA256SUMS | LC_ALL=C sort; }

case "${1:-}" in
record) files | xargs sha256sum >"$sums" ;;
check)
	if ! diff <(files | xargs sha256sum) "$sums"; then
		echo "generated code does not belong to its sources: run 'make generate' and commit the result" >&2
		exit 1
	fi
	;;
*)
	echo "usage: generated.sh record|check" >&2
	exit 2
	;;
esac
