// Measures how many events one thread can store durably with SQLite alone, without the server, HTTP and the fold.
// `dwell migrate` creates the database.
//
// For each event, this program writes a row of `event_row` and a row of `event_key` in the same transaction. Dwell
// writes the rows of `event_key` later, for many events at once.
//
//   sqlite_alone rate DATABASE BATCH SECONDS   BATCH events per transaction; prints rates and times as JSON
//   sqlite_alone fill DATABASE ROWS RULES      fills the database with at least ROWS events, for other measurements.
//                                              RULES is Fold.rulesVersion: with another version, the server would refold
//                                              every driver first
//
// cc -O2 -o sqlite_alone sqlite_alone.c -lsqlite3 -lcrypto

#define _GNU_SOURCE
#include <inttypes.h>
#include <openssl/sha.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DRIVERS = 2000, JOURNEY = 8 };

static sqlite3 *database;

static void check(int code, int expected) {
    if (code == expected) return;
    fprintf(stderr, "sqlite_alone: %s\n", sqlite3_errmsg(database));
    exit(1);
}

static void run(const char *sql) {
    check(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static sqlite3_stmt *prepare(const char *sql) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), SQLITE_OK);
    return statement;
}

static void step(sqlite3_stmt *statement) {
    check(sqlite3_step(statement), SQLITE_DONE);
    check(sqlite3_reset(statement), SQLITE_OK);
}

// The events of a journey, and the state after each event.
static const struct { const char *name; int session, rank, transition, state; } journey[JOURNEY] = {
    {"chargerTargeted", 0, 0, 0, 6},         {"enteredChargerIntentZone", 0, 1, 1, 1},
    {"anchorDwellComplete", 0, 2, 1, 2},     {"exclusiveActivatedByWeb", 1, 3, 1, 3},
    {"exitedChargerAnchorZone", 1, 4, 1, 4}, {"enteredMerchantZone", 1, 5, 1, 5},
    {"visitVerifiedByWeb", 1, 6, 1, 6},      {"app_opened", 0, 7, 0, 6},
};

static void write_dictionaries(int64_t now_ms, int rules) {
    char sql[512];
    run("BEGIN");
    snprintf(sql, sizeof sql, "INSERT INTO settings_version VALUES (1, 'benchmark', 900, 3600, '{}', %" PRId64 ")", now_ms);
    run(sql);
    for (int place = 0; place < JOURNEY; place++) {
        snprintf(
            sql, sizeof sql,
            "INSERT INTO event_kind (id, name, has_session, spelling, schema_version, source, app_state, lifecycle_rank, origin) "
            "VALUES (%d, '%s', %d, '%s', '1.0', 'ios_native', 'background', %d, 0)",
            place + 1, journey[place].name, journey[place].session, journey[place].name, journey[place].rank);
        run(sql);
    }
    for (int driver = 1; driver <= DRIVERS; driver++) {
        // These are the driver ids in the tokens of the benchmark.
        snprintf(
            sql, sizeof sql, "INSERT INTO driver (id, driver_id, created_at_ms, rules) VALUES (%d, 'driver-%05d', %" PRId64 ", %d)",
            driver, driver - 1, now_ms, rules);
        run(sql);
    }
    for (int place = 1; place <= 500; place++) {
        snprintf(sql, sizeof sql, "INSERT INTO place VALUES (%d, 'charger-%03d', 1)", place, place - 1);
        run(sql);
    }
    run("COMMIT");
}

static sqlite3_stmt *add_event, *add_key, *add_session;

// The content of the column `driver.chain`: the time of the driver's last event, and the ids of its climb, highest
// level first (SQLiteStore/Events/ChainEnd.swift). A climb goes from an event to the nearest earlier event of a higher
// level, and from there on in the same way.
typedef struct { int64_t ids[65], time_ms; int count; } chain_end;
static chain_end chains[DRIVERS + 1];

// The level of an event in its driver's chain: SQLiteStore/Events/EventChain.swift.
static int level(int64_t id) {
    uint64_t spread = (uint64_t)id * 0x9e3779b97f4a7c15u;
    return spread ? __builtin_clzll(spread) : 64;
}

static size_t leb128(unsigned char *bytes, int64_t number) {
    uint64_t rest = (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
    size_t length = 0;
    for (; rest >= 0x80; rest >>= 7) bytes[length++] = (unsigned char)(rest | 0x80);
    bytes[length++] = (unsigned char)rest;
    return length;
}

// The place of an event's key in the table `event_key`: SQLiteStore/Events/EventKeyHash.swift.
static unsigned char secret[16];
static int64_t key_place(int64_t driver, const unsigned char key[16]) {
    unsigned char text[40], digest[SHA256_DIGEST_LENGTH];
    memcpy(text, secret, 16);
    for (int byte = 0; byte < 8; byte++) text[16 + byte] = (unsigned char)(driver >> (56 - 8 * byte));
    memcpy(text + 24, key, 16);
    SHA256(text, sizeof text, digest);
    uint64_t first = 0;
    for (int byte = 0; byte < 8; byte++) first = first << 8 | digest[byte];
    return driver << 24 | (int64_t)(first >> (64 - 24));
}

static void prepare_statements(void) {
    add_event = prepare(
        "INSERT INTO event_row (id, driver, previous, jump, corrected_at_ms, kind, session, charger, settings_version, "
        "received_offset_ms, transition, implied, after_state, after_session, after_target_charger, after_grace_offset_ms, "
        "after_hard_offset_ms, key, digest, occurred_offset_ms, skew_ms, sent_offset_ms, metadata) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, 0, ?9, ?10, ?11, ?7, ?8, ?12, ?13, ?14, ?15, 0, 0, 0, ?16)");
    add_key = prepare("INSERT INTO event_key (place, number) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
    sqlite3_stmt *find = prepare("SELECT secret FROM event_key_hash");
    check(sqlite3_step(find), SQLITE_ROW);
    memcpy(secret, sqlite3_column_blob(find, 0), sizeof secret);
    sqlite3_finalize(find);
    add_session = prepare("INSERT INTO session (id, session_id, driver, opened_at_ms) VALUES (?1, ?2, ?3, ?4)");
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static uint64_t next_random(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

// Inserts the event `number`, counted from 0. Its time is `time_ms`. The drivers take turns, as in the load of
// `make bench`.
static void insert(uint64_t number, int64_t time_ms) {
    int64_t driver = (int64_t)(number % DRIVERS) + 1;
    uint64_t mine = number / DRIVERS;
    int place = (int)(mine % JOURNEY);
    char metadata[64];
    static uint64_t digest[2];
    // A UUID.
    unsigned char key[16] = {0, 0, 0xfe, 0xed, (unsigned char)(driver >> 8), (unsigned char)driver, 0x40, 0, 0x80, 0};
    for (int byte = 0; byte < 6; byte++) key[10 + byte] = (unsigned char)(mine >> (40 - 8 * byte));
    snprintf(metadata, sizeof metadata, "{\"accuracy_m\":%d.5,\"speed_mps\":0.4}", (int)(mine % 40) + 5);
    for (int word = 0; word < 2; word++) digest[word] = next_random();

    int64_t session = journey[place].session ? (int64_t)(mine / JOURNEY) * DRIVERS + driver : 0;
    if (session && journey[place].state == 3 && add_session) {
        char name[64];
        int length = snprintf(name, sizeof name, "s-filled-%" PRId64, session);
        sqlite3_bind_int64(add_session, 1, session);
        sqlite3_bind_text(add_session, 2, name, length, SQLITE_TRANSIENT);
        sqlite3_bind_int64(add_session, 3, driver);
        sqlite3_bind_int64(add_session, 4, time_ms);
        step(add_session);
    }
    int64_t id = (int64_t)number + 1;
    chain_end *chain = &chains[driver];
    int64_t previous = chain->count ? chain->ids[chain->count - 1] : 0;
    while (chain->count && level(chain->ids[chain->count - 1]) <= level(id)) chain->count--;
    int64_t jump = chain->count ? chain->ids[chain->count - 1] : 0;
    chain->ids[chain->count++] = id;
    chain->time_ms = time_ms;

    int state = journey[place].state;
    sqlite3_clear_bindings(add_event);
    sqlite3_bind_int64(add_event, 1, id);
    sqlite3_bind_int64(add_event, 2, driver);
    if (previous) sqlite3_bind_int64(add_event, 3, previous);
    if (jump) sqlite3_bind_int64(add_event, 4, jump);
    sqlite3_bind_int64(add_event, 5, time_ms);
    sqlite3_bind_int(add_event, 6, place + 1);
    if (session) sqlite3_bind_int64(add_event, 7, session);
    sqlite3_bind_int64(add_event, 8, driver % 500 + 1);
    sqlite3_bind_int(add_event, 9, journey[place].transition);
    sqlite3_bind_int(add_event, 10, place == 1 && mine > JOURNEY);
    sqlite3_bind_int(add_event, 11, state);
    if (state == 4) sqlite3_bind_int64(add_event, 12, 900000);
    if (state >= 3 && state <= 5) sqlite3_bind_int64(add_event, 13, 3600000);
    sqlite3_bind_blob(add_event, 14, key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_blob(add_event, 15, digest, sizeof digest, SQLITE_STATIC);
    sqlite3_bind_text(add_event, 16, metadata, -1, SQLITE_STATIC);
    step(add_event);
    // Insert the key at its first free place.
    int64_t free_place = key_place(driver, key);
    sqlite3_bind_int64(add_key, 2, id);
    do {
        sqlite3_bind_int64(add_key, 1, free_place++);
        step(add_key);
    } while (sqlite3_changes(database) == 0);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int batch, double seconds) {
    // Each commit is synced, as in Dwell. Three settings differ from Dwell's:
    //
    // - SQLite checkpoints the WAL in a commit, when the WAL has 16 MiB. Dwell checkpoints in the background.
    // - Foreign keys are not checked.
    // - The cache has 64 MiB. Dwell's has 48 MiB.
    run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096;"
        "PRAGMA cache_size = -65536; PRAGMA foreign_keys = OFF");
    write_dictionaries((int64_t)time(NULL) * 1000, 1);
    prepare_statements();
    sqlite3_finalize(add_session);
    add_session = NULL; // insert only events
    sqlite3_stmt *begin = prepare("BEGIN IMMEDIATE"), *commit = prepare("COMMIT");
    size_t room = 1 << 20, count = 0;
    double *took_us = malloc(room * sizeof *took_us);
    uint64_t start = now_ns(), rows = 0, now = start;
    int64_t time_ms = (int64_t)time(NULL) * 1000;
    while ((double)(now - start) < seconds * 1e9) {
        uint64_t begun = now;
        step(begin);
        for (int place = 0; place < batch; place++, rows++) insert(rows, time_ms + (int64_t)(rows / DRIVERS));
        step(commit);
        now = now_ns();
        if (count < room) took_us[count++] = (double)(now - begun) / 1000;
    }
    qsort(took_us, count, sizeof *took_us, compare);
    printf(
        "{\"rows\":%" PRIu64 ",\"rate\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", rows,
        (double)rows / ((double)(now - start) / 1e9), took_us[count / 2], took_us[count * 99 / 100]);
}

static void fill(uint64_t rows, int rules) {
    run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA foreign_keys = OFF;"
        "PRAGMA locking_mode = EXCLUSIVE");
    // Insert only complete journeys, so that all drivers end in the same state. All events are at least a minute old.
    uint64_t round = DRIVERS * JOURNEY;
    rows = (rows + round - 1) / round * round;
    int64_t end_ms = ((int64_t)time(NULL) - 60) * 1000;
    write_dictionaries(end_ms, rules);
    prepare_statements();
    for (uint64_t number = 0; number < rows; number++) {
        if (number % 100000 == 0) run("BEGIN");
        insert(number, end_ms - (int64_t)((rows - number) / DRIVERS) * 1000);
        if (number % 100000 == 99999 || number + 1 == rows) run("COMMIT");
    }
    sqlite3_stmt *set = prepare(
        "UPDATE driver SET chain = ?2, state = 6, (head_event, head_corrected_at_ms, session, target_charger) = "
        "(SELECT id, corrected_at_ms, after_session, after_target_charger FROM event_row WHERE id = ?3) WHERE id = ?1");
    for (int driver = 1; driver <= DRIVERS; driver++) {
        const chain_end *chain = &chains[driver];
        unsigned char bytes[660];
        size_t length = leb128(bytes, chain->time_ms);
        int64_t before = 0;
        for (int place = chain->count - 1; place >= 0; before = chain->ids[place--])
            length += leb128(bytes + length, chain->ids[place] - before);
        sqlite3_bind_int(set, 1, driver);
        sqlite3_bind_blob(set, 2, bytes, (int)length, SQLITE_STATIC);
        sqlite3_bind_int64(set, 3, chain->ids[chain->count - 1]);
        step(set);
    }
    run("UPDATE event_key_progress SET listed_through = (SELECT max(id) FROM event_row)");
    run("PRAGMA journal_mode = WAL");
    printf("{\"rows\":%" PRIu64 "}\n", rows);
}

int main(int count, char **words) {
    if (count != 5) {
        fputs("usage: sqlite_alone rate DATABASE BATCH SECONDS | fill DATABASE ROWS RULES\n", stderr);
        return 64;
    }
    check(sqlite3_open(words[2], &database), SQLITE_OK);
    if (!strcmp(words[1], "rate")) measure(atoi(words[3]), atof(words[4]));
    else if (!strcmp(words[1], "fill")) fill(strtoull(words[3], NULL, 10), atoi(words[4]));
    else return 64;
    check(sqlite3_close_v2(database), SQLITE_OK);
    return 0;
}
