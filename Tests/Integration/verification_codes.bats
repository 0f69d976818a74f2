#!/usr/bin/env bats
# Tests the verification codes of sessions (contract, section 3, "Verification codes").

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    start_server TRUSTED_CONFIRMATIONS=service
    remember_server
}

teardown_file() {
    recall_server
    stop_server
}

setup() {
    recall_server
    sign_in a
    app=$token
    service=$(dwell token --driver web-backend --role service)
    session=$(driver s)
}

teardown() {
    end_server
}

# activate SESSION DRIVER: the driver anchors, and then the service activates the session. $token must be the driver's
# token.
activate() {
    local own=$token
    post /native/events "$(event enteredChargerIntentZone "$1-1" ".occurred_at = \"$(seconds_ago 90)\"")"
    post /native/events "$(event anchorDwellComplete "$1-2" ".occurred_at = \"$(seconds_ago 80)\"")"
    token=$service
    post /native/events "$(event exclusiveActivatedByWeb "$1-3" \
        ".occurred_at = \"$(seconds_ago 70)\" | .session_id = \"$1\" | .driver_id = \"$2\"")"
    expect_json '.session.state == "SESSION_ACTIVE"'
    token=$own
}

# issue SESSION: requests a code with the service's token. Sets `code` to the received code, and `wrong` to a different
# code.
issue() {
    local own=$token
    token=$service
    request POST "/native/sessions/$1/verification-code"
    token=$own
    code=$(gojq -r '.code // empty' <<<"$body")
    wrong=000000
    if [[ $code == 000000 ]]; then wrong=000001; fi
}

verify() {
    post "/native/sessions/$1/verify" "{\"code\":\"$2\"}"
}

@test "the right code verifies the session once, and a repeat gets the same response" {
    activate "$session" "$(driver a)"
    issue "$session"
    expect_status 201
    expect_json '(.code | test("^[0-9]{6}$")) and .tries == 5'
    verify "$session" "$wrong"
    expect_problem 400 wrong_code
    expect_json '.errors[0].pointer == "/code" and (.detail | contains("tries left: 4"))'
    verify "$session" "$code"
    expect_json '.status == "ok" and .session.state == "SESSION_ENDED" and .session.ended_by == "verified"'
    verify "$session" "$code"
    expect_json '.status == "already_processed"'
    get "/native/sessions/$session"
    expect_json '[.events[] | select(.event == "visitVerifiedByWeb") | .sender] == ["service"]'
    issue "$session"
    expect_problem 409 session_not_active
}

@test "after five wrong codes the right one is refused, until the service requests a new one" {
    activate "$session" "$(driver a)"
    issue "$session"
    local try
    for try in 1 2 3 4 5; do
        verify "$session" "$wrong"
        expect_problem 400 wrong_code || return 1
    done
    verify "$session" "$code"
    expect_problem 409 code_unavailable
    local old=$code
    issue "$session"
    if [[ $old != "$code" ]]; then
        verify "$session" "$old"
        expect_problem 400 wrong_code
    fi
    verify "$session" "$code"
    expect_json '.session.ended_by == "verified"'
    dwell audit --driver "$(driver a)" --json | grep -c '"session_verified"' >/dev/null
    [[ $(sql "SELECT count(*) FROM audit WHERE action = 'session_verified' AND outcome = 'refused'
        AND driver = (SELECT id FROM driver WHERE driver_id = '$(driver a)')") -ge 5 ]]
}

@test "two sessions have their own codes, and another driver's session is 404" {
    activate "$session" "$(driver a)"
    issue "$session"
    local first=$code
    sign_in b
    activate "$session-b" "$(driver b)"
    issue "$session-b"
    verify "$session" "$first"
    expect_problem 404 session_not_found
    if [[ $first != "$code" ]]; then
        verify "$session-b" "$first"
        expect_problem 400 wrong_code
    fi
    verify "$session-b" "$code"
    expect_json '.session.ended_by == "verified"'
    token=$app
    verify "$session" "$first"
    expect_json '.session.ended_by == "verified"'
}

@test "no code without a session in progress, and none for a driver" {
    issue nowhere
    expect_problem 404 session_not_found
    post /native/sessions "{\"session_id\":\"$session\"}"
    issue "$session"
    expect_problem 409 session_not_active
    verify "$session" 123456
    expect_problem 409 code_unavailable
    verify "$session" 12345
    expect_pointers /code
    request POST "/native/sessions/$session/verification-code"
    expect_problem 403 forbidden
    token=$service
    verify "$session" 123456
    expect_problem 403 forbidden
}

@test "a code survives kill -9, and the right code is still accepted once" {
    forget_server
    start_server TRUSTED_CONFIRMATIONS=service
    activate "$session" "$(driver a)"
    issue "$session"
    kill -KILL "$server_pid"
    # wait returns 137, because the server was killed.
    wait "$server_pid" || true
    start_server TRUSTED_CONFIRMATIONS=service
    verify "$session" "$code"
    expect_json '.status == "ok" and .session.ended_by == "verified"'
    kill -KILL "$server_pid"
    wait "$server_pid" || true
    start_server TRUSTED_CONFIRMATIONS=service
    verify "$session" "$code"
    expect_json '.status == "already_processed" and .session.ended_by == "verified"'
    dwell check
    stop_server
}

@test "a session that ended takes no code, the database has only a hash, and a deletion removes it" {
    activate "$session" "$(driver a)"
    issue "$session"
    local rows
    rows=$(sql "SELECT * FROM session_code")
    [[ -n $rows ]] || fail "No code is stored."
    # The six digits of the code may also occur in a longer number, such as a time. The search therefore ignores longer
    # numbers.
    run -1 grep -E "(^|[^0-9])$code([^0-9]|$)" <<<"$rows"
    get /auth/me/export
    expect_json '.session_codes | length == 1 and (.[0] | has("code_digest") | not)'
    post /native/events "$(event webRequestedEnd end ".session_id = \"$session\"")"
    verify "$session" "$code"
    expect_problem 409 code_unavailable
    request DELETE /auth/me -H 'Content-Type: application/json' --data-binary '{"confirm":true}'
    expect_status 200
    [[ $(sql "SELECT count(*) FROM session_code
        WHERE driver IN (SELECT driver FROM session WHERE session_id = '$session')") == 0 ]]
    dwell verify-erased --driver "$(driver a)"
}
