#!/usr/bin/env bats
# Tests the routes of shipped v1 clients. They share the handlers of the other routes, but use the old names and rules
# (contract, section 3).

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

@test "pre-session events, in the spelling of shipped clients" {
    post /v1/native/pre-session-events "$(event entered_charger_intent_zone k1)"
    expect_verdict NEAR_CHARGER applied
    post /v1/native/pre-session-events "$(event anchor_dwell_complete k2)"
    expect_verdict ANCHORED applied
    post /v1/native/pre-session-events "$(event anchor_lost k3)"
    expect_verdict NEAR_CHARGER applied
    expect_stored a 3
}

@test "session events, in the spelling of shipped clients" {
    post /v1/native/pre-session-events "$(event entered_charger_intent_zone k1)"
    post /v1/native/pre-session-events "$(event anchor_dwell_complete k2)"
    post /v1/native/session-events "$(event exclusive_activated k3 ".session_id = \"$(driver s)\"")"
    expect_verdict SESSION_ACTIVE applied
    post /v1/native/session-events "$(event departed_charger k4 ".session_id = \"$(driver s)\"")"
    expect_verdict IN_TRANSIT applied
    post /v1/native/session-events "$(event entered_merchant_zone k5 ".session_id = \"$(driver s)\"")"
    expect_verdict AT_MERCHANT applied
    post /v1/native/session-events "$(event visit_verified k6 ".session_id = \"$(driver s)\"")"
    expect_verdict SESSION_ENDED applied
}

@test "the byte-identical retry of a shipped client answers 2xx and stores nothing" {
    local sent
    sent=$(event entered_charger_intent_zone k1)
    post /v1/native/pre-session-events "$sent"
    expect_json '.status == "ok"'
    post /v1/native/pre-session-events "$sent"
    expect_status 200
    expect_json '.status == "already_processed"'
    expect_field Idempotent-Replayed true
    expect_stored a 1
}

@test "an event sent on an old route and again on the new one is one event" {
    local sent
    sent=$(event entered_charger_intent_zone k1)
    post /v1/native/pre-session-events "$sent"
    post /native/events "$sent"
    expect_json '.status == "already_processed"'
    expect_stored a 1
}

@test "session-events without a session_id is 400" {
    post /v1/native/session-events "$(event exclusive_activated k1)"
    expect_pointers /session_id
    post /v1/native/session-events "$(event teleport_detected k1)"
    expect_pointers /session_id
    expect_stored a 0
}

@test "pre-session-events with a session_id is 400" {
    post /v1/native/pre-session-events "$(event entered_charger_intent_zone k1 ".session_id = \"$(driver s)\"")"
    expect_pointers /session_id
    expect_stored a 0
}

@test "timestamp is required on the old routes" {
    post /v1/native/pre-session-events "$(event entered_charger_intent_zone k1 'del(.timestamp)')"
    expect_pointers /timestamp
    post /v1/native/session-events "$(event departed_charger k1 "del(.timestamp) | .session_id = \"$(driver s)\"")"
    expect_pointers /timestamp
    post /native/events "$(event enteredChargerIntentZone k1 'del(.timestamp)')"
    expect_status 200
}

@test "a refusal has the member that shipped clients decode" {
    post /v1/native/pre-session-events "$(event entered_charger_intent_zone k1 'del(.occurred_at)')"
    expect_pointers /occurred_at
    expect_json '.error | type == "string"'
}

@test "the old config route answers the same, byte for byte" {
    get /native/config
    expect_status 200
    local new_body=$body new_tag
    new_tag=$(field ETag)
    get /v1/native/config
    expect_status 200
    [[ $body == "$new_body" && $(field ETag) == "$new_tag" ]] || fail "Not $new_tag $new_body"
    get /v1/native/config -H "If-None-Match: $new_tag"
    expect_status 304
}
