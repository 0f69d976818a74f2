#!/usr/bin/env bats
# Tests the ownership and registration of sessions (contract, section 3).

load lib

setup_file() {
    start_server
    remember_server
}

teardown_file() {
    recall_server
    stop_server
}

setup() {
    recall_server
    sign_in a
}

teardown() {
    end_server
}

@test "another driver's session is 404, nothing is stored, and the key stays free" {
    local session
    session=$(driver s)
    post /native/events "$(event exclusiveActivatedByWeb k1 ".session_id = \"$session\"")"
    expect_status 200
    sign_in b
    post /native/events "$(event webRequestedEnd k1 ".session_id = \"$session\"")"
    expect_problem 404 session_not_found
    expect_stored b 0
    post /native/events "$(event chargerTargeted k1)"
    expect_json '.status == "ok"'
}

@test "registering a session: 201, 200 on repeat, 404 for another driver, who learns nothing" {
    local registration
    registration=$(gojq -cn --arg s "$(driver s)" '{session_id: $s, charger_id: "c1", merchant_id: "m1"}')
    post /native/sessions "$registration"
    expect_status 201
    post /native/sessions "$registration"
    expect_status 200
    sign_in b
    post /native/sessions "$registration"
    expect_problem 404 session_not_found
    local refusal
    refusal=$(gojq -c 'del(.request_id)' <<<"$body")
    post /native/events "$(event webRequestedEnd k1 ".session_id = \"$(driver s)\"")"
    expect_problem 404 session_not_found
    [[ $(gojq -c 'del(.request_id)' <<<"$body") == "$refusal" ]]
}

@test "the first registration counts, also of a session that an event opened" {
    local session
    session=$(driver s)
    post /native/events "$(event departed_charger k1 ".session_id = \"$session\"")"
    expect_status 200
    local charger
    for charger in first second; do
        post /native/sessions "{\"session_id\":\"$session\",\"charger_id\":\"$charger\"}"
        expect_status 200
        get "/native/sessions/$session"
        expect_json '.charger_id == "first" and has("registered_at")'
    done
}

@test "a registration without a session_id, or with a bad one, is 400" {
    post /native/sessions '{}'
    expect_pointers /session_id
    post /native/sessions "$(gojq -cn '{session_id: ("x" * 129), charger_id: 1}')"
    expect_pointers /session_id /charger_id
    request POST /native/sessions -H 'Content-Type: text/plain' --data-binary '{"session_id":"x"}'
    expect_problem 415 unsupported_media_type
}

@test "with SESSION_REGISTRATION=required an unknown session is 404 until it is registered" {
    forget_server
    start_server SESSION_REGISTRATION=required
    local session
    session=$(driver s)
    post /native/events "$(event exclusiveActivatedByWeb k1 ".session_id = \"$session\"")"
    expect_problem 404 session_not_found
    expect_stored a 0
    post /native/events "$(event chargerTargeted k2)"
    expect_status 200
    post /native/sessions "{\"session_id\":\"$session\"}"
    expect_status 201
    post /native/events "$(event exclusiveActivatedByWeb k1 ".session_id = \"$session\"")"
    expect_json '.status == "ok"'
    sign_in b
    post /native/events "$(event exclusiveActivatedByWeb k1 ".session_id = \"$session\"")"
    expect_problem 404 session_not_found
    stop_server
}
