#!/usr/bin/env bats
# Tests `dwell explain`, which prints the events of a session and their verdicts. It reads the database, whether or not
# a server is running.

load lib

setup() {
    forget_server
    start_server
    sign_in a
    session="$(driver a)-session"
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 300)\"")"
    post /native/events "$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago 200)\"")"
    post /native/events "$(event exclusive_activated k3 \
        ".occurred_at = \"$(seconds_ago 100)\" | .session_id = \"$session\" | .metadata = {lat: 52.123456}")"
    post /native/events "$(event enteredMerchantZone k4 ".session_id = \"$session\"")"
}

teardown() {
    end_server
}

@test "beside the running server: verdicts, reasons, states, and what led to the session" {
    dwell explain --session "$session" >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    [[ $(grep -cE '^ [1-4]  ' "$BATS_TEST_TMPDIR/out") == 4 ]]
    grep -qE '^ 1  enteredChargerIntentZone +applied$' "$BATS_TEST_TMPDIR/out"
    grep -qE '^ 4  enteredMerchantZone +rejected: must_depart_first$' "$BATS_TEST_TMPDIR/out"
    grep -q 'ANCHORED -> SESSION_ACTIVE' "$BATS_TEST_TMPDIR/out"
    grep -q 'spelled exclusive_activated' "$BATS_TEST_TMPDIR/out"
    grep -q 'grace period 900 s, hard timeout 3600 s' "$BATS_TEST_TMPDIR/out"
    # The output is not a terminal, so it has no colours.
    if grep -q $'\e' "$BATS_TEST_TMPDIR/out"; then return 1; fi
    if grep -qE '^.{101}' "$BATS_TEST_TMPDIR/out"; then return 1; fi
    if grep -q 52.123456 "$BATS_TEST_TMPDIR/out"; then return 1; fi
    dwell explain --session "$session" --metadata | grep 52.123456 >/dev/null
}

@test "after the server has ended, as JSON, and by driver" {
    stop_server
    dwell explain --session "$session" --json >"$BATS_TEST_TMPDIR/out"
    gojq -e '[.events[].state] == ["NEAR_CHARGER", "ANCHORED", "SESSION_ACTIVE", "SESSION_ACTIVE"]' \
        "$BATS_TEST_TMPDIR/out"
    gojq -e '.events[3] | .transition == "rejected" and .reason == "must_depart_first" and .state_before == .state' \
        "$BATS_TEST_TMPDIR/out"
    if grep -q 52.123456 "$BATS_TEST_TMPDIR/out"; then return 1; fi
    dwell explain --driver "$(driver a)" --last 2 --json | gojq -e '[.events[].event_id] == ["k3", "k4"] and .is_cut'
    launch_prepared serve
    wait_until_ready
    expect_stored a 4
}

@test "no such session, no such driver, no database: status 1 and a sentence" {
    local arguments ended
    for arguments in "--session nobody" "--driver nobody" "--session x --database $server_folder/none"; do
        ended=0
        # shellcheck disable=SC2086
        dwell explain $arguments >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || ended=$?
        cat "$BATS_TEST_TMPDIR/err"
        [[ $ended == 1 && ! -s $BATS_TEST_TMPDIR/out && $(wc -l <"$BATS_TEST_TMPDIR/err") == 1 ]]
    done
    [[ ! -e $server_folder/none ]]
}

@test "wrong usage is 64" {
    local arguments ended
    for arguments in "" "--session a --driver b" "--session a --last 3" "--driver a --last 0"; do
        ended=0
        # shellcheck disable=SC2086
        dwell explain $arguments >/dev/null 2>&1 || ended=$?
        [[ $ended == 64 ]] || { echo "dwell explain $arguments ended with $ended"; return 1; }
    done
}
