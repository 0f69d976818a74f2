#!/usr/bin/env bats
# Tests the limits on a client's time, connections and memory. Each test sets one limit low, exceeds it and checks the
# response. hostile.py tests thousands of clients at once.

load lib

setup() {
    forget_server
}

teardown() {
    end_server
}

# python SCRIPT: runs the script. The script may use the names `port`, `token`, `event`, `connect()` and these
# functions:
#
#   send(connection, text)
#   post(body)           returns the head of a request that posts the body
#   answer(connection)   returns the status, the head and the body
#   ends(connection)     returns the seconds until the server ended the connection
python() {
    python3 - "$server_port" "$token" "$(event chargerTargeted k1)" "$1" <<'PYTHON'
import socket, sys, time
port, token, event = int(sys.argv[1]), sys.argv[2], sys.argv[3]

def connect():
    return socket.create_connection(("127.0.0.1", port), timeout=10)

def send(connection, text):
    connection.sendall(text.encode())

def post(body=event):
    return (f"POST /native/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")

def answer(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        assert more, f"closed after {received!r}"
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    head = head.decode().lower()
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), head, body.decode()

def ends(connection):
    begun = time.monotonic()
    try:
        while connection.recv(65536): pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begun

exec(sys.argv[4])
PYTHON
}

# --- time ---------------------------------------------------------------------------------------------------------

@test "a header that is not done in time is 408, however its bytes drip" {
    start_server HTTP_HEADER_TIMEOUT_SECONDS=1
    sign_in a
    python '
connection = connect()
begun = time.monotonic()
send(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
connection.settimeout(0.05)
while time.monotonic() < begun + 20:
    try:
        send(connection, "x")
        if connection.recv(1, socket.MSG_PEEK): break
    except TimeoutError:
        continue
# The client sends one byte at a time. If each byte restarted the timeout, the server would never end the connection.
assert 0.9 < time.monotonic() - begun < 15, time.monotonic() - begun
connection.settimeout(5)
status, head, body = answer(connection)
assert status == 408 and "connection: close" in head, head
assert "application/problem+json" in head and "\"retryable\":true" in body, body
assert ends(connection) < 10'
    stop_server
}

# Shipped phones drop an event after a 408: docs/decisions/late-requests.md.
@test "an event that stalls, in its header or its body, is 503; one that is slow but fast enough is stored" {
    # The timeouts are so long that the slow client is fast enough even if a busy machine pauses for two seconds.
    start_server HTTP_HEADER_TIMEOUT_SECONDS=3 HTTP_BODY_TIMEOUT_SECONDS=3 HTTP_BODY_BYTES_PER_SECOND_MIN=20
    sign_in a
    python '
stalled, headless, slow = connect(), connect(), connect()
send(stalled, post() + event[:20])
send(headless, post()[:60])
send(slow, post())
begun = time.monotonic()
for index in range(0, len(event), 5):
    send(slow, event[index:index + 5])
    time.sleep(0.15)
assert time.monotonic() - begun > 3.2, "too fast to show anything"
status, _, body = answer(slow)
assert status == 200, (status, body)
for connection in (stalled, headless):
    status, head, body = answer(connection)
    assert status == 503 and "connection: close" in head and "retry-after: 1" in head, head
    assert "\"retryable\":true" in body and "in time" in body, body'
    expect_stored a 1
    stop_server
}

@test "an idle connection is closed without a word, before and after a request" {
    start_server HTTP_IDLE_TIMEOUT_SECONDS=1
    sign_in a
    python '
fresh, used = connect(), connect()
send(used, post() + event)
assert answer(used)[0] == 200
# Without the setting the server would wait 75 seconds.
assert 0.7 < ends(used) < 30
assert fresh.recv(1) == b""'
    stop_server
}

@test "a client that takes nothing of its answers is let go" {
    start_server HTTP_WRITE_STALL_TIMEOUT_SECONDS=1
    sign_in a
    python '
connection = connect()
connection.setblocking(False)
begun = time.monotonic()
while time.monotonic() < begun + 20:
    try:
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
    except BlockingIOError:
        time.sleep(0.02)
    except OSError:
        break
assert 0.9 < time.monotonic() - begun < 15, "still there"'
    get /healthz
    expect_status 200
    stop_server
}

# --- clients that end their connection ----------------------------------------------------------------------------

@test "a client that half-closes gets its answers" {
    start_server
    sign_in a
    python '
connection = connect()
send(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + post() + event)
connection.shutdown(socket.SHUT_WR)
received = b""
while more := connection.recv(65536): received += more
assert received.count(b"HTTP/1.1 200 ") == 2 and b"\"status\":\"ok\"" in received, received'
    expect_stored a 1
    stop_server
}

@test "a client that goes away does not take its commit along" {
    start_server
    sign_in a
    python '
import struct
connection = connect()
send(connection, post() + event)
# Closing sends a reset, so no client waits for the response.
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
time.sleep(0.05)
connection.close()'
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        if [[ $(sql 'SELECT count(*) FROM event') == 1 ]]; then break; fi
        sleep 0.05
    done
    expect_stored a 1
    post /native/events "$(event enteredChargerIntentZone k2)"
    expect_status 200
    stop_server
}

@test "a stream whose client is cut off, or closes, gives its place back at once" {
    start_server
    sign_in a
    python '
import struct
def stream():
    connection = connect()
    send(connection, f"GET /native/session/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n")
    received = b""
    while b"retry: 3000" not in received and b"HTTP/1.1 429" not in received:
        received += connection.recv(65536)
    return connection, received.split()[1]

begun = time.monotonic()
for how in ("reset", "close") * 8:
    # A driver may have four streams at a time. Each stream from the fifth on can open only after the server has freed
    # the place of a disconnected stream.
    deadline = time.monotonic() + 10
    while True:
        connection, status = stream()
        if status == b"200": break
        connection.close()
        assert time.monotonic() < deadline, "no place was given back"
        time.sleep(0.01)
    if how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
# The server must free a place as soon as the client disconnects. Otherwise, a place becomes free only after a failed
# heartbeat (15 s) or a displacement (60 s).
assert time.monotonic() - begun < 14, time.monotonic() - begun'
    stop_server
}

# --- connections --------------------------------------------------------------------------------------------------

@test "over MAX_CONNECTIONS a client is told 503 with Retry-After, and let in when there is room" {
    start_server MAX_CONNECTIONS=8
    sign_in a
    # The connections of wait_until_ready may still count towards the limit. The test therefore tries several times to
    # open eight connections.
    python '
held = []
for attempt in range(50):
    held = [connect() for _ in range(8)]
    for connection in held: send(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    if [answer(connection)[0] for connection in held] == [200] * 8: break
    for connection in held: connection.close()
    time.sleep(0.05)
else:
    raise AssertionError("eight connections were never let in")
one_more = connect()
status, head, body = answer(one_more)
assert status == 503 and "retry-after: 1" in head and "connection: close" in head, head
assert "\"retryable\":true" in body, body
assert ends(one_more) < 15
send(held[0], post() + event)
assert answer(held[0])[0] == 200, "those that are in are served"
held[1].close()
for attempt in range(100):
    late = connect()
    send(late, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        if answer(late)[0] == 200: break
    except (AssertionError, OSError):
        pass
    time.sleep(0.05)
else:
    raise AssertionError("the free place was not given to anybody")'
    stop_server
}

@test "MAX_CONNECTIONS_PER_ADDRESS holds for each address" {
    start_server MAX_CONNECTIONS_PER_ADDRESS=4
    sign_in a
    python '
def connect_from(address):
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(address, 0))
held = [connect_from("127.0.0.2") for _ in range(4)]
for connection in held:
    send(connection, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer(connection)[0] == 200
status, head, _ = answer(connect_from("127.0.0.2"))
assert status == 503 and "retry-after: 1" in head, head
other = connect_from("127.0.0.3")
send(other, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
assert answer(other)[0] == 200'
    stop_server
}

@test "what clients make the server hold is bounded in all: 503 with Retry-After, then there is room again" {
    start_server HTTP_BUFFERED_BYTES_MAX=4194304
    sign_in a
    python '
def batch(size):
    body = "{\"events\":[" + event + "]" + " " * (size - len(event) - 12) + "}"
    return post(body).replace("/native/events", "/native/events/batch"), body
head, body = batch(1000000)
held = []
for _ in range(6):
    connection = connect()
    connection.settimeout(10)
    send(connection, head + body[:-1])
    held.append(connection)
time.sleep(0.3)
statuses = []
for connection in held:
    try:
        send(connection, body[-1:])
    except OSError:
        pass
    status, fields, _ = answer(connection)
    if status == 503: assert "retry-after: 1" in fields, fields
    statuses.append(status)
    connection.close()
assert set(statuses) == {200, 503}, statuses
late = connect()
send(late, head + body)
assert answer(late)[0] == 200'
    stop_server
}

@test "clients that never read their responses leave room for the requests of others" {
    start_server HTTP_BUFFERED_BYTES_MAX=4194304
    sign_in a
    python '
body = "{\"events\":[" + event + "]" + " " * (1000000 - len(event) - 12) + "}"
request = post(body).replace("/native/events", "/native/events/batch") + body
held = []
for _ in range(24):
    connection = connect()
    # The kernel cannot buffer responses of this size for a client that does not read them.
    send(connection, "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 40)
    held.append(connection)
time.sleep(0.3)
for _ in range(4):
    other = connect()
    send(other, request)
    status, _, answered = answer(other)
    assert status == 200, (status, answered)
assert answer(held[-1])[0] == 200'
    stop_server
}

@test "a file descriptor limit below MAX_CONNECTIONS is raised as far as it may be, and warned of" {
    prepare_server LOG_LEVEL=info
    local dwell_binary=$DWELL
    printf '#!/bin/sh\nulimit -S -n 128\nexec "%s" "$@"\n' "$dwell_binary" >"$server_folder/soft"
    printf '#!/bin/sh\nulimit -n 128\nexec "%s" "$@"\n' "$dwell_binary" >"$server_folder/hard"
    chmod +x "$server_folder/soft" "$server_folder/hard"
    DWELL=$server_folder/soft launch_prepared serve
    wait_until_ready
    local limit
    limit=$(awk '/Max open files/ { print $4 }' "/proc/$server_pid/limits")
    ((limit > 128)) || { echo "The soft limit is still $limit."; return 1; }
    stop_server
    DWELL=$server_folder/hard launch_prepared serve
    wait_until_ready
    wait_for_log 'open file limit too low.*"connections":64'
    stop_server
}
