#!/usr/bin/env bats
# Three times are kept of each event, and a wrong clock is put right (contract, section 3).

load lib

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
    sign_in a
}

teardown() {
    end_server
}

@test "raw, corrected and skew are stored; only a clock more than five minutes off is corrected" {
    # A phone whose clock is two hours ahead, and which says so by X-Sent-At.
    post /native/events "$(event enteredChargerIntentZone ahead ".occurred_at = \"$(seconds_ago -7100)\"")" \
        -H "X-Sent-At: $(seconds_ago -7200)"
    expect_status 200
    # One that is four minutes behind, and one that sends an old event now.
    sign_in b
    post /native/events "$(event enteredChargerIntentZone behind ".occurred_at = \"$(seconds_ago 300)\"")" \
        -H "X-Sent-At: $(seconds_ago 240)"
    post /native/events "$(event anchorDwellComplete old ".occurred_at = \"$(seconds_ago 3000)\"")" \
        -H "X-Sent-At: $(seconds_ago 0)"
    local before_receipt
    before_receipt=$(sql "SELECT idempotency_key,
        CAST(round((received_at_ms - corrected_at_ms) / 10000.0) * 10 AS INTEGER),
        CAST(round((received_at_ms - occurred_at_ms) / 10000.0) * 10 AS INTEGER)
        FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id IN ('$(driver a)', '$(driver b)') ORDER BY event.id")
    [[ $before_receipt == $'ahead|100|-7100\nbehind|300|300\nold|3000|3000' ]] ||
        fail "Corrected and raw seconds before the receipt: $before_receipt"
    local skewed
    skewed=$(sql "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)' AND skew_ms BETWEEN -7201000 AND -7190000")
    [[ $skewed == 1 ]]
}

@test "what claims to happen more than five minutes from now happened when it was received" {
    post /native/events "$(event enteredChargerIntentZone k1 ".occurred_at = \"$(seconds_ago -3600)\"")"
    expect_verdict NEAR_CHARGER applied
    [[ $(sql "SELECT corrected_at_ms = received_at_ms FROM event JOIN driver ON driver.id = event.driver
        WHERE driver.driver_id = '$(driver a)'") == 1 ]]
}

@test "every stored event names the settings in force by their ETag" {
    post /native/events "$(event chargerTargeted k1)"
    get /native/config
    local version
    version=$(field ETag)
    [[ \"$(sql "SELECT settings_version.version FROM event
        JOIN settings_version ON settings_version.id = event.settings_version
        JOIN driver ON driver.id = event.driver WHERE driver.driver_id = '$(driver a)'")\" == "$version" ]]
}
