#!/usr/bin/env bats
# Tests field errors: one 400 response lists all errors of a request, each with a pointer (contract, sections 3 and 5).

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
/session_id	.event = "visitVerifiedByWeb"
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
    # The object {"t":"..."} has 8 bytes besides the text.
    post /native/events "$(event chargerTargeted k1 '.metadata = {t: ("x" * 8184)}')"
    expect_status 200
    post /native/events "$(event chargerTargeted k2 '.metadata = {t: ("x" * 8185)}')"
    expect_pointers /metadata
}

@test "metadata is measured in compact form" {
    # In compact form, this metadata has exactly 8 KiB, the limit. The sent metadata is longer, because it contains
    # white space and an unnecessary escape.
    local sent
    sent=$(event chargerTargeted k1 '.metadata = {t: ("x" * 8184)}')
    sent=${sent/\{\"t\":\"x/$(printf '{%2000s"t":"\\u0078' '')}
    [[ $sent == *'{    '*'"t":"\u0078x'* ]] || fail "$sent"
    post /native/events "$sent"
    expect_status 200
}

@test "a line separator is no control character, for the server and in openapi.json" {
    local id=$'a\u2028\u2029b'
    post /native/events "$(event webRequestedEnd k1 ".session_id = \"$id\" | .charger_id = \"$id\"")"
    expect_status 200
    get /openapi.json
    expect_json '.components.schemas.Event.properties | [.session_id, .charger_id, .merchant_id, .source]
        | all(.pattern | contains("2028") | not)'
}

@test "texts are measured in code points" {
    local index=0 text
    for text in x é 😀; do
        index=$((index + 1))
        post /native/events "$(event chargerTargeted "k$index" ".charger_id = \"$text\" * 128")"
        expect_status 200
        post /native/events "$(event chargerTargeted k0 ".charger_id = \"$text\" * 129")"
        expect_pointers /charger_id
    done
}

@test "the pointer of a header field is its name, and the pointer of the whole is empty" {
    local sent
    sent=$(event chargerTargeted k1 '.idempotency_key = "k1"')
    post /native/events "$sent" -H 'X-Sent-At: now' -H 'Idempotency-Key: k2'
    expect_pointers X-Sent-At Idempotency-Key
    post /native/events "$sent" -H 'X-Sent-At: now' -H 'X-Sent-At: now'
    expect_pointers X-Sent-At
    post /native/events '[]'
    expect_json '.errors | map(.pointer) == [""]'
    post /native/events/batch '{"events":[[]]}'
    expect_json '.results[0].errors | map(.pointer) == [""]'
    expect_stored a 0
}

@test "a body that is no JSON object is 400" {
    local sent
    for sent in '' '{' '[]' '"text"' 'null' '{"event_id":"k1",}' '{"event":"chargerTargeted"} {}' '{"a":01}' \
        "{'a':1}" '{"a":"\x"}' '{"a":"\ud800"}'; do
        post /native/events "$sent"
        expect_status 400
        expect_json '.status == 400 and .retryable == false
            and (.code | . == "malformed_json" or . == "validation_failed")'
    done
    printf '{"event_id":"\xff\xfe"}' >"$BATS_TEST_TMPDIR/no-utf8"
    post /native/events "@$BATS_TEST_TMPDIR/no-utf8"
    expect_status 400
    # A recursive parser would overflow its stack with so many nested brackets.
    python3 -c 'print("[" * 60000, end="")' >"$BATS_TEST_TMPDIR/deep"
    post /native/events "@$BATS_TEST_TMPDIR/deep"
    expect_status 400
    expect_stored a 0
}
