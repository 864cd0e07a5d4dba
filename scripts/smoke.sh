#!/usr/bin/env bash
# What a newcomer does, on a fresh clone: make run, the printed curl, kill -9,
# make run again, and the first call is still in the database. As root it is
# done twice: under a directory that only root may enter, and as an ordinary
# user; otherwise once, as whoever runs it.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
[ "${1:-}" != inner ] || { shift; smoke_inner=1; }

# free_port asks the kernel for a port that nobody uses.
free_port() { python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])' 2>/dev/null || shuf -i 20000-30000 -n 1; }

# stop_group ends a gateway that this script started, and what it started.
stop_group() { kill "-$2" -- "-$1" 2>/dev/null || true; }

# start runs `make run` in its own process group and waits for its curl line.
start() {
	setsid make run >"$log" 2>&1 &
	group=$!
	for _ in $(seq 1 6000); do # a first build on a slow machine takes minutes
		grep -q '^  curl ' "$log" && return 0
		kill -0 "$group" 2>/dev/null || break
		sleep 0.1
	done
	echo "smoke: the gateway did not start:" >&2
	cat "$log" >&2
	return 1
}

# printed_curl executes the command that the gateway printed, as printed.
printed_curl() {
	sed -n '/^  curl /,/[^\\]$/p' "$log" | sed 's/curl /curl -sS /' | bash
}

# newest prints the id of the last recorded run, or nothing.
newest() { curl -fsS "$1?limit=1" | grep -oE '"run_id":"[0-9a-f-]+"' | cut -d'"' -f4 || true; }

smoke() {
	log=$(mktemp)
	export PORT ADMIN_PORT
	PORT=$(free_port) ADMIN_PORT=$(free_port)
	trap 'stop_group "$group" KILL; rm -f "$log"' EXIT

	local begun=$SECONDS
	start
	local runs="http://127.0.0.1:$ADMIN_PORT/api/v1/runs" before run
	before=$(newest "$runs")
	answer=$(printed_curl)
	grep -q '"chat.completion"' <<<"$answer" || { echo "smoke: the printed curl answered: $answer" >&2; return 1; }
	answer=$(curl -sS "http://127.0.0.1:$PORT/v1/models")
	grep -q '"invalid_api_key"' <<<"$answer" || { echo "smoke: without a key the answer is: $answer" >&2; return 1; }
	echo "smoke: $(id -un): answered after $((SECONDS - begun)) s"

	for _ in $(seq 1 100); do
		run=$(newest "$runs")
		[ "$run" = "$before" ] || break
		sleep 0.1
	done
	[ "$run" != "$before" ] || { echo "smoke: the run was not recorded" >&2; return 1; }

	stop_group "$group" KILL
	wait "$group" 2>/dev/null || true
	begun=$SECONDS
	start
	curl -fsS "$runs/$run" | grep -q "\"run_id\":\"$run\"" || { echo "smoke: run $run is gone after kill -9" >&2; return 1; }
	answer=$(printed_curl)
	grep -q '"chat.completion"' <<<"$answer" || { echo "smoke: after kill -9 the printed curl answered: $answer" >&2; return 1; }
	echo "smoke: $(id -un): run $run survived kill -9; second start took $((SECONDS - begun)) s"
	stop_group "$group" INT
	wait "$group" 2>/dev/null || true
}

if [ -n "${smoke_inner:-}" ]; then
	smoke
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clone() { git clone -q "$source" "$1"; }

# lend gives the user what root has downloaded and built, as links where the disk
# allows it, so that the same is not done twice. What the user adds is their own.
lend() {
	mkdir -p "$(dirname "$2")"
	cp -al "$1" "$2" 2>/dev/null || { rm -rf "$2"; cp -a "$1" "$2"; }
	find "$2" -type d -exec chmod u+w {} + -exec chown "$user" {} +
	chown "$user" "$(dirname "$2")"
}

if [ "$(id -u)" != 0 ]; then
	clone "$work/clone"
	cd "$work/clone" && scripts/smoke.sh inner
	exit
fi

mkdir -m 700 "$work/closed"
clone "$work/closed/clone"
(cd "$work/closed/clone" && scripts/smoke.sh inner)

user=breakwater-smoke
id "$user" >/dev/null 2>&1 || useradd --system --create-home "$user"
home=$(getent passwd "$user" | cut -d: -f6)
rm -rf "$home/clone" "$home/.cache/go-build" "$home/go"
clone "$home/clone"
chown -R "$user" "$home"
lend "$(go env GOCACHE)" "$home/.cache/go-build"
lend "$(go env GOMODCACHE)" "$home/go/pkg/mod"
runuser -u "$user" -- env HOME="$home" PATH="$PATH" GOPROXY="$(go env GOPROXY)" GOFLAGS="$(go env GOFLAGS)" \
	bash -c 'cd "$HOME/clone" && scripts/smoke.sh inner'
rm -rf "$home/clone" "$home/.cache/go-build" "$home/go"
