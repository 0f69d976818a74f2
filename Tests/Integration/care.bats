#!/usr/bin/env bats
# dwell backup, dwell restore and dwell check: what an operator does with the file (docs/operations.md).

bats_require_minimum_version 1.5.0
load lib.bash

setup() {
    forget_server
}

teardown() {
    end_server
}

# changed STATEMENT: does it to the database, behind everybody's back.
changed() {
    python3 - "$server_folder/dwell.sqlite3" "$1" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute(sys.argv[2])
database.commit()
PYTHON
}

@test "a backup under load has every event acknowledged before it began, and restores" {
    start_server
    sign_in jo
    # Writes until it is told to stop; each acknowledged key in a line of its own.
    python3 - "$server_port" "$token" "$BATS_TEST_TMPDIR/acknowledged" "$BATS_TEST_TMPDIR/stop" <<'PYTHON' 3>&- &
import datetime, http.client, json, os, sys
port, token, log, stop = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
number = 0
with open(log, "w", buffering=1) as acknowledged:
    while not os.path.exists(stop):
        key = f"k{number}"
        number += 1
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        body = json.dumps({"event": "some_diagnostic", "event_id": key, "occurred_at": now,
                           "metadata": {"text": "x" * 2000}})
        connection.request("POST", "/native/events", body,
                           {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
        acknowledged.write(key + "\n")
PYTHON
    local writer=$!
    for ((attempt = 0; attempt < 400; attempt++)); do
        if [[ -e $BATS_TEST_TMPDIR/acknowledged && $(wc -l <"$BATS_TEST_TMPDIR/acknowledged") -ge 200 ]]; then break; fi
        sleep 0.05
    done
    before=$(grep -c . "$BATS_TEST_TMPDIR/acknowledged")
    ((before >= 200))
    head -n "$before" "$BATS_TEST_TMPDIR/acknowledged" | sort >"$BATS_TEST_TMPDIR/before"
    dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3" 2>"$BATS_TEST_TMPDIR/progress"
    grep -q '100 %' "$BATS_TEST_TMPDIR/progress"
    touch "$BATS_TEST_TMPDIR/stop"
    wait "$writer"

    # It is one file, nobody else's to read, and taken anew only when told to.
    [[ $(stat -c %a "$BATS_TEST_TMPDIR/backup.sqlite3") == 600 ]]
    [[ ! -e $BATS_TEST_TMPDIR/backup.sqlite3-wal && ! -e $BATS_TEST_TMPDIR/backup.sqlite3.partial ]]
    run ! dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *--force* ]]
    dwell check --database "$BATS_TEST_TMPDIR/backup.sqlite3"

    # Not while a server has the database.
    run ! dwell restore "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *"stop the server first"* ]]
    get /native/session
    [[ $status == 200 ]]

    stop_server
    dwell restore "$BATS_TEST_TMPDIR/backup.sqlite3"
    ls "$server_folder"/dwell.sqlite3.before-restore-*
    sql "SELECT idempotency_key FROM event" | sort >"$BATS_TEST_TMPDIR/restored"
    [[ -z $(comm -23 "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/restored") ]]
    launch_prepared serve
    wait_until_ready
    get /native/session
    [[ $status == 200 ]]
    dwell check
}

@test "a damaged backup is refused and the database stays" {
    start_server
    sign_in jo
    post /native/events "$(event chargerTargeted k1)"
    stop_server
    head -c 20000 /dev/urandom >"$BATS_TEST_TMPDIR/noise.sqlite3"
    run ! dwell restore "$BATS_TEST_TMPDIR/noise.sqlite3"
    dwell backup "$BATS_TEST_TMPDIR/torn.sqlite3"
    truncate -s 40960 "$BATS_TEST_TMPDIR/torn.sqlite3"
    run ! dwell restore "$BATS_TEST_TMPDIR/torn.sqlite3"
    run ! dwell restore "$BATS_TEST_TMPDIR/nothing.sqlite3"
    [[ $(sql "SELECT count(*) FROM event") == 1 ]]
    [[ ! -e $server_folder/dwell.sqlite3.restoring ]]
}

@test "check finds what is not what the events make of it" {
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events "$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago -1)\"")"
    dwell check
    stop_server
    changed "UPDATE event SET transition = 2, reason = 3 WHERE idempotency_key = 'k1'"
    run ! dwell check
    [[ $output == *"the fold says applied"* ]]
    changed "UPDATE event SET transition = 1, reason = NULL WHERE idempotency_key = 'k1'"
    dwell check
    changed "UPDATE driver SET state = 4"
    run ! dwell check
    [[ $output == *"its row does not say"* ]]
}
