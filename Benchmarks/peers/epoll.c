// A server that shows the limit of the machine. It only reads HTTP requests and sends fixed responses. It supports
// keep-alive, pipelining and split requests. It checks no token, parses no JSON and writes nothing to the disk.
//
// cc -O2 -pthread -o epoll epoll.c; epoll PORT [THREADS]

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_MAX = 160 * 1024, OUTPUT_MAX = 64 * 1024 };

// These responses are as long as Dwell's, so that both programs send the same number of bytes.
static const char settings[] =
    "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nETag: \"2dc2c112dbf76568\"\r\n"
    "Cache-Control: private, max-age=86400\r\nContent-Type: application/json\r\nX-Request-Id: 1saiecbb8qwov-0\r\n"
    "Content-Length: 227\r\n\r\n"
    "{\"chargerIntentRadius_m\":400,\"chargerAnchorRadius_m\":30,\"chargerDwellSeconds\":120,\"merchantUnlockRadius_m\":40,"
    "\"gracePeriodSeconds\":900,\"hardTimeoutSeconds\":3600,\"locationAccuracyThreshold_m\":50,\"speedThresholdForDwell_mps\":1.5}";
static const char stored[] =
    "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: application/json\r\n"
    "RateLimit: \"session\";r=100000;t=60\r\nRateLimit-Policy: \"session\";q=100000;w=60\r\n"
    "X-Request-Id: 1saiecbb8qwov-0\r\nContent-Length: 129\r\n\r\n"
    "{\"status\":\"ok\",\"event_id\":\"00000000-0000-4000-8000-000000000000\",\"session\":{\"state\":\"NEAR_CHARGER\","
    "\"transition\":\"applied\"}      }";

struct connection {
    int descriptor;
    size_t input_length;
    bool closes;
    char input[INPUT_MAX];
};

// Answers every complete request in the input and keeps the rest. Returns false if the client must be disconnected.
static bool answer(struct connection *connection) {
    static __thread char output[OUTPUT_MAX];
    size_t used = 0, output_length = 0;
    for (;;) {
        char *start = connection->input + used;
        size_t length = connection->input_length - used;
        char *end = memmem(start, length, "\r\n\r\n", 4);
        if (!end) break;
        size_t head = (size_t)(end - start) + 4, body = 0;
        bool posts = start[0] == 'P';
        if (posts) {
            *end = 0;
            char *field = strcasestr(start, "\r\ncontent-length:");
            *end = '\r';
            if (field) body = strtoul(field + 17, NULL, 10);
        }
        if (head + body > length) break;
        if (memmem(start, head, "Connection: close", 17)) connection->closes = true;
        const char *bytes = posts ? stored : settings;
        size_t size = posts ? sizeof stored - 1 : sizeof settings - 1;
        if (output_length + size > OUTPUT_MAX) break;
        memcpy(output + output_length, bytes, size);
        output_length += size;
        used += head + body;
    }
    memmove(connection->input, connection->input + used, connection->input_length - used);
    connection->input_length -= used;
    // Bytes that could not be sent are lost, so disconnect a client that does not read its responses.
    return output_length == 0 || send(connection->descriptor, output, output_length, MSG_NOSIGNAL) == (ssize_t)output_length;
}

static void serve(int epoll, struct connection *connection) {
    for (;;) {
        size_t room = INPUT_MAX - connection->input_length;
        ssize_t count = recv(connection->descriptor, connection->input + connection->input_length, room, 0);
        if (count < 0 && errno == EAGAIN) return;
        if (count > 0) connection->input_length += (size_t)count;
        if (count <= 0 || !answer(connection) || connection->closes || connection->input_length == INPUT_MAX) {
            epoll_ctl(epoll, EPOLL_CTL_DEL, connection->descriptor, NULL);
            close(connection->descriptor);
            free(connection);
            return;
        }
        if ((size_t)count < room) return; // all bytes were read; epoll is level-triggered and reports later bytes
    }
}

static void *loop(void *argument) {
    int port = *(int *)argument, on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("listen");
        exit(1);
    }
    int epoll = epoll_create1(0);
    struct epoll_event events[256], accepts = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &accepts);
    for (;;) {
        int count = epoll_wait(epoll, events, 256, -1);
        for (int place = 0; place < count; place++) {
            if (events[place].data.ptr) {
                serve(epoll, events[place].data.ptr);
                continue;
            }
            int descriptor;
            while ((descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                struct connection *connection = malloc(sizeof *connection);
                connection->descriptor = descriptor;
                connection->input_length = 0;
                connection->closes = false;
                struct epoll_event reads = {.events = EPOLLIN, .data.ptr = connection};
                epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &reads);
            }
        }
    }
}

int main(int count, char **words) {
    if (count < 2) return 64;
    int port = atoi(words[1]), threads = count > 2 ? atoi(words[2]) : 1;
    signal(SIGPIPE, SIG_IGN);
    for (int index = 1; index < threads; index++) {
        pthread_t thread;
        pthread_create(&thread, NULL, loop, &port);
    }
    loop(&port);
}
