#!/usr/bin/env bats
# Tests the server's HTTP/1.1: connections, methods, framing, and request ids (RFC 9110, RFC 9112; contract, section 7).

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

statuses() {
    grep -aoE 'HTTP/1\.1 [0-9]{3}' <<<"$1" | cut -d' ' -f2 | tr '\n' ' '
}

# Prints the beginning of the head of a POST of an event. Its escapes are for the function `raw`. The caller must add
# Content-Length or Transfer-Encoding.
head_of_post() {
    # shellcheck disable=SC2028 # raw expands the escapes
    echo "POST /native/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nContent-Type: application/json\r\n"
}

@test "health answers 200 without a token" {
    token=
    get /healthz
    expect_status 200
}

@test "a connection serves many requests" {
    local connects
    connects=$(curl -sS -o /dev/null -o /dev/null -o /dev/null -w '%{num_connects} ' \
        "$server_url/healthz" "$server_url/healthz" "$server_url/healthz")
    [[ $connects == '1 0 0 ' ]] || fail "Connections opened: $connects"
}

@test "Connection: close is honoured and said" {
    get /healthz -H 'Connection: close'
    expect_status 200
    expect_field Connection '[Cc]lose'
}

@test "pipelined requests are answered in order" {
    local answer
    local requests='' path
    for path in /healthz /none /native/config; do requests+="GET $path HTTP/1.1\r\nHost: x\r\n\r\n"; done
    answer=$(raw "${requests}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    [[ $(statuses "$answer") == '200 404 401 200 ' ]] || fail "$answer"
    [[ $answer == *'[closed by the server]'* ]] || fail "$answer"
}

@test "pipelined events are stored in order, one by one" {
    local index requests='' sent answer
    for index in {1..20}; do
        sent=$(event chargerTargeted "k$index")
        requests+="$(head_of_post)Content-Length: ${#sent}\r\n\r\n$sent"
    done
    answer=$(raw "$requests" 1)
    [[ $(grep -ao '"event_id":"k[0-9]*"' <<<"$answer" | tr -dc '0-9\n' | tr '\n' ' ') == "$(echo {1..20}) " ]] ||
        fail "$answer"
    expect_stored a 20
}

@test "HEAD answers as GET does, without the body" {
    get /native/config
    local tag length
    tag=$(field ETag)
    length=$(field Content-Length)
    request HEAD /native/config
    expect_status 200
    [[ $(field ETag) == "$tag" && $(field Content-Length) == "$length" ]] || fail "Expected $tag and $length."
    local answer
    answer=$(raw "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    [[ $(statuses "$answer") == '200 404 ' ]] || fail "$answer"
}

@test "an unknown path is 404" {
    local path
    for path in / /native /native/events/ /native/events/x /v2/native/config /healthz%20; do
        get "$path"
        expect_problem 404 not_found
    done
}

@test "dot segments lead nowhere" {
    local path
    for path in /../healthz /native/../healthz /healthz/. /%2e%2e/healthz /native/%2E%2e/healthz //healthz; do
        get "$path" --path-as-is
        [[ $status == 400 || $status == 404 ]] || fail "Expected a refusal."
    done
}

@test "a known path with another method is 405 with Allow" {
    get /native/events
    expect_problem 405 method_not_allowed
    expect_field Allow '.*POST.*'
    post /native/config '{}'
    expect_problem 405 method_not_allowed
    expect_field Allow '.*GET.*'
    request DELETE /v1/native/session-events
    expect_problem 405 method_not_allowed
}

@test "a query does not change the route" {
    get '/native/config?x=1&y'
    expect_status 200
}

@test "HTTP/1.0 is answered and the connection closed" {
    local answer
    answer=$(raw "GET /healthz HTTP/1.0\r\n\r\n")
    [[ $answer == HTTP/1.1\ 200* && $answer == *'[closed by the server]'* ]] || fail "$answer"
    get /healthz --http1.0
    expect_status 200
}

@test "a chunked body is read" {
    post /native/events "$(event chargerTargeted k1)" -H 'Transfer-Encoding: chunked'
    expect_json '.status == "ok"'
    local sent answer
    sent=$(event chargerTargeted k2)
    local chunks='' index
    for ((index = 0; index < ${#sent}; index++)); do chunks+="1;x=y\r\n${sent:index:1}\r\n"; done
    chunks+="0\r\nX-Trailer: t\r\n\r\n"
    answer=$(raw "$(head_of_post)Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n$chunks")
    [[ $(statuses "$answer") == '200 ' ]] || fail "$answer"
    expect_stored a 2
}

@test "Expect: 100-continue is answered before the body" {
    post /native/events "$(event chargerTargeted k1)" -H 'Expect: 100-continue'
    expect_status 200
    grep -q '^HTTP/1.1 100' "$answer_head" || fail 'No 100 before the answer.'
    post /native/events "$(event chargerTargeted k2)" -H 'Expect: tea'
    expect_problem 417 expectation_failed
}

@test "a 401 ends the connection only if the body has not arrived" {
    local head answer
    # shellcheck disable=SC2028 # raw expands the escapes
    head='POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n'
    answer=$(raw "$head{}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    [[ $(statuses "$answer") == '401 200 ' ]] || fail "$answer"
    answer=$(raw "$head")
    [[ $(statuses "$answer") == '401 ' && $answer == *'[closed by the server]'* ]] || fail "$answer"
}

@test "what two servers could read differently is one 400 and a closed connection" {
    local request answer
    while read -r request; do
        answer=$(raw "${request}GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        [[ $(statuses "$answer") == '400 ' && $answer == *'[closed by the server]'* ]] ||
            fail "$request was answered with: $answer"
    done <<'REQUESTS'
POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd
POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc
POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n\r\nabc
POST /native/events HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nabc
POST /native/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n
POST /native/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n
GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n
GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n
GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n
GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n
GET /healthz HTTP/1.1\r\n\r\n
GET /healthz HTTP/1.1\r\nHost: x\r\nX-Nul: a\x00b\r\n\r\n
GET  /healthz HTTP/1.1\r\nHost: x\r\n\r\n
GET /health z HTTP/1.1\r\nHost: x\r\n\r\n
REQUESTS
}

@test "a refusal of HTTP itself has the one form too" {
    local answer
    answer=$(raw "GET /healthz HTTP/1.1\r\n\r\n")
    [[ $answer == *[Aa]pplication/problem+json* && $answer == *'"status":400'* && $answer == *'"request_id"'* ]] ||
        fail "$answer"
}

@test "an unknown transfer coding is 501, another major version 505" {
    local answer
    answer=$(raw "POST /native/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
    [[ $(statuses "$answer") == '501 ' ]] || fail "$answer"
    answer=$(raw "GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n")
    [[ $(statuses "$answer") == '505 ' ]] || fail "$answer"
}

@test "heads have bounds" {
    get "/$(printf 'x%.0s' {1..20000})"
    expect_problem 414 uri_too_long
    get /healthz -H "X-Large: $(printf 'x%.0s' {1..70000})"
    expect_problem 431 header_fields_too_large
}

@test "a well-formed X-Request-Id comes back, another is replaced" {
    get /healthz -H 'X-Request-Id: Trip_7.a-9'
    expect_field X-Request-Id 'Trip_7\.a-9'
    get /nowhere -H 'X-Request-Id: Trip_7.a-9'
    expect_problem 404 not_found
    expect_json '.request_id == "Trip_7.a-9"'
    local longest
    longest=$(printf 'x%.0s' {1..128})
    get /healthz -H "X-Request-Id: $longest"
    expect_field X-Request-Id "$longest"
    local bad
    for bad in 'with space' "x$longest" 'a"b' 'a;b' 'ü'; do
        get /nowhere -H "X-Request-Id: $bad"
        expect_problem 404 not_found
        expect_field X-Request-Id '[A-Za-z0-9._-]{1,128}'
    done
    get /healthz
    local first
    first=$(field X-Request-Id)
    expect_field X-Request-Id '[A-Za-z0-9._-]{1,128}'
    get /healthz
    [[ $(field X-Request-Id) != "$first" ]] || fail 'Twice the same id.'
}

@test "the debug log has a line for the request, in JSON, and no token and no place in it" {
    forget_server
    start_server LOG_LEVEL=debug
    post /native/events "$(event chargerTargeted k1 '.metadata = {latitude: 48.135124, longitude: 11.581981}')" \
        -H 'X-Request-Id: find-me-in-the-log'
    expect_status 200
    wait_for_log find-me-in-the-log
    stop_server
    if grep -aF -e "$token" -e 48.135124 -e 11.581981 "$server_folder/log"; then return 1; fi
    gojq -es 'all(has("time") and has("level") and has("message"))' "$server_folder/log" >/dev/null || {
        cat "$server_folder/log"
        return 1
    }
}
