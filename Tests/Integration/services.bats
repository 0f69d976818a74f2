#!/usr/bin/env bats
# Tests services (tokens of the role service) and TRUSTED_CONFIRMATIONS against the running server (contract, section 3,
# "Services").

load lib

setup_file() {
    start_server TRUSTED_CONFIRMATIONS=service RATE_LIMIT_SERVICE_EVENTS=400
    remember_server
}

teardown_file() {
    recall_server
    stop_server
}

setup() {
    recall_server
    sign_in a
    session=$(driver s)
    session_member=".session_id = \"$session\""
    service=$(dwell token --driver web-backend --role service)
    start=$(($(date +%s) - 800))
}

# at SECONDS: prints the time that is this many seconds after `start`.
at() {
    date -u -d "@$((start + $1))" +%Y-%m-%dT%H:%M:%S.1Z
}

teardown() {
    end_server
}

# as_service EVENT_NAME KEY OCCURRED_AT [gojq program]: posts an event of driver a with the service's token.
as_service() {
    local app=$token
    token=$service
    post /native/events "$(event "$1" "$2" ".occurred_at = \"$3\" | .driver_id = \"$(driver a)\" | ${4:-$session_member}")"
    token=$app
}

as_app() {
    post /native/events "$(event "$1" "$2" ".occurred_at = \"$3\" | ${4:-$session_member}")"
}

anchored() {
    as_app enteredChargerIntentZone "$1-in" "$(at 0)" .
    as_app anchorDwellComplete "$1-dwell" "$(at 120)" .
    expect_json '.session.state == "ANCHORED"'
}

@test "a driver who claims activation and visit without the service gets nowhere" {
    anchored k
    as_app exclusiveActivatedByWeb k1 "$(at 180)"
    expect_status 200
    expect_json '.session == {state: "ANCHORED", transition: "rejected", reason: "unconfirmed"}'
    as_app departed_charger k2 "$(at 240)" "$session_member | .metadata.previous_state = \"SESSION_ACTIVE\""
    expect_json '.session.reason == "unconfirmed"'
    as_app visitVerifiedByWeb k3 "$(at 540)" "$session_member | .metadata.previous_state = \"AT_MERCHANT\""
    expect_json '.session == {state: "ANCHORED", transition: "rejected", reason: "unconfirmed"}'
    expect_stored a 5
    run dwell explain --driver "$(driver a)" --last 10
    [[ $output == *'only a service confirms it'* ]] || fail "$output"
}

@test "in every order of app and service the visit ends as verified, and the app's claims stay unconfirmed" {
    local order app=0
    for order in "1 2 3 4 5 6" "2 1 4 3 6 5" "6 5 4 3 2 1" "5 6 1 2 3 4" "1 3 4 5 6 2" "3 6 1 4 2 5"; do
        app=$((app + 1))
        sign_in "a$app"
        session=$(driver "s$app")
        session_member=".session_id = \"$session\""
        driver_of_order=$(driver "a$app")
        anchored "o$app"
        local step
        for step in $order; do
            case $step in
            1) as_app exclusiveActivatedByWeb v1 "$(at 180)" ;;
            2) confirm exclusiveActivatedByWeb v1 "$(at 182)" ;;
            3) as_app departed_charger v3 "$(at 300)" ;;
            4) as_app enteredMerchantZone v4 "$(at 480)" ;;
            5) as_app visitVerifiedByWeb v5 "$(at 600)" ;;
            6) confirm visitVerifiedByWeb v5 "$(at 602)" ;;
            esac
            expect_status 200
            expect_json '.status == "ok"'
        done
        get "/native/sessions/$session"
        expect_json '.state == "SESSION_ENDED" and .ended_by == "verified"' || return 1
        expect_json '[.events[] | [.event, .sender, .transition, .reason]] == [
            ["exclusiveActivatedByWeb", null, "rejected", "unconfirmed"],
            ["exclusiveActivatedByWeb", "service", "applied", null],
            ["exitedChargerAnchorZone", null, "applied", null], ["enteredMerchantZone", null, "applied", null],
            ["visitVerifiedByWeb", null, "rejected", "unconfirmed"],
            ["visitVerifiedByWeb", "service", "applied", null]]' || return 1
    done
    dwell check
}

# confirm EVENT_NAME KEY OCCURRED_AT: like as_service, but for the driver `$driver_of_order`.
confirm() {
    local app=$token
    token=$service
    post /native/events "$(event "$1" "$2" ".occurred_at = \"$3\" | .driver_id = \"$driver_of_order\" | $session_member")"
    token=$app
}

@test "driver_id: required from a service, known, and in an app's event only its own" {
    local app=$token
    token=$service
    post /native/events "$(event chargerTargeted k1)"
    expect_pointers /driver_id
    post /native/events "$(event chargerTargeted k1 '.driver_id = "nobody-knows"')"
    expect_problem 404 driver_not_found
    token=$app
    post /native/events "$(event chargerTargeted k1 ".driver_id = \"$(driver a)\"")"
    expect_status 200
    post /native/events "$(event chargerTargeted k2 '.driver_id = "other"')"
    expect_problem 403 forbidden
    expect_json '.errors[0].pointer == "/driver_id"'
    post /v1/native/pre-session-events "$(event charger_targeted k3 '.driver_id = "other"')"
    expect_status 200
}

@test "the same key of app and service is two events, and a repeat of the service's is replayed" {
    anchored k
    as_app exclusiveActivatedByWeb same "$(at 180)"
    as_service exclusiveActivatedByWeb same "$(at 180)"
    expect_json '.status == "ok" and .event_id == "same" and .session.state == "SESSION_ACTIVE"'
    as_service exclusiveActivatedByWeb same "$(at 180)"
    expect_json '.status == "already_processed" and .event_id == "same"'
    as_service exclusiveActivatedByWeb same "$(at 189)"
    expect_problem 422 idempotency_key_reused
    get "/native/sessions/$session"
    expect_json '[.events[].idempotency_key] | sort == ["same", "§service/same"]'
}

@test "a batch of a service is for several drivers, and is charged to the service" {
    as_app chargerTargeted k1 "$(at 0)" .
    sign_in b
    as_app chargerTargeted k1 "$(at 0)" .
    token=$service
    post /native/events/batch "$(gojq -cn --argjson a "$(event chargerTargeted k2 ".driver_id = \"$(driver a)\"")" \
        --argjson b "$(event chargerTargeted k2 ".driver_id = \"$(driver b)\"")" '{events: [$a, $b]}')"
    expect_status 200
    expect_json '[.results[].status] == ["ok", "ok"]'
    expect_field RateLimit '"service";r=[0-9]+;t=[0-9]+'
    [[ $(field RateLimit-Policy) == *'"service";q=400;w=60'* ]] || fail 'No policy of the service.'
}

@test "a service does nothing else, and signing in never gives the role" {
    token=$service
    local path
    for path in /native/session /native/sessions /native/config /auth/me /auth/me/export; do
        get "$path"
        expect_problem 403 forbidden || return 1
    done
    post /native/sessions '{"session_id":"x"}'
    expect_problem 403 forbidden
    post /v1/native/pre-session-events "$(event charger_targeted k1)"
    expect_problem 403 forbidden
}

@test "a change of the setting does not rewrite history, and a refold keeps it" {
    forget_server
    start_server
    sign_in a
    service=$(dwell token --driver web-backend --role service)
    anchored k
    as_app exclusiveActivatedByWeb k1 "$(at 180)"
    expect_json '.session.state == "SESSION_ACTIVE"'
    stop_server
    start_server TRUSTED_CONFIRMATIONS=service
    as_app departed_charger k2 "$(at 300)"
    expect_json '.session.state == "IN_TRANSIT"'
    as_app visitVerifiedByWeb k3 "$(at 360)"
    expect_json '.session.state == "IN_TRANSIT" and .session.reason == "unconfirmed"'
    stop_server
    dwell refold
    dwell check
    start_server
    as_app visitVerifiedByWeb k3 "$(at 360)"
    expect_json '.status == "already_processed" and .session.reason == "unconfirmed"'
    stop_server
}

@test "a deleted driver takes no events of a service, and leaves none behind" {
    as_app chargerTargeted k1 "$(at 0)" .
    as_service chargerTargeted k2 "$(at 60)" .
    expect_json '.status == "ok"'
    request DELETE /auth/me -H 'Content-Type: application/json' --data-binary '{"confirm":true}'
    expect_status 200
    as_service chargerTargeted k3 "$(at 120)" .
    expect_problem 404 driver_not_found
    dwell verify-erased --driver "$(driver a)"
}

@test "TRUSTED_CONFIRMATIONS=service needs tokens without a sign-in session" {
    forget_server
    prepare_server TRUSTED_CONFIRMATIONS=service JWT_TRUST_EXTERNAL=false
    run dwell check-config
    [[ $status -ne 0 && $output == *TRUSTED_CONFIRMATIONS* ]] || fail "$output"
}
