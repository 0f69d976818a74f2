#!/usr/bin/env bats
# Tests authorization on the routes listed below (contract, sections 3, 5, 6). signin_routes.py tests all routes.

load lib

secret=integration-tests-sign-with-this-secret

routes=(
    'POST /native/events'
    'POST /native/events/batch'
    'POST /native/sessions'
    'GET /native/config'
    'POST /v1/native/session-events'
    'POST /v1/native/pre-session-events'
    'GET /v1/native/config'
)

setup_file() {
    start_server
    remember_server
}

teardown_file() {
    recall_server
    stop_server
}

setup() {
    recall_server
    now=$(date +%s)
}

teardown() {
    end_server
}

# claims [JQ-FILTER]: prints the claims of a valid token, changed by the filter.
claims() {
    gojq -cn --argjson now "$now" --arg sub "$(driver a)" \
        "{sub: \$sub, iat: \$now, exp: (\$now + 600), iss: \"dwell\", aud: \"dwell\"} | ${1:-.}"
}

# expect_401_everywhere [curl option ...]: sends a request with these options to each of `routes` and expects 401.
expect_401_everywhere() {
    local route method path
    for route in "${routes[@]}"; do
        read -r method path <<<"$route"
        local body_options=()
        if [[ $method == POST ]]; then
            body_options=(-H 'Content-Type: application/json' --data-binary "$(event chargerTargeted k1)")
        fi
        request "$method" "$path" "${body_options[@]}" "$@" &&
            expect_problem 401 unauthorized &&
            expect_field WWW-Authenticate 'Bearer.*' || return 1
    done
    expect_stored a 0
}

@test "the forged token of these tests is good when nothing is wrong with it" {
    token=$(forge "$secret" "$(claims)")
    get /native/config
    expect_status 200
}

@test "no token" {
    token=
    expect_401_everywhere
}

@test "garbage" {
    local garbage
    for garbage in x .. a.b.c "$(printf 'x%.0s' {1..4000})" 'e30.e30.e30' ''; do
        token=
        expect_401_everywhere -H "Authorization: Bearer $garbage"
    done
}

@test "another scheme, or two tokens" {
    token=
    expect_401_everywhere -H 'Authorization: Basic dXNlcjpwYXNzd29yZA=='
    expect_401_everywhere -H "Authorization: $(forge "$secret" "$(claims)")"
    expect_401_everywhere -H "Authorization: Bearer $(forge "$secret" "$(claims)")" \
        -H "Authorization: Bearer $(forge "$secret" "$(claims)")"
}

@test "expired" {
    token=$(forge "$secret" "$(claims '.iat = $now - 7200 | .exp = $now - 3600')")
    expect_401_everywhere
}

@test "a token that expires while it is remembered is refused from then on" {
    token=$(forge "$secret" "$(claims '.exp = $now + 2')")
    get /native/config
    expect_status 200
    local attempt
    for ((attempt = 0; attempt < 400; attempt++)); do
        get /native/config
        if [[ $status != 200 ]]; then break; fi
        sleep 0.1
    done
    expect_problem 401 unauthorized
    (($(date +%s) >= now + 2))
}

@test "signed with another key" {
    token=$(forge another-secret-of-more-than-32-bytes-length "$(claims)")
    expect_401_everywhere
}

@test "a good token with other claims under its signature" {
    local good other
    good=$(forge "$secret" "$(claims)")
    other=$(forge "$secret" "$(claims '.sub = "somebody-else"')")
    token=${good%%.*}.$(cut -d. -f2 <<<"$other").${good##*.}
    expect_401_everywhere
}

@test "for another audience, or from another issuer" {
    token=$(forge "$secret" "$(claims '.aud = "another"')")
    expect_401_everywhere
    token=$(forge "$secret" "$(claims '.iss = "another"')")
    expect_401_everywhere
}

@test "the algorithm is the key's, never the token's" {
    token=$(forge "$secret" "$(claims)" '{"alg":"none"}')
    expect_401_everywhere
    # These tokens are signed with the server's key, so only their algorithm, HS384 or HS512, is wrong.
    local algorithm
    for algorithm in HS384 HS512 ES256 RS256; do
        token=$(forge "$secret" "$(claims)" "{\"alg\":\"$algorithm\",\"typ\":\"JWT\"}")
        get /native/config
        expect_problem 401 unauthorized
    done
}

@test "a claim is missing" {
    local claim
    for claim in sub iat exp iss aud; do
        token=$(forge "$secret" "$(claims "del(.$claim)")")
        get /native/config
        expect_problem 401 unauthorized
    done
    token=$(forge "$secret" "$(claims '.sub = ""')")
    get /native/config
    expect_problem 401 unauthorized
}

@test "a sign-in session that the server does not know" {
    token=$(forge "$secret" "$(claims '.sid = "unknown"')")
    expect_401_everywhere
}

@test "a refusal does not say why, nor what it saw" {
    token=$(forge another-secret-of-more-than-32-bytes-length "$(claims)")
    get /native/config
    local by_key
    by_key=$(gojq -c 'del(.request_id)' <<<"$body")
    token=$(forge "$secret" "$(claims '.exp = $now - 3600')")
    get /native/config
    [[ $(gojq -c 'del(.request_id)' <<<"$body") == "$by_key" ]] || fail "Not the same as $by_key"
    if grep -qF "$token" "$server_folder/log"; then fail "The token is in the log."; fi
}

@test "JWT_TRUST_EXTERNAL=false refuses tokens without a sign-in session" {
    forget_server
    start_server JWT_TRUST_EXTERNAL=false
    token=$(forge "$secret" "$(claims)")
    get /native/config
    expect_problem 401 unauthorized
    stop_server
}

@test "issuer and audience are the configured ones" {
    forget_server
    start_server JWT_ISSUER=https://id.example.org JWT_AUDIENCE=chargers
    token=$(forge "$secret" "$(claims '.iss = "https://id.example.org" | .aud = "chargers"')")
    get /native/config
    expect_status 200
    sign_in a
    get /native/config
    expect_status 200
    token=$(forge "$secret" "$(claims)")
    get /native/config
    expect_problem 401 unauthorized
    stop_server
}

@test "health is open, and an unknown path is 404 with and without a token" {
    token=
    get /healthz
    expect_status 200
    get /nothing-here
    expect_problem 404 not_found
    sign_in a
    get /nothing-here
    expect_problem 404 not_found
}
