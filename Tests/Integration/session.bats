#!/usr/bin/env bats
# Tests session state. The server enforces deadlines after a restart, and also if two instances run. Drivers read their
# own journeys, as documents and as a stream (contract, sections 1 and 3).

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
    streams=()
    others=()
}

teardown() {
    local pid
    for pid in "${streams[@]}" "${others[@]}"; do
        kill -KILL "$pid" 2>/dev/null || continue
        wait "$pid" 2>/dev/null || true
    done
    end_server
}

# depart NAME: takes driver NAME from IDLE to IN_TRANSIT now, in a session named after the driver.
depart() {
    local name
    sign_in "$1"
    for name in entered_charger_intent_zone anchor_dwell_complete; do
        post /native/events "$(event_now "$name" "$name")"
    done
    for name in exclusive_activated departed_charger; do
        post /native/events "$(event_now "$name" "$name" ".session_id = \"$(driver "$1")\"")"
    done
    expect_verdict IN_TRANSIT applied
}

# event_now NAME KEY [JQ-FILTER]: like event, but the time has milliseconds, so that two events of one second are in
# order.
event_now() {
    event "$1" "$2" ".occurred_at = \"$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)\" | ${3:-.}"
}

# expiries NAME: prints the driver's stored events that the server itself created. A line has the name, the transition,
# the state after the event, and the milliseconds from the deadline to the storing.
expiries() {
    stored_events 'name, transition, after_state, received_at_ms - corrected_at_ms' \
        "source = 'server' AND driver_id = '$(driver "$1")'" corrected_at_ms
}

# wait_for_expiry NAME: waits at most twenty seconds until the server has stored an expiry of driver NAME.
wait_for_expiry() {
    local attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        if [[ -n $(expiries "$1") ]]; then return 0; fi
        sleep 0.2
    done
    echo "No expiry of $1 was stored."
    return 1
}

# listen NAME [curl option ...]: writes a stream of the signed-in driver to $BATS_TEST_TMPDIR/NAME.
listen() {
    local name=$1
    shift
    curl -sSN --max-time 60 -H "Authorization: Bearer $token" "$@" "$server_url/native/session/stream" \
        >"$BATS_TEST_TMPDIR/$name" 2>"$BATS_TEST_TMPDIR/$name.error" 3>&- &
    streams+=($!)
}

# wait_for_line FILE REGEX [SECONDS]: waits until a line of the stream in FILE matches.
wait_for_line() {
    local attempt
    for ((attempt = 0; attempt < ${3:-20} * 20; attempt++)); do
        if grep -qE "$2" "$BATS_TEST_TMPDIR/$1"; then return 0; fi
        sleep 0.05
    done
    echo "The stream has no line $2:"
    cat "$BATS_TEST_TMPDIR/$1" "$BATS_TEST_TMPDIR/$1.error"
    return 1
}

# states FILE: prints the states that a stream has sent, on one line.
states() {
    sed -n 's/^data: //p' "$BATS_TEST_TMPDIR/$1" | gojq -r .state | paste -sd ' '
}

last_id() {
    sed -n 's/^id: //p' "$BATS_TEST_TMPDIR/$1" | tail -1
}

# --- deadlines ----------------------------------------------------------------------------------------------------

@test "a session past its deadline is ended by the server within a second, once" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=1
    local driver delay soonest=1000000
    # The test checks the shortest of three delays. If the machine pauses, one expiry may be late. If the server checks
    # deadlines too rarely, all three are late.
    for driver in a b c; do
        depart "$driver"
        wait_for_expiry "$driver"
        IFS='|' read -r name transition state delay <<<"$(expiries "$driver")"
        [[ $name == gracePeriodExpired && $transition == 1 && $state == 6 ]]
        ((delay >= 1))
        if ((delay < soonest)); then soonest=$delay; fi
    done
    if ((soonest > 1000)); then fail "stored $soonest ms after the deadline"; fi
    get /native/session
    expect_json '.state == "SESSION_ENDED" and .deadlines == {}'
    sleep 1
    for driver in a b c; do [[ $(expiries "$driver" | wc -l) == 1 ]]; done
    stop_server
}

@test "a deadline that passes while the server is down, killed, is stored after the start" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=3
    depart a
    kill -KILL "$server_pid"
    wait "$server_pid" 2>/dev/null || true
    sleep 3.5
    [[ -z $(expiries a) ]]
    start_server NATIVE_GRACE_PERIOD_SECONDS=3600
    wait_for_expiry a
    IFS='|' read -r name transition state delay <<<"$(expiries a)"
    [[ $name == gracePeriodExpired && $transition == 1 && $state == 6 ]]
    get "/native/sessions/$(driver a)"
    expect_json '(.events[-1].occurred_at | .[:19] + "Z" | fromdate)
        - (.events[-2].occurred_at | .[:19] + "Z" | fromdate) == 3'
    stop_server
}

@test "two instances on one database store each expiry once, and a stream hears of the other's events" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=2
    local first_pid=$server_pid first_url=$server_url index
    others+=("$first_pid")
    start_server NATIVE_GRACE_PERIOD_SECONDS=2
    others+=("$server_pid")
    sign_in d0
    listen stream
    wait_for_line stream '^id: 0$'
    local second_url=$server_url
    for index in 0 1 2 3 4 5; do
        if ((index % 2)); then server_url=$second_url; else server_url=$first_url; fi
        depart "d$index"
    done
    for index in 0 1 2 3 4 5; do wait_for_expiry "d$index"; done
    wait_for_line stream SESSION_ENDED
    [[ $(states stream) == "IDLE NEAR_CHARGER ANCHORED SESSION_ACTIVE IN_TRANSIT SESSION_ENDED" ]]
    sleep 0.6
    for index in 0 1 2 3 4 5; do [[ $(expiries "d$index" | wc -l) == 1 ]]; done
    stop_server
    server_pid=$first_pid
    stop_server
}

@test "an event from before the deadline that comes late reopens what was closed too early" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=3
    depart a
    local merchant
    merchant=$(event_now entered_merchant_zone late ".session_id = \"$(driver a)\"")
    wait_for_expiry a
    post /native/events "$merchant"
    expect_verdict AT_MERCHANT applied
    get "/native/sessions/$(driver a)"
    expect_json '.state == "AT_MERCHANT" and (.events | map(.event)) == ["exclusiveActivatedByWeb",
        "exitedChargerAnchorZone", "enteredMerchantZone", "gracePeriodExpired"]'
    expect_json '.events[-1] | .source == "server" and .transition == "none" and .state == "AT_MERCHANT"'
    stop_server
}

@test "an expiry costs nothing of the rate limit" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=1 RATE_LIMIT_SESSION_EVENTS=3
    depart a
    wait_for_expiry a
    post /native/events "$(event session_restored k ".session_id = \"$(driver a)\"")"
    expect_status 200
    expect_field RateLimit '.*"session";r=0;.*'
    stop_server
}

# --- reading ------------------------------------------------------------------------------------------------------

@test "a driver without events stands in IDLE, with the version of the settings" {
    get /native/session
    expect_status 200
    expect_json '.state == "IDLE" and .deadlines == {} and (has("session_id") | not)'
    expect_field Cache-Control no-store
    local version
    version=$(gojq -r .settings_version <"$answer_body")
    get /native/config
    expect_field ETag "\"$version\""
}

@test "the standing has session, target and deadlines with the seconds that are left" {
    post /native/events "$(event charger_targeted t '.charger_id = "c-7"')"
    depart a
    get /native/session
    expect_json '.state == "IN_TRANSIT" and .session_id == $id and .target_charger_id == "c-7"' --arg id "$(driver a)"
    expect_json '.deadlines | (.grace.seconds_left | . > 890 and . <= 900)
        and (.hard.seconds_left | . > 3590 and . <= 3600)'
    expect_json '[.as_of, .deadlines[].at] | all(test("^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$"))'
}

@test "of the sessions that one batch opens, the last one comes first" {
    local cursor=
    post /native/events/batch "$(gojq -cn --arg id "$(driver s)" --arg now "$(seconds_ago 0)" '{events: [
        "c", "a", "e", "b", "d" | {event_id: ., event: "sessionRestored", session_id: ($id + .), occurred_at: $now}]}')"
    expect_json '[.results[].status] == ["ok", "ok", "ok", "ok", "ok"]'
    get /native/sessions
    expect_json '(.sessions | map(.session_id | .[-1:])) == ["d", "b", "e", "a", "c"]'
    get '/native/sessions?limit=2'
    expect_json '.sessions | map(.session_id | .[-1:]) == ["d", "b"]'
    cursor=$(gojq -r .next_cursor <"$answer_body")
    get "/native/sessions?limit=2&cursor=$cursor"
    expect_json '.sessions | map(.session_id | .[-1:]) == ["e", "a"]'
    cursor=$(gojq -r .next_cursor <"$answer_body")
    get "/native/sessions?limit=2&cursor=$cursor"
    expect_json '(.sessions | map(.session_id | .[-1:]) == ["c"]) and (has("next_cursor") | not)'
}

@test "sessions come newest first, page after page" {
    local index cursor=
    for index in 1 2 3 4 5; do
        post /native/events "$(event session_restored "k$index" ".session_id = \"$(driver "s$index")\"")"
    done
    get /native/sessions
    expect_json '(.sessions | map(.session_id | .[-2:])) == ["s5","s4","s3","s2","s1"] and (has("next_cursor") | not)'
    get '/native/sessions?limit=2'
    expect_json '.sessions | map(.session_id | .[-2:]) == ["s5","s4"]'
    cursor=$(gojq -r .next_cursor <"$answer_body")
    get "/native/sessions?limit=2&cursor=$cursor"
    expect_json '.sessions | map(.session_id | .[-2:]) == ["s3","s2"]'
    cursor=$(gojq -r .next_cursor <"$answer_body")
    get "/native/sessions?cursor=$cursor&limit=2"
    expect_json '(.sessions | map(.session_id | .[-2:]) == ["s1"]) and (has("next_cursor") | not)'
    sign_in b
    get "/native/sessions?cursor=$cursor"
    expect_pointers /cursor
    get /native/sessions
    expect_json '.sessions == []'
}

@test "limits and cursors out of range are 400 with pointers" {
    local query
    for query in limit=0 limit=101 limit=x limit= 'limit=1&limit=2'; do
        get "/native/sessions?$query"
        expect_pointers /limit || fail "$query"
    done
    get '/native/sessions?cursor=nonsense&limit=1000'
    expect_pointers /limit /cursor
}

@test "another driver's session is 404, as one that never was" {
    post /native/events "$(event session_restored k ".session_id = \"$(driver s)\"")"
    get "/native/sessions/$(driver s)"
    expect_status 200
    sign_in b
    get "/native/sessions/$(driver s)"
    expect_problem 404 session_not_found
    get "/native/sessions/$(driver never)"
    expect_problem 404 session_not_found
}

@test "nothing is read without a token" {
    local path
    token=
    for path in /native/session /native/sessions "/native/sessions/x" /native/session/stream; do
        get "$path"
        expect_problem 401 unauthorized || fail "$path"
    done
}

# --- the stream ---------------------------------------------------------------------------------------------------

@test "a stream tells the state at its begin and each change, and goes on where it was left" {
    listen first
    wait_for_line first '^id: 0$'
    depart a
    wait_for_line first IN_TRANSIT
    [[ $(states first) == "IDLE NEAR_CHARGER ANCHORED SESSION_ACTIVE IN_TRANSIT" ]]
    grep -q '^retry: [0-9]*$' "$BATS_TEST_TMPDIR/first"
    kill "${streams[0]}"
    local id
    id=$(last_id first)

    post /native/events "$(event_now entered_merchant_zone m ".session_id = \"$(driver a)\"")"
    post /native/events "$(event_now teleport_detected t)"
    post /native/events "$(event_now visit_verified v ".session_id = \"$(driver a)\"")"
    listen second -H "Last-Event-ID: $id"
    wait_for_line second SESSION_ENDED
    [[ $(states second) == "AT_MERCHANT SESSION_ENDED" ]]
    listen third -H "Last-Event-ID: $(last_id second)"
    post /native/events "$(event_now entered_charger_intent_zone again)"
    wait_for_line third NEAR_CHARGER
    [[ $(states third) == NEAR_CHARGER ]]
    listen fourth -H 'Last-Event-ID: none-of-ours'
    wait_for_line fourth '"snapshot":true'
    [[ $(states fourth) == NEAR_CHARGER ]]
}

@test "a driver's stream tells nothing of another driver" {
    listen mine
    wait_for_line mine '^id: 0$'
    depart b
    sign_in a
    post /native/events "$(event_now entered_charger_intent_zone k)"
    wait_for_line mine NEAR_CHARGER
    [[ $(states mine) == "IDLE NEAR_CHARGER" ]]
}

@test "a restart loses no change: Last-Event-ID goes on in the next process" {
    forget_server
    start_server NATIVE_GRACE_PERIOD_SECONDS=3
    sign_in a
    listen before
    wait_for_line before '^id: 0$'
    depart a
    wait_for_line before IN_TRANSIT
    local started=$SECONDS
    stop_server
    if ((SECONDS - started > 20)); then fail "a stream held the server for $((SECONDS - started)) s"; fi
    # The stream was ended properly, so curl succeeds.
    wait "${streams[0]}"
    sleep 3
    start_server
    listen after -H "Last-Event-ID: $(last_id before)"
    wait_for_line after SESSION_ENDED
    [[ $(states after) == SESSION_ENDED ]]
    grep -q '"source":"server"' "$BATS_TEST_TMPDIR/after"
    stop_server
}

@test "a fifth stream of one driver is 429, and leaves the others alone" {
    local index
    for index in 1 2 3 4; do
        listen "s$index"
        wait_for_line "s$index" '^id: 0$'
    done
    get /native/session/stream
    expect_problem 429 rate_limited
    expect_field Retry-After '[1-9][0-9]?'
    post /native/events "$(event_now entered_charger_intent_zone k)"
    for index in 1 2 3 4; do wait_for_line "s$index" NEAR_CHARGER; done
    sign_in b
    listen theirs
    wait_for_line theirs '^id: 0$'
}

@test "a silent stream writes a comment every 15 seconds" {
    listen silent
    wait_for_line silent '^:' 17
    [[ $(states silent) == IDLE ]]
}
