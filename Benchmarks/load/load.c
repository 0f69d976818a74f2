// The load generator of `make bench`. It checks every response, counts acknowledged events, and prints one line of
// JSON. It can measure any service that follows the contract.
//
// It sends events, batches, requests for the settings, a mix of these, or App Store notifications. It uses keep-alive
// connections or one connection per request, and sends as fast as possible or at a fixed rate.
//
// At a fixed rate, the latency of a request counts from the time at which the request is due. If the service stalls,
// the wait of later requests therefore counts too (no coordinated omission).
//
// cc -O2 -pthread -o load load.c

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_MAX = 256 * 1024, OUTPUT_MAX = 128 * 1024, DRIVERS_MAX = 100000, BATCH = 100, ID_MAX = 64,
       BODIES_MAX = 1000000 };

// The kind of a request. It determines the expected response.
enum kind { CONFIG, EVENT, REPEAT, BATCH_OF_EVENTS, NOTIFICATION };

// --- options of the command line ----------------------------------------------------------------------------------

static struct {
    int port, connections, threads;
    double seconds, warmup, rate;
    const char *load, *tokens, *bodies;
    unsigned salt;
    bool fresh, fixed_answers, whole_seconds;
    uint64_t requests_max;
} options = {.connections = 64, .threads = 1, .seconds = 5, .warmup = 1, .load = "events"};

static char *heads[DRIVERS_MAX]; // "Authorization: Bearer ..." of each driver
static int drivers;
// The signed App Store notifications from the file `--bodies`.
static char **bodies;
static uint64_t bodies_count;

static void die(const char *form, ...) {
    va_list list;
    va_start(list, form);
    fputs("load: ", stderr);
    vfprintf(stderr, form, list);
    fputc('\n', stderr);
    va_end(list);
    exit(2);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// --- latencies ----------------------------------------------------------------------------------------------------

// The range from one power of two to the next has 64 buckets, so a reported latency is wrong by at most 1.6 %.
enum { BUCKETS = 64 * 40 };

static unsigned bucket(uint64_t nanoseconds) {
    if (nanoseconds < 64) return (unsigned)nanoseconds;
    unsigned shift = 63u - (unsigned)__builtin_clzll(nanoseconds) - 6u;
    unsigned index = (shift + 1) * 64 + (unsigned)((nanoseconds >> shift) - 64);
    return index < BUCKETS ? index : BUCKETS - 1;
}

static uint64_t bucket_value(unsigned index) {
    if (index < 64) return index;
    unsigned shift = index / 64 - 1;
    return ((uint64_t)(index % 64) + 64) << shift;
}

// --- the state of one thread ----------------------------------------------------------------------------------------

struct connection {
    int descriptor, driver;
    enum kind kind;
    bool busy, connected;
    uint64_t begun_ns;
    size_t output_length, sent, input_length;
    size_t body_start, answer_length; // 0 while the head of the response is incomplete
    char id[ID_MAX], last_id[ID_MAX];
    int last_driver;
    size_t repeat_length; // of `repeat`: the last acknowledged event, which is posted again
    char *output, *input, *repeat;
};

struct share {
    pthread_t thread;
    int index, connections, epoll;
    struct connection *all, **idle;
    int idle_count, in_flight;
    uint64_t sequence, random, started_ns, due_count;
    uint64_t answered, counted, stored, repeats, configs, failures, broken, unsent;
    uint64_t stored_while_counting;
    uint64_t latency[BUCKETS], latency_max;
    char first_failure[512];
    bool stopping;
};

static uint64_t next_random(struct share *share) {
    uint64_t x = share->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return share->random = x;
}

static void fail(struct share *share, const char *what, const char *text, size_t length) {
    if (share->failures++ == 0)
        snprintf(share->first_failure, sizeof share->first_failure, "%s: %.*s", what, (int)(length > 400 ? 400 : length), text);
}

// --- requests -------------------------------------------------------------------------------------------------------

// The events of a driver repeat this journey. Each repetition is a new session.
static const struct { const char *name; bool session; } journey[] = {
    {"chargerTargeted", false}, {"enteredChargerIntentZone", false}, {"anchorDwellComplete", false},
    {"exclusiveActivatedByWeb", true}, {"exitedChargerAnchorZone", true}, {"enteredMerchantZone", true},
    {"visitVerifiedByWeb", true}, {"app_opened", false},
};
enum { JOURNEY = sizeof journey / sizeof *journey };

static void write_time(char *text, int64_t offset_ms) {
    struct timespec time;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &time);
    int64_t ms = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000 + offset_ms;
    time_t seconds = ms / 1000;
    static __thread time_t known = -1;
    static __thread char known_text[24];
    if (seconds != known) {
        gmtime_r(&seconds, &parts);
        strftime(known_text, sizeof known_text, "%Y-%m-%dT%H:%M:%S", &parts);
        known = seconds;
    }
    memcpy(text, known_text, 19);
    if (options.whole_seconds) strcpy(text + 19, "Z");
    else sprintf(text + 19, ".%03dZ", (int)(ms % 1000));
}

// Writes the event `number` of the driver. The event's id is a UUID of the salt, the driver and the number, so it is
// unique.
static int write_event(char *text, int driver, uint64_t number, int64_t offset_ms, char *id) {
    char time[32], session[64] = "";
    unsigned step = (unsigned)(number % JOURNEY);
    write_time(time, offset_ms);
    snprintf(id, ID_MAX, "%08x-%04x-4%03x-8000-%012" PRIx64, options.salt, driver & 0xffff, (driver >> 16) & 0xfff, number);
    if (journey[step].session)
        sprintf(session, "\"session_id\":\"s-%08x-%d-%" PRIu64 "\",", options.salt, driver, number / JOURNEY);
    return sprintf(
        text,
        "{\"schema_version\":\"1.0\",\"event_id\":\"%s\",%s\"event\":\"%s\",\"occurred_at\":\"%s\",\"timestamp\":\"%s\","
        "\"source\":\"ios_native\",\"app_state\":\"background\",\"charger_id\":\"charger-%03d\","
        "\"metadata\":{\"accuracy_m\":%d.5,\"speed_mps\":0.4}}",
        id, session, journey[step].name, time, time, driver % 500, (int)(number % 40) + 5);
}

static size_t write_head(char *text, const char *method_and_path, int driver, int body_length) {
    char *end = text;
    end += sprintf(end, "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n", method_and_path, options.port, heads[driver]);
    if (options.fresh) end += sprintf(end, "Connection: close\r\n");
    if (body_length >= 0)
        end += sprintf(end, "Content-Type: application/json\r\nContent-Length: %d\r\n", body_length);
    end += sprintf(end, "\r\n");
    return (size_t)(end - text);
}

// Selects the thread's next event. The drivers of the thread take turns, and each continues its journey.
static void next_place(struct share *share, int *driver, uint64_t *number) {
    int mine = drivers / options.threads;
    uint64_t sequence = share->sequence++;
    *driver = share->index * mine + (int)(sequence % (uint64_t)mine);
    *number = sequence / (uint64_t)mine;
}

static void prepare(struct share *share, struct connection *connection) {
    static __thread char body[OUTPUT_MAX];
    int driver, length = 0;
    uint64_t number;
    enum kind kind = EVENT;
    if (options.load[0] == 'c') kind = CONFIG;
    else if (options.load[0] == 'b') kind = BATCH_OF_EVENTS;
    else if (options.load[0] == 'n') kind = NOTIFICATION;
    else if (options.load[0] == 'm') {
        uint64_t dice = next_random(share) % 100;
        kind = dice < 5 ? CONFIG : dice < 10 && connection->repeat_length ? REPEAT : EVENT;
    }
    connection->kind = kind;
    if (kind == REPEAT) {
        memcpy(connection->output, connection->repeat, connection->repeat_length);
        connection->output_length = connection->repeat_length;
        memcpy(connection->id, connection->last_id, ID_MAX);
        return;
    }
    if (kind == NOTIFICATION) {
        uint64_t place = (uint64_t)share->index + share->sequence++ * (uint64_t)options.threads;
        const char *text = bodies[place % bodies_count];
        size_t size = strlen(text);
        connection->output_length = (size_t)sprintf(
            connection->output,
            "POST /apple/store-notifications HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
            "Content-Length: %zu\r\n\r\n%s", options.port, size, text);
        return;
    }
    next_place(share, &driver, &number);
    connection->driver = driver;
    const char *path = "POST /native/events";
    if (kind == CONFIG) {
        path = "GET /native/config", length = -1;
    } else if (kind == EVENT) {
        length = write_event(body, driver, number, 0, connection->id);
    } else {
        // The 100 events are 10 ms apart. The driver's previous batch was sent about a second ago, so all events of
        // this batch are newer. The batches of a phone's queue have this order too.
        path = "POST /native/events/batch";
        length = sprintf(body, "{\"events\":[");
        for (int place = 0; place < BATCH; place++) {
            if (place) body[length++] = ',';
            length += write_event(
                body + length, driver, number * BATCH + (uint64_t)place, (place - BATCH) * 10, connection->id);
        }
        length += sprintf(body + length, "]}");
    }
    size_t head = write_head(connection->output, path, driver, length);
    if (length > 0) memcpy(connection->output + head, body, (size_t)length);
    connection->output_length = head + (length > 0 ? (size_t)length : 0);
}

// --- answers --------------------------------------------------------------------------------------------------------

static int occurrences(const char *text, size_t length, const char *word) {
    int count = 0;
    size_t size = strlen(word);
    const char *end = text + length;
    while ((text = memmem(text, (size_t)(end - text), word, size))) count++, text += size;
    return count;
}

// Returns the part of the response that violates the contract, or NULL. JSON members may be in any order.
static const char *wrong(struct connection *connection, const char *head, const char *body, size_t length) {
    if (strncmp(head, "HTTP/1.1 200 ", 13) != 0) return "status";
    if (options.fixed_answers) return NULL;
    switch (connection->kind) {
    case NOTIFICATION: return NULL;
    case CONFIG:
        return memmem(body, length, "\"chargerIntentRadius_m\":400", 27) && body[length - 1] == '}' ? NULL : "settings";
    case EVENT:
    case REPEAT: {
        const char *status = connection->kind == EVENT ? "\"status\":\"ok\"" : "\"status\":\"already_processed\"";
        if (!memmem(body, length, status, strlen(status))) return "status member";
        if (!memmem(body, length, connection->id, strlen(connection->id))) return "event_id";
        if (!memmem(body, length, "\"session\":{", 11) || !memmem(body, length, "\"state\":\"", 9) ||
            !memmem(body, length, "\"transition\":\"", 14))
            return "session";
        return NULL;
    }
    case BATCH_OF_EVENTS:
        if (occurrences(body, length, "\"status\":\"ok\"") != BATCH) return "a result that is not ok";
        if (occurrences(body, length, "\"status_code\":200") != BATCH) return "a result that is not 200";
        return memmem(body, length, connection->id, strlen(connection->id)) ? NULL : "event_id";
    }
    return "kind";
}

static const char *find_length(const char *head, size_t length) {
    const char *line = head, *end = head + length;
    while ((line = memchr(line, '\n', (size_t)(end - line)))) {
        line++;
        if (end - line > 15 && strncasecmp(line, "content-length:", 15) == 0) return line + 15;
    }
    return NULL;
}

static void begin(struct share *share, struct connection *connection, uint64_t begun_ns);
static void rest(struct share *share, struct connection *connection);

static void close_connection(struct share *share, struct connection *connection) {
    (void)share;
    if (connection->descriptor >= 0) close(connection->descriptor);
    connection->descriptor = -1;
    connection->connected = false;
}

static void finish(struct share *share, struct connection *connection) {
    uint64_t now = now_ns();
    const char *body = connection->input + connection->body_start;
    size_t length = connection->answer_length - connection->body_start;
    const char *mistake = wrong(connection, connection->input, body, length);
    bool counts = now - share->started_ns >= (uint64_t)(options.warmup * 1e9) && !share->stopping;
    share->answered++;
    share->in_flight--;
    connection->busy = false;
    if (mistake) {
        fail(share, mistake, connection->input, connection->answer_length);
    } else {
        uint64_t stored = connection->kind == EVENT ? 1 : connection->kind == BATCH_OF_EVENTS ? BATCH : 0;
        share->stored += stored;
        share->repeats += connection->kind == REPEAT;
        share->configs += connection->kind == CONFIG;
        if (counts) {
            uint64_t took = now - connection->begun_ns;
            share->counted++;
            share->stored_while_counting += stored;
            share->latency[bucket(took)]++;
            if (took > share->latency_max) share->latency_max = took;
        }
        if (connection->kind == EVENT && options.load[0] == 'm') {
            memcpy(connection->repeat, connection->output, connection->output_length);
            connection->repeat_length = connection->output_length;
            memcpy(connection->last_id, connection->id, ID_MAX);
        }
    }
    connection->input_length = 0;
    connection->answer_length = 0;
    if (options.fresh) close_connection(share, connection);
    rest(share, connection);
}

// --- connections ----------------------------------------------------------------------------------------------------

static void broke(struct share *share, struct connection *connection, const char *how) {
    share->broken++;
    fail(share, how, strerror(errno), strlen(strerror(errno)));
    if (connection->busy) share->in_flight--;
    connection->busy = false;
    close_connection(share, connection);
    // Do not replace the connection, because a service that breaks connections has failed the benchmark.
}

static void open_connection(struct share *share, struct connection *connection) {
    connection->descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connection->descriptor < 0) die("socket: %s", strerror(errno));
    int on = 1;
    setsockopt(connection->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    if (options.fresh) {
        // Connect from many addresses. A closed connection keeps its port for a while, so one address has too few
        // ports.
        setsockopt(connection->descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        struct sockaddr_in from = {.sin_family = AF_INET};
        from.sin_addr.s_addr = htonl(0x7f000002u + (uint32_t)(next_random(share) % 200));
        bind(connection->descriptor, (struct sockaddr *)&from, sizeof from);
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->connected = connect(connection->descriptor, (struct sockaddr *)&address, sizeof address) == 0;
    if (!connection->connected && errno != EINPROGRESS) {
        broke(share, connection, "connect");
        return;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data.ptr = connection};
    if (epoll_ctl(share->epoll, EPOLL_CTL_ADD, connection->descriptor, &event)) die("epoll_ctl: %s", strerror(errno));
}

static void send_rest(struct share *share, struct connection *connection) {
    while (connection->busy && connection->sent < connection->output_length) {
        ssize_t count = send(
            connection->descriptor, connection->output + connection->sent, connection->output_length - connection->sent,
            MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == ENOTCONN)) return;
        if (count < 0) {
            broke(share, connection, "send");
            return;
        }
        connection->sent += (size_t)count;
    }
}

static void receive(struct share *share, struct connection *connection) {
    while (connection->descriptor >= 0) {
        if (connection->input_length >= INPUT_MAX - 1) {
            fail(share, "answer too long", connection->input, 100);
            return;
        }
        ssize_t count = recv(
            connection->descriptor, connection->input + connection->input_length,
            INPUT_MAX - 1 - connection->input_length, 0);
        if (count < 0 && errno == EAGAIN) return;
        if (count <= 0) {
            if (count == 0) errno = ECONNRESET;
            broke(share, connection, connection->busy ? "closed before the answer" : "closed while idle");
            return;
        }
        connection->input_length += (size_t)count;
        connection->input[connection->input_length] = 0;
        if (!connection->answer_length) {
            char *end = memmem(connection->input, connection->input_length, "\r\n\r\n", 4);
            if (!end) continue;
            const char *length = find_length(connection->input, (size_t)(end - connection->input) + 2);
            if (!length) {
                fail(share, "no Content-Length", connection->input, connection->input_length);
                return;
            }
            connection->body_start = (size_t)(end - connection->input) + 4;
            connection->answer_length = connection->body_start + strtoul(length, NULL, 10);
        }
        if (connection->input_length > connection->answer_length) {
            fail(share, "more than one answer", connection->input, connection->input_length);
            return;
        }
        if (connection->input_length == connection->answer_length) {
            bool drained = count < INPUT_MAX / 2;
            finish(share, connection);
            if (drained) return; // all bytes were read; epoll is edge-triggered and reports later bytes
        }
    }
}

// --- the times of requests ------------------------------------------------------------------------------------------

static void begin(struct share *share, struct connection *connection, uint64_t begun_ns) {
    prepare(share, connection);
    connection->busy = true;
    connection->sent = 0;
    connection->begun_ns = begun_ns;
    share->in_flight++;
    if (connection->descriptor < 0) open_connection(share, connection);
    if (connection->connected) send_rest(share, connection);
}

static uint64_t due_ns(struct share *share) {
    double apart = 1e9 * options.threads / options.rate;
    return share->started_ns + (uint64_t)((double)share->due_count * apart);
}

// Counts the requests that were due but were not sent. Records the time since each was due as its latency, because the
// real latency would be at least as long.
static void count_the_unsent(struct share *share, uint64_t now) {
    for (uint64_t due; (due = due_ns(share)) < now; share->due_count++) {
        if (due - share->started_ns < (uint64_t)(options.warmup * 1e9)) continue;
        share->unsent++;
        share->latency[bucket(now - due)]++;
        if (now - due > share->latency_max) share->latency_max = now - due;
    }
}

static bool finished(struct share *share) {
    if (share->stopping) return true;
    uint64_t now = now_ns(), elapsed = now - share->started_ns;
    share->stopping = elapsed >= (uint64_t)((options.warmup + options.seconds) * 1e9) ||
        (options.requests_max && share->answered >= options.requests_max / (uint64_t)options.threads);
    if (share->stopping && options.rate > 0) count_the_unsent(share, now);
    return share->stopping;
}

// Called after a response. At maximum rate, sends the next request on the connection at once. At a fixed rate, keeps
// the connection for a request that becomes due.
static void rest(struct share *share, struct connection *connection) {
    if (options.rate <= 0 && share->started_ns && !finished(share)) begin(share, connection, now_ns());
    else share->idle[share->idle_count++] = connection;
}

static void send_what_is_due(struct share *share) {
    if (finished(share)) return;
    if (options.rate <= 0) {
        // Send the first request on each connection. `rest` sends all later requests.
        while (share->idle_count > 0 && !share->stopping) begin(share, share->idle[--share->idle_count], now_ns());
        return;
    }
    while (share->idle_count > 0) {
        uint64_t due = due_ns(share);
        if (due > now_ns()) return;
        share->due_count++;
        begin(share, share->idle[--share->idle_count], due);
    }
}

static struct timespec patience(struct share *share) {
    struct timespec time = {.tv_nsec = 20 * 1000 * 1000};
    if (options.rate > 0 && share->idle_count > 0 && !share->stopping) {
        uint64_t now = now_ns(), due = due_ns(share);
        uint64_t wait = due > now ? due - now : 0;
        if (wait < 20u * 1000 * 1000) time.tv_nsec = (long)wait;
    }
    return time;
}

static void *run(void *argument) {
    struct share *share = argument;
    struct epoll_event events[256];
    prctl(PR_SET_TIMERSLACK, 1000);
    share->epoll = epoll_create1(EPOLL_CLOEXEC);
    share->random = 0x9e3779b97f4a7c15u ^ ((uint64_t)options.salt << 20) ^ (uint64_t)share->index;
    share->all = calloc((size_t)share->connections, sizeof *share->all);
    share->idle = calloc((size_t)share->connections, sizeof *share->idle);
    for (int place = 0; place < share->connections; place++) {
        struct connection *connection = &share->all[place];
        connection->descriptor = -1;
        connection->output = malloc(strchr("bn", options.load[0]) ? OUTPUT_MAX : 8192);
        connection->input = malloc(INPUT_MAX);
        connection->repeat = malloc(8192);
        if (!options.fresh) open_connection(share, connection);
        rest(share, connection);
    }
    share->started_ns = now_ns();
    uint64_t gave_up_ns = 0;
    for (;;) {
        send_what_is_due(share);
        if (share->stopping) {
            if (share->in_flight == 0) break;
            if (!gave_up_ns) gave_up_ns = now_ns() + 10u * 1000 * 1000 * 1000;
            if (now_ns() > gave_up_ns) {
                fail(share, "no answer within 10 s", "", 0);
                break;
            }
        }
        struct timespec time = patience(share);
        int count = epoll_pwait2(share->epoll, events, 256, &time, NULL);
        for (int place = 0; place < count; place++) {
            struct connection *connection = events[place].data.ptr;
            if (connection->descriptor < 0) continue;
            if (events[place].events & EPOLLOUT) connection->connected = true;
            if (connection->busy && connection->connected) send_rest(share, connection);
            if (events[place].events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) receive(share, connection);
        }
        if (share->broken == (uint64_t)share->connections) break;
    }
    for (int place = 0; place < share->connections; place++) close_connection(share, &share->all[place]);
    return NULL;
}

// --- the program ----------------------------------------------------------------------------------------------------

static void read_tokens(void) {
    FILE *file = fopen(options.tokens, "r");
    if (!file) die("%s: %s", options.tokens, strerror(errno));
    char line[4096];
    while (drivers < DRIVERS_MAX && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (asprintf(&heads[drivers++], "Authorization: Bearer %s", line) < 0) die("memory");
    }
    fclose(file);
    if (drivers < options.threads) die("%s has too few tokens", options.tokens);
}

static void read_bodies(void) {
    if (options.load[0] != 'n') return;
    FILE *file = options.bodies ? fopen(options.bodies, "r") : NULL;
    if (!file) die("--load notifications needs a file of --bodies");
    bodies = calloc(BODIES_MAX, sizeof *bodies);
    size_t room = 0;
    ssize_t length;
    while (bodies_count < BODIES_MAX && (length = getline(&bodies[bodies_count], &room, file)) > 0) {
        if (length > OUTPUT_MAX - 512) die("a body is too long");
        bodies[bodies_count++][length - 1] = 0;
        room = 0;
    }
    fclose(file);
    if (!bodies_count) die("%s is empty", options.bodies);
    if (!options.requests_max || options.requests_max > bodies_count) options.requests_max = bodies_count;
}

static void read_options(int count, char **words) {
    for (int place = 1; place < count; place++) {
        const char *name = words[place];
        if (!strcmp(name, "--fresh")) { options.fresh = true; continue; }
        // Times without a fraction, as shipped v1 clients send them.
        if (!strcmp(name, "--whole-seconds")) { options.whole_seconds = true; continue; }
        if (!strcmp(name, "--fixed-answers")) { options.fixed_answers = true; continue; }
        if (place + 1 >= count) die("%s wants a value", name);
        const char *value = words[++place];
        if (!strcmp(name, "--port")) options.port = atoi(value);
        else if (!strcmp(name, "--connections")) options.connections = atoi(value);
        else if (!strcmp(name, "--threads")) options.threads = atoi(value);
        else if (!strcmp(name, "--seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "--warmup")) options.warmup = atof(value);
        else if (!strcmp(name, "--rate")) options.rate = atof(value);
        else if (!strcmp(name, "--load")) options.load = value;
        else if (!strcmp(name, "--tokens")) options.tokens = value;
        else if (!strcmp(name, "--bodies")) options.bodies = value;
        else if (!strcmp(name, "--salt")) options.salt = (unsigned)strtoul(value, NULL, 16);
        else if (!strcmp(name, "--requests")) options.requests_max = strtoull(value, NULL, 10);
        else die("%s is no option", name);
    }
    if (!options.port || !options.tokens) die("--port and --tokens are needed");
    if (options.threads > options.connections) options.threads = options.connections;
    if (!strchr("cebmn", options.load[0])) die("--load config, events, batch, mix or notifications");
}

int main(int count, char **words) {
    read_options(count, words);
    read_tokens();
    read_bodies();
    struct rlimit files = {.rlim_cur = (rlim_t)options.connections + 64};
    struct rlimit had;
    getrlimit(RLIMIT_NOFILE, &had);
    files.rlim_max = had.rlim_max;
    if (had.rlim_cur < files.rlim_cur && setrlimit(RLIMIT_NOFILE, &files)) die("too few descriptors are allowed");

    struct share *shares = calloc((size_t)options.threads, sizeof *shares);
    for (int index = 0; index < options.threads; index++) {
        shares[index].index = index;
        shares[index].connections =
            options.connections / options.threads + (index < options.connections % options.threads);
        if (pthread_create(&shares[index].thread, NULL, run, &shares[index])) die("pthread_create");
    }
    struct share all = {0};
    double elapsed = options.seconds;
    for (int index = 0; index < options.threads; index++) {
        struct share *share = &shares[index];
        pthread_join(share->thread, NULL);
        all.answered += share->answered, all.counted += share->counted, all.stored += share->stored;
        all.stored_while_counting += share->stored_while_counting;
        all.repeats += share->repeats, all.configs += share->configs;
        all.failures += share->failures, all.broken += share->broken, all.unsent += share->unsent;
        if (share->latency_max > all.latency_max) all.latency_max = share->latency_max;
        if (!all.first_failure[0]) memcpy(all.first_failure, share->first_failure, sizeof all.first_failure);
        for (int place = 0; place < BUCKETS; place++) all.latency[place] += share->latency[place];
        if (options.requests_max)
            elapsed = (double)(now_ns() - share->started_ns) / 1e9 - options.warmup;
    }
    if (all.first_failure[0]) fprintf(stderr, "load: first failure: %s\n", all.first_failure);

    const double shares_of[] = {0.5, 0.9, 0.99, 0.999};
    double values[4] = {0};
    uint64_t seen = 0;
    int wanted = 0;
    for (unsigned place = 0; place < BUCKETS && wanted < 4; place++) {
        seen += all.latency[place];
        while (wanted < 4 && all.counted && (double)seen >= shares_of[wanted] * (double)(all.counted + all.unsent))
            values[wanted++] = (double)bucket_value(place) / 1000;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf(
        "{\"requests\":%" PRIu64 ",\"rate\":%.1f,\"event_rate\":%.1f,\"stored\":%" PRIu64 ",\"repeats\":%" PRIu64
        ",\"configs\":%" PRIu64 ",\"unsent\":%" PRIu64 ",\"failures\":%" PRIu64 ",\"broken\":%" PRIu64
        ",\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"load_cpu_seconds\":%.2f}\n",
        all.answered, (double)all.counted / elapsed, (double)all.stored_while_counting / elapsed, all.stored, all.repeats,
        all.configs, all.unsent, all.failures, all.broken, values[0], values[1], values[2], values[3],
        (double)all.latency_max / 1000,
        (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 + (double)usage.ru_stime.tv_sec +
            (double)usage.ru_stime.tv_usec / 1e6);
    return all.failures ? 1 : 0;
}
