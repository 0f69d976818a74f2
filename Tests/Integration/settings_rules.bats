#!/usr/bin/env bats
# Tests SETTINGS_RULES_FILE: rules that give some drivers, chargers and app versions other settings, and flags
# (contract, section 2).

load lib

setup() {
    forget_server
}

teardown() {
    end_server
}

# write_rules RULE...: writes the file of rules with these rules and one flag.
write_rules() {
    local IFS=,
    printf '{"flags": {"newMap": false},\n "rules": [\n%s]}\n' "$*" >"$BATS_TEST_TMPDIR/rules.json"
}

site='{"name": "site", "reason": "Short stays", "chargers": ["c-7"], "settings": {"gracePeriodSeconds": 1, "hardTimeoutSeconds": 2}}'
version='{"name": "version", "reason": "New engine", "app_version_min": "7.2", "settings": {"chargerDwellSeconds": 60}, "flags": {"newMap": true}}'

reload() {
    local before
    # grep ends with 1 if it counts no line.
    before=$(grep -c "$1" "$server_folder/log" || true)
    kill -HUP "$server_pid"
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        if (($(grep -c "$1" "$server_folder/log") > before)); then return 0; fi
        sleep 0.05
    done
    fail "No log line: $1"
}

@test "the charger and the app version choose the settings, and the ETag covers the flags" {
    write_rules "$site" "$version"
    start_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json"
    sign_in a
    get /native/config
    expect_json '.gracePeriodSeconds == 900 and .chargerDwellSeconds == 120 and .flags == {newMap: false}'
    local base
    base=$(field ETag)
    get '/native/config?charger_id=c-7' -H "If-None-Match: $base"
    expect_status 200
    expect_json '.gracePeriodSeconds == 1 and .hardTimeoutSeconds == 2 and .chargerDwellSeconds == 120'
    get /native/config -H 'X-App-Version: 7.10' -H "If-None-Match: $base"
    expect_status 200
    expect_json '.chargerDwellSeconds == 60 and .flags == {newMap: true}'
    get /native/config -H 'X-App-Version: 7.1.9' -H "If-None-Match: $base"
    expect_status 304
    get '/native/config?charger_id='
    expect_status 400
    stop_server
}

@test "each event is stored with the version of its driver's settings" {
    write_rules "$site" "$version"
    start_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json"
    sign_in a
    post /native/events "$(event chargerTargeted k1 '.charger_id = "c-1"')" -H 'X-App-Version: 7.2'
    expect_status 200
    get /native/config -H 'X-App-Version: 7.2'
    local tag
    tag=$(field ETag)
    [[ \"$(stored_events settings true)-* == \
        "${tag%-*}"-* ]] || fail "The event has another version than $tag."
    get /native/session -H 'X-App-Version: 7.2'
    [[ \"$(gojq -r .settings_version <<<"$body") == "${tag%-*}" ]] || fail "The session has another version than $tag."
    stop_server
}

@test "a session ends at the timeout of its charger" {
    write_rules "$site"
    start_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json"
    sign_in a
    post /native/events "$(event enteredChargerIntentZone k1 '.charger_id = "c-7"')"
    post /native/events "$(event anchorDwellComplete k2)"
    post /native/events "$(event exclusiveActivatedByWeb k3 '.session_id = "s-1"')"
    expect_json '.session.state == "SESSION_ACTIVE"'
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        if [[ $(stored_events 1 "source = 'server'") == 1 ]]
        then break; fi
        sleep 0.05
    done
    get /native/session
    expect_json '.state == "SESSION_ENDED" and .ended_by == "hard_timeout"'
    stop_server
}

@test "SIGHUP reads the rules again, and a bad file changes nothing and says where it is wrong" {
    write_rules "$site"
    start_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json" OPS_TOKEN=operator-token-of-this-test
    sign_in a
    sed -i 's/"gracePeriodSeconds": 1/"gracePeriodSeconds": 3/' "$BATS_TEST_TMPDIR/rules.json"
    reload 'settings not reloaded'
    grep -qF 'line 3, rule site: with the rule' "$server_folder/log" || fail "$(cat "$server_folder/log")"
    grep -qF 'NATIVE_GRACE_PERIOD_SECONDS=3' "$server_folder/log" || fail "$(cat "$server_folder/log")"
    get '/native/config?charger_id=c-7'
    expect_json '.gracePeriodSeconds == 1'
    sed -i 's/"hardTimeoutSeconds": 2/"hardTimeoutSeconds": 3/' "$BATS_TEST_TMPDIR/rules.json"
    reload 'settings reloaded'
    get '/native/config?charger_id=c-7'
    expect_json '.gracePeriodSeconds == 3'
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        if [[ $(dwell config history --json | gojq '.changes | length') == 2 ]]; then break; fi
        sleep 0.05
    done
    [[ $(dwell config history) == *"rules $(sha256sum "$BATS_TEST_TMPDIR/rules.json" | cut -c1-16) (site)"* ]] ||
        fail "The history is: $(dwell config history)"
    [[ $(dwell config history) == *'reload failed'*'line 3, rule site'* ]] || fail "The history is: $(dwell config history)"
    [[ $(dwell config show) == *SETTINGS_RULES_FILE* ]] || fail "$(dwell config show)"
    server_token=operator-token-of-this-test
    curl -fsS "$server_url/ops/settings" -H "Authorization: Bearer $server_token" |
        gojq -e '.rules[0].name == "site" and (.changes | length) == 2' >/dev/null
    stop_server
}

@test "a bad file stops the start with 78, and check-config reports it" {
    write_rules '{"name": "n", "reason": "r", "percent": 101, "settings": {"chargerDwellSeconds": 60}}'
    launch_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json"
    wait_for_exit 10
    [[ $server_status == 78 ]] || fail "It ended with $server_status."
    grep -qF 'line 3, rule n: percent=101 is not allowed; allowed is a number from 0 to 100' "$server_folder/log" ||
        fail "$(cat "$server_folder/log")"
    local output
    if output=$(dwell check-config 2>&1); then fail "check-config accepted the file."; fi
    [[ $output == *'line 3, rule n: percent=101'* ]] || fail "$output"
    local ended=0
    output=$(dwell config preview --driver a 2>&1) || ended=$?
    [[ $ended == 78 && $output == *'line 3, rule n: percent=101'* ]] || fail "$ended: $output"
}

@test "dwell config preview shows the settings of a driver, and agrees with the server" {
    write_rules '{"name": "share", "reason": "Try it", "percent": 50, "settings": {"chargerDwellSeconds": 60}}' "$version"
    start_server SETTINGS_RULES_FILE="$BATS_TEST_TMPDIR/rules.json"
    local driver preview in=0
    for driver in rules-{1..12}; do
        token=$(dwell token --driver "$driver")
        get /native/config -H 'X-App-Version: 7.1'
        preview=$(dwell config preview --driver "$driver" --app-version 7.1)
        [[ $preview == *"ETag $(field ETag), rules $(sha256sum "$BATS_TEST_TMPDIR/rules.json" | cut -c1-16)"* ]] ||
            fail "$preview"
        if [[ $preview == *'share, instead of 120'* ]]; then
            in=$((in + 1))
        else
            [[ $preview == *'outside its share of 50 %'* ]] || fail "$preview"
        fi
        [[ $preview == *'no: it is not for app version 7.1'* ]] || fail "$preview"
    done
    ((in > 0 && in < 12)) || fail "$in of 12 drivers are in the share of 50 %."
    stop_server
}
