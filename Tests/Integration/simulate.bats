#!/usr/bin/env bats
# Tests dwell simulate. A correct server passes, even if its limits are low or it is killed during the run. A server
# with one wrong response fails, and a second run with the printed seed finds the same failure.

load lib

setup() {
    forget_server
}

teardown() {
    if [[ -n ${liar_pid:-} ]]; then kill "$liar_pid" 2>/dev/null || true; fi
    end_server
}

# simulate ARGUMENT...: runs dwell simulate. Sets ended, out and err.
simulate() {
    ended=0
    dwell simulate "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null || ended=$?
    out=$(<"$BATS_TEST_TMPDIR/out")
    err=$(<"$BATS_TEST_TMPDIR/err")
    printf '%s\n' "$err" "$out"
}

# start_liar: starts a proxy that changes one verdict of the server in the scenario force-quit. Sets liar_url and
# liar_pid.
start_liar() {
    local port
    port=$(free_port)
    python3 "$BATS_TEST_DIRNAME/liar.py" "$port" "$server_port" 3>&- &
    liar_pid=$!
    liar_url=http://127.0.0.1:$port
    curl -fsS -o /dev/null --retry 40 --retry-delay 1 --retry-connrefused "$liar_url/healthz"
}

@test "a server that listens on an IPv6 address is found, and an IPv6 address as --url is wrong usage" {
    launch_server HTTP_HOST=::
    wait_until_ready
    simulate --drivers 1 --scenario happy-path
    [[ $ended == 0 ]]
    simulate --drivers 1 --url "http://[::1]:$server_port"
    [[ $ended == 64 && $err == *"IPv4"* ]]
    stop_server
    launch_server HTTP_HOST=::1
    server_url="http://[::1]:$server_port"
    wait_until_ready
    simulate --drivers 1 --scenario happy-path
    [[ $ended == 0 ]]
}

@test "a server that does what the contract says passes every scenario" {
    start_server
    simulate --drivers 6 --rate 1000 --seed 42
    [[ $ended == 0 ]]
    grep -qE '^divergences +0$' <<<"$out"
    grep -qE '^seed +42$' <<<"$out"
    grep -qE '^latency +p50 [0-9.]+ ms, p99 [0-9.]+ ms, max [0-9.]+ ms$' <<<"$out"
    local scenario
    for scenario in happy-path offline-gap clock-jump duplicates shuffled-delivery force-quit lost-events \
        verified-anywhere stale-timestamp rebuilt-body early-end same-second target-set-again; do
        grep -qE "^drives .*$scenario 6" <<<"$out"
    done
    # The output is not a terminal, so progress must be written as lines, not as a bar.
    grep -qE '^100 %: ([0-9]+) of \1 events$' <<<"$err"
    if grep -q $'\r' <<<"$err"; then return 1; fi
    # The server ends a force-quit session within a second of its deadline.
    local attempt expired=0
    for ((attempt = 0; attempt < 400 && expired == 0; attempt++)); do
        expired=$(sql "SELECT count(*) FROM event_kind WHERE origin = 1")
        sleep 0.05
    done
    ((expired >= 1)) || fail "The server stored no expiry."
}

@test "simulated drivers are in no figure, and --clean removes them beside a running server" {
    start_server OPS_TOKEN=integration-looks-at-the-page METRICS_TOKEN=integration-reads-figures
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    simulate --drivers 20 --rate 1000 --seed 42
    [[ $ended == 0 ]]
    (($(sql "SELECT count(*) FROM driver WHERE driver_id LIKE 'simulated-%'") == 20))
    curl -fsS -H "Authorization: Bearer integration-reads-figures" "$server_url/metrics" >"$BATS_TEST_TMPDIR/figures"
    [[ $(sed -n 's/^dwell_events_total{.*} //p' "$BATS_TEST_TMPDIR/figures" | awk '{ sum += $1 } END { print sum }') == 1 ]]
    simulate --clean
    [[ $ended == 0 && $out =~ ^"simulated data removed: 20 drivers, "[0-9]+" events"$ ]]
    [[ $(sql "SELECT (SELECT count(*) FROM driver), (SELECT count(*) FROM event)") == "1|1" ]]
    simulate --clean
    [[ $ended == 0 && $out == "simulated data removed: 0 drivers, "* ]]
    # After the removal, the server works as before. New drivers may have the ids of removed ones.
    simulate --drivers 2 --rate 1000 --seed 42
    [[ $ended == 0 ]]
    post /native/events "$(event chargerTargeted k2)"
    [[ $status == 200 ]]
    dwell check
}

@test "it waits when the limiter says so, and registers sessions where that is required" {
    start_server RATE_LIMIT_SESSION_EVENTS=10 RATE_LIMIT_PRESESSION_EVENTS=10 RATE_LIMIT_WINDOW_SECONDS=1 \
        SESSION_REGISTRATION=required
    simulate --drivers 2 --rate 1000 --seed 7
    [[ $ended == 0 ]]
    grep -qE '^deferred +[1-9][0-9]* requests by the rate limiter$' <<<"$out"
}

@test "a server that is killed and started again loses nothing" {
    start_server
    dwell simulate --drivers 4 --rate 100 --seed 9 >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    local simulation=$!
    until grep -q '^[2-9]. %' "$BATS_TEST_TMPDIR/err"; do
        kill -0 "$simulation" || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
        sleep 0.05
    done
    kill -KILL "$server_pid"
    wait "$server_pid" || true
    launch_prepared serve
    wait_until_ready
    wait "$simulation" || { cat "$BATS_TEST_TMPDIR/err"; return 1; }
    grep -qE '^sent again +[1-9]' "$BATS_TEST_TMPDIR/out"
}

@test "one verdict turned around: status 1, what differs, and a seed that finds it again" {
    start_server
    start_liar
    simulate --url "$liar_url" --drivers 3 --rate 1000 --seed 100
    [[ $ended == 1 && -z $out ]]
    grep -q '^divergence in force-quit: ' <<<"$err"
    grep -qE '^  transition is ' <<<"$err"
    local replay
    replay=$(sed -n 's/^reproduce: dwell simulate //p' <<<"$err")
    grep -qE -- '--seed 10[0-2] --drivers 1 --scenario happy-path ' <<<"$replay"
    # shellcheck disable=SC2086
    simulate $replay
    [[ $ended == 1 ]]
    grep -q '^divergence in force-quit: ' <<<"$err"
}

@test "one driver with a token of their own, and only once in the same hours" {
    start_server
    local token
    token=$(dwell token --driver operator)
    simulate --token "$token" --scenario happy-path --rate 1000 --seed 5
    [[ $ended == 0 ]]
    simulate --token "$token" --scenario happy-path --rate 1000 --seed 5
    [[ $ended == 1 && $err == *"had a session after"* ]]
}

@test "a token that is not accepted and a server that is not there: status 1 and a sentence" {
    start_server
    simulate --token nonsense
    [[ $ended == 1 && $err == *"the token is not accepted"* ]]
    simulate --url "http://127.0.0.1:$(free_port)"
    [[ $ended == 1 && $err == *"does not respond"* ]]
}

@test "wrong usage is 64" {
    prepare_server
    local arguments
    for arguments in "--drivers 0" "--rate 0" "--rate nan" "--scenario no-such" "--url ftp://x" "--seed -1" \
        "--token x --drivers 2"; do
        # shellcheck disable=SC2086
        simulate $arguments
        [[ $ended == 64 ]] || { echo "dwell simulate $arguments ended with $ended"; return 1; }
    done
}
