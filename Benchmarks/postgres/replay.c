// Sends recorded transactions to PostgreSQL again, through libpq in pipeline mode. The elapsed time is that of
// PostgreSQL and libpq alone, without HTTP, JSON and journeys.
//
// The recording (bench/recording.py) is binary, in the machine's byte order. All numbers have 32 bits. A NUL follows
// each text; the length of the text does not count it.
//
// A session is one connection. A group is a sequence of queries that are sent together. A wait names another session
// and a number of groups. A group is sent when, for each of its waits, that session has completed that many groups.
//
// - statements: count, then for each: length and text of the SQL
// - sessions: count, then for each: count of groups, then for each group: waits, queries
// - waits: count, then for each: index of the session, number of its groups that must be complete
// - queries: count, then for each: index of the statement, count of parameters, then for each: length (-1: NULL), text
//
// usage: replay URL RECORDING; prints the elapsed seconds as JSON.

#include <libpq-fe.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARAMETERS_MAX = 256, SESSIONS_MAX = 16 };

static const char *url;
static const char **statements;
static int32_t statement_count, session_count;

typedef struct {
    const char *groups;
    int32_t group_count;
    int32_t done; // guarded by `lock`
    int failed;
} session;

static session sessions[SESSIONS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t ready;

static int32_t number(const char **at) {
    int32_t value;
    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

static const char *text(const char **at) {
    int32_t length = number(at);
    if (length < 0) return NULL;
    const char *found = *at;
    *at += length + 1;
    return found;
}

static const char *skip_group(const char *at) {
    for (int32_t waits = number(&at); waits > 0; waits--) at += 2 * sizeof(int32_t);
    for (int32_t queries = number(&at); queries > 0; queries--) {
        number(&at);
        for (int32_t parameters = number(&at); parameters > 0; parameters--) text(&at);
    }
    return at;
}

static void fail(const char *what, PGconn *connection) {
    fprintf(stderr, "%s: %s", what, PQerrorMessage(connection));
    exit(1);
}

static void wait_for(int32_t other, int32_t groups) {
    pthread_mutex_lock(&lock);
    while (sessions[other].done < groups) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void send_group(PGconn *connection, const char **at) {
    for (int32_t waits = number(at); waits > 0; waits--) {
        int32_t other = number(at);
        wait_for(other, number(at));
    }
    int32_t queries = number(at);
    for (int32_t query = 0; query < queries; query++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", number(at));
        int32_t count = number(at);
        const char *values[PARAMETERS_MAX];
        for (int32_t parameter = 0; parameter < count; parameter++) values[parameter] = text(at);
        if (!PQsendQueryPrepared(connection, name, count, values, NULL, NULL, 1)) fail("send", connection);
    }
    if (!PQpipelineSync(connection)) fail("sync", connection);
    for (;;) {
        PGresult *result = PQgetResult(connection);
        if (!result) continue; // the end of one query's results
        ExecStatusType status = PQresultStatus(result);
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC) return;
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail("result", connection);
    }
}

static void *run(void *argument) {
    session *own = argument;
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK) fail("connect", connection);
    for (int32_t index = 0; index < statement_count; index++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", index);
        PGresult *result = PQprepare(connection, name, statements[index], 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) fail("prepare", connection);
        PQclear(result);
    }
    if (!PQenterPipelineMode(connection)) fail("pipeline", connection);
    pthread_barrier_wait(&ready);
    const char *at = own->groups;
    for (int32_t group = 0; group < own->group_count; group++) {
        send_group(connection, &at);
        pthread_mutex_lock(&lock);
        own->done++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    PQfinish(connection);
    return NULL;
}

static char *contents(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) return NULL;
    fclose(file);
    return bytes;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 3) {
        fputs("usage: replay URL RECORDING\n", stderr);
        return 64;
    }
    url = words[1];
    const char *at = contents(words[2]);
    if (!at) {
        perror(words[2]);
        return 1;
    }
    statement_count = number(&at);
    statements = calloc((size_t)statement_count, sizeof *statements);
    for (int32_t index = 0; index < statement_count; index++) statements[index] = text(&at);
    session_count = number(&at);
    if (session_count > SESSIONS_MAX) {
        fputs("too many sessions\n", stderr);
        return 1;
    }
    for (int32_t index = 0; index < session_count; index++) {
        sessions[index].group_count = number(&at);
        sessions[index].groups = at;
        for (int32_t group = 0; group < sessions[index].group_count; group++) at = skip_group(at);
    }
    pthread_barrier_init(&ready, NULL, (unsigned)session_count + 1);
    pthread_t threads[SESSIONS_MAX];
    for (int32_t index = 0; index < session_count; index++) pthread_create(&threads[index], NULL, run, &sessions[index]);
    pthread_barrier_wait(&ready);
    double begun = now();
    for (int32_t index = 0; index < session_count; index++) pthread_join(threads[index], NULL);
    printf("{\"seconds\":%.6f}\n", now() - begun);
    return 0;
}
