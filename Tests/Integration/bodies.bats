#!/usr/bin/env bats
# Tests the checks of a body before it is parsed: media type, content coding and size (contract, section 3).

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

@test "another Content-Type or none is 415" {
    local sent
    sent=$(event chargerTargeted k1)
    local type
    for type in text/plain application/x-www-form-urlencoded application/jsonp multipart/form-data; do
        request POST /native/events -H "Content-Type: $type" --data-binary "$sent"
        expect_problem 415 unsupported_media_type
        expect_field Accept application/json
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
    ((SECONDS - started <= 10))
}

@test "the limit holds for the decompressed size, to the byte" {
    local size sent
    for size in 65536 65537; do
        sent=$(event chargerTargeted "k$size")
        # The bodies are padded with white space, because white space does not change their meaning.
        printf "%-${size}s" "$sent" | gzip -c >"$BATS_TEST_TMPDIR/$size.gz"
    done
    post /native/events "@$BATS_TEST_TMPDIR/65536.gz" -H 'Content-Encoding: gzip'
    expect_status 200
    post /native/events "@$BATS_TEST_TMPDIR/65537.gz" -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
}

@test "the limit of a route holds for plain and for decompressed bodies" {
    local size
    for size in 16384 16385 65536 65537; do
        printf "%-${size}s" '{"platform":"ios","environment":"sandbox"}' >"$BATS_TEST_TMPDIR/$size"
        gzip -kc "$BATS_TEST_TMPDIR/$size" >"$BATS_TEST_TMPDIR/$size.gz"
    done
    sent_body() { request "$1" "$2" -H 'Content-Type: application/json' --data-binary "@$BATS_TEST_TMPDIR/$3" "${@:4}"; }
    sent_body PUT /native/devices/ab12 65536
    expect_status 201
    sent_body PUT /native/devices/ab12 65536.gz -H 'Content-Encoding: gzip'
    expect_status 200
    sent_body PUT /native/devices/ab12 65537
    expect_problem 413 content_too_large
    sent_body PUT /native/devices/ab12 65537.gz -H 'Content-Encoding: gzip'
    expect_problem 413 content_too_large
    # The limit of the sign-in routes is 16 KiB.
    sent_body PATCH /auth/me 16384
    expect_status 200
    sent_body PATCH /auth/me 16384.gz -H 'Content-Encoding: gzip'
    expect_status 200
    sent_body PATCH /auth/me 16385
    expect_problem 413 content_too_large
    sent_body PATCH /auth/me 16385.gz -H 'Content-Encoding: gzip'
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
        expect_field Accept-Encoding gzip
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
    token='' post /native/events "@$BATS_TEST_TMPDIR/too-large"
    expect_problem 413 content_too_large
    expect_stored a 1
}
