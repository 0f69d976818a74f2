#!/usr/bin/env bats
# Tests dwell backup, restore, check, refold and config try, and the deletion of old events (docs/operations.md).

bats_require_minimum_version 1.5.0
load lib.bash

setup() {
    forget_server
}

teardown() {
    end_server
}

# The table that stores the columns of events. In SQLite, `event` is only a view of this table.
if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then event_row=event; else event_row=event_row; fi

# changed STATEMENT: executes the statement on the database. The server does not notice the change.
changed() {
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        sql "$1"
        return
    fi
    python3 - "$server_folder/dwell.sqlite3" "$1" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute(sys.argv[2])
database.commit()
PYTHON
}

@test "a backup under load has every event acknowledged before it began, and restores" {
    only_sqlite "PostgreSQL has its own backups"
    start_server
    sign_in jo
    # Posts events until the file `stop` exists. Writes the key of each acknowledged event on its own line of the file
    # `acknowledged`.
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

    [[ $(stat -c %a "$BATS_TEST_TMPDIR/backup.sqlite3") == 600 ]]
    [[ ! -e $BATS_TEST_TMPDIR/backup.sqlite3-wal && ! -e $BATS_TEST_TMPDIR/backup.sqlite3.partial ]]
    run ! dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *--force* ]]
    dwell check --database "$BATS_TEST_TMPDIR/backup.sqlite3"

    # A restore is refused while a server uses the database.
    run ! dwell restore "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *"stop the server first"* ]]
    get /native/session
    [[ $status == 200 ]]

    stop_server
    # The database has events that the backup lacks, and `restore` says so.
    run ! dwell restore "$BATS_TEST_TMPDIR/backup.sqlite3" </dev/null
    [[ $output == *"backup  "*" events, 1 driver, last event received"* && $output == *"fewer than the database"*"--yes"* ]]
    run ! ls "$server_folder"/dwell.sqlite3.before-restore-*
    dwell restore --yes "$BATS_TEST_TMPDIR/backup.sqlite3"
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
    only_sqlite "PostgreSQL has its own backups"
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

@test "a restore over a newer database tells of the drivers deleted since, and they are deleted again" {
    only_sqlite "PostgreSQL has its own backups"
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3"
    dwell driver erase --id "$(driver jo)" --yes
    stop_server
    changed "INSERT INTO schema_migration (number, name, sha256, applied_at_ms) VALUES (1000, 'next', '', 0)"
    run -0 dwell restore --yes "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *"it has migration 1000"*"1 driver deleted after the backup was taken"*"repeat-erasures --from"* ]]
    expect_stored jo 1
    run -0 dwell driver repeat-erasures --yes --from "$(ls "$server_folder"/dwell.sqlite3.before-restore-*)"
    [[ $output == *"1 driver deleted again"* ]]
    expect_stored jo 0
}

@test "a restore over a damaged database says that the drivers deleted since are unknown" {
    only_sqlite "PostgreSQL has its own backups"
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3"
    stop_server
    # Overwrites the schema, which follows SQLite's header of 100 bytes.
    head -c 3000 /dev/zero | dd of="$server_folder/dwell.sqlite3" bs=1 seek=100 conv=notrunc status=none
    run -0 dwell restore "$BATS_TEST_TMPDIR/backup.sqlite3"
    [[ $output == *"cannot be read"*"drivers deleted after the backup was taken are unknown"*"repeat-erasures --from LIST"* ]]
    expect_stored jo 1
}

@test "what is no backup is not restored, and no server starts on it" {
    only_sqlite "PostgreSQL has its own backups"
    start_server
    sign_in jo
    post /native/events "$(event chargerTargeted k1)"
    stop_server
    : >"$BATS_TEST_TMPDIR/empty.sqlite3"
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("CREATE TABLE note (text TEXT)")' \
        "$BATS_TEST_TMPDIR/foreign.sqlite3"
    local file
    for file in empty foreign; do
        run -1 dwell restore --yes "$BATS_TEST_TMPDIR/$file.sqlite3"
        [[ $output == *"not a Dwell database"* ]]
        [[ $(sql "SELECT count(*) FROM event") == 1 ]]
    done
    [[ -z $(find "$server_folder" -name '*.before-restore-*' -o -name '*.restoring') ]]
    launch_server DATABASE_PATH="$BATS_TEST_TMPDIR/foreign.sqlite3"
    wait_for_exit 10
    [[ $server_status == 1 ]]
    grep -q 'foreign.sqlite3.*not a Dwell database' "$server_folder/log"
}

@test "a backup is recorded in the database, beside a running server and without one" {
    only_sqlite "PostgreSQL has its own backups"
    start_server
    [[ -z $(sql "SELECT * FROM last_backup") ]]
    dwell backup "$BATS_TEST_TMPDIR/one.sqlite3"
    local first size
    first=$(sql "SELECT completed_at_ms FROM last_backup")
    size=$(sql "SELECT bytes FROM last_backup")
    (($(date +%s%3N) - first < 60000 && size == $(stat -c %s "$BATS_TEST_TMPDIR/one.sqlite3")))
    stop_server
    dwell backup "$BATS_TEST_TMPDIR/two.sqlite3"
    (($(sql "SELECT completed_at_ms FROM last_backup") > first))
    # Makes a database as it was before migration 7, which adds the table `last_backup`. A backup of this database
    # succeeds, but is not recorded.
    changed "DROP TABLE last_backup"
    changed "DELETE FROM schema_migration WHERE number >= (SELECT number FROM schema_migration WHERE name = 'last_backup')"
    [[ $(sql "SELECT max(number), count(*) FROM schema_migration") == "6|6" ]]
    run -0 dwell backup "$BATS_TEST_TMPDIR/three.sqlite3"
    [[ $output == *"the backup succeeded but was not recorded"* ]]
}

@test "check finds what is not what the events make of it" {
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    post /native/events "$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago -1)\"")"
    dwell check
    stop_server
    changed "UPDATE $event_row SET transition = 2, reason = 3 WHERE after_state = 1"
    run ! dwell check
    [[ $output == *"the fold gives applied"* ]]
    changed "UPDATE $event_row SET transition = 1, reason = NULL WHERE after_state = 1"
    dwell check
    changed "UPDATE driver SET state = 4"
    run ! dwell check
    [[ $output == *"its row differs from"* ]]
}

@test "check finds nothing wrong with a driver who was erased" {
    start_server
    sign_in jo
    session="$(driver jo)-session"
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 300)\"")"
    post /native/events "$(event anchorDwellComplete k2 ".occurred_at = \"$(seconds_ago 200)\"")"
    post /native/events "$(event exclusive_activated k3 ".occurred_at = \"$(seconds_ago 100)\" | .session_id = \"$session\"")"
    # This event is late, so the events after it are folded again.
    post /native/events "$(event chargerTargeted k0 ".occurred_at = \"$(seconds_ago 400)\" | .charger_id = \"c1\"")"
    request DELETE /auth/me -H 'Content-Type: application/json' --data-binary '{"confirm":true}'
    [[ $status == 200 ]]
    [[ $(sql "SELECT count(*) FROM driver WHERE driver_id LIKE 'erased-%'") == 1 ]]
    dwell check
    stop_server
    dwell check
}

# aged DAYS: subtracts DAYS from all stored times of occurrence and of receipt.
aged() {
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        sql "DO \$\$ DECLARE found record; BEGIN
            FOR found IN SELECT table_name, column_name FROM information_schema.columns
                WHERE table_name IN ('event', 'driver', 'session', 'session_owner') AND column_name LIKE '%\_ms'
                AND column_name NOT IN ('skew_ms', 'last_correction_ms') AND is_generated = 'NEVER' LOOP
                EXECUTE format('UPDATE %I SET %I = %I - %s', found.table_name, found.column_name, found.column_name,
                    $1 * 86400000::int8);
            END LOOP; END \$\$"
        return
    fi
    python3 - "$server_folder/dwell.sqlite3" "$1" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
for table in ("event_row", "driver", "session"):
    for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
        if column.endswith("_ms") and not column.endswith("_offset_ms") and column not in ("skew_ms", "last_correction_ms"):
            database.execute(f"UPDATE {table} SET {column} = {column} - {int(sys.argv[2]) * 86_400_000}")


def moved(chain):
    """The column driver.chain with another time. Its first number is the time (ChainEnd.swift)."""
    end = next(index for index, byte in enumerate(chain) if byte < 0x80) + 1
    zigzag = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(chain[:end]))
    zigzag = ((zigzag >> 1) - int(sys.argv[2]) * 86_400_000) << 1  # the time stays positive
    time = []
    while zigzag >= 0x80:
        time.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes(time + [zigzag]) + chain[end:]


for driver, chain in database.execute("SELECT id, chain FROM driver WHERE chain IS NOT NULL").fetchall():
    database.execute("UPDATE driver SET chain = ? WHERE id = ?", (moved(chain), driver))
database.commit()
PYTHON
}

# journey NUMBER SECONDS: posts a whole journey that began SECONDS ago. Its session is $(driver jo)-NUMBER.
journey() {
    local name number=0
    for name in enteredChargerIntentZone anchorDwellComplete exclusiveActivatedByWeb webRequestedEnd; do
        number=$((number + 1))
        post /native/events "$(event "$name" "$1-$number" \
            ".occurred_at = \"$(seconds_ago $(($2 - number)))\" | if $number > 2 then .session_id = \"$(driver jo)-$1\" else . end")"
        [[ $status == 200 && $(gojq -r .session.transition <<<"$body") == applied ]]
    done
}

@test "events older than EVENT_RETENTION_DAYS go, their sessions too, and what stays is as it was" {
    start_server
    sign_in jo
    journey 1 100
    stop_server
    aged 6
    start_server
    journey 2 100
    dwell check
    stop_server
    aged 2
    dwell check
    # Without EVENT_RETENTION_DAYS, nothing is deleted.
    start_server
    journey 3 200
    get "/native/sessions/$(driver jo)-1"
    [[ $status == 200 ]]
    stop_server
    [[ $(sql "SELECT count(*) FROM event") == 12 ]]

    start_server EVENT_RETENTION_DAYS=7 METRICS_TOKEN=integration-reads-figures
    wait_for_log 'retention deleted'
    grep 'retention deleted' "$server_folder/log" | grep '"events":4' >/dev/null
    get "/native/sessions/$(driver jo)-1"
    [[ $status == 404 ]]
    get "/native/sessions/$(driver jo)-2"
    [[ $status == 200 && $(gojq -c '[.events[].transition]' <<<"$body") == '["applied","applied"]' ]]
    get /native/session
    [[ $(gojq -r .state <<<"$body") == SESSION_ENDED ]]
    dwell check
    curl -fsS -H "Authorization: Bearer integration-reads-figures" "$server_url/metrics" >"$BATS_TEST_TMPDIR/figures"
    grep -qx 'dwell_retention_deleted_total{what="events"} 4' "$BATS_TEST_TMPDIR/figures"
    grep -qx 'dwell_deadlines_due 0' "$BATS_TEST_TMPDIR/figures"
    # The oldest remaining event is two days old.
    [[ $(sed -n 's/^dwell_oldest_event_age_seconds \([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/figures") -ge 172800 ]]

    # The server still knows the key of a remaining event, so another body with this key gets 422. A deleted event that
    # is sent again counts as new. It is stored, but changes no state.
    post /native/events "$(event enteredChargerIntentZone 2-1)"
    [[ $status == 422 ]]
    post /native/events "$(event enteredChargerIntentZone 1-1 ".occurred_at = \"$(seconds_ago $((8 * 86400 + 3600)))\"")"
    [[ $status == 200 && $(gojq -r '.status + " " + .session.transition + " " + .session.state' <<<"$body") == "ok none SESSION_ENDED" ]]
    dwell explain --driver "$(driver jo)" | grep 'EVENT_RETENTION_DAYS' >/dev/null
    # This late event occurred after the deleted journey 1 and before journey 2. The fold begins with the state that
    # journey 1 left: SESSION_ENDED.
    post /native/events "$(event chargerTargeted late ".occurred_at = \"$(seconds_ago $((2 * 86400 + 3600)))\" | .charger_id = \"c9\"")"
    [[ $(gojq -r .session.transition <<<"$body") == none ]]
    [[ $(sql "SELECT after_state FROM event WHERE idempotency_key = 'late'") == 6 ]]
    dwell check
    stop_server
    dwell check
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then return; fi
    dwell backup "$BATS_TEST_TMPDIR/backup.sqlite3"
    dwell check --database "$BATS_TEST_TMPDIR/backup.sqlite3"
}

@test "PostgreSQL is backed up and restored with its own tools, and the commands say which" {
    if [[ -z ${INTEGRATION_POSTGRES_URL:-} ]]; then skip "the database is SQLite"; fi
    start_server
    run -1 dwell backup "$BATS_TEST_TMPDIR/backup"
    [[ $output == *"the database is PostgreSQL"*pg_basebackup*pg_dump*docs/several-servers.md* ]]
    run -1 dwell restore "$BATS_TEST_TMPDIR/backup"
    [[ $output == *"the database is PostgreSQL"*pg_restore*docs/several-servers.md* ]]
}

@test "a retention that phones could outlast is refused at the start" {
    launch_server EVENT_RETENTION_DAYS=6
    wait_for_exit 10
    [[ $server_status == 78 ]]
    grep -q 'EVENT_RETENTION_DAYS=6 (environment) is not allowed; allowed is 0, or a whole number from 7' "$server_folder/log"
}

# --- refold -------------------------------------------------------------------------------------------------------

# fold_by_older_rules: rewrites the stored results to those of an older release. That release rejected an activation
# without an earlier dwell.
fold_by_older_rules() {
    changed "UPDATE driver SET rules = 1, state = 1, session = NULL, hard_deadline_ms = NULL, recent_changes = x''"
    changed "UPDATE event_row SET transition = 2, reason = 0, implied = 0, after_state = 1, after_session = NULL,
        after_hard_offset_ms = NULL, second_place = NULL, previous_state = NULL
        WHERE kind = (SELECT id FROM event_kind WHERE name = 'exclusiveActivatedByWeb')"
}

@test "dwell refold beside the server: what changes is counted, and an open stream is told" {
    only_sqlite "the test changes rows of SQLite's tables"
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago 60)\"")"
    post /native/events "$(event exclusiveActivatedByWeb k2 \
        '.session_id = "refold-s" | .metadata = {previous_state: "ANCHORED"}')"
    expect_verdict SESSION_ACTIVE applied
    fold_by_older_rules
    curl -sSN --max-time 30 -H "Authorization: Bearer $token" "$server_url/native/session/stream" \
        >"$BATS_TEST_TMPDIR/stream" 3>&- &
    local reader=$! attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        if grep -q NEAR_CHARGER "$BATS_TEST_TMPDIR/stream"; then break; fi
        sleep 0.05
    done
    run -0 --separate-stderr dwell refold --dry-run
    [[ $output == "dry run, no changes made: 1 drivers, 2 events folded"* ]]
    run -0 dwell refold
    [[ $output == *"  1  rejected not_anchored -> applied, implied anchorDwellComplete"* ]]
    [[ $output == *$'sessions:\n  1  not activated -> SESSION_ACTIVE  (refold-s)' ]]
    for ((attempt = 0; attempt < 200; attempt++)); do
        if grep -q SESSION_ACTIVE "$BATS_TEST_TMPDIR/stream"; then break; fi
        sleep 0.05
    done
    kill "$reader"
    [[ $(sed -n 's/^data: //p' "$BATS_TEST_TMPDIR/stream" | gojq -r '"\(.state) \(.snapshot)"' | paste -sd ' ') \
        == "NEAR_CHARGER true SESSION_ACTIVE true" ]] || { cat "$BATS_TEST_TMPDIR/stream"; return 1; }
    run -0 dwell refold
    [[ $output == "0 drivers, 0 events folded"* ]]
    dwell check
}

# visit_with KEYS SESSION: posts a visit. The driver reaches the merchant five minutes after leaving the charger.
visit_with() {
    post /native/events "$(event enteredChargerIntentZone "$1-1" ".occurred_at = \"$(seconds_ago 1200)\"")"
    post /native/events "$(event anchorDwellComplete "$1-2" ".occurred_at = \"$(seconds_ago 1100)\"")"
    post /native/events "$(event exclusiveActivatedByWeb "$1-3" \
        ".session_id = \"$2\" | .occurred_at = \"$(seconds_ago 1000)\"")"
    post /native/events "$(event exitedChargerAnchorZone "$1-4" \
        ".session_id = \"$2\" | .occurred_at = \"$(seconds_ago 900)\"")"
    post /native/events "$(event enteredMerchantZone "$1-5" \
        ".session_id = \"$2\" | .occurred_at = \"$(seconds_ago 600)\"")"
}

# database_sum: prints a checksum of the database's rows. The tables that a server writes without a request (counts once
# a minute, heartbeats, probes) are left out. With PostgreSQL, prints a checksum of the events and one of the drivers.
database_sum() {
    if [[ -n ${INTEGRATION_POSTGRES_URL:-} ]]; then
        sql "SELECT md5(string_agg(event::text, '' ORDER BY driver, seq)) FROM event"
        sql "SELECT md5(string_agg(driver::text, '' ORDER BY id)) FROM driver"
        return
    fi
    python3 - "$server_folder/dwell.sqlite3" <<'PYTHON'
import hashlib, sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=10)
database.execute("BEGIN")
tables = [name for name, in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
          if name not in ("operation_count", "instance", "write_probe")]
assert {"event_row", "driver", "settings_correction"} <= set(tables), tables
digest = hashlib.sha256()
for table in tables:
    digest.update(table.encode())
    for row in sorted(map(repr, database.execute(f'SELECT * FROM "{table}"'))):
        digest.update(row.encode())
print(digest.hexdigest())
PYTHON
}

@test "a wrong time-out is corrected beside the server: tried, recorded, told to an open stream, undone" {
    server_folder=$(mktemp -d "$BATS_TEST_TMPDIR/server.XXXXXX")
    echo NATIVE_GRACE_PERIOD_SECONDS=60 >"$server_folder/settings.env"
    start_server ENV_FILE="$server_folder/settings.env"
    local name wrong since
    since=$(seconds_ago 5)
    for name in jo bo; do
        sign_in $name
        visit_with $name "s-$name"
        expect_verdict SESSION_ENDED rejected no_such_transition
    done
    wrong=$(sql 'SELECT version FROM settings_version')
    echo NATIVE_GRACE_PERIOD_SECONDS=900 >"$server_folder/settings.env"
    kill -HUP "$server_pid"
    wait_for_log 'gracePeriodSeconds 60 -> 900'

    echo NATIVE_GRACE_PERIOD_SECONDS=800 >"$BATS_TEST_TMPDIR/try.env"
    run -0 dwell config try "$BATS_TEST_TMPDIR/try.env" --since '1 hour'
    [[ $output == *"2 of 2 sessions would have ended differently"*$'sessions:\n  2  grace -> AT_MERCHANT  (s-jo, s-bo)' ]] || fail "$output"
    # With these rules, only driver `jo` keeps the short grace period. The other driver gets the server's settings.
    cat >"$BATS_TEST_TMPDIR/rules.json" <<JSON
{"rules": [
{"name": "short", "reason": "Pilot", "drivers": ["$(driver jo)"], "settings": {"gracePeriodSeconds": 60}}]}
JSON
    run -0 dwell config try "$BATS_TEST_TMPDIR/rules.json" --since '1 hour'
    [[ $output == *"1 of 2 sessions would have ended differently"*$'sessions:\n  1  grace -> AT_MERCHANT  (s-bo)' ]] || fail "$output"
    sed -i 's/: 60}/: -1}/' "$BATS_TEST_TMPDIR/rules.json"
    run -1 dwell config try "$BATS_TEST_TMPDIR/rules.json"
    [[ $output == *'rules.json: line 2'*short*gracePeriodSeconds* ]] || fail "$output"

    local sum correction=(dwell refold --since "$since" --settings current --instead-of "$wrong")
    sum=$(database_sum)
    run -0 --separate-stderr "${correction[@]}" --dry-run
    [[ $output == "dry run, no changes made: 2 drivers, 12 events folded"*"  2  grace -> AT_MERCHANT  (s-jo, s-bo)" ]] \
        || fail "$output"
    [[ $(database_sum) == "$sum" ]] || fail "a dry run has changed the database"
    local tried=$output

    sign_in jo
    curl -sSN --max-time 30 -H "Authorization: Bearer $token" "$server_url/native/session/stream" \
        >"$BATS_TEST_TMPDIR/stream" 3>&- &
    local reader=$! attempt
    for ((attempt = 0; attempt < 200; attempt++)); do
        if grep -q SESSION_ENDED "$BATS_TEST_TMPDIR/stream"; then break; fi
        sleep 0.05
    done
    run -0 --separate-stderr "${correction[@]}" --by Ann --reason 'grace period was 60 s'
    [[ "dry run, no changes made: $output" == "$tried" ]] || fail "$output"
    for ((attempt = 0; attempt < 200; attempt++)); do
        if grep -q AT_MERCHANT "$BATS_TEST_TMPDIR/stream"; then break; fi
        sleep 0.05
    done
    kill "$reader"
    grep -q AT_MERCHANT "$BATS_TEST_TMPDIR/stream" || { cat "$BATS_TEST_TMPDIR/stream"; return 1; }
    dwell check
    run -0 dwell config history
    [[ $output == *"  correction 1  events received from "*", stored with $wrong  folded with "*"  by Ann: grace period was 60 s"* ]]
    run -0 gojq -r '[.events[].settings | select(.stored_version)] | unique[] | "\(.stored_version) \(.gracePeriodSeconds)"' \
        <<<"$(dwell explain --session s-jo --json)"
    [[ $output == "$wrong 900" ]] || fail "$output"
    post /native/events "$(event visitVerifiedByWeb jo-6 '.session_id = "s-jo"')"
    expect_verdict SESSION_ENDED applied

    run -0 --separate-stderr dwell refold --since "$since" --settings stored --by Ann --reason undo
    [[ $output == *"  1  AT_MERCHANT -> grace  (s-bo)"* && $output == *"  1  verified -> grace  (s-jo)"* ]] || fail "$output"
    dwell check
    stop_server
    run -0 --separate-stderr "${correction[@]}" --by Ann --reason 'without a server'
    [[ $output == *"  1  grace -> AT_MERCHANT  (s-bo)"* && $stderr == "correction 3 begins: "* ]] || fail "$output $stderr"
    dwell check
}

@test "with the settings in force, config try finds no difference, also if a session begins again" {
    start_server
    sign_in jo
    # The session "a" ends, and the sessions "b" and "c" follow. The fold then no longer remembers the end of "a". The
    # next event of "a" therefore begins "a" again.
    post /native/events/batch "$(gojq -cn --argjson now "$(date +%s)" '
        def event(id; name): {event_id: id, event: name};
        [range(4) as $index | ["a", "b", "c", "a"][$index] as $session
            | event("enter-\($index)"; "enteredChargerIntentZone"), event("dwell-\($index)"; "anchorDwellComplete"),
              event("activate-\($index)"; "exclusiveActivatedByWeb") + {session_id: $session},
              (if $index < 3 then event("end-\($index)"; "webRequestedEnd") + {session_id: $session} else empty end)]
        | {events: [to_entries[] | .value + {occurred_at: ($now - 100 + .key | todate)}]}')"
    expect_json '.results[-1].session | .state == "SESSION_ACTIVE" and .transition == "applied"'
    echo NATIVE_GRACE_PERIOD_SECONDS=900 >"$BATS_TEST_TMPDIR/try.env"
    run -0 dwell config try "$BATS_TEST_TMPDIR/try.env" --since '1 hour'
    [[ $output == *"15 events folded; 0 of 3 sessions would have ended differently"* ]] || fail "$output"
}

@test "a database of an older schema: a dry run leaves it alone, and what reads it says what to do" {
    only_sqlite "it is about SQLite's file"
    start_server
    sign_in jo
    post /native/events "$(event enteredChargerIntentZone k1)"
    stop_server
    changed "DELETE FROM schema_migration WHERE number = (SELECT max(number) FROM schema_migration)"
    run -1 --separate-stderr dwell refold --dry-run
    [[ $stderr =~ ": it has migration "[0-9]+", this binary needs "[0-9]+": start the server of this version, or run dwell migrate"$ ]]
    changed "DROP VIEW event_timeline"
    changed "DROP VIEW event"
    changed "CREATE VIEW event AS SELECT id, driver, corrected_at_ms FROM event_row"
    run -1 --separate-stderr dwell explain --driver "$(driver jo)"
    [[ $stderr == *"run dwell migrate"* ]]
    run -1 --separate-stderr dwell check
    [[ $stderr == *"run dwell migrate"* ]]
}
