# Shared by all .bats files through lib.bash: requests that record complete responses, and assertions that print the
# whole response when they fail. This file depends on the formats of the contract.

# request METHOD PATH [curl option ...]: sends a request, with $token if it is set. Sets status and body, and writes
# the response's head to the file $answer_head. A connection that breaks fails the test.
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
    # Bytes of 0 are removed, because a shell variable can hold only text.
    body=$(tr -d '\0' <"$answer_body")
    keep_exchange "$method" "$path"
}

# keep_exchange METHOD PATH: records the response for description.py, which compares every response of the run with
# openapi.json.
keep_exchange() {
    if [[ -z ${DWELL_EXCHANGES:-} ]]; then return 0; fi
    local file
    file=$DWELL_EXCHANGES/$BASHPID-$((exchange_count += 1))-$RANDOM
    { printf '%s %s\n' "$1" "$2" && cat "$answer_head" "$answer_body"; } >"$file"
    # Records the token for log_secrets.py, because no log may contain it.
    if [[ -n ${token:-} && -n ${DWELL_SECRETS:-} ]]; then
        printf '"token":"%s"\n' "$token" >>"$DWELL_SECRETS/bats-$BASHPID"
    fi
}
exchange_count=0

get() {
    request GET "$@"
}

# post PATH JSON [curl option ...]: sends a POST request with this JSON.
post() {
    local path=$1 json=$2
    shift 2
    request POST "$path" -H 'Content-Type: application/json' --data-binary "$json" "$@"
}

# raw BYTES [SECONDS]: sends the bytes, with printf escapes expanded. Prints everything received until the server closes
# the connection or has sent nothing for SECONDS (default 2).
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

# expect_json FILTER [gojq option ...]: checks that the filter is true for the body.
expect_json() {
    local filter=$1
    shift
    if ! gojq -e "$filter" "$@" <"$answer_body" >/dev/null 2>&1; then fail "Not so: $filter"; fi
}

# field NAME: prints the values of a header field of the response, one value a line.
field() {
    sed -n "s/^$1:[[:space:]]*\(.*[^[:space:]]\)[[:space:]]*$/\1/Ip" "$answer_head"
}

# expect_field NAME REGEX: checks that the field occurs exactly once and that the expression matches its whole value.
expect_field() {
    local values
    values=$(field "$1")
    if ! [[ $values =~ ^($2)$ ]]; then fail "Expected $1: $2, got '$values'."; fi
}

expect_no_field() {
    if [[ -n $(field "$1") ]]; then fail "Expected no field $1, got '$(field "$1")'."; fi
}

# An assertion that calls other assertions joins these calls with &&. It cannot rely on errexit, because errexit is off
# in a function that is called before ||, for example in a loop that prints the current item.

# expect_problem STATUS CODE: checks for an error in the form that all errors have (contract, section 5).
expect_problem() {
    local retryable=false
    case $1 in 408 | 429 | 500 | 503) retryable=true ;; esac
    expect_status "$1" &&
        expect_field Content-Type 'application/problem\+json(;.*)?' &&
        expect_json '([.type, .title, .detail, .request_id] | all(type == "string" and length > 0))
            and .status == $status and .code == $code and .error == .detail and .retryable == $retryable
            and .request_id == $id' \
            --argjson status "$1" --arg code "$2" --argjson retryable "$retryable" --arg id "$(field X-Request-Id)"
}

# expect_pointers POINTER...: checks that validation failed for exactly these members.
expect_pointers() {
    expect_problem 400 validation_failed &&
        expect_json '(.errors | map(.pointer) | sort) == ($ARGS.positional | sort)' --args "$@" &&
        expect_json '.errors | all(.detail | type == "string" and length > 0)'
}

# expect_verdict STATE TRANSITION [REASON]: checks the verdict. Without REASON, the verdict must have no reason.
expect_verdict() {
    expect_status 200 &&
        expect_json '.session.state == $state and .session.transition == $transition and .session.reason == $reason' \
            --arg state "$1" --arg transition "$2" --argjson reason "${3:+\"}${3:-null}${3:+\"}"
}
