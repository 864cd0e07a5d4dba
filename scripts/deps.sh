#!/usr/bin/env bash
# Installs what is missing on a Debian machine as root; otherwise names it in
# one line. Usage: deps.sh run|test
set -euo pipefail

what=${1:-test}
missing=()
cd "$(dirname "$0")/.."

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

if [ ${#missing[@]} -gt 0 ]; then
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
		echo "deps: missing: ${missing[*]}. On Debian or Ubuntu:" >&2
		echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
		exit 1
	}
	echo "deps: installing ${missing[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-upgrade "${missing[@]}" >/dev/null
fi

# unpack puts programs of a Debian package into bin/. Installing the package
# would also start its server, which listens on every address, and add its user
# and web pages; nothing here needs them.
unpack() {
	local package=$1 dir absent=()
	shift
	for program in "$@"; do
		[ -x "bin/$program" ] || command -v "$program" >/dev/null || absent+=("$program")
	done
	[ ${#absent[@]} -gt 0 ] || return 0
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' RETURN
	echo "deps: unpacking ${absent[*]} from Debian's $package into bin/"
	(cd "$dir" && { fetch "$package" 2>/dev/null || { [ "$(id -u)" != 0 ] || apt-get update -qq; fetch "$package"; }; } && dpkg-deb -x ./*.deb .) || {
		echo "deps: that failed: put ${absent[*]} on the PATH or into bin/, or run sudo apt-get update first" >&2
		return 1
	}
	mkdir -p bin
	for program in "${absent[@]}"; do
		mv "$dir/usr/bin/$program" "bin/$program"
	done
}

# fetch needs no rights; root fetches as itself, because apt's own user may not
# enter the directory.
fetch() { apt-get download -qq -o APT::Sandbox::User=root "$1"; }

if [ "$what" = test ]; then
	unpack prometheus promtool            # judges the alerts and tests them
	unpack prometheus-alertmanager amtool # judges who is told of them
fi
