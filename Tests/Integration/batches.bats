#!/usr/bin/env bats
# Tests batches: each event gets the same result as if the client had sent it alone (contract, section 3).

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
    batch_time=$(seconds_ago 0)
}

teardown() {
    end_server
}

# batch COUNT: prints a batch of COUNT events with the keys b1, b2, ... Events with the same key are equal, because all
# batches of a test have the same time.
batch() {
    gojq -cn --argjson count "$1" --arg now "$batch_time" \
        '{events: [range($count) | {event_id: "b\(. + 1)", event: "chargerTargeted", occurred_at: $now}]}'
}

@test "a batch answers each event in order, as the single call would, with its status_code" {
    post /native/events/batch "$(batch 3)"
    expect_status 200
    expect_json '.results == [range(3) | {status: "ok", status_code: 200, event_id: "b\(. + 1)",
        session: {state: "IDLE", transition: "none"}}]'
    expect_stored a 3
    post /native/events/batch "$(batch 4)"
    expect_status 200
    expect_json '.results | map(.status) == ["already_processed", "already_processed", "already_processed", "ok"]'
    expect_json '.results | map(.status_code) == [200, 200, 200, 200]'
}

@test "a batch takes 1 and 500 events, and neither 0 nor 501" {
    post /native/events/batch "$(batch 1)"
    expect_status 200
    expect_json '.results | length == 1'
    post /native/events/batch "$(batch 500)"
    expect_status 200
    expect_json '(.results | length == 500) and (.results | map(.event_id) == [range(500) | "b\(. + 1)"])'
    expect_stored a 500
    post /native/events/batch "$(batch 0)"
    expect_pointers /events
    post /native/events/batch "$(batch 501)"
    expect_pointers /events
    local wrong
    for wrong in '{}' '{"events":null}' '{"events":{}}'; do
        post /native/events/batch "$wrong"
        expect_pointers /events
    done
    expect_stored a 500
}

@test "one bad event never sinks its neighbours" {
    sign_in b
    post /native/events "$(event exclusiveActivatedByWeb k0 ".session_id = \"$(driver of-b)\"")"
    sign_in a
    post /native/events "$(event chargerTargeted reused)"
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" --arg foreign "$(driver of-b)" '{events: [
        {event_id: "g1", event: "enteredChargerIntentZone", occurred_at: $now},
        {event_id: "x1", event: "departed_charger", occurred_at: "soon"},
        "no object",
        {event_id: "x2", event: "webRequestedEnd", occurred_at: $now, session_id: $foreign},
        {event_id: "reused", event: "activationRejected", occurred_at: $now},
        {event_id: "g2", event: "batteryLow", occurred_at: $now},
        {event_id: "g2", event: "batteryLow", occurred_at: $now}]}')"
    expect_status 200
    expect_json '.results | map(.status_code) == [200, 400, 400, 404, 422, 200, 200]'
    expect_json '.results[0] | .status == "ok" and .event_id == "g1" and .session.state == "NEAR_CHARGER"'
    expect_json '.results[1] | .status == 400 and .code == "validation_failed" and .retryable == false
        and .error == .detail and (.errors | map(.pointer) | sort) == ["/occurred_at", "/session_id"]'
    expect_json '.results[2].code | . == "validation_failed" or . == "malformed_json"'
    expect_json '.results[3] | .status == 404 and .code == "session_not_found"'
    expect_json '.results[4] | .status == 422 and .code == "idempotency_key_reused"'
    expect_json '.results[5].status == "ok" and .results[6].status == "already_processed"'
    expect_stored a 3
}

@test "a batch has 1 MiB, one byte more is 413" {
    printf '%-1048576s' "$(batch 2)" >"$BATS_TEST_TMPDIR/largest"
    post /native/events/batch "@$BATS_TEST_TMPDIR/largest"
    expect_status 200
    printf '%-1048577s' "$(batch 2)" >"$BATS_TEST_TMPDIR/too-large"
    post /native/events/batch "@$BATS_TEST_TMPDIR/too-large"
    expect_problem 413 content_too_large
    gzip -c "$BATS_TEST_TMPDIR/too-large" >"$BATS_TEST_TMPDIR/too-large.gz"
    post /native/events/batch "@$BATS_TEST_TMPDIR/too-large.gz" -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
}
