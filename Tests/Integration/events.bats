#!/usr/bin/env bats
# Tests the posting of events: the stored event, and the verdict and state in the response (contract, sections 1 and 3).

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

@test "an event is stored and answered with the state it led to" {
    post /native/events "$(event enteredChargerIntentZone k1)"
    expect_status 200
    expect_field Content-Type 'application/json(;.*)?'
    expect_json '. == {status: "ok", event_id: "k1", session: {state: "NEAR_CHARGER", transition: "applied"}}'
    expect_no_field Idempotent-Replayed
    expect_stored a 1
}

@test "a journey from the charger to the merchant" {
    post /native/events "$(event chargerTargeted k1 ".occurred_at = \"$(seconds_ago 700)\"")"
    expect_verdict IDLE none
    post /native/events "$(event enteredChargerIntentZone k2 ".occurred_at = \"$(seconds_ago 600)\"")"
    expect_verdict NEAR_CHARGER applied
    post /native/events "$(event anchorDwellComplete k3 ".occurred_at = \"$(seconds_ago 500)\"")"
    expect_verdict ANCHORED applied
    local session
    session="$(driver a)-session"
    post /native/events "$(event exclusiveActivatedByWeb k4 \
        ".occurred_at = \"$(seconds_ago 400)\" | .session_id = \"$session\"")"
    expect_verdict SESSION_ACTIVE applied
    post /native/events "$(event exitedChargerAnchorZone k5 \
        ".occurred_at = \"$(seconds_ago 300)\" | .session_id = \"$session\"")"
    expect_verdict IN_TRANSIT applied
    post /native/events "$(event enteredMerchantZone k6 \
        ".occurred_at = \"$(seconds_ago 200)\" | .session_id = \"$session\"")"
    expect_verdict AT_MERCHANT applied
    post /native/events "$(event visitVerifiedByWeb k7 \
        ".occurred_at = \"$(seconds_ago 100)\" | .session_id = \"$session\"")"
    expect_verdict SESSION_ENDED applied
    expect_stored a 7
}

@test "after an ended session, arriving at a charger implies the reset that shipped clients never send" {
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 300)\"")"
    post /native/events "$(event webRequestedEnd k2 \
        ".occurred_at = \"$(seconds_ago 200)\" | .session_id = \"$(driver s)\"")"
    expect_verdict SESSION_ENDED applied
    post /native/events "$(event enteredChargerIntentZone k3 ".occurred_at = \"$(seconds_ago 100)\"")"
    expect_verdict NEAR_CHARGER applied
    expect_json '.session.implied == ["reset"]'
}

@test "a rejected event is stored and told why" {
    post /native/events "$(event exclusiveActivatedByWeb k1 ".session_id = \"$(driver s)\"")"
    expect_verdict IDLE rejected not_anchored
    post /native/events "$(event visitVerifiedByWeb k2 ".session_id = \"$(driver s)\"")"
    expect_verdict IDLE rejected not_at_merchant
    post /native/events "$(event anchorDwellComplete k3)"
    expect_verdict IDLE rejected no_such_transition
    expect_stored a 3
}

@test "a late event changes the verdict on a stored one, which a repeat tells" {
    local dwell_complete
    dwell_complete=$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago 100)\"")
    post /native/events "$dwell_complete"
    expect_verdict IDLE rejected no_such_transition
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 200)\"")"
    expect_verdict ANCHORED applied
    post /native/events "$dwell_complete"
    expect_json '.status == "already_processed"'
    expect_verdict ANCHORED applied
}

@test "a passed deadline counts in the answer, though nobody reported it" {
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 7200)\"")"
    post /native/events "$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago 7100)\"")"
    post /native/events "$(event exclusiveActivatedByWeb k3 \
        ".occurred_at = \"$(seconds_ago 7000)\" | .session_id = \"$(driver s)\"")"
    expect_verdict SESSION_ENDED applied
}

@test "an event name of a newer client is stored and moves nothing" {
    post /native/events "$(event teleport_detected k1)"
    expect_verdict IDLE none
    post /native/events "$(event "A$(printf 'x%.0s' {1..63})" k2)"
    expect_verdict IDLE none
    expect_stored a 2
}

@test "both spellings of every event mean the same, and both are kept" {
    local index=0 pair canonical spelling members
    for pair in chargerTargeted:charger_targeted enteredChargerIntentZone:entered_charger_intent_zone \
        exitedChargerIntentZone:exited_charger_intent_zone anchorDwellComplete:anchor_dwell_complete \
        exitedChargerAnchorZone:anchor_lost activationRejected:activation_rejected \
        exclusiveActivatedByWeb:exclusive_activated:s exitedChargerAnchorZone:departed_charger:s \
        enteredMerchantZone:entered_merchant_zone:s gracePeriodExpired:grace_period_expired:s \
        hardTimeoutExpired:hard_timeout_expired:s visitVerifiedByWeb:visit_verified:s \
        webRequestedEnd:web_requested_end:s reset:reset:s sessionRestored:session_restored:s; do
        index=$((index + 1))
        IFS=: read -r canonical spelling members <<<"$pair"
        members=${members:+".session_id = \"$(driver s)\""}
        post /native/events "$(event "$canonical" "canonical-$index" "${members:-.}")"
        expect_status 200
        post /native/events "$(event "$spelling" "v1-$index" "${members:-.}")"
        expect_status 200
        local rows
        rows=$(stored_events 'name, spelling, has_session' \
            "driver_id = '$(driver a)' AND idempotency_key IN ('canonical-$index', 'v1-$index')")
        local with_session=${members:+1}
        [[ $rows == "$canonical|$canonical|${with_session:-0}"$'\n'"$canonical|$spelling|${with_session:-0}" ]] ||
            fail "Stored as $rows"
    done
}

@test "unknown members pass, null is absent" {
    post /native/events "$(event chargerTargeted k1 '.from_the_future = {a: [1]} | .session_id = null |
        .metadata = null | .sequence = null | .app_state = null | .charger_id = null | .merchant_id = null')"
    expect_verdict IDLE none
}

@test "every optional member at its edge is stored as sent" {
    post /native/events "$(event chargerTargeted k1 '.sequence = 0 | .app_state = "background" |
        .source = "android_native" | .schema_version = "1.7" | .charger_id = "c" * 128 |
        .merchant_id = "m" | .metadata = {deep: [1, {"ü": null}]}')"
    expect_status 200
    post /native/events "$(event chargerTargeted k2 '.sequence = 9223372036854775807')"
    expect_status 200
    local rows
    rows=$(stored_events 'idempotency_key, sequence, metadata' "driver_id = '$(driver a)'")
    [[ $rows == 'k1|0|{"deep":[1,{"ü":null}]}'$'\n''k2|9223372036854775807|' ]] || fail "Stored as $rows"
}
