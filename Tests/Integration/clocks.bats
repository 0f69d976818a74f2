#!/usr/bin/env bats
# Tests that each event is stored with its raw time, its corrected time and its time of receipt. Also tests how a wrong
# clock is corrected (contract, section 3).

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

@test "raw, corrected and skew are stored; only a clock more than five minutes off is corrected" {
    # This phone's clock is two hours ahead. X-Sent-At shows the error.
    post /native/events "$(event enteredChargerIntentZone ahead ".occurred_at = \"$(seconds_ago -7100)\"")" \
        -H "X-Sent-At: $(seconds_ago -7200)"
    expect_status 200
    # In the first request, the phone's clock is four minutes behind. In the second request, the clock is right, but the
    # event is old.
    sign_in b
    post /native/events "$(event enteredChargerIntentZone behind ".occurred_at = \"$(seconds_ago 300)\"")" \
        -H "X-Sent-At: $(seconds_ago 240)"
    post /native/events "$(event anchorDwellComplete old ".occurred_at = \"$(seconds_ago 3000)\"")" \
        -H "X-Sent-At: $(seconds_ago 0)"
    local before_receipt
    before_receipt=$(stored_events "idempotency_key,
        CAST(round((received_at_ms - corrected_at_ms) / 10000.0) * 10 AS INTEGER),
        CAST(round((received_at_ms - occurred_at_ms) / 10000.0) * 10 AS INTEGER)" \
        "driver_id IN ('$(driver a)', '$(driver b)')")
    [[ $before_receipt == $'ahead|100|-7100\nbehind|300|300\nold|3000|3000' ]] ||
        fail "Corrected and raw seconds before the receipt: $before_receipt"
    local skewed
    skewed=$(sql "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)' AND skew_ms BETWEEN -7201000 AND -7190000")
    [[ $skewed == 1 ]]
}

# clock_rules SESSION: prints a line for each event of the session. The line has the event's key, the rule that judged
# its clock, and the event's correction in seconds, rounded to ten.
clock_rules() {
    local session=$1
    dwell explain --json --session "$session" | gojq -r '.events[] | select(.source != "server")
        | "\(.idempotency_key) \(.clock_rule) \((.correction_ms / 10000 | round) * 10)"'
}

# A shipped iOS app was suspended for 320 s between two attempts, and sends the same bytes again. The server must not
# take the 320 s for an error of the phone's clock.
@test "a byte-identical retry of a phone whose clock was right stays where it occurred" {
    local session number=0 name stale
    session=$(driver s)
    v1_body() { # NAME KEY SECONDS_AGO [SECONDS_AGO of the timestamp]
        printf '{"schema_version":"1.0","event_id":"%s","idempotency_key":"%s","session_id":"%s","event":"%s",' \
            "$2" "$2" "$session" "$1"
        printf '"occurred_at":"%s","timestamp":"%s","source":"ios_native","app_state":"background"}' \
            "$(seconds_ago "$3")" "$(seconds_ago "${4:-$3}")"
    }
    post /v1/native/pre-session-events "$(v1_body entered_charger_intent_zone k1 1500 0 | gojq -c 'del(.session_id)')"
    expect_verdict NEAR_CHARGER applied
    post /v1/native/pre-session-events "$(v1_body anchor_dwell_complete k2 1350 0 | gojq -c 'del(.session_id)')"
    post /v1/native/session-events "$(v1_body exclusive_activated k3 1300 0)"
    post /v1/native/session-events "$(v1_body departed_charger k4 1100 0)"
    # The grace deadline passed 200 s ago. The driver was at the merchant 120 s before the deadline.
    stale=$(v1_body entered_merchant_zone k5 320)
    post /v1/native/session-events "$stale"
    expect_verdict AT_MERCHANT applied
    post /v1/native/session-events "$stale"
    expect_json '.status == "already_processed" and .session.transition == "applied"'
    [[ $(clock_rules "$session") == $'k1 right_clock 0\nk2 right_clock 0\nk3 right_clock 0\nk4 right_clock 0\nk5 lone_timestamp 0' ]] ||
        fail "$(clock_rules "$session")"
    [[ $(stored_events idempotency_key "driver_id = '$(driver a)' AND skew_ms BETWEEN 319000 AND 340000") == k5 ]]
    dwell explain --session "$session" | grep 'clock  *skew in this timestamp only' >/dev/null
}

@test "all clocks are kept: X-Sent-At decides, and the timestamp beside it is not lost" {
    local session sent
    session=$(driver s)
    sent=$(event sessionRestored k1 ".session_id = \"$session\" | .occurred_at = \"$(seconds_ago 7000)\"
        | .timestamp = \"$(seconds_ago 6900)\"")
    post /native/events "$sent" -H "X-Sent-At: $(seconds_ago 3600)"
    expect_status 200
    [[ $(clock_rules "$session") == 'k1 sent_at 3600' ]] || fail "$(clock_rules "$session")"
    dwell explain --json --session "$session" | gojq -e --arg timestamp "$(gojq -r .timestamp <<<"$sent")" '.events[0]
        | (.timestamp | fromdate? // (sub("\\.[0-9]+Z"; "Z") | fromdate)) == ($timestamp | sub("\\.[0-9]+Z"; "Z") | fromdate)
        and .sent_at != null and .received_at != null and .occurred_at != .occurred_at_sent and .skew_ms > 3590000'
}

@test "a queue that stamps when it sends is believed from its first event on, and the rule is known" {
    local session name number=0
    session=$(driver s)
    for name in exclusiveActivatedByWeb exitedChargerAnchorZone; do
        number=$((number + 1))
        post /native/events "$(event "$name" "k$number" ".session_id = \"$session\"
            | .occurred_at = \"$(seconds_ago $((8000 - number * 60)))\" | .timestamp = \"$(seconds_ago 7200)\"")"
        expect_status 200
    done
    [[ $(clock_rules "$session") == $'k1 first_events 7200\nk2 known_correction 7200' ]] || fail "$(clock_rules "$session")"
}

@test "what claims to happen more than five minutes from now happened when it was received" {
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago -3600)\"")"
    expect_verdict NEAR_CHARGER applied
    [[ $(stored_events 'received_at_ms - corrected_at_ms' "driver_id = '$(driver a)'") == 0 ]]
}

@test "every stored event names the settings in force by their ETag" {
    post /native/events "$(event chargerTargeted k1)"
    get /native/config
    local version
    version=$(field ETag)
    [[ \"$(stored_events settings "driver_id = '$(driver a)'")\" == "$version" ]]
}
