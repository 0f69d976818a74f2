// Measures SQLite without the server: how many rows of Dwell's event table one thread can store durably, with a given
// number of rows per transaction. `dwell migrate` creates the database. This program contains neither HTTP nor the
// fold.
//
//   sqlite_alone rate DATABASE BATCH SECONDS   prints rows per second and microseconds per transaction as JSON
//   sqlite_alone fill DATABASE ROWS            quickly fills a database with that many events, for other measurements
//
// cc -O2 -o sqlite_alone sqlite_alone.c -lsqlite3

#define _GNU_SOURCE
#include <inttypes.h>
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

// The journey of the drivers in the load, and the driver's state after each event.
static const struct { const char *name; int session, rank, transition, state; } journey[JOURNEY] = {
    {"chargerTargeted", 0, 0, 0, 6},         {"enteredChargerIntentZone", 0, 1, 1, 1},
    {"anchorDwellComplete", 0, 2, 1, 2},     {"exclusiveActivatedByWeb", 1, 3, 1, 3},
    {"exitedChargerAnchorZone", 1, 4, 1, 4}, {"enteredMerchantZone", 1, 5, 1, 5},
    {"visitVerifiedByWeb", 1, 6, 1, 6},      {"app_opened", 0, 7, 0, 6},
};

static void write_dictionaries(int64_t now_ms) {
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
            sql, sizeof sql, "INSERT INTO driver (id, driver_id, created_at_ms, rules) VALUES (%d, 'driver-%05d', %" PRId64 ", 2)",
            driver, driver - 1, now_ms);
        run(sql);
    }
    for (int place = 1; place <= 500; place++) {
        snprintf(sql, sizeof sql, "INSERT INTO place VALUES (%d, 'charger-%03d')", place, place - 1);
        run(sql);
    }
    run("COMMIT");
}

static sqlite3_stmt *add_event, *add_session;

static void prepare_statements(void) {
    add_event = prepare(
        "INSERT INTO event (driver, idempotency_key, digest, kind, session, charger, settings_version, occurred_at, "
        "occurred_at_ms, corrected_at_ms, skew_ms, sent_at_ms, received_at_ms, metadata, transition, implied, "
        "after_state, after_session, after_target_charger, after_grace_deadline_ms, after_hard_deadline_ms) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?8, 0, ?8, ?8, ?9, ?10, ?11, ?12, ?5, ?6, ?13, ?14)");
    add_session = prepare("INSERT INTO session (id, session_id, driver, opened_at_ms) VALUES (?1, ?2, ?3, ?4)");
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static uint64_t next_random(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

// Inserts the event with this number. The drivers take turns, as in the load. `time_ms` is the time at which the event
// happened.
static void insert(uint64_t number, int64_t time_ms) {
    int64_t driver = (int64_t)(number % DRIVERS) + 1;
    uint64_t mine = number / DRIVERS;
    int place = (int)(mine % JOURNEY);
    char key[64], text[32], metadata[64], seconds[24];
    static uint64_t digest[4];
    struct tm parts;
    time_t time_s = time_ms / 1000;
    gmtime_r(&time_s, &parts);
    strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof text, "%s.%03dZ", seconds, (int)(time_ms % 1000));
    snprintf(key, sizeof key, "%08" PRIx32 "-%04x-4000-8000-%012" PRIx64, (uint32_t)0xfeed, (unsigned)driver, mine);
    snprintf(metadata, sizeof metadata, "{\"accuracy_m\":%d.5,\"speed_mps\":0.4}", (int)(mine % 40) + 5);
    for (int word = 0; word < 4; word++) digest[word] = next_random();

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
    sqlite3_bind_int64(add_event, 1, driver);
    sqlite3_bind_text(add_event, 2, key, 36, SQLITE_STATIC);
    sqlite3_bind_blob(add_event, 3, digest, 32, SQLITE_STATIC);
    sqlite3_bind_int(add_event, 4, place + 1);
    if (session) sqlite3_bind_int64(add_event, 5, session); else sqlite3_bind_null(add_event, 5);
    sqlite3_bind_int64(add_event, 6, driver % 500 + 1);
    sqlite3_bind_text(add_event, 7, text, 24, SQLITE_STATIC);
    sqlite3_bind_int64(add_event, 8, time_ms);
    sqlite3_bind_text(add_event, 9, metadata, -1, SQLITE_STATIC);
    sqlite3_bind_int(add_event, 10, journey[place].transition);
    sqlite3_bind_int(add_event, 11, place == 1 && mine > JOURNEY);
    sqlite3_bind_int(add_event, 12, journey[place].state);
    int state = journey[place].state;
    if (state == 4) sqlite3_bind_int64(add_event, 13, time_ms + 900000); else sqlite3_bind_null(add_event, 13);
    if (state >= 3 && state <= 5) sqlite3_bind_int64(add_event, 14, time_ms + 3600000);
    else sqlite3_bind_null(add_event, 14);
    step(add_event);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int batch, double seconds) {
    // As in Dwell's writer, each commit is synced (FULL). Three settings differ from Dwell's. SQLite itself checkpoints
    // the WAL whenever it has 16 MiB, while Dwell checkpoints in the background. Foreign keys are not checked. The
    // cache has 64 MiB instead of 48 MiB.
    run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4096;"
        "PRAGMA cache_size = -65536; PRAGMA foreign_keys = OFF");
    write_dictionaries((int64_t)time(NULL) * 1000);
    prepare_statements();
    sqlite3_finalize(add_session);
    add_session = NULL; // insert only rows of `event`
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

static void fill(uint64_t rows) {
    run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA foreign_keys = OFF;"
        "PRAGMA locking_mode = EXCLUSIVE");
    // Insert a whole number of journeys for every driver, so that all drivers are in the last state of a journey. The
    // last event is a minute old.
    uint64_t round = DRIVERS * JOURNEY;
    rows = (rows + round - 1) / round * round;
    int64_t end_ms = ((int64_t)time(NULL) - 60) * 1000;
    write_dictionaries(end_ms);
    prepare_statements();
    for (uint64_t number = 0; number < rows; number++) {
        if (number % 100000 == 0) run("BEGIN");
        insert(number, end_ms - (int64_t)((rows - number) / DRIVERS) * 1000);
        if (number % 100000 == 99999 || number + 1 == rows) run("COMMIT");
    }
    run("UPDATE driver SET state = 6, (head_event, head_corrected_at_ms, session, target_charger) = "
        "(SELECT id, corrected_at_ms, after_session, after_target_charger FROM event WHERE event.driver = driver.id "
        "ORDER BY corrected_at_ms DESC, id DESC LIMIT 1)");
    run("PRAGMA journal_mode = WAL");
    printf("{\"rows\":%" PRIu64 "}\n", rows);
}

int main(int count, char **words) {
    if (count < 4) {
        fputs("usage: sqlite_alone rate DATABASE BATCH SECONDS | fill DATABASE ROWS\n", stderr);
        return 64;
    }
    check(sqlite3_open(words[2], &database), SQLITE_OK);
    if (!strcmp(words[1], "rate") && count == 5) measure(atoi(words[3]), atof(words[4]));
    else if (!strcmp(words[1], "fill")) fill(strtoull(words[3], NULL, 10));
    else return 64;
    check(sqlite3_close_v2(database), SQLITE_OK);
    return 0;
}
