#!/usr/bin/env bash
# Installs what is missing on a Debian machine as root; otherwise names it in
# one line. Usage: deps.sh run|test
set -euo pipefail

what=${1:-test}
missing=()

have_postgres() {
	command -v postgres >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null ||
		compgen -G '/usr/pgsql-*/bin/postgres' >/dev/null || compgen -G '/opt/homebrew/opt/postgresql*/bin/postgres' >/dev/null
}

command -v go >/dev/null || {
	echo "deps: Go is missing: install Go 1.26 or newer and put it on the PATH" >&2
	exit 1
}
minor=$(go env GOVERSION | sed -nE 's/^go1\.([0-9]+).*/\1/p')
[ "${minor:-26}" -ge 26 ] || {
	echo "deps: $(go env GOVERSION) is too old: install Go 1.26 or newer" >&2
	exit 1
}
have_postgres || missing+=(postgresql)
if [ "$what" = test ]; then
	command -v redis-server >/dev/null || missing+=(redis-server) # the shared cache is tested on a real one
	command -v gcc >/dev/null || missing+=(gcc libc6-dev) # the race detector needs cgo
	command -v git >/dev/null || missing+=(git)
	command -v curl >/dev/null || missing+=(curl)
	[ "$(id -u)" != 0 ] || command -v runuser >/dev/null || missing+=(util-linux)
	command -v chromium >/dev/null || missing+=(chromium fonts-liberation) # the pages are tested in a real browser
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "deps: installing ${missing[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-upgrade "${missing[@]}" >/dev/null
	exit 0
fi
echo "deps: missing: ${missing[*]}. On Debian or Ubuntu:" >&2
echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
exit 1
