#!/usr/bin/env bats
# Tests rate limits: which events and requests count towards a limit, and the quota in the response (contract, section
# 4).

load lib

setup() {
    forget_server
}

teardown() {
    end_server
}

# The window is longer than any test, unless the test sets another one.
limited_server() {
    start_server RATE_LIMIT_SESSION_EVENTS=3 RATE_LIMIT_PRESESSION_EVENTS=2 RATE_LIMIT_WINDOW_SECONDS=600 "$@"
    sign_in a
}

pre_session() {
    post /native/events "$(event chargerTargeted "$1")"
}

in_session() {
    post /native/events "$(event webRequestedEnd "$1" ".session_id = \"$(driver s)\"")"
}

expect_rate_limited() {
    expect_problem 429 rate_limited && expect_field Retry-After '[1-9][0-9]*' &&
        { (($(field Retry-After) <= ${1:-600})) || fail "Retry-After is over ${1:-600}."; }
}

# expect_remaining N: checks that the RateLimit field says that N events remain (r=N). A time (t=...) may follow.
expect_remaining() {
    expect_field RateLimit '"[^"]+";r='"$1"'(;t=[0-9]+)?'
}

@test "over the limit is 429 with Retry-After, and nothing is stored" {
    limited_server
    pre_session k1
    expect_status 200
    expect_remaining 1
    pre_session k2
    expect_status 200
    expect_remaining 0
    pre_session k3
    expect_rate_limited
    expect_remaining 0
    (($(field Retry-After) > 590)) || fail "The window is 600 s long."
    expect_stored a 2
    stop_server
}

@test "every limited route says what the policy is and how the driver stands" {
    limited_server
    local session
    session=".session_id = \"$(driver s)\""
    post /native/events "$(event chargerTargeted k1)"
    expect_remaining 1
    post /v1/native/pre-session-events "$(event charger_targeted k2)"
    expect_status 200
    expect_remaining 0
    post /v1/native/session-events "$(event web_requested_end k3 "$session")"
    expect_status 200
    expect_remaining 2
    expect_field RateLimit-Policy '"[^"]+";q=[23];w=600(, "[^"]+";q=[23];w=600)?'
    [[ $(field RateLimit-Policy) == *';q=3;w=600'* ]] || fail 'No policy of 3 in 600 s.'
    post /native/events/batch "{\"events\":[$(event webRequestedEnd k4 "$session")]}"
    expect_status 200
    expect_remaining 1
    [[ $(field RateLimit-Policy) == *';q=3;w=600'* ]] || fail 'No policy of 3 in 600 s.'
    post /native/events "$(event chargerTargeted k5)"
    expect_rate_limited
    [[ $(field RateLimit-Policy) == *';q=2;w=600'* ]] || fail 'No policy of 2 in 600 s.'
    stop_server
}

@test "a repeat of a stored event costs nothing, even when nothing is left" {
    limited_server
    local first
    first=$(event chargerTargeted k1)
    post /native/events "$first"
    expect_remaining 1
    local attempt
    for attempt in {1..5}; do
        post /native/events "$first"
        expect_json '.status == "already_processed"'
    done
    pre_session k2
    expect_status 200
    pre_session k3
    expect_rate_limited
    post /native/events "$first"
    expect_status 200
    expect_json '.status == "already_processed"'
    stop_server
}

@test "what is refused costs nothing" {
    limited_server
    sign_in b
    post /native/events "$(event webRequestedEnd k1 ".session_id = \"$(driver of-b)\"")"
    sign_in a
    local attempt
    for attempt in {1..5}; do
        post /native/events "$(event chargerTargeted "bad-$attempt" 'del(.occurred_at)')"
        expect_pointers /occurred_at
        post /native/events '{'
        expect_status 400
        request POST /native/events -H 'Content-Type: text/plain' --data-binary x
        expect_problem 415 unsupported_media_type
        post /native/events "$(event webRequestedEnd "foreign-$attempt" ".session_id = \"$(driver of-b)\"")"
        expect_problem 404 session_not_found
    done
    for attempt in 1 2 3; do
        in_session "s$attempt"
        expect_status 200
    done
    in_session s4
    expect_rate_limited
    pre_session p1
    pre_session p2
    expect_status 200
    pre_session p3
    expect_rate_limited
    stop_server
}

@test "refused events are counted once, alone or in a batch: after 600 every request with events is 429" {
    start_server RATE_LIMIT_SESSION_EVENTS=60
    sign_in a
    local -r invalid=$(event chargerTargeted bad 'del(.occurred_at)')
    post /native/events/batch "$(gojq -cn --argjson invalid "$invalid" '{events: [range(500) | $invalid]}')"
    expect_status 200
    post /native/events/batch "$(gojq -cn --argjson invalid "$invalid" '{events: [range(90) | $invalid]}')"
    expect_status 200
    local attempt
    for attempt in {1..10}; do
        post /native/events "$invalid"
        expect_pointers /occurred_at
    done
    post /native/events "$invalid"
    expect_rate_limited 60
    post /native/events/batch "$(gojq -cn --argjson invalid "$invalid" '{events: [$invalid]}')"
    expect_rate_limited 60
    stop_server
}

@test "a reused key costs nothing" {
    limited_server
    pre_session k1
    local attempt
    for attempt in {1..5}; do
        post /native/events "$(event activationRejected k1)"
        expect_problem 422 idempotency_key_reused
    done
    pre_session k2
    expect_status 200
    stop_server
}

@test "the window slides: after Retry-After there is room again, and a 429 did not cost any" {
    # The window is so long that even a slow machine posts all six events within it.
    limited_server RATE_LIMIT_WINDOW_SECONDS=20
    pre_session k1
    pre_session k2
    expect_status 200
    local attempt wait_seconds
    for attempt in {1..4}; do
        pre_session "refused-$attempt"
        expect_rate_limited 20
    done
    wait_seconds=$(field Retry-After)
    sleep "$wait_seconds"
    pre_session k3
    expect_status 200
    stop_server
}

@test "limits are per driver" {
    limited_server
    pre_session k1
    pre_session k2
    pre_session k3
    expect_rate_limited
    sign_in b
    pre_session k1
    expect_status 200
    expect_remaining 1
    stop_server
}

@test "session events and the others are counted apart" {
    limited_server
    pre_session p1
    pre_session p2
    pre_session p3
    expect_rate_limited
    local attempt
    for attempt in 1 2 3; do
        in_session "s$attempt"
        expect_status 200
        expect_remaining $((3 - attempt))
    done
    in_session s4
    expect_rate_limited
    stop_server
}

@test "each event of a batch is charged" {
    limited_server
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" \
        '{events: [range(4) | {event_id: "b\(.)", event: "chargerTargeted", occurred_at: $now}]}')"
    expect_status 200
    expect_json '.results | map(.status_code) == [200, 200, 429, 429]'
    expect_json '.results[2] | .status == 429 and .code == "rate_limited" and .retryable == true'
    expect_remaining 0
    pre_session k1
    expect_rate_limited
    expect_stored a 2
    stop_server
}

# In each pair of events, both events have the same key, so the limiter charges only the first. The store rejects the
# first event, and its charge is refunded.
#
# After the refund, the limiter must charge the second event of the pair.
@test "an event beside a refused one with its key is charged" {
    limited_server
    sign_in b
    post /native/events "$(event webRequestedEnd theirs ".session_id = \"$(driver t)\"")"
    expect_status 200
    sign_in a
    local pairs
    pairs=$(gojq -cn --arg now "$(seconds_ago 0)" --arg theirs "$(driver t)" --arg mine "$(driver s)" \
        '{events: [range(3) as $n | $theirs, $mine
            | {event_id: "p\($n)", event: "webRequestedEnd", occurred_at: $now, session_id: .}]}')
    post /native/events/batch "$pairs"
    expect_json '.results | map(.status_code) == [404, 200, 404, 200, 404, 200]'
    in_session k1
    expect_rate_limited
    post /native/events/batch "${pairs//\"p/\"q}"
    expect_json '.results | all(.status_code == 429)'
    expect_stored a 3
    stop_server
}

@test "what is refused in a batch leaves its place to the others" {
    limited_server
    sign_in b
    post /native/events "$(event webRequestedEnd theirs ".session_id = \"$(driver t)\"")"
    sign_in a
    in_session k1
    expect_status 200
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" --arg theirs "$(driver t)" --arg mine "$(driver s)" \
        '{events: [range(6) | {event_id: "r\(.)", event: "webRequestedEnd", occurred_at: $now,
            session_id: (if . == 4 then $mine else $theirs end)}]}')"
    expect_json '.results | map(.status_code) == [404, 404, 404, 404, 200, 404]'
    expect_remaining 1
    in_session k2
    expect_status 200
    in_session k3
    expect_rate_limited
    stop_server
}

# The store rejects all 500 events of the batch, and each refund makes room for one more event. If each refund led to a
# new decision about all remaining events, there would be about 125,000 decisions.
@test "a batch whose events pass one place on is decided about in linear time" {
    limited_server METRICS_PORT="$(free_port)"
    sign_in b
    post /native/events "$(event webRequestedEnd theirs ".session_id = \"$(driver t)\"")"
    expect_status 200
    sign_in a
    in_session k1
    in_session k2
    expect_remaining 1
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" --arg theirs "$(driver t)" \
        '{events: [range(500) | {event_id: "p\(.)", event: "webRequestedEnd", occurred_at: $now, session_id: $theirs}]}')"
    expect_status 200
    expect_json '.results | length == 500 and all(.status_code == 404)'
    expect_remaining 1
    local decisions port
    for port in "${server_environment[@]}"; do [[ $port != METRICS_PORT=* ]] || break; done
    decisions=$(curl -fsS "http://127.0.0.1:${port#*=}/metrics" |
        awk '/^dwell_admissions_total\{/ && /class="session"/ { sum += $2 } END { print sum }')
    ((decisions >= 503 && decisions <= 1003)) || fail "$decisions decisions."
    stop_server
}

@test "0 turns one limit off, and only that one" {
    limited_server RATE_LIMIT_SESSION_EVENTS=0
    local attempt
    for attempt in {1..100}; do
        in_session "s$attempt"
        [[ $status == 200 ]] || fail "Event $attempt was refused."
    done
    pre_session p1
    pre_session p2
    pre_session p3
    expect_rate_limited
    # Rejected events have a separate limit, which the value 0 does not turn off. After 600 rejected events, every event
    # gets 429.
    for attempt in 1 2; do
        post /native/events/batch "$(gojq -cn '{events: [range(500) | {}]}')"
        expect_json '.results | length == 500 and all(.status_code == 400)'
    done
    in_session s101
    expect_rate_limited
    expect_json '.detail | startswith("Too many rejected events")'
    stop_server
}

@test "the defaults: 60 session events and 30 others in 60 seconds" {
    limits=()
    start_server
    sign_in a
    local session
    session=$(driver s)
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" --arg s "$session" \
        '{events: [range(65) | {event_id: "s\(.)", event: "reset", session_id: $s, occurred_at: $now}]}')"
    expect_json '.results | map(select(.status_code == 200)) | length == 60'
    [[ $(field RateLimit-Policy) == *';q=60;w=60'* ]] || fail 'No policy of 60 in 60 s.'
    post /native/events/batch "$(gojq -cn --arg now "$(seconds_ago 0)" \
        '{events: [range(35) | {event_id: "p\(.)", event: "chargerTargeted", occurred_at: $now}]}')"
    expect_json '.results | map(select(.status_code == 200)) | length == 30'
    [[ $(field RateLimit-Policy) == *';q=30;w=60'* ]] || fail 'No policy of 30 in 60 s.'
    stop_server
}

@test "fifty requests at once pass exactly the limit" {
    limited_server RATE_LIMIT_PRESESSION_EVENTS=20
    local index answers=$BATS_TEST_TMPDIR/answers requests=()
    mkdir "$answers"
    for index in {1..50}; do
        curl -sS --max-time 20 -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $token" \
            -H 'Content-Type: application/json' --data-binary "$(event chargerTargeted "k$index")" \
            "$server_url/native/events" >"$answers/$index" 3>&- &
        requests+=($!)
    done
    for index in "${requests[@]}"; do wait "$index"; done
    [[ $(grep -lx 200 "$answers"/* | wc -l) == 20 && $(grep -lx 429 "$answers"/* | wc -l) == 30 ]] || {
        sort "$answers"/* | uniq -c
        return 1
    }
    expect_stored a 20
    stop_server
}

@test "a driver's other requests have windows of their own: 429 in time, and nothing is stored" {
    limited_server RATE_LIMIT_REGISTRATIONS=2 RATE_LIMIT_DEVICES=1 RATE_LIMIT_READS=3 RATE_LIMIT_PINGS=2
    local session attempt path
    session=$(driver s)
    for attempt in 1 2 3 4 5; do
        post /native/sessions "{\"session_id\":\"$session-$attempt\"}"
        if ((attempt <= 2)); then expect_status 201; else expect_rate_limited; fi
        expect_field RateLimit-Policy '"registrations";q=2;w=600'
        expect_field RateLimit '"registrations";r=[01];t=[0-9]+'
    done
    [[ $(sql "SELECT count(*) FROM session WHERE session_id LIKE '$session-%'") == 2 ]] || fail "Registered all the same."
    for attempt in 1 2 3 4; do get /native/sessions; done
    expect_rate_limited
    # The three requests about devices share one limit.
    local device=(-H 'Content-Type: application/json' --data-binary '{"platform":"ios","environment":"production"}')
    request PUT /native/devices/ab12 "${device[@]}"
    expect_status 201
    expect_field RateLimit-Policy '"devices";q=1;w=600'
    request PUT /native/devices/cd34 "${device[@]}"
    expect_rate_limited
    expect_field RateLimit-Policy '"devices";q=1;w=600'
    request DELETE /native/devices/ab12
    expect_rate_limited
    post /api/push/register-token '{"token":"ef56"}'
    expect_rate_limited
    [[ $(sql "SELECT push_token FROM device") == ab12 ]] || fail "The devices changed all the same."
    # The three paths for pings share one limit. Reads have another limit, so they do not use up the limit for pings.
    for path in /native/background-ping /v1/native/background-ping /v1/charging-sessions/background-ping; do
        post "$path" '{}'
        if [[ $path == /v1/charging-sessions/* ]]; then expect_rate_limited; else expect_status 204; fi
        expect_field RateLimit-Policy '"pings";q=2;w=600'
    done
    # The driver's exhausted limits do not affect the driver's events or other drivers. Reading the configuration has no
    # limit.
    pre_session k1
    expect_status 200
    for attempt in 1 2 3 4; do
        get /native/config
        expect_status 200
    done
    sign_in b
    post /native/sessions "{\"session_id\":\"$session-b\"}"
    expect_status 201
    request PUT /native/devices/cd34 "${device[@]}"
    expect_status 201
    stop_server
}
