#!/usr/bin/env bats
# Tests which requests count as the same event: keys, repeats, concurrent copies, and reused keys (contract, section 3).

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

@test "a repeat answers already_processed, says so in a header and stores nothing" {
    local sent
    sent=$(event enteredChargerIntentZone k1)
    post /native/events "$sent"
    expect_json '.status == "ok"'
    local attempt
    for attempt in 1 2 3; do
        post /native/events "$sent" -H "X-Sent-At: $(seconds_ago "$attempt")"
        expect_status 200
        expect_field Idempotent-Replayed true
        expect_json '. == {status: "already_processed", event_id: "k1",
            session: {state: "NEAR_CHARGER", transition: "applied"}}'
    done
    expect_stored a 1
}

@test "twenty copies in flight at once are stored once" {
    local sent index answers=$BATS_TEST_TMPDIR/answers
    sent=$(event enteredChargerIntentZone k1)
    mkdir "$answers"
    local copies=()
    for index in {1..20}; do
        curl -sS --max-time 20 -o "$answers/$index" -H "Authorization: Bearer $token" \
            -H 'Content-Type: application/json' --data-binary "$sent" "$server_url/native/events" 3>&- &
        copies+=($!)
    done
    for index in "${copies[@]}"; do wait "$index"; done
    gojq -se 'length == 20 and (map(select(.status == "ok")) | length == 1)
        and (map(select(.status == "already_processed")) | length == 19)' "$answers"/* >/dev/null || {
        cat "$answers"/*
        return 1
    }
    expect_stored a 1
}

@test "a repeat may differ in timestamp, in white space and in the order of members" {
    local first
    first=$(event chargerTargeted k1 '.metadata = {a: 1, b: 2}')
    post /native/events "$first"
    expect_json '.status == "ok"'
    post /native/events "$(gojq -c '.timestamp = "2020-01-01T00:00:00Z"' <<<"$first")"
    expect_json '.status == "already_processed"'
    post /native/events "$(python3 -c 'import json, sys
print(json.dumps(dict(reversed(json.load(sys.stdin).items())), indent=2))' <<<"$first")"
    expect_json '.status == "already_processed"'
    expect_stored a 1
}

# A shipped iOS app was killed before it got the response to an event from the background. At its next launch, it builds
# the body again with the app state "foreground". Both bodies must count as the same event.
@test "an event that the app builds again in another app state is a repeat" {
    local first rebuilt
    first='{"schema_version":"1.0","event_id":"5F0F7A2E-6C1B-4C53-9D2A-0B8E3C7D1A40",'
    first+='"idempotency_key":"5F0F7A2E-6C1B-4C53-9D2A-0B8E3C7D1A40","event":"anchor_dwell_complete",'
    first+="\"occurred_at\":\"$(seconds_ago 40)\",\"timestamp\":\"$(seconds_ago 40)\",\"source\":\"ios_native\","
    first+='"app_state":"background","metadata":{"previous_state":"NEAR_CHARGER","dwell_s":124}}'
    post /v1/native/pre-session-events "$first"
    expect_json '.status == "ok"'
    rebuilt=$(gojq -c --arg now "$(seconds_ago 0)" '.app_state = "foreground" | .timestamp = $now
        | .metadata = {dwell_s: 124.0, previous_state: "NEAR_CHARGER"}' <<<"$first")
    post /v1/native/pre-session-events "$rebuilt"
    expect_status 200
    expect_field Idempotent-Replayed true
    expect_json '.status == "already_processed"'
    post /native/events "$(gojq -c 'del(.app_state) | .schema_version = "1.3"' <<<"$first")"
    expect_json '.status == "already_processed"'
    local change
    for change in '.charger_id = "c2"' '.metadata.dwell_s = 125' '.sequence = 1' '.source = "web"'; do
        post /native/events "$(gojq -c "$change" <<<"$rebuilt")"
        expect_problem 422 idempotency_key_reused
    done
    expect_stored a 1
}

@test "a key with another body is 422, and the stored event stays" {
    local first
    first=$(event chargerTargeted k1 '.charger_id = "c1"')
    post /native/events "$first"
    expect_status 200
    local change
    for change in '.charger_id = "c2"' '.event = "activationRejected"' '.metadata = {}' '.sequence = 1' \
        '.occurred_at = "2026-01-01T00:00:00Z"' '.source = "web"' '.merchant_id = "m1"' \
        '.event_id = "e2" | .idempotency_key = "k1"'; do
        post /native/events "$(gojq -c "$change" <<<"$first")"
        expect_problem 422 idempotency_key_reused
    done
    post /native/events "$first"
    expect_json '.status == "already_processed"'
    expect_stored a 1
}

@test "keys belong to a driver: two drivers may use the same" {
    local sent
    sent=$(event enteredChargerIntentZone k1)
    post /native/events "$sent"
    expect_json '.status == "ok"'
    sign_in b
    post /native/events "$sent"
    expect_json '.status == "ok" and .session.state == "NEAR_CHARGER"'
    expect_stored a 1
    expect_stored b 1
}

@test "keys are case-sensitive, and an event_id may come again under another key" {
    post /native/events "$(event chargerTargeted e1 '.idempotency_key = "Key"')"
    expect_json '.status == "ok" and .event_id == "e1"'
    post /native/events "$(event chargerTargeted e1 '.idempotency_key = "key"')"
    expect_json '.status == "ok" and .event_id == "e1"'
    expect_stored a 2
}

@test "the key comes from event_id, from idempotency_key or from the header" {
    post /native/events "$(event chargerTargeted from-event-id)"
    expect_json '.status == "ok" and .event_id == "from-event-id"'
    post /native/events "$(event chargerTargeted x 'del(.event_id) | .idempotency_key = "from-key"')"
    expect_json '.status == "ok" and .event_id == "from-key"'
    local by_header
    by_header=$(event chargerTargeted x 'del(.event_id)')
    post /native/events "$by_header" -H 'Idempotency-Key: from-header'
    expect_json '.status == "ok" and .event_id == "from-header"'
    post /native/events "$by_header" -H 'Idempotency-Key: from-header'
    expect_json '.status == "already_processed"'
    post /native/events "$by_header"
    expect_problem 400 validation_failed
    expect_stored a 3
}

@test "the header may agree with the body and must not differ from it" {
    local sent
    sent=$(event chargerTargeted e1 '.idempotency_key = "k1"')
    post /native/events "$sent" -H 'Idempotency-Key: k1'
    expect_status 200
    post /native/events "$sent" -H 'Idempotency-Key: k2'
    expect_problem 400 validation_failed
    expect_json '.errors | length == 1'
    expect_stored a 1
}

@test "quotes around the header are not part of the key, unless the body has them" {
    local sent
    sent=$(event chargerTargeted x 'del(.event_id)')
    post /native/events "$sent" -H 'Idempotency-Key: "k1"'
    expect_json '.status == "ok" and .event_id == "k1"'
    post /native/events "$(gojq -c '.idempotency_key = "k1"' <<<"$sent")" -H 'Idempotency-Key: "k1"'
    expect_json '.status == "already_processed"'
    post /native/events "$(gojq -c '.idempotency_key = "\"k1\""' <<<"$sent")" -H 'Idempotency-Key: "k1"'
    expect_json '.status == "ok" and .event_id == "\"k1\""'
    expect_stored a 2
}

@test "a batch ignores the header" {
    post /native/events/batch "$(gojq -cn --argjson e "$(event chargerTargeted x 'del(.event_id)')" '{events: [$e]}')" \
        -H 'Idempotency-Key: k1'
    expect_json '.results[0] | .status_code == 400 and .errors[0].pointer == "/idempotency_key"'
    expect_stored a 0
}

@test "what was refused does not hold its key" {
    post /native/events "$(event chargerTargeted k1 '.occurred_at = "yesterday"')"
    expect_pointers /occurred_at
    post /native/events "$(event chargerTargeted k1)"
    expect_json '.status == "ok"'
}
