# What every .bats file here stands on: a server of its own on a free port with a folder of its own, requests with
# their answers kept whole, and assertions that print the whole answer when they fail. It knows the contract's forms
# and nothing of the code.
#
# From outside: DWELL names the binary, INTEGRATION_REDIS_URL a Redis for the servers to use (none: without).

set -euo pipefail

repository_root=$(cd "${BATS_TEST_DIRNAME:-.}/../.." && pwd)
: "${DWELL:=$repository_root/.build/release/dwell}"
[[ $DWELL == /* ]] || DWELL=$repository_root/$DWELL

# What a server inherits. Its own variables are only those that a test sets: what the person who runs the tests has
# in the environment must not decide.
clean_environment=(PATH="$PATH" HOME="${HOME:-/}" TMPDIR="${TMPDIR:-/tmp}")

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# --- the server ---------------------------------------------------------------------------------------------------

# start_server [NAME=value ...]: serves from $server_folder, a new one unless it is set; ready on return.
# Sets server_pid, server_port, server_url, server_folder, server_environment.
start_server() {
    launch_server "$@"
    wait_until_ready
}

# What servers are started with; a test may empty either. Only ratelimit.bats wants to meet limits.
signing=(JWT_SECRET=integration-tests-sign-with-this-secret)
limits=(RATE_LIMIT_SESSION_EVENTS=0 RATE_LIMIT_PRESESSION_EVENTS=0)

# prepare_server [NAME=value ...]: a folder, a port and an environment, without a server in them yet.
prepare_server() {
    server_folder=${server_folder:-$(mktemp -d "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/server.XXXXXX")}
    server_port=$(free_port)
    server_url=http://127.0.0.1:$server_port
    server_environment=(
        HTTP_PORT="$server_port"
        DATABASE_PATH="$server_folder/dwell.sqlite3"
        LOG_FORMAT=json
        "${signing[@]}"
        "${limits[@]}"
    )
    if [[ -n ${INTEGRATION_REDIS_URL:-} ]]; then server_environment+=(REDIS_URL="$INTEGRATION_REDIS_URL"); fi
    server_environment+=("$@")
}

# The same as start_server without waiting, for servers that are expected not to come up.
launch_server() {
    prepare_server "$@"
    launch_prepared serve
}

# launch_prepared ARGUMENT...: dwell in the background, with what prepare_server made. The folder is the server's,
# lest it reads the .env of whoever runs the tests. Descriptor 3 is bats' own: whoever keeps it open keeps bats waiting.
launch_prepared() {
    (
        cd "$server_folder"
        exec env -i "${clean_environment[@]}" "${server_environment[@]}" "$DWELL" "$@"
    ) >>"$server_folder/log" 2>&1 3>&- &
    server_pid=$!
}

wait_until_ready() {
    local attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        if curl -fsS -o /dev/null --max-time 2 "$server_url/healthz" 2>/dev/null; then return 0; fi
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.05
    done
    echo "The server did not become ready. Its log:"
    cat "$server_folder/log"
    return 1
}

# Waits for the server to end by itself, at most $1 seconds. Sets server_status.
wait_for_exit() {
    local deadline=$((SECONDS + $1))
    while kill -0 "$server_pid" 2>/dev/null; do
        if ((SECONDS > deadline)); then
            echo "The server still runs after $1 s. Its log:"
            cat "$server_folder/log"
            return 1
        fi
        sleep 0.05
    done
    server_status=0
    wait "$server_pid" || server_status=$?
    server_pid=
}

stop_server() {
    if [[ -z ${server_pid:-} ]]; then return 0; fi
    kill -TERM "$server_pid" 2>/dev/null || true
    if ! wait_for_exit 25; then
        kill -KILL "$server_pid" 2>/dev/null || true
        server_pid=
        return 1
    fi
}

# For teardown, whatever happened: a server that the test started itself is not left running.
end_server() {
    if [[ -n ${server_pid:-} && $server_pid != "${shared_server_pid:-}" ]]; then
        kill -KILL "$server_pid" 2>/dev/null || true
    fi
    server_pid=
}

# One server for a file of tests: start and remember it in setup_file, recall it in setup, stop it in teardown_file.
remember_server() {
    local shared_server_pid=$server_pid
    declare -p shared_server_pid server_pid server_port server_url server_folder server_environment |
        sed 's/^declare \(-[^ ]*\)/declare -g \1/' >"$BATS_FILE_TMPDIR/server.bash"
}

recall_server() {
    # shellcheck disable=SC1091
    source "$BATS_FILE_TMPDIR/server.bash"
}

# For a test that wants another server than the file's: the next one gets a folder of its own.
forget_server() {
    unset server_folder
    server_pid=
}

# dwell ARGUMENT...: a subcommand, with the settings of the server.
dwell() {
    (cd "$server_folder" && env -i "${clean_environment[@]}" "${server_environment[@]}" "$DWELL" "$@")
}

# Waits until the server's log has a line that matches.
wait_for_log() {
    local attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        if grep -qE "$1" "$server_folder/log"; then return 0; fi
        sleep 0.05
    done
    echo "No line of the log matches $1:"
    cat "$server_folder/log"
    return 1
}

# sql STATEMENT: what the database says, a line a row, columns divided by |.
sql() {
    python3 - "$server_folder/dwell.sqlite3" "$1" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=10)
for row in database.execute(sys.argv[2]):
    print("|".join("" if value is None else str(value) for value in row))
PYTHON
}

# --- tokens and events --------------------------------------------------------------------------------------------

# driver NAME: the id of a driver of this test alone, in all files and runs, which may share a Redis.
driver() {
    echo "${BATS_RUN_TMPDIR##*/}-$(basename "$BATS_TEST_FILENAME" .bats)-$BATS_TEST_NUMBER-$1"
}

# sign_in NAME: requests are driver NAME's from here on. Sets token.
sign_in() {
    token=$(dwell token --driver "$(driver "$1")")
}

# forge KEY CLAIMS [HEADER]: a token signed with HS256 and that key, whatever it claims.
forge() {
    python3 - "$@" <<'PYTHON'
import base64, hashlib, hmac, sys
def encode(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")
key, claims = sys.argv[1:3]
header = sys.argv[3] if len(sys.argv) > 3 else '{"alg":"HS256","typ":"JWT"}'
signed = encode(header.encode()) + b"." + encode(claims.encode())
signature = b"" if '"none"' in header else encode(hmac.new(key.encode(), signed, hashlib.sha256).digest())
print((signed + b"." + signature).decode())
PYTHON
}

# seconds_ago N: that time as RFC 3339, in UTC.
seconds_ago() {
    date -u -d "@$(($(date +%s) - $1))" +%Y-%m-%dT%H:%M:%SZ
}

# event NAME KEY [JQ-FILTER]: the JSON of an event that happened now, changed by the filter.
event() {
    jq -cn --arg event "$1" --arg key "$2" --arg now "$(seconds_ago 0)" \
        "{event_id: \$key, event: \$event, occurred_at: \$now, timestamp: \$now} | ${3:-.}"
}

# --- requests -----------------------------------------------------------------------------------------------------

# request METHOD PATH [curl option ...]: sends with $token, if there is one. Sets status, body, and the file
# $answer_head. A connection that breaks fails the test.
request() {
    local method=$1 path=$2
    shift 2
    answer_head=$BATS_TEST_TMPDIR/head
    answer_body=$BATS_TEST_TMPDIR/body
    asked="$method $path"
    local options=(-sS --max-time 20 -o "$answer_body" -D "$answer_head" -w '%{http_code}')
    if [[ -n ${token:-} ]]; then options+=(-H "Authorization: Bearer $token"); fi
    if [[ $method == HEAD ]]; then options+=(--head); else options+=(-X "$method"); fi
    : >"$answer_body"
    if ! status=$(curl "${options[@]}" "$@" "$server_url$path" 2>"$BATS_TEST_TMPDIR/curl-error"); then
        echo "$asked was not answered in full (status $status): $(cat "$BATS_TEST_TMPDIR/curl-error")"
        show_answer
        return 1
    fi
    # Not for bytes: a shell variable holds text.
    body=$(tr -d '\0' <"$answer_body")
}

get() {
    request GET "$@"
}

# post PATH JSON [curl option ...]
post() {
    local path=$1 json=$2
    shift 2
    request POST "$path" -H 'Content-Type: application/json' --data-binary "$json" "$@"
}

# raw BYTES [seconds]: sends bytes as they are (printf escapes) and prints all that comes back until the server
# closes or it has been silent for that long.
raw() {
    python3 - "$server_port" "$1" "${2:-2}" <<'PYTHON'
import codecs, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=float(sys.argv[3]))
connection.sendall(codecs.escape_decode(sys.argv[2].encode())[0])
try:
    while received := connection.recv(65536):
        sys.stdout.buffer.write(received)
    print("\n[closed by the server]")
except TimeoutError:
    print("\n[still open]")
except ConnectionResetError:
    print("\n[reset by the server]")
PYTHON
}

# --- assertions ---------------------------------------------------------------------------------------------------

show_answer() {
    echo "--- ${asked:-no request}"
    cat "$answer_head" 2>/dev/null || true
    head -c 4000 "$answer_body" 2>/dev/null || true
    echo
    echo "---"
}

fail() {
    echo "$1"
    show_answer
    return 1
}

expect_status() {
    if [[ $status != "$1" ]]; then fail "Expected status $1, got $status."; fi
}

# expect_json FILTER [jq option ...]: the filter is true of the body.
expect_json() {
    local filter=$1
    shift
    if ! jq -e "$filter" "$@" <"$answer_body" >/dev/null 2>&1; then fail "Not so: $filter"; fi
}

# field NAME: the values of a header field of the answer, a line each.
field() {
    sed -n "s/^$1:[[:space:]]*\(.*[^[:space:]]\)[[:space:]]*$/\1/Ip" "$answer_head"
}

# expect_field NAME REGEX: the field is there exactly once, and all of it matches.
expect_field() {
    local values
    values=$(field "$1")
    if ! [[ $values =~ ^($2)$ ]]; then fail "Expected $1: $2, got '$values'."; fi
}

expect_no_field() {
    if [[ -n $(field "$1") ]]; then fail "Expected no field $1, got '$(field "$1")'."; fi
}

# Assertions made of others chain them with &&: where one stands before ||, as in a loop that adds what it was at,
# errexit is off.

# expect_problem STATUS CODE: the one form of every error (contract, section 5).
expect_problem() {
    local retryable=false
    case $1 in 408 | 429 | 500 | 503) retryable=true ;; esac
    expect_status "$1" &&
        expect_field Content-Type 'application/problem\+json(;.*)?' &&
        expect_json '.status == $status and .code == $code' --argjson status "$1" --arg code "$2" &&
        expect_json '[.type, .title, .detail, .request_id] | all(type == "string" and length > 0)' &&
        expect_json '.error == .detail' &&
        expect_json '.retryable == $retryable' --argjson retryable "$retryable" &&
        expect_json '.request_id == $id' --arg id "$(field X-Request-Id)"
}

# expect_pointers POINTER...: validation failed for exactly these members.
expect_pointers() {
    expect_problem 400 validation_failed &&
        expect_json '(.errors | map(.pointer) | sort) == ($ARGS.positional | sort)' --args "$@" &&
        expect_json '.errors | all(.detail | type == "string" and length > 0)'
}

# expect_verdict STATE TRANSITION [REASON]: the verdict is that, and has a reason only if one is named.
expect_verdict() {
    expect_status 200 &&
        expect_json '.session.state == $state and .session.transition == $transition and .session.reason == $reason' \
            --arg state "$1" --arg transition "$2" --argjson reason "${3:+\"}${3:-null}${3:+\"}"
}

# expect_stored NAME COUNT: so many events of driver NAME are on disk.
expect_stored() {
    local count
    count=$(sql "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver "$1")'")
    if [[ $count != "$2" ]]; then fail "Expected $2 events of $1 on disk, found $count."; fi
}
