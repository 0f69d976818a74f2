#!/usr/bin/env bats
# Tests the operator page and its data (contract, section 7).

load lib

setup_file() {
    start_server OPS_TOKEN=operator-of-these-tests
    remember_server
}

teardown_file() {
    recall_server
    stop_server
}

setup() {
    recall_server
}

teardown() {
    end_server
}

as_operator() {
    token=operator-of-these-tests
}

@test "the page is there for anyone, with nothing from elsewhere" {
    token=
    get /ops
    expect_status 200
    expect_field Content-Type 'text/html; charset=utf-8'
    expect_field Content-Security-Policy "default-src 'none'.*"
    [[ $body != *http://* && $body != *https://* ]] || fail "Something is loaded from elsewhere."
    local script
    for script in ops ops-draw ops-history ops-cases ops-start; do
        get "/ops/$script.js"
        expect_status 200
    done
    get /ops/ops.css
    expect_status 200
}

@test "its figures are for operators" {
    local path
    for path in picture stream settings config history drivers drivers/d sessions sessions/s events refusals; do
        token=
        get "/ops/$path"
        expect_problem 401 unauthorized
        token=operator-of-these-test
        get "/ops/$path"
        expect_problem 401 unauthorized
        sign_in a
        get "/ops/$path"
        expect_problem 403 forbidden
    done
    token=$(dwell token --driver "$(driver a)" --role ops)
    get /ops/picture
    expect_status 200
}

@test "the picture counts drivers, moves, rejections and requests" {
    local before attempt
    as_operator
    get /ops/picture
    expect_status 200
    before=$(gojq '.drivers.NEAR_CHARGER' <<<"$body")
    sign_in near
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events "$(event visitVerifiedByWeb k2 '.session_id = "x"')"
    expect_verdict NEAR_CHARGER rejected not_at_merchant
    as_operator
    # The server computes this data at most once a second. It counts the drivers even less often if the count takes
    # longer than 50 ms. The test therefore polls.
    for ((attempt = 0; attempt < 100; attempt++)); do
        sleep 0.2
        get /ops/picture
        if [[ $(gojq '.drivers.NEAR_CHARGER' <<<"$body") != "$before" ]]; then break; fi
    done
    expect_json '.drivers.NEAR_CHARGER == $before + 1' --argjson before "$before"
    expect_json '.flow | any(.event == "enteredChargerIntentZone" and .to == "NEAR_CHARGER" and .count >= 1)'
    expect_json '.rejections | any(.event == "visitVerifiedByWeb" and .reason == "not_at_merchant")'
    expect_json '.minutes | length == 60 and (map(.applied) | add) >= 1'
    expect_json '.requests.statuses["200"] >= 2 and .requests.p50_us > 0'
    expect_json '.storage.database_bytes > 0'
    # The disk of PostgreSQL may be on another machine.
    [[ -n ${INTEGRATION_POSTGRES_URL:-} ]] || expect_json '.storage.free_bytes > 0'
    expect_json '.settings.chargerIntentRadius_m == 400'
    expect_json '.outbox | map(.queue) == ["revocations"] and all(.waiting == 0)'
}

@test "drivers, events and refused requests lie behind the counts" {
    local name
    sign_in cases
    name=$(driver cases)
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events "$(event visitVerifiedByWeb k2 '.session_id = "case"')"
    post /native/events '{}'
    expect_problem 400 validation_failed
    as_operator
    get '/ops/drivers?state=NEAR_CHARGER'
    expect_json '.drivers | any(.driver_id == $name and .state == "NEAR_CHARGER")' --arg name "$name"
    get "/ops/drivers/$name"
    expect_json '(.events | map(.event)) == ["visitVerifiedByWeb", "enteredChargerIntentZone"]'
    expect_json '.refusals | map([.route, .status, .count]) == [["/native/events", 400, 1]]'
    get /ops/drivers/nobody
    expect_problem 404 not_found
    get '/ops/events?transition=rejected&reason=not_at_merchant&event=visitVerifiedByWeb'
    expect_json '.events | any(.driver_id == $name and .session_id == "case")' --arg name "$name"
    get '/ops/refusals?status=400'
    expect_json '.refusals | any(.driver_id == $name and .request_id != null)' --arg name "$name"
    get '/ops/sessions?ended=perhaps&limit=0'
    expect_problem 400 validation_failed
}

@test "sessions are listed with filters, and a search finds by id" {
    sign_in list
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events "$(event anchorDwellComplete k2)"
    post /native/events "$(event exclusiveActivatedByWeb k3 '.session_id = "listed" | .charger_id = "charger of the list"')"
    expect_verdict SESSION_ACTIVE applied
    as_operator
    get '/ops/sessions?state=SESSION_ACTIVE&ended=false&charger=charger%20of%20the%20list'
    expect_json '.sessions | map([.session_id, .charger_id]) == [["listed", "charger of the list"]]'
    get '/ops/sessions?charger=elsewhere'
    expect_json '.sessions == []'
    get "/ops/sessions?from=$(date -u -d '1 hour' +%Y-%m-%dT%H:%M:%SZ)"
    expect_json '.sessions == []'
    post /ops/search '{"query": "liste"}'
    expect_json '.sessions | map(.session_id) == ["listed"]'
    post /ops/search '{"query": "charger of"}'
    expect_json '.charger_ids == ["charger of the list"]'
    post /ops/search '{}'
    expect_problem 400 validation_failed
    token=
    post /ops/search '{"query": "liste"}'
    expect_problem 401 unauthorized
}

@test "counts over time outlive the server" {
    forget_server
    start_server OPS_TOKEN=operator-of-these-tests
    sign_in over
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events '{}'
    as_operator
    get '/ops/history?range=15m'
    expect_json '.step_seconds == 60 and ([.steps[].events.applied // 0] | add) == 1'
    stop_server
    launch_prepared serve
    wait_until_ready
    local range
    for range in 15m 1h 6h 24h 7d 30d; do
        get "/ops/history?range=$range"
        expect_json '([.steps[].events.applied // 0] | add) == 1 and ([.steps[].statuses["400"] // 0] | add) == 1'
        expect_json '[.steps[].p99_us // 0] | add > 0'
    done
    get '/ops/history?range=2h'
    expect_problem 400 validation_failed
    stop_server
}

@test "the stream brings a picture every two seconds" {
    local messages
    messages=$(curl -sN --max-time 5 -H 'Authorization: Bearer operator-of-these-tests' "$server_url/ops/stream" | grep -c '^data: ' || true)
    ((messages >= 2)) || fail "There were $messages messages in five seconds."
}

@test "the stream ends with its token" {
    local token
    token=$(dwell token --driver someone --role ops --ttl 2)
    curl -sN --max-time 8 -H "Authorization: Bearer $token" "$server_url/ops/stream" >"$BATS_TEST_TMPDIR/pictures" ||
        fail "The stream went on for eight seconds with a token for two."
    grep -q '^data: ' "$BATS_TEST_TMPDIR/pictures" || fail "There was no picture."
}

@test "any driver's session is found, and one that is not is 404" {
    sign_in b
    post /native/events "$(event exclusiveActivatedByWeb k1 '.session_id = "found"')"
    expect_status 200
    as_operator
    get /ops/sessions/found
    expect_status 200
    expect_json '.driver_id == $driver and (.events | length) == 1' --arg driver "$(driver b)"
    get /ops/sessions/never
    expect_problem 404 session_not_found
}

@test "a changed radius is in the picture and in the history" {
    forget_server
    prepare_server OPS_TOKEN=operator-of-these-tests "ENV_FILE=$BATS_TEST_TMPDIR/env"
    echo 'NATIVE_CHARGER_INTENT_RADIUS_M=300' >"$BATS_TEST_TMPDIR/env"
    launch_prepared serve
    wait_until_ready
    sign_in c
    post /native/events "$(event chargerTargeted k1)"
    echo 'NATIVE_CHARGER_INTENT_RADIUS_M=500' >"$BATS_TEST_TMPDIR/env"
    kill -HUP "$server_pid"
    wait_for_log 'settings reloaded'
    post /native/events "$(event chargerTargeted k2)"
    as_operator
    get /ops/config
    expect_status 200
    expect_json '.settings | any(.name == "NATIVE_CHARGER_INTENT_RADIUS_M" and .value == "500")'
    get /ops/settings
    expect_json '.settings.chargerIntentRadius_m == 500'
    expect_json '.versions | map(.settings.chargerIntentRadius_m) == [500, 300]'
    expect_json '.in_force_since | startswith("20")'
    stop_server
}

@test "guesses of OPS_TOKEN and METRICS_TOKEN are limited by address, and in the audit" {
    local path statuses=()
    forget_server
    start_server OPS_TOKEN=operator-of-these-tests METRICS_TOKEN=reader-of-these-tests RATE_LIMIT_OPERATOR=3
    for path in /ops/picture /metrics /ops/settings /ops/picture /metrics; do
        token=guess
        get "$path"
        statuses+=("$status")
    done
    [[ ${statuses[*]} == "401 401 401 429 429" ]] || fail "${statuses[*]}"
    expect_field Retry-After '[0-9]+'
    token=operator-of-these-tests
    get /ops/picture
    expect_problem 429 rate_limited
    [[ $(sql "SELECT reason FROM audit WHERE action = 'operator_refused'") == $'ops_token\nops_token' ]] ||
        fail "The first guess and the one that filled the window."
    stop_server
}
