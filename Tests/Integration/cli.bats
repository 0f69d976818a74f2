#!/usr/bin/env bats
# Tests the command line: its output, its exit statuses, and the cases in which the server refuses to start.

load lib

setup() {
    forget_server
    prepare_server
}

teardown() {
    end_server
}

# ends_with STATUS COMMAND...: runs the command and expects this exit status. Sets `out` and `err` to what the command
# printed to standard output and standard error.
ends_with() {
    local expected=$1 ended=0
    shift
    "$@" >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" </dev/null || ended=$?
    out=$(<"$BATS_TEST_TMPDIR/out")
    err=$(<"$BATS_TEST_TMPDIR/err")
    [[ $ended == "$expected" ]] || {
        printf '%s\n' "Expected exit status $expected, got $ended." "--- out" "$out" "--- err" "$err"
        return 1
    }
}

# subcommands_of COMMAND: prints the subcommands in the help text of the command, one a line.
subcommands_of() {
    # shellcheck disable=SC2086
    dwell help $1 | awk '/^SUBCOMMANDS:/ { found = 1; next } found && /^  [a-z]/ { print $1 }'
}

@test "--help names the subcommands and every one has a help text, --version one line" {
    ends_with 0 dwell --help
    local command sub commands=()
    for command in serve check-config config token migrate healthcheck explain backup restore check refold simulate \
        audit verify-erased driver purchases push-test; do
        grep -qE "^  $command( |\$)" <<<"$out" || { echo "no $command in: $out"; return 1; }
    done
    for command in $(subcommands_of ''); do
        commands+=("$command")
        for sub in $(subcommands_of "$command"); do commands+=("$command $sub"); done
    done
    ((${#commands[@]} >= 29)) || fail "Only these subcommands are found: ${commands[*]}"
    for command in "${commands[@]}"; do
        # shellcheck disable=SC2086
        ends_with 0 dwell $command --help
        [[ $out == *"USAGE: dwell $command"* && -z $err ]] || fail "The help text of $command: $out$err"
    done
    ends_with 0 dwell --version
    [[ $out =~ ^[0-9]+\.[0-9]+\.[0-9]+[^$'\n']*$ ]]
}

@test "an unknown subcommand or option is wrong usage" {
    ends_with 64 dwell serv
    [[ -n $err && -z $out ]]
    ends_with 64 dwell check-config --no-such-option
    ends_with 64 dwell token
}

@test "check-config shows every setting with its value, and no secret" {
    local -A secrets=(
        [DATABASE_URL]=postgres://user:password-of-this-test@127.0.0.1/dwell
        [REDIS_URL]=redis://:password-of-this-test@127.0.0.1:6379
        [JWT_SECRET]=integration-tests-sign-with-this-secret
        [DATA_KEY]=1f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a7988
        [OTP_WEBHOOK_URL]=http://127.0.0.1:1/path-of-this-test?query-of-this-test
        [OTP_WEBHOOK_SECRET]=webhook-secret-of-this-test [OPS_TOKEN]=ops-token-of-this-test
        [POSTHOG_KEY]=posthog-key-of-this-test [METRICS_TOKEN]=metrics-token-of-this-test
    )
    local variable values=(DATABASE_PATH=) variables shown
    for variable in "${!secrets[@]}"; do values+=("$variable=${secrets[$variable]}"); done
    prepare_server NATIVE_CHARGER_DWELL_SECONDS=77 OTP_DELIVERY=webhook POSTHOG_HOST=http://127.0.0.1:1 "${values[@]}"
    ends_with 0 dwell check-config
    # ENV.example lists every setting (EnvironmentExampleTests).
    variables=$(sed -nE 's/^#? ?([A-Z][A-Z0-9_]+)=.*/\1/p' "$repository_root/ENV.example" | sort -u)
    (($(wc -l <<<"$variables") > 100)) || fail "ENV.example lists only $variables"
    for variable in $variables; do
        [[ $(grep -c "^$variable " <<<"$out") == 1 ]] || { echo "not one line for $variable in: $out"; return 1; }
    done
    grep -qE '^NATIVE_CHARGER_DWELL_SECONDS +77 ' <<<"$out"
    shown=$out$err
    ends_with 0 dwell check-config --json
    shown+=$out$err
    [[ $(gojq -r '.settings[].name' <<<"$out" | sort) == "$variables" ]]
    [[ $(gojq -r '.settings[] | select(.secret) | .name' <<<"$out" | sort) == $(printf '%s\n' "${!secrets[@]}" | sort) ]]
    for variable in "${!secrets[@]}"; do
        gojq -e --arg name "$variable" '.settings[] | select(.name == $name) | .source == "environment"' <<<"$out"
    done
    if grep -E 'of-this-test|integration-tests-sign-with|1f2e3d4c' <<<"$shown"; then return 1; fi
    gojq -e '[.settings[] | select(.name == "NATIVE_CHARGER_DWELL_SECONDS") | .value] | map(tostring) == ["77"]' <<<"$out"
}

@test "check-config tells every problem and ends with 1" {
    prepare_server HTTP_PORT=70000 NATIVE_GRACE_PERIOD_SECONDS=nan LOG_LEVEL=loud JWT_SECRET=short REDIS_URL=nowhere
    ends_with 1 dwell check-config
    local variable
    for variable in HTTP_PORT NATIVE_GRACE_PERIOD_SECONDS LOG_LEVEL JWT_SECRET REDIS_URL; do
        grep -q "$variable" <<<"$err" || { echo "no $variable in: $err"; return 1; }
    done
    if grep -E 'JWT_SECRET=short' <<<"$out$err"; then return 1; fi
}

@test "the environment wins over the file, an option over both" {
    echo HTTP_PORT=1111 >"$server_folder/some.env"
    echo RATE_LIMIT_WINDOW_SECONDS=11 >>"$server_folder/some.env"
    prepare_server ENV_FILE="$server_folder/some.env" HTTP_PORT=2222
    ends_with 0 dwell check-config
    grep -qE '^HTTP_PORT +2222 ' <<<"$out"
    grep -qE '^RATE_LIMIT_WINDOW_SECONDS +11 ' <<<"$out"
    ends_with 0 dwell check-config --port 3333
    grep -qE '^HTTP_PORT +3333 ' <<<"$out"
}

@test "a secret can come from a file" {
    signing=()
    echo another-secret-that-has-more-than-32-bytes >"$server_folder/secret"
    prepare_server JWT_SECRET_FILE="$server_folder/secret"
    ends_with 0 dwell token --driver jonas
    local signed signature
    signed=${out%.*}
    signature=$(python3 -c '
import base64, hashlib, hmac, sys
digest = hmac.new(b"another-secret-that-has-more-than-32-bytes", sys.argv[1].encode(), hashlib.sha256).digest()
print(base64.urlsafe_b64encode(digest).rstrip(b"=").decode())' "$signed")
    [[ ${out##*.} == "$signature" ]]
}

@test "token prints one token and nothing else, with the claims of the contract" {
    ends_with 0 dwell token --driver jonas --ttl 90
    [[ $out =~ ^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$ ]]
    cut -d. -f2 <<<"$out" | gojq -eR 'gsub("-"; "+") | gsub("_"; "/") | @base64d | fromjson |
        .sub == "jonas" and .iss == "dwell" and .aud == "dwell" and (.exp - .iat) == 90'
}

@test "the server makes its own key on first start, keeps it, and token finds it" {
    signing=()
    start_server
    sign_in a
    get /native/config
    expect_status 200
    # Only the owner may read the key.
    local readable
    readable=$(find "$server_folder" -type f -not -name 'log' -not -name 'dwell.sqlite3*' -perm /077)
    [[ -z $readable ]] || { echo "readable by others: $readable"; return 1; }
    stop_server
    start_server
    get /native/config
    expect_status 200
    stop_server
}

@test "production refuses to start with a key of its own" {
    signing=()
    prepare_server APP_ENV=production
    ends_with 78 dwell serve
    grep -q JWT_SECRET <<<"$err$out"
    [[ ! -e $server_folder/dwell.sqlite3 ]]
}

@test "wrong settings end the start with 78, all of them told at once" {
    prepare_server HTTP_PORT=http JWT_SECRET=too-short EVENT_LOOPS=0 SESSION_REGISTRATION=maybe
    ends_with 78 dwell serve
    local variable
    for variable in HTTP_PORT JWT_SECRET EVENT_LOOPS SESSION_REGISTRATION; do
        [[ $(grep -c "$variable" <<<"$err$out") == 1 ]] || { echo "not one line for $variable in: $out$err"; return 1; }
    done
}

@test "an ENV_FILE that is named and missing stops the start" {
    prepare_server ENV_FILE="$server_folder/missing.env"
    ends_with 78 dwell serve
    grep -q ENV_FILE <<<"$err$out"
}

@test "a port that is taken is told, with a status that is not 0" {
    start_server
    local first=$server_pid
    # If the server starts although it should not, `timeout` ends it.
    ends_with 1 timeout 20 env -i "${clean_environment[@]}" "${server_environment[@]}" \
        DATABASE_PATH="$server_folder/second.sqlite3" "$DWELL" serve
    grep -q "$server_port" <<<"$err$out"
    grep -q "port $server_port is held by dwell (process $first); stop it, or choose another port: HTTP_PORT=" <<<"$err$out"
    kill -0 "$first"
    stop_server
}

@test "migrate makes the schema, --status tells it, and doing it twice is doing it once" {
    # There is no database yet, and --status creates none.
    ends_with 1 dwell migrate --status
    [[ $err == *"dwell.sqlite3: file not found"* && ! -e $server_folder/dwell.sqlite3 ]]
    ends_with 0 dwell migrate
    [[ $(sql "SELECT count(*) FROM sqlite_master WHERE name = 'event'") == 1 ]]
    local schema
    schema=$(sql 'SELECT sql FROM sqlite_master ORDER BY name')
    ends_with 0 dwell migrate
    [[ $(sql 'SELECT sql FROM sqlite_master ORDER BY name') == "$schema" ]]
    ends_with 0 dwell migrate --status
    [[ $out == *0001* ]]
}

@test "a database of a newer version is refused and left alone" {
    ends_with 0 dwell migrate
    python3 - "$server_folder/dwell.sqlite3" <<'PYTHON'
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
version = database.execute("PRAGMA user_version").fetchone()[0]
if version:
    database.execute(f"PRAGMA user_version = {version + 1000}")
tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE name LIKE '%migration%'")]
for table in tables:
    columns = database.execute(f"PRAGMA table_info({table})").fetchall()
    row = database.execute(f"SELECT * FROM {table} ORDER BY 1 DESC LIMIT 1").fetchone()
    newer = [9999 if isinstance(row[0], int) else "9999_from_the_future", *row[1:]]
    database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", newer)
assert version or tables, "nothing in the database says which version it is"
database.commit()
PYTHON
    local before
    before=$(sql 'SELECT count(*), sum(length(sql)) FROM sqlite_master')
    ends_with 1 timeout 20 env -i "${clean_environment[@]}" "${server_environment[@]}" "$DWELL" serve
    [[ -n $err$out ]]
    [[ $(sql 'SELECT count(*), sum(length(sql)) FROM sqlite_master') == "$before" ]]
}

@test "it runs from any folder and carries its migrations" {
    cp "$DWELL" "$server_folder/alone"
    mkdir "$server_folder/elsewhere"
    prepare_server DATABASE_PATH=relative/data.sqlite3
    (
        cd "$server_folder/elsewhere"
        exec env -i "${clean_environment[@]}" "${server_environment[@]}" "$server_folder/alone" serve
    ) >>"$server_folder/log" 2>&1 3>&- &
    server_pid=$!
    wait_until_ready
    sign_in a
    post /native/events "$(event chargerTargeted k1)"
    expect_status 200
    [[ -e $server_folder/elsewhere/relative/data.sqlite3 ]]
    stop_server
}

@test "dwell without a subcommand prints help, and does nothing else" {
    ends_with 0 dwell
    [[ $out == *USAGE*SUBCOMMANDS*serve* && -z $err ]]
    [[ -z $(ls "$server_folder") ]]
}

@test "token and simulate without the server's key make none" {
    signing=()
    prepare_server
    ends_with 78 dwell token --driver jonas
    [[ -z $out && $err == *"$server_folder/dwell.sqlite3.jwt-key does not exist"*"JWT_SECRET"* ]]
    ends_with 78 dwell simulate
    ends_with 78 dwell driver sign-out --id jonas
    [[ -z $(ls "$server_folder") ]]
}

# The expected exit statuses are those of the table in docs/operations.md, "Exit statuses".
@test "every subcommand ends as documented: well, and in two ways not" {
    start_server
    sign_in a
    post /native/events "$(event enteredChargerIntentZone k1 '.session_id = "s-1"')"
    local backup=$BATS_TEST_TMPDIR/backup.sqlite3 missing=$BATS_TEST_TMPDIR/missing.sqlite3
    ends_with 0 dwell help
    ends_with 0 dwell check-config
    ends_with 1 dwell check-config --port 70000
    ends_with 64 dwell check-config --no-such-option
    ends_with 0 dwell config history
    ends_with 1 dwell config history --database "$missing"
    ends_with 64 dwell config history --limit 0
    ends_with 0 dwell config show
    ends_with 64 dwell config show now
    ends_with 0 dwell config preview --driver d
    ends_with 64 dwell config preview --driver d --at tomorrow
    echo NATIVE_GRACE_PERIOD_SECONDS=600 >"$BATS_TEST_TMPDIR/try.env"
    ends_with 0 dwell config try "$BATS_TEST_TMPDIR/try.env"
    ends_with 1 dwell config try "$missing"
    ends_with 1 dwell config try "$BATS_TEST_TMPDIR/try.env" --database "$missing"
    ends_with 64 dwell config try
    ends_with 0 dwell token --driver jonas
    ends_with 64 dwell token --driver jonas --ttl 0
    ends_with 64 dwell token --driver jonas --role opps
    [[ $err == *"'driver', 'ops' or 'service'"* ]] || fail "$err"
    ends_with 78 dwell token --driver jonas --env-file "$missing"
    ends_with 0 dwell migrate --status
    ends_with 1 dwell migrate --status --database "$missing"
    ends_with 64 dwell migrate now
    ends_with 64 dwell migrate --to postgres://127.0.0.1/dwell
    ends_with 64 dwell migrate --from sqlite --status
    ends_with 78 dwell migrate --from sqlite
    [[ $err == *"where is PostgreSQL"* ]] || fail "$err"
    ends_with 1 dwell migrate --from sqlite --to 'postgres://u:not-shown@127.0.0.1:1/dwell?sslmode=disable'
    [[ $err != *not-shown* ]] || fail "$err"
    ends_with 0 dwell refold --dry-run
    ends_with 0 dwell refold
    ends_with 1 dwell refold --database "$missing"
    ends_with 64 dwell refold --since yesterday
    local correction=(dwell refold --since "$(seconds_ago 60)" --by Ann --reason test --settings)
    ends_with 0 "${correction[@]}" current --dry-run
    ends_with 0 "${correction[@]}" current
    ends_with 1 "${correction[@]}" no-such-version --dry-run
    [[ $err == *"no settings no-such-version"* ]] || fail "$err"
    ends_with 1 "${correction[@]}" no-such-version
    [[ $err == *"settings is not a version that this database knows"* ]] || fail "$err"
    ends_with 64 dwell refold --settings current
    ends_with 64 dwell push-test
    ends_with 78 dwell push-test --token ab
    ends_with 0 dwell healthcheck --ready
    ends_with 1 dwell healthcheck --url http://127.0.0.1:1
    ends_with 64 dwell healthcheck --url ftp://x
    ends_with 0 dwell explain --session s-1
    ends_with 1 dwell explain --session no-such
    ends_with 64 dwell explain
    ends_with 0 dwell backup "$backup"
    ends_with 1 dwell backup "$backup"
    ends_with 64 dwell backup
    ends_with 0 dwell check
    ends_with 1 dwell check --database "$missing"
    ends_with 64 dwell check now
    ends_with 0 dwell driver find --id "$(driver a)"
    ends_with 1 dwell driver find --id nobody
    ends_with 64 dwell driver find
    ends_with 0 dwell driver sign-out --id "$(driver a)"
    ends_with 1 dwell driver sign-out --id nobody
    ends_with 64 dwell driver sign-out
    ends_with 0 dwell audit --driver "$(driver a)"
    ends_with 1 dwell audit --driver nobody
    ends_with 64 dwell audit
    ends_with 0 dwell driver erase --id "$(driver a)" --yes
    ends_with 1 dwell driver erase --id "$(driver a)" --yes
    ends_with 64 dwell driver erase
    ends_with 0 dwell verify-erased --driver "$(driver a)"
    ends_with 1 dwell verify-erased --driver never-was-here
    ends_with 64 dwell verify-erased
    ends_with 0 dwell driver erasures
    ends_with 1 dwell driver erasures --database "$missing"
    ends_with 64 dwell driver erasures --since yesterday
    ends_with 1 dwell driver repeat-erasures --from "$missing"
    ends_with 64 dwell driver repeat-erasures
    ends_with 0 dwell simulate --drivers 1 --scenario happy-path --rate 1000
    ends_with 1 dwell simulate --url http://127.0.0.1:1
    ends_with 64 dwell simulate --drivers 0
    ends_with 0 dwell simulate --clean
    ends_with 1 dwell simulate --clean --database "$missing"
    ends_with 1 dwell restore --yes "$backup"
    [[ $err == *"stop the server first"* ]]
    stop_server
    ends_with 1 dwell config show
    ends_with 0 dwell restore --yes "$backup"
    ends_with 1 dwell restore --yes "$missing"
    ends_with 64 dwell restore
    ends_with 0 dwell driver repeat-erasures --yes --from "$(ls "$server_folder"/dwell.sqlite3.before-restore-*)"
    [[ $out == *"1 driver deleted again"* ]]
    ends_with 0 dwell migrate
    ends_with 1 dwell migrate --database /proc/nowhere/x.sqlite3
    [[ $err == *"/proc/nowhere/x.sqlite3: its directory /proc/nowhere cannot be created: No such file"* ]] || fail "$err"
    ends_with 1 dwell serve --database "$BATS_TEST_TMPDIR"
    [[ $err == *"$BATS_TEST_TMPDIR: it is a directory, not a database file"* ]] || fail "$err"
    ends_with 78 dwell serve --port 70000
    ends_with 64 dwell serve now
    ends_with 64 dwell no-such-command
}

@test "commands outside the server's folder make nothing there" {
    prepare_server JWT_SECRET=
    local folder=$BATS_TEST_TMPDIR/elsewhere command
    mkdir "$folder"
    echo NATIVE_GRACE_PERIOD_SECONDS=600 >"$BATS_TEST_TMPDIR/try.env"
    while read -r command; do
        # shellcheck disable=SC2086
        (cd "$folder" && env -i "${clean_environment[@]}" "$DWELL" $command --database "$folder/var/db" </dev/null) \
            >"$BATS_TEST_TMPDIR/out" 2>&1 && fail "dwell $command: $(cat "$BATS_TEST_TMPDIR/out")"
        [[ -z $(ls -A "$folder") ]] || fail "dwell $command made $(find "$folder" | tr '\n' ' ')"
        grep -q 'file not found\|no signing key' "$BATS_TEST_TMPDIR/out" || fail "dwell $command: $(cat "$BATS_TEST_TMPDIR/out")"
    done <<'COMMANDS'
config show
config history
config try ../try.env
token --driver a
simulate --drivers 1
simulate --clean
explain --session s
audit --driver d
backup copy
check
refold
refold --dry-run
migrate --status
restore copy
driver find --id d
driver sign-out --id d
driver erase --id d --yes
driver erasures
driver repeat-erasures --from copy
verify-erased --driver d-12345
COMMANDS
}

@test "what is no database is told in one sentence, without SQL, by every subcommand that takes one" {
    prepare_server PURCHASE_APPS=org.example.app:1
    local folder=$BATS_TEST_TMPDIR/files file command sub words
    mkdir "$folder"
    echo 'no database, but longer than the header of one would be, which is a hundred bytes and a few more' >"$folder/text"
    : >"$folder/empty"
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("CREATE TABLE mine (id INTEGER)")' "$folder/foreign"
    local -A sentence=(
        [text]="file is not a database" [empty]="not a Dwell database: it is empty"
        [foreign]="not a Dwell database: it has tables"
    ) words_of=(
        [migrate]='--status' ['config history']='' [explain]='--session s' [backup]="$BATS_TEST_TMPDIR/copy" [check]=''
        [refold]='--dry-run' [audit]='--driver d' [verify-erased]='--driver d-12345' ['driver find']='--id d'
        ['driver sign-out']='--id d' ['driver erase']='--id d --yes' ['driver erasures']=''
        ['driver repeat-erasures']="--from $BATS_TEST_TMPDIR/list" [simulate]='--clean' [serve]=''
        ['purchases show']='--driver d' ['purchases move']='--transaction 1 --to d --yes'
        ['purchases replay']="$BATS_TEST_TMPDIR/list" ['config try']="$BATS_TEST_TMPDIR/try.env"
    )
    echo NATIVE_GRACE_PERIOD_SECONDS=600 >"$BATS_TEST_TMPDIR/try.env"
    echo '# deletions: 0' >"$BATS_TEST_TMPDIR/list"
    # These commands have the option --database but do not open the database. `restore` replaces the file. The other
    # commands only read the path, because it is one of the settings.
    local unopened=' check-config token healthcheck restore config_show config_preview '
    local commands=() before
    for command in $(subcommands_of ''); do
        local inner
        inner=$(subcommands_of "$command")
        for sub in ${inner:-.}; do commands+=("$command${inner:+ $sub}"); done
    done
    [[ ${#commands[@]} -ge 20 ]] || fail "${commands[*]}"
    for command in "${commands[@]}"; do
        # shellcheck disable=SC2086
        dwell help $command | grep -e --database >/dev/null || continue
        [[ $unopened != *" ${command/ /_} "* ]] || continue
        [[ -v words_of[$command] ]] || fail "no arguments for dwell $command in this test"
        words=${words_of[$command]}
        for file in text empty foreign; do
            # A server creates its schema in an empty file.
            [[ $command == serve && $file == empty ]] && continue
            before=$(sha256sum <"$folder/$file")
            # shellcheck disable=SC2086
            ends_with 1 dwell $command $words --database "$folder/$file"
            [[ $err == *"$folder/$file: ${sentence[$file]}"* && $err != *PRAGMA* && $err != *SELECT* ]] \
                || fail "dwell $command $words: $err"
            [[ $command == serve || $(wc -l <<<"$err") == 1 ]] || fail "dwell $command $words: $err"
            [[ $(sha256sum <"$folder/$file") == "$before" ]] || fail "dwell $command changed the $file"
            [[ $(ls "$folder") == $'empty\nforeign\ntext' ]] || fail "dwell $command left $(ls "$folder")"
        done
    done
    for command in refold migrate; do
        for file in text foreign; do
            ends_with 1 dwell $command --database "$folder/$file"
            [[ $err == *"$folder/$file: ${sentence[$file]}"* ]] || fail "dwell $command: $err"
        done
    done
    ends_with 1 dwell driver repeat-erasures --from "$folder/foreign"
    [[ $err == *"$folder/foreign: ${sentence[foreign]}"* ]] || fail "$err"
    ends_with 1 dwell restore "$folder/foreign"
    [[ $err == *"${sentence[foreign]}"* ]] || fail "$err"
    ends_with 1 dwell backup "$BATS_TEST_TMPDIR/nowhere/copy" --database "$folder/text"
    [[ $err == *"the folder $BATS_TEST_TMPDIR/nowhere does not exist"* ]] || fail "$err"
}

@test "output that cannot be written ends with 1" {
    local command ended error
    ends_with 0 dwell migrate
    # The output of `check-config --example` exceeds the buffer of standard output, so a write fails while the command
    # still runs. When the command ends, it no longer knows why that write failed.
    for command in 'token --driver jonas' 'driver erasures' 'check-config --example' --version --help 'help token' ''; do
        ended=0
        # shellcheck disable=SC2086
        error=$(dwell $command 2>&1 >/dev/full) || ended=$?
        [[ $ended == 1 && $error == *"could not be written completely: "@("No space left on device"|"an earlier write failed")* ]] ||
            fail "dwell $command: $ended $error"
    done
}

@test "healthcheck: 0 while the server answers, 1 when it does not" {
    start_server
    ends_with 0 dwell healthcheck
    stop_server
    ends_with 1 dwell healthcheck
    [[ -n $err ]]
}

@test "the database is in WAL mode and passes its own checks" {
    start_server
    sign_in a
    post /native/events "$(event chargerTargeted k1)"
    expect_status 200
    [[ $(sql 'PRAGMA journal_mode') == wal ]]
    stop_server
    [[ $(sql 'PRAGMA integrity_check') == ok ]]
    [[ -z $(sql 'PRAGMA foreign_key_check') ]]
}
