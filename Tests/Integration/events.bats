#!/usr/bin/env bats
# Posting events: what is stored, what is answered, and what is refused (contract, sections 1, 3 and 5).

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

# --- storing ------------------------------------------------------------------------------------------------------

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
    post /native/events "$(event webRequestedEnd k2 ".occurred_at = \"$(seconds_ago 200)\" | .session_id = \"$(driver s)\"")"
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
        rows=$(sql "SELECT event_kind.name, event_kind.spelling, event_kind.has_session
            FROM event JOIN event_kind ON event_kind.id = event.kind JOIN driver ON driver.id = event.driver
            WHERE driver.driver_id = '$(driver a)' AND idempotency_key IN ('canonical-$index', 'v1-$index')
            ORDER BY event.id")
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
    # The number as it is, which jq would round.
    local exact
    exact=$(event chargerTargeted k2 '.sequence = "LARGEST"')
    post /native/events "${exact/\"LARGEST\"/9223372036854775807}"
    expect_status 200
    local rows
    rows=$(sql "SELECT idempotency_key, sequence, metadata FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)' ORDER BY event.id")
    [[ $rows == 'k1|0|{"deep":[1,{"ü":null}]}'$'\n''k2|9223372036854775807|' ]] || fail "Stored as $rows"
}

# --- idempotency --------------------------------------------------------------------------------------------------

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
    jq -se 'length == 20 and (map(select(.status == "ok")) | length == 1)
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
    post /native/events "$(jq -c '.timestamp = "2020-01-01T00:00:00Z"' <<<"$first")"
    expect_json '.status == "already_processed"'
    post /native/events "$(jq 'to_entries | reverse | from_entries' <<<"$first")"
    expect_json '.status == "already_processed"'
    expect_stored a 1
}

@test "a key with another body is 422, and the stored event stays" {
    local first
    first=$(event chargerTargeted k1 '.charger_id = "c1"')
    post /native/events "$first"
    expect_status 200
    local change
    for change in '.charger_id = "c2"' '.event = "activationRejected"' '.metadata = {}' '.sequence = 1' \
        '.occurred_at = "2026-01-01T00:00:00Z"' '.app_state = "background"' '.event_id = "e2" | .idempotency_key = "k1"'; do
        post /native/events "$(jq -c "$change" <<<"$first")"
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

@test "what was refused does not hold its key" {
    post /native/events "$(event chargerTargeted k1 '.occurred_at = "yesterday"')"
    expect_pointers /occurred_at
    post /native/events "$(event chargerTargeted k1)"
    expect_json '.status == "ok"'
}

# --- field errors -------------------------------------------------------------------------------------------------

@test "all field errors come at once, each with its pointer" {
    post /native/events "$(event entered_merchant_zone k1 'del(.session_id) | .occurred_at = "yesterday" |
        .timestamp = 12 | .sequence = -1 | .source = "server" | .metadata = [] | .schema_version = "2.0" |
        .charger_id = "" | .merchant_id = 7')"
    expect_pointers /session_id /occurred_at /timestamp /sequence /source /metadata /schema_version \
        /charger_id /merchant_id
    expect_stored a 0
}

@test "each rule on a member is kept" {
    local pointer change
    while IFS=$'\t' read -r pointer change; do
        post /native/events "$(event chargerTargeted k1 "$change")" && expect_pointers "$pointer" ||
            { echo "with $change"; return 1; }
    done <<'RULES'
/schema_version	.schema_version = "2.0"
/schema_version	.schema_version = "0.9"
/schema_version	.schema_version = 1
/event_id	.event_id = ""
/event_id	.event_id = "é"
/event_id	.event_id = "a\nb"
/event_id	.event_id = "x" * 129
/event_id	.event_id = 5
/idempotency_key	.idempotency_key = ""
/idempotency_key	.idempotency_key = "x" * 129
/idempotency_key	.idempotency_key = "schlüssel"
/session_id	.event = "webRequestedEnd"
/session_id	.event = "departed_charger"
/session_id	.event = "anchor_lost" | .session_id = "s"
/session_id	.event = "webRequestedEnd" | .session_id = ""
/session_id	.event = "webRequestedEnd" | .session_id = "x" * 129
/session_id	.event = "webRequestedEnd" | .session_id = "a\u0000b"
/charger_id	.charger_id = "x" * 129
/charger_id	.charger_id = "a\tb"
/merchant_id	.merchant_id = ""
/event	.event = ""
/event	.event = "9lives"
/event	.event = "with space"
/event	.event = "x" * 65
/event	.event = null
/event	del(.event)
/occurred_at	del(.occurred_at)
/occurred_at	.occurred_at = null
/occurred_at	.occurred_at = "2026-11-16T20:00:00"
/occurred_at	.occurred_at = "2026-02-30T20:00:00Z"
/occurred_at	.occurred_at = "2026-11-16"
/occurred_at	.occurred_at = "2026-11-16T25:00:00Z"
/occurred_at	.occurred_at = 1763323200
/timestamp	.timestamp = "now"
/source	.source = "server"
/sequence	.sequence = -1
/sequence	.sequence = 1.5
/sequence	.sequence = "1"
/metadata	.metadata = "text"
/metadata	.metadata = {text: ("x" * 8192)}
RULES
    local too_large
    too_large=$(event chargerTargeted k1 '.sequence = "TOO LARGE"')
    post /native/events "${too_large/\"TOO LARGE\"/9223372036854775808}"
    expect_pointers /sequence
    expect_stored a 0
}

@test "neither event_id nor idempotency_key is a field error" {
    post /native/events "$(event chargerTargeted x 'del(.event_id)')"
    expect_problem 400 validation_failed
    expect_json '.errors | length == 1'
    expect_json '.errors[0].pointer | . == "/event_id" or . == "/idempotency_key"'
}

@test "metadata may have 8 KiB" {
    # {"t":"..."} has 8 bytes beside the text.
    post /native/events "$(event chargerTargeted k1 '.metadata = {t: ("x" * 8184)}')"
    expect_status 200
    post /native/events "$(event chargerTargeted k2 '.metadata = {t: ("x" * 8185)}')"
    expect_pointers /metadata
}

@test "a body that is no JSON object is 400" {
    local sent
    for sent in '' '{' '[]' '"text"' 'null' '{"event_id":"k1",}' '{"event":"chargerTargeted"} {}' '{"a":01}' \
        "{'a':1}" '{"a":"\x"}' '{"a":"\ud800"}'; do
        post /native/events "$sent"
        expect_status 400
        expect_json '.status == 400 and .retryable == false and (.code | . == "malformed_json" or . == "validation_failed")'
    done
    printf '{"event_id":"\xff\xfe"}' >"$BATS_TEST_TMPDIR/no-utf8"
    post /native/events "@$BATS_TEST_TMPDIR/no-utf8"
    expect_status 400
    # Brackets enough to overflow a recursive parser's stack.
    python3 -c 'print("[" * 60000, end="")' >"$BATS_TEST_TMPDIR/deep"
    post /native/events "@$BATS_TEST_TMPDIR/deep"
    expect_status 400
    expect_stored a 0
}

# --- media types, codings and sizes -------------------------------------------------------------------------------

@test "another Content-Type or none is 415" {
    local sent
    sent=$(event chargerTargeted k1)
    local type
    for type in text/plain application/x-www-form-urlencoded application/jsonp multipart/form-data; do
        request POST /native/events -H "Content-Type: $type" --data-binary "$sent"
        expect_problem 415 unsupported_media_type
    done
    request POST /native/events -H 'Content-Type:' --data-binary "$sent"
    expect_problem 415 unsupported_media_type
    expect_stored a 0
}

@test "a Content-Type may have parameters and any case" {
    request POST /native/events -H 'Content-Type: Application/JSON; charset=utf-8' \
        --data-binary "$(event chargerTargeted k1)"
    expect_status 200
}

@test "a gzip body is read, and is the same event as the plain one" {
    local sent
    sent=$(event chargerTargeted k1)
    gzip -c <<<"$sent" >"$BATS_TEST_TMPDIR/event.gz"
    post /native/events "@$BATS_TEST_TMPDIR/event.gz" -H 'Content-Encoding: gzip'
    expect_json '.status == "ok"'
    post /native/events "$sent"
    expect_json '.status == "already_processed"'
}

@test "a gzip bomb is 413, quickly" {
    head -c 50000000 /dev/zero | gzip -9 >"$BATS_TEST_TMPDIR/bomb.gz"
    [ "$(stat -c %s "$BATS_TEST_TMPDIR/bomb.gz")" -lt 65536 ]
    local started=$SECONDS
    post /native/events "@$BATS_TEST_TMPDIR/bomb.gz" -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
    post /native/events/batch "@$BATS_TEST_TMPDIR/bomb.gz" -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
    ((SECONDS - started <= 2))
}

@test "the limit holds for the decompressed size, to the byte" {
    local size sent
    for size in 65536 65537; do
        sent=$(event chargerTargeted "k$size")
        # White space is the one padding that no rule on members can mind.
        printf "%-${size}s" "$sent" | gzip -c >"$BATS_TEST_TMPDIR/$size.gz"
    done
    post /native/events "@$BATS_TEST_TMPDIR/65536.gz" -H 'Content-Encoding: gzip'
    expect_status 200
    post /native/events "@$BATS_TEST_TMPDIR/65537.gz" -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
}

@test "broken gzip is 400" {
    post /native/events "$(event chargerTargeted k1)" -H 'Content-Encoding: gzip'
    expect_problem 400 bad_request
    gzip -c <<<"$(event chargerTargeted k1)" | head -c 40 >"$BATS_TEST_TMPDIR/short.gz"
    post /native/events "@$BATS_TEST_TMPDIR/short.gz" -H 'Content-Encoding: gzip'
    expect_problem 400 bad_request
    expect_stored a 0
}

@test "another Content-Encoding is 415" {
    local coding
    for coding in br deflate zstd 'gzip, gzip' compress; do
        post /native/events "$(event chargerTargeted k1)" -H "Content-Encoding: $coding"
        expect_problem 415 unsupported_media_type
    done
}

@test "a body of 64 KiB is taken, one byte more is 413" {
    printf '%-65536s' "$(event chargerTargeted k1)" >"$BATS_TEST_TMPDIR/largest"
    post /native/events "@$BATS_TEST_TMPDIR/largest"
    expect_status 200
    printf '%-65537s' "$(event chargerTargeted k2)" >"$BATS_TEST_TMPDIR/too-large"
    post /native/events "@$BATS_TEST_TMPDIR/too-large"
    expect_problem 413 content_too_large
    post /native/events "@$BATS_TEST_TMPDIR/too-large" -H 'Transfer-Encoding: chunked'
    expect_problem 413 content_too_large
    expect_stored a 1
}

# --- sessions -----------------------------------------------------------------------------------------------------

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
    registration=$(jq -cn --arg s "$(driver s)" '{session_id: $s, charger_id: "c1", merchant_id: "m1"}')
    post /native/sessions "$registration"
    expect_status 201
    post /native/sessions "$registration"
    expect_status 200
    sign_in b
    post /native/sessions "$registration"
    expect_problem 404 session_not_found
    local refusal
    refusal=$(jq -c 'del(.request_id)' <<<"$body")
    post /native/events "$(event webRequestedEnd k1 ".session_id = \"$(driver s)\"")"
    expect_problem 404 session_not_found
    [[ $(jq -c 'del(.request_id)' <<<"$body") == "$refusal" ]]
}

@test "a registration without a session_id, or with a bad one, is 400" {
    post /native/sessions '{}'
    expect_pointers /session_id
    post /native/sessions "$(jq -cn '{session_id: ("x" * 129), charger_id: 1}')"
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

# --- batches ------------------------------------------------------------------------------------------------------

# batch COUNT: that many events with keys b1, b2, ...
batch() {
    jq -cn --argjson count "$1" --arg now "$(seconds_ago 0)" \
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
    post /native/events/batch "$(jq -cn --arg now "$(seconds_ago 0)" --arg foreign "$(driver of-b)" '{events: [
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

# --- clocks -------------------------------------------------------------------------------------------------------

@test "raw, corrected and skew are stored; only a clock more than five minutes off is corrected" {
    # A phone whose clock is two hours ahead, and which says so by X-Sent-At.
    post /native/events "$(event enteredChargerIntentZone ahead ".occurred_at = \"$(seconds_ago -7100)\"")" \
        -H "X-Sent-At: $(seconds_ago -7200)"
    expect_status 200
    # One that is four minutes behind, and one that sends an old event now.
    sign_in b
    post /native/events "$(event enteredChargerIntentZone behind ".occurred_at = \"$(seconds_ago 300)\"")" \
        -H "X-Sent-At: $(seconds_ago 240)"
    post /native/events "$(event anchorDwellComplete old ".occurred_at = \"$(seconds_ago 3000)\"")" \
        -H "X-Sent-At: $(seconds_ago 0)"
    local before_receipt
    before_receipt=$(sql "SELECT idempotency_key, CAST(round((received_at_ms - corrected_at_ms) / 10000.0) * 10 AS INTEGER),
        CAST(round((received_at_ms - occurred_at_ms) / 10000.0) * 10 AS INTEGER)
        FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id IN ('$(driver a)', '$(driver b)') ORDER BY event.id")
    [[ $before_receipt == $'ahead|100|-7100\nbehind|300|300\nold|3000|3000' ]] ||
        fail "Corrected and raw seconds before the receipt: $before_receipt"
    local skewed
    skewed=$(sql "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)' AND skew_ms BETWEEN -7201000 AND -7190000")
    [[ $skewed == 1 ]]
}

@test "what claims to happen more than five minutes from now happened when it was received" {
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago -3600)\"")"
    expect_verdict NEAR_CHARGER applied
    [[ $(sql "SELECT corrected_at_ms = received_at_ms FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)'") == 1 ]]
}

@test "every stored event names the settings in force by their ETag" {
    post /native/events "$(event chargerTargeted k1)"
    get /native/config
    local version
    version=$(field ETag)
    [[ \"$(sql "SELECT settings_version.version FROM event
        JOIN settings_version ON settings_version.id = event.settings_version
        JOIN driver ON driver.id = event.driver WHERE driver.driver_id = '$(driver a)'")\" == "$version" ]]
}
