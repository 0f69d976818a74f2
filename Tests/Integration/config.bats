#!/usr/bin/env bats
# Tests the eight settings of the session engine: the response, their sources, and invalid values (contract, section 2).

load lib

setup() {
    forget_server
}

teardown() {
    end_server
}

@test "exactly eight fields, as JSON numbers, with their defaults" {
    start_server
    sign_in a
    get /native/config
    expect_status 200
    expect_field Content-Type 'application/json(;.*)?'
    expect_json '. == {chargerIntentRadius_m: 400, chargerAnchorRadius_m: 30, chargerDwellSeconds: 120,
        merchantUnlockRadius_m: 40, gracePeriodSeconds: 900, hardTimeoutSeconds: 3600,
        locationAccuracyThreshold_m: 50, speedThresholdForDwell_mps: 1.5}'
    stop_server
}

@test "the environment overrides each" {
    start_server NATIVE_CHARGER_INTENT_RADIUS_M=1000 NATIVE_CHARGER_ANCHOR_RADIUS_M=0.5 \
        NATIVE_CHARGER_DWELL_SECONDS=600 NATIVE_MERCHANT_UNLOCK_RADIUS_M=200 NATIVE_GRACE_PERIOD_SECONDS=1 \
        NATIVE_HARD_TIMEOUT_SECONDS=7200 NATIVE_LOCATION_ACCURACY_THRESHOLD_M=12.25 \
        NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS=10
    sign_in a
    get /native/config
    expect_json '. == {chargerIntentRadius_m: 1000, chargerAnchorRadius_m: 0.5, chargerDwellSeconds: 600,
        merchantUnlockRadius_m: 200, gracePeriodSeconds: 1, hardTimeoutSeconds: 7200,
        locationAccuracyThreshold_m: 12.25, speedThresholdForDwell_mps: 10}'
    stop_server
}

@test "a strong ETag, a day of caching, and 304 while the copy holds" {
    start_server
    sign_in a
    get /native/config
    expect_field ETag '"[!#-~]+"'
    expect_field Cache-Control 'private, max-age=86400'
    local tag match
    tag=$(field ETag)
    for match in "$tag" "W/$tag" "\"other\", $tag" '*'; do
        get /native/config -H "If-None-Match: $match"
        expect_status 304
        [[ -z $body ]] || fail "A 304 with a body."
        expect_field ETag '"[!#-~]+"'
        expect_field Cache-Control 'private, max-age=86400'
    done
    get /native/config -H 'If-None-Match: "other"'
    expect_status 200
    for match in "$tag" "\"other\", $tag" '*'; do
        get /native/config -H "If-Match: $match"
        expect_status 200
    done
    for match in '"other"' "W/$tag"; do
        get /native/config -H "If-Match: $match" -H "If-None-Match: $tag"
        expect_problem 412 precondition_failed
    done
    stop_server
}

@test "other settings have another ETag" {
    start_server
    sign_in a
    get /native/config
    local tag
    tag=$(field ETag)
    stop_server
    forget_server
    start_server NATIVE_CHARGER_DWELL_SECONDS=121
    get /native/config -H "If-None-Match: $tag"
    expect_status 200
    expect_json '.chargerDwellSeconds == 121'
    [[ $(field ETag) != "$tag" ]] || fail "The same ETag as with 120 seconds."
    stop_server
}

@test "bad values stop the start with 78 and one line each: the variable, the value, what is allowed" {
    launch_server NATIVE_CHARGER_INTENT_RADIUS_M=1000.5 NATIVE_CHARGER_ANCHOR_RADIUS_M=nan \
        NATIVE_CHARGER_DWELL_SECONDS=1.5 NATIVE_MERCHANT_UNLOCK_RADIUS_M=40m NATIVE_GRACE_PERIOD_SECONDS=3601 \
        NATIVE_HARD_TIMEOUT_SECONDS=0 NATIVE_LOCATION_ACCURACY_THRESHOLD_M=inf \
        NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS=-1
    wait_for_exit 10
    [[ $server_status == 78 ]] || { echo "ended with $server_status"; cat "$server_folder/log"; return 1; }
    local variable value allowed
    while read -r variable value allowed; do
        [[ $(grep -F "$variable" "$server_folder/log" | grep -F -- "$value" | grep -cF "$allowed") == 1 ]] || {
            echo "Expected one line with $variable, $value and $allowed in:"
            cat "$server_folder/log"
            return 1
        }
    done <<'VALUES'
NATIVE_CHARGER_INTENT_RADIUS_M 1000.5 1000
NATIVE_CHARGER_ANCHOR_RADIUS_M nan 100
NATIVE_CHARGER_DWELL_SECONDS 1.5 600
NATIVE_MERCHANT_UNLOCK_RADIUS_M 40m 200
NATIVE_GRACE_PERIOD_SECONDS 3601 3600
NATIVE_HARD_TIMEOUT_SECONDS 0 7200
NATIVE_LOCATION_ACCURACY_THRESHOLD_M inf 200
NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS -1 10
VALUES
}

@test "the anchor radius lies within the intent radius, the grace period within the hard timeout" {
    launch_server NATIVE_CHARGER_INTENT_RADIUS_M=20 NATIVE_CHARGER_ANCHOR_RADIUS_M=21 \
        NATIVE_HARD_TIMEOUT_SECONDS=60 NATIVE_GRACE_PERIOD_SECONDS=61
    wait_for_exit 10
    [[ $server_status == 78 ]]
    grep -q NATIVE_CHARGER_ANCHOR_RADIUS_M "$server_folder/log"
    grep -q NATIVE_GRACE_PERIOD_SECONDS "$server_folder/log"
}

@test "every edge of a range is allowed, what lies beyond is not" {
    local variable allowed refused value
    while IFS=$'\t' read -r variable allowed refused; do
        for value in $allowed; do
            prepare_server "$variable=$value"
            dwell check-config >"$BATS_TEST_TMPDIR/out" 2>&1 ||
                { echo "$variable=$value was refused"; cat "$BATS_TEST_TMPDIR/out"; return 1; }
        done
        for value in $refused; do
            prepare_server "$variable=$value"
            if dwell check-config >"$BATS_TEST_TMPDIR/out" 2>&1; then
                echo "$variable=$value was accepted"
                return 1
            fi
        done
    done <<'EDGES'
NATIVE_CHARGER_INTENT_RADIUS_M	30 1000	0 -1 1000.001 1001 1e400
NATIVE_CHARGER_ANCHOR_RADIUS_M	0.001 100	0 100.5
NATIVE_CHARGER_DWELL_SECONDS	1 600	0 601 1.5
NATIVE_MERCHANT_UNLOCK_RADIUS_M	0.1 200	0 201
NATIVE_GRACE_PERIOD_SECONDS	1 3600	0 3601
NATIVE_HARD_TIMEOUT_SECONDS	900 7200	0 7201
NATIVE_LOCATION_ACCURACY_THRESHOLD_M	0.1 200	0 201
NATIVE_SPEED_THRESHOLD_FOR_DWELL_MPS	0.1 10	0 10.1
EDGES
}

@test "SIGHUP reads the environment file again" {
    server_folder=$(mktemp -d "$BATS_TEST_TMPDIR/server.XXXXXX")
    echo NATIVE_CHARGER_DWELL_SECONDS=100 >"$server_folder/settings.env"
    start_server ENV_FILE="$server_folder/settings.env"
    sign_in a
    get /native/config
    expect_json '.chargerDwellSeconds == 100'
    local tag attempt
    tag=$(field ETag)
    echo NATIVE_CHARGER_DWELL_SECONDS=200 >"$server_folder/settings.env"
    kill -HUP "$server_pid"
    for ((attempt = 0; attempt < 400; attempt++)); do
        get /native/config -H "If-None-Match: $tag"
        if [[ $status != 304 ]]; then break; fi
        sleep 0.05
    done
    expect_status 200
    expect_json '.chargerDwellSeconds == 200'
    # Every event that is stored after the reload has the new settings version.
    post /native/events "$(event chargerTargeted k1)"
    get /native/config
    [[ \"$(stored_events settings true)\" == \
        "$(field ETag)" ]]
    stop_server
}

@test "SIGHUP with a bad file leaves the settings in force and logs why" {
    server_folder=$(mktemp -d "$BATS_TEST_TMPDIR/server.XXXXXX")
    echo NATIVE_CHARGER_DWELL_SECONDS=100 >"$server_folder/settings.env"
    start_server ENV_FILE="$server_folder/settings.env"
    sign_in a
    get /native/config
    local tag
    tag=$(field ETag)
    printf 'NATIVE_CHARGER_DWELL_SECONDS=200\nNATIVE_GRACE_PERIOD_SECONDS=40m\n' >"$server_folder/settings.env"
    kill -HUP "$server_pid"
    wait_for_log 'NATIVE_GRACE_PERIOD_SECONDS.*40m'
    get /native/config
    expect_json '.chargerDwellSeconds == 100 and .gracePeriodSeconds == 900'
    [[ $(field ETag) == "$tag" ]] || fail "Expected $tag."
    # A valid file is read again after an invalid one.
    echo NATIVE_CHARGER_DWELL_SECONDS=300 >"$server_folder/settings.env"
    kill -HUP "$server_pid"
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        get /native/config
        if [[ $(field ETag) != "$tag" ]]; then break; fi
        sleep 0.05
    done
    expect_json '.chargerDwellSeconds == 300'
    stop_server
}

@test "SIGHUP does not lose a request" {
    start_server
    sign_in a
    local attempt
    for attempt in {1..20}; do
        kill -HUP "$server_pid"
        post /native/events "$(event chargerTargeted "k$attempt")"
        expect_status 200
    done
    expect_stored a 20
    stop_server
}

@test "SIGHUP with a file that is gone keeps the old settings" {
    prepare_server
    # A server can start without the default file .env. But if it started with this file, a reload without the file
    # fails.
    echo NATIVE_CHARGER_DWELL_SECONDS=100 >"$server_folder/.env"
    launch_prepared serve
    wait_until_ready
    sign_in a
    rm "$server_folder/.env"
    kill -HUP "$server_pid"
    wait_for_log 'environment file missing'
    get /native/config
    expect_json '.chargerDwellSeconds == 100'
    stop_server
}

@test "dwell config history says when which settings came into force, and what changed" {
    forget_server
    prepare_server "ENV_FILE=$BATS_TEST_TMPDIR/env"
    echo 'NATIVE_CHARGER_INTENT_RADIUS_M=300' >"$BATS_TEST_TMPDIR/env"
    launch_prepared serve
    wait_until_ready
    echo 'NATIVE_CHARGER_INTENT_RADIUS_M=500' >"$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    wait_for_log 'settings reloaded'
    local attempt history
    for ((attempt = 0; attempt < 400; attempt++)); do
        history=$(dwell config history)
        if [[ $history == *'300 -> 500'* ]]; then break; fi
        sleep 0.05
    done
    [[ $history == *'chargerIntentRadius_m 300 -> 500'*'first known version'* ]] || fail "The history is: $history"
    [[ $history != *' by '* ]] || fail "Nobody said who: $history"
    # The author and the reason belong to this change only. The server must not store them with the next change.
    printf '%s\n' NATIVE_CHARGER_INTENT_RADIUS_M=500 NATIVE_CHARGER_DWELL_SECONDS=90 SETTINGS_CHANGED_BY=Ann \
        'SETTINGS_CHANGE_REASON=drivers waited too long' >"$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    wait_for_log '"changed_by":"Ann"'
    for ((attempt = 0; attempt < 400; attempt++)); do
        history=$(dwell config history)
        if [[ $history == *'120 -> 90'* ]]; then break; fi
        sleep 0.05
    done
    [[ $history == *'chargerDwellSeconds 120 -> 90  by Ann: drivers waited too long'* ]] || fail "The history is: $history"
    dwell config show | grep 'SETTINGS_CHANGED_BY *Ann' >/dev/null || fail "It needs no restart: $(dwell config show)"
    sed -i 's/=90/=80/' "$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    wait_for_log 'settings note not recorded'
    history=$(dwell config history --json)
    [[ $(gojq -c '[.changes[] | [.changed_by, .reason]]' <<<"$history") == \
        '[[null,null],["Ann","drivers waited too long"],[null,null],[null,null]]' ]] || fail "The history is: $history"
    printf '%s\n' NATIVE_CHARGER_INTENT_RADIUS_M=500 >"$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    for ((attempt = 0; attempt < 400; attempt++)); do
        if [[ $(dwell config history) == *'80 -> 120'* ]]; then break; fi
        sleep 0.05
    done
    # A restart without changed settings adds no entry to the history.
    stop_server
    launch_prepared serve
    wait_until_ready
    [[ $(dwell config history --json | gojq -c '[.changes[].settings.chargerIntentRadius_m]') == '[500,500,500,500,300]' ]]
    stop_server
}
