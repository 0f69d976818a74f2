#!/usr/bin/env bats
# The server as an HTTP/1.1 server: connections, methods, framing, request ids, and how it stops (RFC 9110, RFC 9112;
# contract, section 7).

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

# statuses TEXT: the status codes of all responses in it, on one line.
statuses() {
    grep -aoE 'HTTP/1\.1 [0-9]{3}' <<<"$1" | cut -d' ' -f2 | tr '\n' ' '
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
    answer=$(raw "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\n\r\nGET /native/config HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    [[ $(statuses "$answer") == '200 404 401 200 ' ]] || fail "$answer"
    [[ $answer == *'[closed by the server]'* ]] || fail "$answer"
}

@test "pipelined events are stored in order, one by one" {
    local index requests='' sent answer
    for index in {1..20}; do
        sent=$(event chargerTargeted "k$index")
        requests+="POST /native/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nContent-Type: application/json\r\nContent-Length: ${#sent}\r\n\r\n$sent"
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
    for path in / /native /native/events/ /native/events/x /v2/native/config /%2e%2e/etc/passwd /healthz/..; do
        get "$path" --path-as-is
        expect_problem 404 not_found
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
    # In chunks of one byte, with an extension and a trailer field.
    local chunks='' index
    for ((index = 0; index < ${#sent}; index++)); do chunks+="1;x=y\r\n${sent:index:1}\r\n"; done
    answer=$(raw "POST /native/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n${chunks}0\r\nX-Trailer: t\r\n\r\n")
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

@test "the log has a line for the request, and no token and no place in it" {
    post /native/events "$(event chargerTargeted k1 '.metadata = {latitude: 48.135124, longitude: 11.581981}')" \
        -H 'X-Request-Id: find-me-in-the-log'
    expect_status 200
    wait_for_log find-me-in-the-log
    if grep -aF -e "$token" -e 48.135124 -e 11.581981 "$server_folder/log"; then return 1; fi
    while read -r line; do
        jq -e . <<<"$line" >/dev/null || { echo "No JSON: $line"; return 1; }
    done <"$server_folder/log"
}

# --- stopping -----------------------------------------------------------------------------------------------------

# drain SCRIPT: Python that talks to a server of its own while that is told to stop. It finds `port`, `pid`, `token`,
# `event`, `connect()`, `request(path, body)`, `answer(connection)` and `refused()` ready.
drain() {
    python3 - "$server_port" "$server_pid" "$token" "$(event chargerTargeted k1)" "$1" <<'PYTHON'
import os, re, signal, socket, sys, time
port, pid, token, event = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]

def connect():
    return socket.create_connection(("127.0.0.1", port), timeout=10)

def request(path, body=None):
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return (head + "\r\n" + (body or "")).encode()

def answer(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        assert more, f"closed after {received!r}"
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), head.decode().lower(), body

def refused():
    """Waits until nobody is let in any more: the server is draining."""
    for _ in range(100):
        try:
            connect().close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("new connections are still accepted")

exec(sys.argv[5])
PYTHON
}

@test "SIGTERM: a request in progress is answered, with Connection: close, and the exit status is 0" {
    forget_server
    start_server
    drain '
connection = connect()
sent = request("/native/events", event)
connection.sendall(sent[:-10])
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
refused()
connection.sendall(sent[-10:])
status, head, body = answer(connection)
assert status == 200, (status, body)
assert "connection: close" in head, head
assert connection.recv(1) == b"", "not closed"'
    wait_for_exit 5
    [[ $server_status == 0 ]] || { echo "exit status $server_status"; cat "$server_folder/log"; return 1; }
    expect_stored a 1
}

@test "SIGTERM: an open connection may still ask, and is told to close" {
    forget_server
    start_server
    drain '
connection = connect()
connection.sendall(request("/native/config"))
status, head, _ = answer(connection)
assert status == 200 and "connection: close" not in head, head
# A second one keeps the server from being done at once.
busy = connect()
busy.sendall(request("/native/events", event)[:-10])
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
refused()
connection.sendall(request("/native/config"))
status, head, _ = answer(connection)
assert status == 200, status
assert "connection: close" in head, head
busy.close()'
    wait_for_exit 10
    [[ $server_status == 0 ]]
}

@test "SIGTERM: a server with nothing to do ends at once" {
    forget_server
    start_server
    local started=$SECONDS
    kill -TERM "$server_pid"
    wait_for_exit 5
    [[ $server_status == 0 ]]
    ((SECONDS - started <= 3))
}

@test "SIGTERM: whoever never finishes does not hold it longer than SHUTDOWN_TIMEOUT_SECONDS" {
    forget_server
    start_server SHUTDOWN_TIMEOUT_SECONDS=2
    drain '
connection = connect()
connection.sendall(request("/native/events", event)[:-10])
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
started = time.monotonic()
while connection.recv(65536): pass
assert time.monotonic() - started < 5, "held for longer"'
    wait_for_exit 5
    [[ $server_status == 0 ]] || { echo "exit status $server_status"; cat "$server_folder/log"; return 1; }
}

@test "a second SIGTERM ends it at once" {
    forget_server
    start_server
    drain '
connection = connect()
connection.sendall(request("/native/events", event)[:-10])
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
refused()
started = time.monotonic()
os.kill(pid, signal.SIGTERM)
try:
    while connection.recv(65536): pass
except ConnectionResetError:
    pass
assert time.monotonic() - started < 2, "still there"'
    wait_for_exit 2
}

@test "SIGINT stops it as SIGTERM does" {
    forget_server
    start_server
    kill -INT "$server_pid"
    wait_for_exit 5
    [[ $server_status == 0 ]]
}

@test "after a stop and a start everything is there" {
    forget_server
    start_server
    post /native/events "$(event enteredChargerIntentZone k1)"
    local sent
    sent=$(event anchorDwellComplete k2)
    post /native/events "$sent"
    expect_verdict ANCHORED applied
    stop_server
    start_server
    post /native/events "$sent"
    expect_json '.status == "already_processed" and .session.state == "ANCHORED"'
    stop_server
}
