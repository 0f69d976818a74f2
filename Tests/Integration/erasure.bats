#!/usr/bin/env bats
# Checks what a deletion removes from the database and from Redis (contract, section 6, DELETE /auth/me). It removes
# everything that the driver's client wrote, except data that another driver also uses.

load lib

setup_file() {
    limits=()
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

erase() {
    request DELETE /auth/me -H 'Content-Type: application/json' --data-binary '{"confirm":true}'
    expect_status 200
}

# verify ARGUMENT...: runs verify-erased. Sets `verified` to the exit status and `found` to the output.
verify() {
    verified=0
    found=$(dwell verify-erased "$@" 2>&1) || verified=$?
}

@test "place ids, source, diagnostic names, digits and sequence go, but for what somebody else uses" {
    local word mail
    word=x$RANDOM$RANDOM
    mail=$word@mail.example
    post /native/events "$(event chargerTargeted k1 ".charger_id = \"c-$mail\" | .merchant_id = \"m-$mail\"
        | .source = \"s-$mail\" | .sequence = 491511234567 | .occurred_at |= sub(\"Z\"; \".12049151123456Z\")")"
    expect_status 200
    post /native/events "$(event "saw_$word" k2 '.schema_version = "1.49151123"')"
    expect_status 200
    post /native/sessions "{\"session_id\":\"$(driver s)\",\"charger_id\":\"r-$mail\",\"merchant_id\":\"both-$word\"}"
    expect_status 201
    local own=(--text "c-$mail" --text "m-$mail" --text "s-$mail" --text "r-$mail" --text "saw_$word"
        --text 49151123456 --text 1.49151123)
    verify "${own[@]}"
    [[ $verified == 1 ]]
    local place
    local places=(place.place_id event_kind.source event_kind.name event_kind.schema_version event.occurred_at)
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        places=(event.charger event.merchant session.registered_charger driver.target_charger event.source event.name
            event.schema_version event.occurred_at)
    fi
    for place in "${places[@]}"; do
        [[ $found == *"$place"* ]] || fail "verify-erased does not find $place: $found"
    done
    # Another driver goes to the same place.
    sign_in b
    post /native/events "$(event chargerTargeted k1 ".charger_id = \"both-$word\"")"
    sign_in a
    erase
    verify --receipt "$(gojq -r .receipt <<<"$body")" "${own[@]}"
    [[ $verified == 0 ]] || fail "Left: $found"
    verify --text "both-$word"
    [[ $verified == 1 ]]
    sign_in b
    erase
    verify --text "both-$word"
    [[ $verified == 0 ]] || fail "Left: $found"
    dwell check
}

@test "Redis has no key of a deleted driver, and verify-erased looks there too" {
    [[ -n ${INTEGRATION_REDIS_URL:-} ]] || skip "without Redis"
    local sent
    sent=$(event chargerTargeted someone@mail.example)
    post /native/events "$sent"
    expect_status 200
    # A repeat makes Redis store the event's idempotency key. Redis keeps this key for longer than the event's charge.
    post /native/events "$sent"
    expect_field Idempotent-Replayed true
    verify --driver "$(driver a)"
    [[ $found == *"in Redis: dwell:{$(driver a)}:presession"* && $found == *"in Redis: dwell:{$(driver a)}:stored"* ]] ||
        fail "$found"
    erase
    verify --driver "$(driver a)"
    [[ $verified == 0 ]] || fail "Left: $found"
}

@test "verify-erased searches other files too" {
    printf 'PUT /native/devices/%s 201\n' "$(driver a)-push" >"$server_folder/proxy.log"
    verify --text "$(driver a)-push" --file "$server_folder/proxy.log"
    [[ $verified == 1 && $found == *"--text is in proxy.log, byte 20"* ]] || fail "$found"
    verify --text "$(driver a)-other" --file "$server_folder/proxy.log"
    [[ $verified == 0 ]]
    verify --text "$(driver a)-other" --file "$server_folder/missing.log"
    [[ $verified == 1 && $found == *"$server_folder/missing.log: No such file or directory"* ]] || fail "$found"
}
