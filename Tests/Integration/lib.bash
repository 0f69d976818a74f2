# Shared by all .bats files: starts a separate server on a free port with its own directory, makes tokens and events for
# the server, and reads its database. Requests and assertions are in requests.bash. This file is independent of the
# server's code.
#
# Environment: DWELL is the binary. INTEGRATION_REDIS_URL is a Redis for the servers; if it is not set, they have no
# Redis. INTEGRATION_POSTGRES_URL is a PostgreSQL for them, without the name of a database; if it is not set, they use
# SQLite.

set -euo pipefail

# shellcheck source=Tests/Integration/requests.bash
source "${BASH_SOURCE[0]%/*}/requests.bash"

repository_root=$(cd "${BATS_TEST_DIRNAME:-.}/../.." && pwd)
: "${DWELL:=$repository_root/.build/release/dwell}"
[[ $DWELL == /* ]] || DWELL=$repository_root/$DWELL

# The environment that a server inherits. All other variables are set by the test, so that the environment of the person
# who runs the tests has no effect.
clean_environment=(PATH="$PATH" HOME="${HOME:-/}" TMPDIR="${TMPDIR:-/tmp}")

free_port() {
    python3 "$repository_root/Tests/Integration/ports.py"
}

# --- the server ---------------------------------------------------------------------------------------------------

# start_server [NAME=value ...]: starts a server in $server_folder, or in a new directory if that is not set. Returns
# when the server is ready. Sets server_pid, server_port, server_url, server_folder and server_environment.
start_server() {
    launch_server "$@"
    wait_until_ready
}

# Settings of every server: the signing secret, and rate limits that are turned off. A test may empty either array, or
# set the limits that it tests.
signing=(JWT_SECRET=integration-tests-sign-with-this-secret)
limits=(RATE_LIMIT_SESSION_EVENTS=0 RATE_LIMIT_PRESESSION_EVENTS=0 RATE_LIMIT_SERVICE_EVENTS=0
    RATE_LIMIT_REGISTRATIONS=0 RATE_LIMIT_DEVICES=0
    RATE_LIMIT_ACCOUNT=0 RATE_LIMIT_READS=0 RATE_LIMIT_PINGS=0 RATE_LIMIT_PURCHASES=0
    RATE_LIMIT_NOTIFICATIONS=0 RATE_LIMIT_OPERATOR=0)

# prepare_server [NAME=value ...]: prepares a directory, a port and an environment without starting a server.
prepare_server() {
    server_folder=${server_folder:-$(mktemp -d "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}/server.XXXXXX")}
    server_port=$(free_port)
    server_url=http://127.0.0.1:$server_port
    server_environment=(
        HTTP_PORT="$server_port"
        LOG_FORMAT=json
        "${signing[@]}"
        "${limits[@]}"
    )
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        server_environment+=(DATABASE_URL="$(postgres_database "$server_folder")")
    else
        server_environment+=(DATABASE_PATH="$server_folder/dwell.sqlite3")
    fi
    # On a slow machine, Redis sometimes responds after more than the default of 50 ms.
    if [[ -n ${INTEGRATION_REDIS_URL:-} ]]; then
        server_environment+=(REDIS_URL="$INTEGRATION_REDIS_URL" REDIS_TIMEOUT_MS=2000)
    fi
    server_environment+=("$@")
}

# Like start_server, but does not wait until the server is ready. For servers that are expected to fail at the start.
launch_server() {
    prepare_server "$@"
    launch_prepared serve
}

# launch_prepared ARGUMENT...: runs dwell in the background, with the settings of prepare_server. It runs in the
# server's directory, so that it does not read the tester's .env file. It closes descriptor 3, which belongs to bats:
# bats waits until all processes have closed it.
launch_prepared() {
    keep_log
    (
        cd "$server_folder"
        exec env -i "${clean_environment[@]}" "${server_environment[@]}" "$DWELL" "$@"
    ) >>"$server_folder/log" 2>&1 3>&- &
    server_pid=$!
}

# Makes a second link to the log file for log_secrets.py, which reads the logs of the whole run.
keep_log() {
    if [[ -z ${DWELL_LOGS:-} ]]; then return 0; fi
    touch "$server_folder/log"
    ln -f "$server_folder/log" "$DWELL_LOGS/server-$(stat -c %i "$server_folder/log")"
}

wait_until_ready() {
    local attempt
    for ((attempt = 0; attempt < 600; attempt++)); do
        if curl -fsS -o /dev/null --max-time 2 "$server_url/healthz" 2>/dev/null; then return 0; fi
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.05
    done
    echo "The server did not become ready. Its log:"
    cat "$server_folder/log"
    return 1
}

# wait_for_exit SECONDS: waits at most this long for the server to end by itself. Sets server_status, and prints the log
# of a server that ended with an error.
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
    ((server_status == 0)) || cat "$server_folder/log"
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

# Kills the server if this test started it. For teardown, so that no server is left running after a failure.
end_server() {
    if [[ -n ${server_pid:-} && $server_pid != "${shared_server_pid:-}" ]]; then
        kill -KILL "$server_pid" 2>/dev/null || true
    fi
    server_pid=
}

# One server for all tests of a file: setup_file starts and remembers it, setup recalls it, and teardown_file stops it.
remember_server() {
    local shared_server_pid=$server_pid
    declare -p shared_server_pid server_pid server_port server_url server_folder server_environment |
        sed 's/^declare \(-[^ ]*\)/declare -g \1/' >"$BATS_FILE_TMPDIR/server.bash"
}

recall_server() {
    # shellcheck disable=SC1091
    source "$BATS_FILE_TMPDIR/server.bash"
}

# Makes the next server use a new directory. For a test that needs another server than the file's.
forget_server() {
    unset server_folder
    server_pid=
}

# dwell ARGUMENT...: runs a subcommand with the settings of the server.
dwell() {
    (cd "$server_folder" && env -i "${clean_environment[@]}" "${server_environment[@]}" "$DWELL" "$@")
}

# postgres_database FOLDER: prints the URL of the database of the server in that folder. Creates the database at the
# first call.
postgres_database() {
    local name
    name=test_$(printf '%s' "$1" | md5sum | cut -c 1-20)
    if [[ ! -e $1/postgres-database ]]; then
        psql -Xq -d "$INTEGRATION_POSTGRES_URL/postgres" -c "CREATE DATABASE $name TEMPLATE dwell_template"
        touch "$1/postgres-database"
    fi
    printf '%s/%s\n' "$INTEGRATION_POSTGRES_URL" "$name"
}

# only_sqlite REASON: skips the test on PostgreSQL.
only_sqlite() {
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then skip "$1"; fi
}

# wait_for_log PATTERN: waits until the server's log has a line that matches.
wait_for_log() {
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        if grep -qE "$1" "$server_folder/log"; then return 0; fi
        sleep 0.05
    done
    echo "No line of the log matches $1:"
    cat "$server_folder/log"
    return 1
}

# sql STATEMENT: prints the result, one row a line, with columns separated by |.
sql() {
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        psql -XqAt -v ON_ERROR_STOP=1 -d "$(postgres_database "$server_folder")" -c "$1"
        return
    fi
    python3 - "$server_folder/dwell.sqlite3" "$1" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=10)
for row in database.execute(sys.argv[2]):
    print("|".join("" if value is None else str(value) for value in row))
PYTHON
}

# stored_events COLUMNS CONDITION [ORDER]: prints columns of events in the order of arrival, or by ORDER, as sql does.
# The condition may also use driver_id. COLUMNS, CONDITION and ORDER may use name, spelling, has_session, source and
# settings (the version), in whichever table these are stored.
stored_events() {
    local columns="event_kind.name, event_kind.spelling, event_kind.has_session, event_kind.source,
        settings_version.version AS settings, event.id AS arrival"
    local tables="event JOIN event_kind ON event_kind.id = event.kind
        JOIN settings_version ON settings_version.id = event.settings_version"
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        columns="CASE WHEN event.session_id IS NULL THEN 0 ELSE 1 END AS has_session,
            event.settings_version AS settings, event.position AS arrival"
        tables=event
    fi
    sql "SELECT $1 FROM (SELECT driver.driver_id, event.*, $columns
        FROM $tables JOIN driver ON driver.id = event.driver) stored WHERE $2 ORDER BY ${3:-arrival}"
}

# --- tokens and events --------------------------------------------------------------------------------------------

# driver NAME: prints a driver id that is unique to this test, also among test files and runs that share a Redis.
driver() {
    local file=${BATS_TEST_FILENAME##*/}
    echo "${BATS_RUN_TMPDIR##*/}-${file%.bats}-$BATS_TEST_NUMBER-$1"
}

# sign_in NAME: makes later requests as driver NAME. Sets token.
sign_in() {
    token=$(dwell token --driver "$(driver "$1")")
}

# forge KEY CLAIMS [HEADER]: prints a token with these claims, signed with that key: with HS384 or HS512 if the header
# names it, else with HS256. With "none" in the header, the signature is empty.
forge() {
    python3 - "$@" <<'PYTHON'
import base64, hmac, json, sys
def encode(part):
    return base64.urlsafe_b64encode(part).rstrip(b"=")
key, claims = sys.argv[1:3]
header = sys.argv[3] if len(sys.argv) > 3 else '{"alg":"HS256","typ":"JWT"}'
signed = encode(header.encode()) + b"." + encode(claims.encode())
digest = {"HS384": "sha384", "HS512": "sha512"}.get(json.loads(header).get("alg"), "sha256")
signature = b"" if '"none"' in header else encode(hmac.new(key.encode(), signed, digest).digest())
print((signed + b"." + signature).decode())
PYTHON
}

# seconds_ago N: prints the time N seconds ago as RFC 3339, in UTC.
seconds_ago() {
    TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T\n' "$((EPOCHSECONDS - $1))"
}

# event NAME KEY [JQ-FILTER]: prints the JSON of an event that happens now, changed by the filter. NAME and KEY must not
# contain characters that JSON escapes.
event() {
    local now json
    now=$(seconds_ago 0)
    json="{\"event_id\":\"$2\",\"event\":\"$1\",\"occurred_at\":\"$now\",\"timestamp\":\"$now\"}"
    if (($# > 2)); then gojq -c "$3" <<<"$json"; else echo "$json"; fi
}

# expect_stored NAME COUNT: checks that COUNT events of driver NAME are in the database.
expect_stored() {
    local count
    count=$(sql "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver "$1")'")
    if [[ $count != "$2" ]]; then fail "Expected $2 events of $1 on disk, found $count."; fi
}
