#!/usr/bin/env bats
# Tests shutdown (contract, section 7). SIGTERM lets open requests complete; a second SIGTERM aborts them. Events that
# were acknowledged before a shutdown are stored.

load lib

setup() {
    forget_server
    start_server
    sign_in a
}

teardown() {
    end_server
}

# drain SCRIPT: runs a Python script that sends requests and stops the server. The script may use `port`, `pid`,
# `token`, `event`, `connect()`, `request(path, body)`, `answer(connection)` and `refused()`.
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
    """Waits until new connections are refused, which shows that the server is draining."""
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
    wait_for_exit 15
    [[ $server_status == 0 ]] || { echo "exit status $server_status"; cat "$server_folder/log"; return 1; }
    expect_stored a 1
}

@test "SIGTERM: an open connection may still ask, and is told to close" {
    drain '
connection = connect()
connection.sendall(request("/native/config"))
status, head, _ = answer(connection)
assert status == 200 and "connection: close" not in head, head
# This second connection has an incomplete request. Without it, the drain would end at once.
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
    local started=$SECONDS
    kill -TERM "$server_pid"
    wait_for_exit 10
    [[ $server_status == 0 ]]
    # The server would wait twenty seconds for a request in progress.
    ((SECONDS - started <= 10))
}

@test "SIGTERM: whoever never finishes does not hold it longer than SHUTDOWN_TIMEOUT_SECONDS" {
    end_server
    forget_server
    start_server SHUTDOWN_TIMEOUT_SECONDS=2
    drain '
connection = connect()
connection.sendall(request("/native/events", event)[:-10])
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
started = time.monotonic()
while connection.recv(65536): pass
assert time.monotonic() - started < 15, "held for longer"'
    wait_for_exit 15
    [[ $server_status == 0 ]] || { echo "exit status $server_status"; cat "$server_folder/log"; return 1; }
}

@test "a second SIGTERM ends it at once" {
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
assert time.monotonic() - started < 10, "still there"'
    wait_for_exit 10
}

@test "SIGINT stops it as SIGTERM does" {
    kill -INT "$server_pid"
    wait_for_exit 15
    [[ $server_status == 0 ]]
}

@test "after a stop and a start everything is there" {
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
