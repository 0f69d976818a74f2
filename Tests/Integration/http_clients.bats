#!/usr/bin/env bats
# Tests real clients in typical use: curl, Python's http.client, Node's fetch, wrk, and nginx as a reverse proxy that
# keeps its connections. (Tests/HTTPServerTests/URLSessionTests.swift tests Swift's URLSession.)

load lib

setup_file() {
    start_server LOG_LEVEL=debug TRUSTED_PROXIES=127.0.0.1,unix
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
    if [[ -n ${nginx_pid:-} ]]; then
        kill "$nginx_pid" 2>/dev/null || true
        wait "$nginx_pid" 2>/dev/null || true
    fi
    end_server
}

# need PROGRAM: fails the test if the program is not installed.
need() {
    PATH=$PATH:/usr/sbin
    command -v "$1" >/dev/null || fail "There is no $1; scripts/bootstrap --tests installs it."
}

# --- curl ---------------------------------------------------------------------------------------------------------

@test "curl: HTTP/1.0, also with keep-alive" {
    post /native/events "$(event chargerTargeted k1)" --http1.0
    expect_json '.status == "ok"'
    expect_field Connection close
    get /healthz --http1.0 -H 'Connection: keep-alive'
    expect_status 200
    expect_field Connection keep-alive
    expect_no_field Transfer-Encoding
}

@test "curl: HTTP/1.1, many requests on one connection" {
    local connects
    connects=$(curl -sS --http1.1 -o /dev/null -w '%{num_connects}\n' "$server_url/healthz?[1-50]" | sort | uniq -c |
        tr -s ' ' | tr '\n' ';')
    [[ $connects == ' 49 0; 1 1;' ]] || fail "Connections opened: $connects"
}

@test "curl: an attempt to upgrade to HTTP/2 is answered in HTTP/1.1" {
    local version
    version=$(curl -sS --http2 -o /dev/null -w '%{http_code} %{http_version}' "$server_url/healthz")
    [[ $version == '200 1.1' ]] || fail "$version"
    post /native/events "$(event chargerTargeted k1)" --http2
    expect_json '.status == "ok"'
    # With prior knowledge, curl's first bytes are HTTP/2. These bytes are not valid HTTP/1.1, so the server rejects
    # them.
    if curl -sS --http2-prior-knowledge -o /dev/null "$server_url/healthz" 2>/dev/null; then return 1; fi
    get /healthz
    expect_status 200
}

@test "curl: a chunked upload" {
    local large
    large=$(event chargerTargeted k1 '.metadata = {text: ("x" * 8000)}')
    request POST /native/events -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' -T - <<<"$large"
    expect_json '.status == "ok"'
    expect_stored a 1
}

@test "curl: a large upload waits for 100 (Continue), a compressed one is read" {
    local events
    events=$(gojq -cn --argjson event "$(event chargerTargeted k)" \
        '{events: [range(400) | . as $n | $event + {event_id: "k\($n)", metadata: {text: ("x" * 1500)}}]}')
    printf '%s' "$events" >"$BATS_TEST_TMPDIR/batch"
    request POST /native/events/batch -H 'Content-Type: application/json' -H 'Expect: 100-continue' \
        --data-binary "@$BATS_TEST_TMPDIR/batch"
    expect_json '.results | length == 400'
    grep -q '^HTTP/1.1 100' "$answer_head" || fail 'No 100 before the answer.'
    gzip "$BATS_TEST_TMPDIR/batch"
    request POST /native/events/batch -H 'Content-Type: application/json' -H 'Content-Encoding: gzip' \
        --data-binary "@$BATS_TEST_TMPDIR/batch.gz"
    expect_json '.results | all(.status == "already_processed")'
}

@test "curl: HEAD" {
    request HEAD /native/config
    expect_status 200
    expect_field Content-Length '[1-9][0-9]*'
    local connects
    connects=$(curl -sS --head -o /dev/null -o /dev/null -w '%{num_connects} ' "$server_url/healthz" "$server_url/none")
    [[ $connects == '1 0 ' ]] || fail "Connections opened: $connects"
}

@test "curl: over IPv6, and over both families at once" {
    forget_server
    launch_server HTTP_HOST=::1
    server_url="http://[::1]:$server_port"
    wait_until_ready
    sign_in a
    post /native/events "$(event chargerTargeted k1)"
    expect_json '.status == "ok"'
    stop_server
    start_server HTTP_HOST=:: LOG_LEVEL=debug TRUSTED_PROXIES=127.0.0.1
    # The server listens on an IPv6 socket, where it must recognize the IPv4 peer 127.0.0.1. This peer is the trusted
    # proxy, so the server must believe its X-Forwarded-For.
    get /healthz -H 'X-Request-Id: from-v4' -H 'X-Forwarded-For: 192.0.2.1'
    expect_client from-v4 192.0.2.1
    server_url="http://[::1]:$server_port"
    get /healthz -H 'X-Request-Id: from-v6' -H 'X-Forwarded-For: 192.0.2.1'
    expect_client from-v6 ::1
    stop_server
}

@test "curl: two addresses and a Unix socket are one server, with one limit on connections" {
    forget_server
    local path=$BATS_TEST_TMPDIR/dwell.sock url
    launch_server HTTP_HOST=127.0.0.1,::1 HTTP_UNIX_SOCKET="$path" MAX_CONNECTIONS=2
    wait_until_ready
    for url in "http://127.0.0.1:$server_port" "http://[::1]:$server_port"; do
        curl -fsS -o /dev/null "$url/healthz" || fail "$url does not answer"
    done
    curl -fsS --unix-socket "$path" -o /dev/null http://x/healthz || fail "the Unix socket does not answer"
    ENV_FILE=/dev/null HTTP_HOST=::1 HTTP_PORT=$server_port "$DWELL" healthcheck
    python3 - "$server_port" "$path" <<'PYTHON'
import socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
def ask(connection):
    connection.settimeout(10)
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    return connection.recv(4096).split()[1]
kept = [socket.create_connection(("127.0.0.1", port)), socket.create_connection(("::1", port))]
assert [ask(connection) for connection in kept] == [b"200", b"200"]
third = socket.socket(socket.AF_UNIX)
third.connect(path)
assert third.recv(4096).split()[1] == b"503"
PYTHON
    stop_server
    [[ ! -e $path ]] || fail "The socket's file was left behind."
}

@test "curl: over a Unix socket alone; a dead server's file is replaced, a live one's not" {
    forget_server
    local path=$BATS_TEST_TMPDIR/dwell.sock attempt
    python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$path"
    launch_server HTTP_HOST= HTTP_UNIX_SOCKET="$path" LOG_LEVEL=debug TRUSTED_PROXIES=unix
    for ((attempt = 0; attempt < 400; attempt++)); do
        if curl -fsS --unix-socket "$path" -o /dev/null http://x/healthz 2>/dev/null; then break; fi
        sleep 0.05
    done
    sign_in a
    post /native/events "$(event chargerTargeted k1)" --unix-socket "$path" -H 'X-Forwarded-For: 192.0.2.7' \
        -H 'X-Request-Id: over-unix'
    expect_json '.status == "ok"'
    expect_client over-unix 192.0.2.7
    HTTP_HOST='' HTTP_UNIX_SOCKET=$path ENV_FILE=/dev/null "$DWELL" healthcheck
    local said
    if said=$(HTTP_HOST='' HTTP_UNIX_SOCKET=$path ENV_FILE=/dev/null "$DWELL" serve \
        --database "$BATS_TEST_TMPDIR/second.sqlite3" 2>&1); then fail "A second server took the socket."; fi
    [[ $said == *'Address already in use'* ]] || fail "$said"
    stop_server
    [[ ! -e $path ]] || fail "The socket's file was left behind."
}

# --- proxies ------------------------------------------------------------------------------------------------------

# expect_client REQUEST-ID ADDRESS: checks that the log shows this client address for that request.
expect_client() {
    wait_for_log "$1"
    local client
    client=$(grep -F "\"$1\"" "$server_folder/log" | gojq -r 'select(.message == "request") | .. | .client? // empty')
    [[ $client == "$2" ]] || fail "Expected client $2 for $1, the log says '$client'."
}

@test "what a trusted proxy says about the client is believed, what the client says is not" {
    get /healthz -H 'X-Request-Id: proxied-1' -H 'X-Forwarded-For: 6.6.6.6, 192.0.2.1'
    expect_client proxied-1 192.0.2.1
    # By default, the server reads the client's address from X-Forwarded-For. It ignores `Forwarded`, because a client
    # can send anything in this field.
    get /healthz -H 'X-Request-Id: proxied-2' -H 'Forwarded: for=6.6.6.6' -H 'X-Forwarded-For: 192.0.2.1'
    expect_client proxied-2 192.0.2.1
    get /healthz -H 'X-Request-Id: proxied-3' -H 'Forwarded: garbage' -H 'X-Forwarded-For: 192.0.2.1'
    expect_client proxied-3 192.0.2.1
    # The log line must say that the trusted proxy's X-Forwarded-For cannot be parsed.
    get /healthz -H 'X-Request-Id: proxied-4' -H 'X-Forwarded-For: garbage'
    expect_client proxied-4 127.0.0.1
    [[ $(grep -F '"proxied-4"' "$server_folder/log" | gojq -r .forwarding) == unreadable ]]
    forget_server
    start_server LOG_LEVEL=debug TRUSTED_PROXIES=127.0.0.1 TRUSTED_PROXIES_HEADER=Forwarded
    get /healthz -H 'X-Request-Id: proxied-5' -H 'Forwarded: for=6.6.6.6, for="[2001:db8::1]:4711";proto=https' \
        -H 'X-Forwarded-For: 6.6.6.6'
    expect_client proxied-5 2001:db8::1
    stop_server
    forget_server
    start_server LOG_LEVEL=debug TRUSTED_PROXIES=10.0.0.0/8
    get /healthz -H 'X-Request-Id: direct-1' -H 'X-Forwarded-For: 192.0.2.1' -H 'Forwarded: for=192.0.2.1'
    expect_client direct-1 127.0.0.1
    stop_server
}

# start_nginx UPSTREAM: starts a reverse proxy with keep-alive connections to UPSTREAM. Sets nginx_pid and nginx_port.
start_nginx() {
    need nginx
    nginx_port=$(free_port)
    local folder=$BATS_TEST_TMPDIR/nginx attempt
    mkdir -p "$folder"
    cat >"$folder/nginx.conf" <<CONFIGURATION
daemon off;
master_process off;
pid $folder/pid;
error_log $folder/error.log info;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    upstream dwell { server $1; keepalive 8; }
    server {
        listen 127.0.0.1:$nginx_port;
        client_max_body_size 2m;
        location / {
            proxy_pass http://dwell;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
        }
    }
}
CONFIGURATION
    nginx -p "$folder" -e "$folder/error.log" -c "$folder/nginx.conf" >"$folder/output" 2>&1 3>&- &
    nginx_pid=$!
    for ((attempt = 0; attempt < 400; attempt++)); do
        if curl -fsS -o /dev/null "http://127.0.0.1:$nginx_port/healthz" 2>/dev/null; then return 0; fi
        kill -0 "$nginx_pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$folder/output" "$folder/error.log"
    return 1
}

# through_nginx: sends small, chunked, large, rejected and concurrent requests through nginx, which keeps its
# connections to the server.
through_nginx() {
    server_url=http://127.0.0.1:$nginx_port
    get /native/config
    expect_status 200
    local tag
    tag=$(field ETag)
    get /native/config -H "If-None-Match: $tag"
    expect_status 304
    request HEAD /native/config
    expect_status 200
    post /native/events "$(event chargerTargeted n1)"
    expect_json '.status == "ok"'
    post /native/events "$(event chargerTargeted n2)" -H 'Transfer-Encoding: chunked'
    expect_json '.status == "ok"'
    get /nowhere
    expect_problem 404 not_found
    post /native/events '{'
    expect_status 400
    post /native/events "$(event chargerTargeted n3 '.metadata = {text: ("x" * 100000)}')"
    expect_problem 413 content_too_large
    post /native/events "$(event chargerTargeted n4)"
    expect_json '.status == "ok"'
    # nginx gets this request from 127.0.0.2, which is not a trusted proxy. The server must therefore log 127.0.0.2 as
    # the client's address.
    get /healthz -H 'X-Request-Id: through-nginx' -H 'X-Forwarded-For: 6.6.6.6' --interface 127.0.0.2
    expect_status 200
    local bad
    bad=$(curl -sS --parallel --parallel-max 16 -o /dev/null -w '%{http_code}\n' "$server_url/healthz?[1-500]" |
        grep -vc '^200$' || true)
    ((bad == 0)) || fail "$bad of 500 requests were not answered 200."
    expect_stored a 3
}

@test "nginx as a reverse proxy with keep-alive upstreams" {
    start_nginx "127.0.0.1:$server_port"
    through_nginx
    expect_client through-nginx 127.0.0.2
    if grep -E 'upstream prematurely closed|Connection reset|no live upstreams' "$BATS_TEST_TMPDIR/nginx/error.log"; then
        return 1
    fi
    local ports kept attempt
    kept=$(ss_connections | sort)
    ports=$(grep -c . <<<"$kept") || fail "nginx keeps no connection to the server."
    ((ports <= 16)) || fail "nginx holds $ports connections to the server; 8 are to be kept."
    # Further requests use the kept connections.
    for attempt in {1..5}; do
        get /healthz
        expect_status 200
    done
    [[ -n $(ss_connections) && -z $(comm -13 <(echo "$kept") <(ss_connections | sort)) ]] ||
        fail "nginx opened new connections: it had $kept, and has $(ss_connections)."
}

# Prints the established connections to the server, from the server's side.
ss_connections() {
    python3 - "$server_port" <<'PYTHON'
import sys
port = int(sys.argv[1])
for line in open("/proc/net/tcp").readlines()[1:]:
    fields = line.split()
    if int(fields[1].split(":")[1], 16) == port and fields[3] == "01":
        print(fields[2])
PYTHON
}

@test "nginx as a reverse proxy to a Unix socket" {
    forget_server
    local path=$BATS_TEST_TMPDIR/dwell.sock
    launch_server HTTP_UNIX_SOCKET="$path" LOG_LEVEL=debug TRUSTED_PROXIES=unix
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do if [[ -S $path ]]; then break; fi; sleep 0.05; done
    sign_in a
    start_nginx "unix:$path"
    through_nginx
    expect_client through-nginx 127.0.0.2
    stop_server
}

# --- languages ----------------------------------------------------------------------------------------------------

@test "Python's http.client" {
    python3 - "$server_port" "$token" "$(event chargerTargeted k1)" "$(event chargerTargeted k2)" <<'PYTHON'
import http.client, json, sys
port, token, first, second = int(sys.argv[1]), *sys.argv[2:]
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
connection.connect()
socket = connection.sock

def ask(method, path, body=None, **options):
    connection.request(method, path, body, headers, **options)
    response = connection.getresponse()
    return response, response.read()

response, body = ask("GET", "/native/config")
assert response.status == 200 and response.version == 11, response.status
length = response.getheader("Content-Length")
response, body = ask("HEAD", "/native/config")
assert response.status == 200 and body == b"" and response.getheader("Content-Length") == length
response, body = ask("POST", "/native/events", first)
assert json.loads(body)["status"] == "ok", body
# http.client sends an iterable body in chunks.
response, body = ask("POST", "/native/events", (piece.encode() for piece in second), encode_chunked=True)
assert json.loads(body)["status"] == "ok", body
response, body = ask("DELETE", "/native/events")
assert response.status == 405 and "POST" in response.getheader("Allow")
assert connection.sock is socket, "another connection was needed"
PYTHON
    expect_stored a 2
}

@test "Node's fetch" {
    need node
    node - "$server_url" "$token" "$(event chargerTargeted k1)" "$(event chargerTargeted k2)" <<'JAVASCRIPT'
const assert = require("node:assert");
const [url, token, first, second] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
const post = async (body, options) =>
    (await fetch(`${url}/native/events`, { method: "POST", headers, body, ...options })).json();
(async () => {
    assert.equal((await fetch(`${url}/native/config`, { headers })).status, 200);
    assert.equal((await fetch(`${url}/native/config`, { method: "HEAD", headers })).status, 200);
    assert.equal((await post(first)).status, "ok");
    // fetch sends a stream in chunks, because its length is unknown.
    assert.equal((await post(new Blob([second]).stream(), { duplex: "half" })).status, "ok");
    const refused = await fetch(`${url}/nowhere`);
    assert.equal(refused.status, 404);
    assert.equal((await refused.json()).code, "not_found");
    const all = await Promise.all(Array.from({ length: 200 }, () => fetch(`${url}/healthz`).then((r) => r.status)));
    assert.ok(all.every((status) => status === 200));
    // A client that aborts while it sends does not affect the server.
    const abort = new AbortController();
    const endless = new ReadableStream({ pull: (c) => { c.enqueue(new Uint8Array(10)); abort.abort(); } });
    await assert.rejects(post(endless, { duplex: "half", signal: abort.signal }));
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
})().catch((error) => { console.error(error); process.exit(1); });
JAVASCRIPT
    expect_stored a 2
}

@test "wrk: 64 connections, every answer is 200 and none breaks" {
    need wrk
    cat >"$BATS_TEST_TMPDIR/post.lua" <<'LUA'
local count, threads = 0, 0
-- Each thread runs this file for itself; what is set here becomes a global of that thread.
function setup(thread) thread:set("id", threads); threads = threads + 1 end
function request()
    count = count + 1
    local now = os.date("!%Y-%m-%dT%H:%M:%SZ")
    local body = string.format('{"event_id":"w%d-%d","event":"chargerTargeted","occurred_at":"%s","timestamp":"%s"}',
        id, count, now, now)
    return wrk.format("POST", "/native/events",
        { ["Authorization"] = "Bearer " .. os.getenv("TOKEN"), ["Content-Type"] = "application/json" }, body)
end
LUA
    local output
    output=$(wrk -t2 -c64 -d2s --latency "$server_url/healthz")
    echo "# $(grep Requests/sec <<<"$output")" >&3
    if [[ $output == *'Non-2xx'* || $output == *'Socket errors'* ]]; then echo "$output"; return 1; fi
    output=$(TOKEN=$token wrk -t2 -c64 -d2s -s "$BATS_TEST_TMPDIR/post.lua" "$server_url")
    echo "# events: $(grep Requests/sec <<<"$output")" >&3
    if [[ $output == *'Non-2xx'* || $output == *'Socket errors'* ]]; then echo "$output"; return 1; fi
}
