#!/usr/bin/env bats
# Checks that only the owner can access the files that Dwell creates, even if the umask permits more.

load lib

teardown() {
    end_server
}

# expect_private FILE...: checks that each file exists and that neither the group nor others have any permission.
expect_private() {
    local file mode
    for file in "$@"; do
        [[ -e $file ]] || { fail "There is no $file."; return 1; }
        mode=$(stat -c %a "$file")
        [[ $mode == ?00 ]] || { fail "$file has mode $mode."; return 1; }
    done
}

@test "with umask 000: database, WAL, socket and key file of a server" { serves 000; }

@test "with umask 022: database, WAL, socket and key file of a server" { serves 022; }

@test "with umask 000: what the other subcommands make" { commands 000; }

@test "with umask 022: what the other subcommands make" { commands 022; }

serves() {
    umask "$1"
    # Without JWT_SECRET, the server creates a key file beside the database.
    signing=()
    server_folder=$(mktemp -d "$BATS_TEST_TMPDIR/server.XXXXXX")
    start_server HTTP_UNIX_SOCKET="$server_folder/socket" APP_ENV=development
    token=
    sign_in_as_minted
    post /native/events "$(event chargerTargeted k1)"
    expect_status 200
    expect_private "$server_folder"/dwell.sqlite3* "$server_folder/socket"
    [[ $(stat -c %F "$server_folder/socket") == socket ]]
    [[ -e $server_folder/dwell.sqlite3-wal ]]
    # Check every file except the log, which the shell created.
    local file
    while read -r file; do expect_private "$file" || return 1; done < <(find "$server_folder" -mindepth 1 ! -name log)
    stop_server
    while read -r file; do expect_private "$file" || return 1; done < <(find "$server_folder" -mindepth 1 ! -name log)
}

sign_in_as_minted() {
    token=$(dwell token --driver somebody)
}

commands() {
    umask "$1"
    signing=()
    server_folder=$(mktemp -d "$BATS_TEST_TMPDIR/server.XXXXXX")
    prepare_server APP_ENV=development
    dwell migrate >/dev/null
    expect_private "$server_folder"/dwell.sqlite3*
    dwell backup "$server_folder/backup" >/dev/null
    expect_private "$server_folder/backup"
    dwell restore "$server_folder/backup" >/dev/null || dwell restore --yes "$server_folder/backup" >/dev/null
    local file
    while read -r file; do expect_private "$file" || return 1; done < <(find "$server_folder" -type f ! -name log)
}
