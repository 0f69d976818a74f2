#!/usr/bin/env bats
# Tests monitoring (contract, section 7): /readyz, /metrics, and the trace in the log.

bats_require_minimum_version 1.5.0
load lib.bash

setup() {
    forget_server
}

teardown() {
    end_server
    if [[ -n ${disk:-} ]]; then umount -l "$disk" 2>/dev/null || true; fi
}

# figures [URL]: prints the body of /metrics.
figures() {
    curl -fsS -H "Authorization: Bearer $metrics_token" "${1:-$server_url}/metrics"
}

metrics_token=integration-reads-figures

@test "ready while the database takes writes; not while draining" {
    start_server
    [[ $(curl -sS "$server_url/readyz" | gojq -r '.status + " " + .checks.database + " " + .checks.drain') == "ready ok ok" ]]
    dwell healthcheck --ready

    # While the server drains, an open connection still gets a response to its last request.
    python3 - "$server_port" "$server_pid" <<'PYTHON'
import json, os, signal, socket, sys, time
port, pid = map(int, sys.argv[1:])
connection = socket.create_connection(("127.0.0.1", port), timeout=10)
# The request is incomplete: the drain waits for its end.
connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n")
os.kill(pid, signal.SIGTERM)
# When new connections are refused, the drain has begun.
while True:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        time.sleep(0.02)
    except OSError:
        break
connection.sendall(b"\r\n")
answer = connection.recv(65536).decode()
head, body = answer.split("\r\n\r\n", 1)
assert head.startswith("HTTP/1.1 503"), answer
assert "retry-after:" in head.lower(), answer
assert json.loads(body)["checks"]["drain"] == "draining", body
PYTHON
    wait_for_exit 20
    [[ $server_status == 0 ]]
}

# wait_for_readiness STATUS: polls /readyz until it returns this status, because the server may repeat an old result for
# a second. Writes the last response to $BATS_TEST_TMPDIR/ready.
wait_for_readiness() {
    local attempt status=
    for ((attempt = 0; attempt < 400; attempt++)); do
        status=$(curl -sS -o "$BATS_TEST_TMPDIR/ready" -w '%{http_code}' "$server_url/readyz")
        if [[ $status == "$1" ]]; then return 0; fi
        sleep 0.05
    done
    echo "/readyz says $status, not $1:"
    cat "$BATS_TEST_TMPDIR/ready"
    return 1
}

@test "a full disk: not ready, writes 503, reads go on, and it recovers by itself" {
    disk=$(mktemp -d "$BATS_TEST_TMPDIR/disk.XXXXXX")
    mount -t tmpfs -o size=3m tmpfs "$disk" 2>/dev/null || skip "tmpfs cannot be mounted here"
    start_server DATABASE_PATH="$disk/dwell.sqlite3"
    sign_in jo
    metadata=$(printf 'x%.0s' {1..7000})
    local number status=200
    for ((number = 0; number < 600 && status == 200; number++)); do
        status=$(event some_diagnostic "fill-$number" ".metadata = {text: \"$metadata\"}" |
            curl -sS -o "$BATS_TEST_TMPDIR/answer" -w '%{http_code}' -H "Authorization: Bearer $token" \
                -H 'Content-Type: application/json' -d @- "$server_url/native/events")
    done
    [[ $status == 503 ]]
    gojq -e '.retryable and .retry_after > 0' "$BATS_TEST_TMPDIR/answer"
    # The server checks readiness with a small write, which may still fit on the disk. The filler uses up the remaining
    # space.
    cat /dev/zero >"$disk/filler" 2>/dev/null || true
    wait_for_readiness 503
    [[ $(gojq -r .checks.database "$BATS_TEST_TMPDIR/ready") == refuses_writes ]]
    [[ $(curl -sS -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "$server_url/native/session") == 200 ]]
    mount -o remount,size=64m "$disk"
    rm -f "$disk/filler"
    wait_for_readiness 200
    stop_server
}

@test "/metrics is not there unless somebody asked for it" {
    start_server
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "$server_url/metrics") == 404 ]]
}

@test "/metrics wants its token, and is what Prometheus reads" {
    start_server METRICS_TOKEN="$metrics_token"
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "$server_url/metrics") == 401 ]]
    [[ $(curl -sS -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer wrong' "$server_url/metrics") == 401 ]]
    sign_in jo
    post /native/events "$(event chargerTargeted k1)"
    post /native/events "$(event chargerTargeted k2 '.source = "web"')"
    post /native/events/batch "{\"events\": [$(event chargerTargeted k3 '.source = "made-up"')]}"
    figures >"$BATS_TEST_TMPDIR/figures"
    python3 "$BATS_TEST_DIRNAME/exposition.py" "$BATS_TEST_TMPDIR/figures"
    grep -qxF 'dwell_events_total{event="chargerTargeted",source="ios_native",verdict="none"} 1' "$BATS_TEST_TMPDIR/figures"
    grep -qxF 'dwell_events_total{event="chargerTargeted",source="web",verdict="none"} 1' "$BATS_TEST_TMPDIR/figures"
    grep -qxF 'dwell_events_total{event="chargerTargeted",source="other",verdict="none"} 1' "$BATS_TEST_TMPDIR/figures"
    grep -qxF 'dwell_http_requests_total{route="/native/events",method="POST",status="200"} 2' "$BATS_TEST_TMPDIR/figures"
    grep -qE '^process_resident_memory_bytes [1-9]' "$BATS_TEST_TMPDIR/figures"
}

# expect_figure LINE: checks that /metrics contains this line.
expect_figure() {
    figures >"$BATS_TEST_TMPDIR/figures"
    grep -qxF "$1" "$BATS_TEST_TMPDIR/figures" || {
        echo "There is no $1 in:"
        grep "^${1%%[{ ]*}" "$BATS_TEST_TMPDIR/figures"
        return 1
    }
}

@test "/metrics: readiness, drivers by state, streams, the disk, and the version in force after a reload" {
    echo NATIVE_CHARGER_INTENT_RADIUS_M=300 >"$BATS_TEST_TMPDIR/env"
    start_server METRICS_TOKEN="$metrics_token" ENV_FILE="$BATS_TEST_TMPDIR/env" OPS_TOKEN=operator-of-these-tests
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    expect_figure 'dwell_ready 1'
    expect_figure 'dwell_ready_check{check="database"} 1'
    expect_figure 'dwell_drivers{state="NEAR_CHARGER"} 1'
    expect_figure 'dwell_drivers{state="SESSION_ACTIVE"} 0'
    expect_figure 'dwell_streams{kind="driver"} 0'
    expect_figure 'dwell_outbox_waiting{queue="revocations"} 0'
    expect_figure 'dwell_last_backup_timestamp_seconds 0'
    dwell backup "$BATS_TEST_TMPDIR/copy"
    figures >"$BATS_TEST_TMPDIR/figures"
    [[ $(sed -n 's/^dwell_last_backup_timestamp_seconds \([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/figures") -ge $(($(date +%s) - 60)) ]]
    [[ $(sed -n 's/^dwell_disk_free_bytes //p' "$BATS_TEST_TMPDIR/figures") -gt 1000000 ]]
    curl -sN --max-time 30 -H "Authorization: Bearer $token" "$server_url/native/session/stream" >"$BATS_TEST_TMPDIR/stream" &
    while [[ ! -s $BATS_TEST_TMPDIR/stream ]]; do sleep 0.02; done
    expect_figure 'dwell_streams{kind="driver"} 1'
    local version
    version=$(sed -n 's/^dwell_settings_info{version="\(.*\)"} 1$/\1/p' "$BATS_TEST_TMPDIR/figures")
    [[ -n $version ]]
    echo NATIVE_CHARGER_INTENT_RADIUS_M=500 >"$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    wait_for_log 'settings reloaded'
    figures >"$BATS_TEST_TMPDIR/figures"
    [[ $(grep -c '^dwell_settings_info{' "$BATS_TEST_TMPDIR/figures") == 1 ]]
    # grep ends with 1 if no line matches.
    run -1 grep -F "$version" "$BATS_TEST_TMPDIR/figures"
    python3 "$BATS_TEST_DIRNAME/exposition.py" "$BATS_TEST_TMPDIR/figures"
}

@test "/metrics: the sizes of a database behind a symbolic link" {
    only_sqlite "PostgreSQL's files are not the server's"
    mkdir "$BATS_TEST_TMPDIR/disk"
    ln -s "$BATS_TEST_TMPDIR/disk/dwell.sqlite3" "$BATS_TEST_TMPDIR/link.sqlite3"
    start_server DATABASE_PATH="$BATS_TEST_TMPDIR/link.sqlite3" METRICS_TOKEN="$metrics_token"
    sign_in jo
    post /native/events "$(event chargerTargeted k1)"
    figures >"$BATS_TEST_TMPDIR/figures"
    local file
    for file in main wal; do
        [[ $(sed -n "s/^dwell_database_bytes{file=\"$file\"} //p" "$BATS_TEST_TMPDIR/figures") -ge 4096 ]] ||
            fail "$file: $(grep '^dwell_database_bytes' "$BATS_TEST_TMPDIR/figures")"
    done
    stop_server
}

@test "ten thousand random paths make no series" {
    start_server METRICS_TOKEN="$metrics_token"
    curl -sS -o /dev/null "$server_url/first-unknown"
    figures >/dev/null
    before=$(figures | grep -vc '^#')
    python3 - "$server_port" <<'PYTHON'
import random, socket, sys
random.seed(7)
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
reader = connection.makefile("rb")
for _ in range(100):
    batch = b""
    for _ in range(100):
        path = "/".join("".join(random.choices("abcdefghij-_~", k=8)) for _ in range(random.randint(1, 4)))
        batch += f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    connection.sendall(batch)
    for _ in range(100):
        assert reader.readline().startswith(b"HTTP/1.1 4")
        length = 0
        while (line := reader.readline()) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        reader.read(length)
PYTHON
    after=$(figures | grep -vc '^#')
    echo "before $before, after $after"
    [[ $before == "$after" ]]
}

@test "METRICS_PORT: a listener of its own, and /metrics nowhere else" {
    own=$(free_port)
    start_server METRICS_PORT="$own"
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "$server_url/metrics") == 404 ]]
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$own/metrics") == 200 ]]
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$own/readyz") == 200 ]]
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$own/native/config") == 404 ]]
}

@test "the maximum of EVENT_LOOPS leaves threads for everything else: the server gets ready, stores and stops" {
    maximum=$(grep -B1 '^EVENT_LOOPS=' "$repository_root/ENV.example" | grep -oE '[0-9]+\.$' | tr -d .)
    own=$(free_port)
    start_server METRICS_PORT="$own" EVENT_LOOPS="$maximum"
    sign_in a
    post /native/events "$(event chargerTargeted k1)"
    expect_status 200
    [[ $(curl -sS -o /dev/null -w '%{http_code}' "http://127.0.0.1:$own/metrics") == 200 ]]
    stop_server
    wait_for_log '"exit_status":0'
}

@test "METRICS_PORT has the timeouts of the public port" {
    own=$(free_port)
    start_server METRICS_PORT="$own" HTTP_HEADER_TIMEOUT_SECONDS=1 HTTP_IDLE_TIMEOUT_SECONDS=1
    # `raw` waits at most 5 s for the server to close the connection. By default, the server closes it only after 10 or
    # 75 s, so this test sets both timeouts to 1 s.
    for port in "$server_port" "$own"; do
        answer=$(server_port=$port raw 'GET /metrics HT' 5)
        [[ $answer == *"HTTP/1.1 408"*"[closed by the server]"* ]] || fail "an unfinished head on $port: $answer"
        answer=$(server_port=$port raw '' 5)
        [[ $answer == *"[closed by the server]"* ]] || fail "an idle connection on $port: $answer"
    done
}

@test "every line about a request names it and its trace" {
    start_server LOG_LEVEL=debug
    trace=0af7651916cd43dd8448eb211c80319c
    curl -sS -o /dev/null -H "traceparent: 00-$trace-b7ad6b7169203331-01" -H 'X-Request-Id: traced.1' \
        -H 'Authorization: Bearer nobody' "$server_url/native/config"
    curl -sS -o /dev/null -H "traceparent: 00-$trace-zzad6b7169203331-01" -H 'X-Request-Id: traced.2' "$server_url/healthz"
    wait_for_log '"request_id":"traced.2"'
    # The log states the reason of the rejection in exactly one line. The client does not get the reason.
    lines=$(grep -F '"request_id":"traced.1"' "$server_folder/log")
    [[ $(wc -l <<<"$lines") == 1 ]]
    [[ $(gojq -r .trace_id <<<"$lines") == "$trace" ]]
    [[ $(gojq -r .reason <<<"$lines") != null ]]
    [[ $(grep -F '"request_id":"traced.2"' "$server_folder/log" | gojq -r .trace_id) == null ]]
}
