#define _GNU_SOURCE
#include "CSignals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
// The signal handler writes one byte into this pipe for each signal. The first descriptor is the reading end, the
// second the writing end. Both are -1 until `dwell_hold_signals` is called.
static int channel[2] = {-1, -1};

// The signal handler. Calls only write(2), which is async-signal-safe (signal-safety(7)).
//
// The pipe holds up to 65,536 unread signals. If it were full, a further signal would be lost. The pipe never becomes
// full, because the reading thread does nothing but read and handle signals.
static void note(int number) {
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t written = write(channel[1], &byte, 1);
    (void)written;
    errno = saved;
}

static void set_action(void (*action)(int)) {
    struct sigaction handler;
    memset(&handler, 0, sizeof handler);
    handler.sa_handler = action;
    handler.sa_flags = SA_RESTART;
    sigemptyset(&handler.sa_mask);
    for (size_t index = 0; index < sizeof signals / sizeof *signals; index++) sigaction(signals[index], &handler, NULL);
}

// Opens /dev/null for each standard stream that is closed. Otherwise the signal pipe could get the number of standard
// error, and the log would be written into the pipe.
static void open_standard_streams(void) {
    int descriptor;
    do descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0) close(descriptor);
}

void dwell_hold_signals(void) {
    if (channel[0] >= 0) return;
    open_standard_streams();
    if (pipe(channel) != 0) {
        channel[0] = channel[1] = -1;
        return;
    }
    for (int end = 0; end < 2; end++) fcntl(channel[end], F_SETFD, FD_CLOEXEC);
    // The signal handler must never block.
    fcntl(channel[1], F_SETFL, O_NONBLOCK);
    set_action(note);
    // The reader of standard error or the peer of a socket may be gone. A write to it must fail with EPIPE instead of
    // ending the process.
    signal(SIGPIPE, SIG_IGN);
}

void dwell_release_signals(void) {
    set_action(SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
}

int dwell_next_signal(void) {
    unsigned char byte = 0;
    while (read(channel[0], &byte, 1) != 1) {
        if (errno == EINTR) continue;
        // If the pipe could not be created, no signal is caught. In that case, wait forever.
        pause();
    }
    return byte;
}

// Only `dwell serve` catches the signals before main(). The test binary contains this file too, and a signal must still
// terminate the tests.
#if defined(__GLIBC__)
static void hold_if_serving(int argc, char **argv, char **environment) {
    (void)environment;
    if (argc > 1 && strcmp(argv[1], "serve") == 0) dwell_hold_signals();
}

// The dynamic linker calls hold_if_serving before the initializers of the libraries (System V ABI, "Initialization and
// Termination Functions"). Those initializers take tens of milliseconds on a busy machine. Without the early call, a
// signal during the initializers would end the process.
__attribute__((section(".preinit_array"), used)) static void (*const hold_early)(int, char **, char **) =
    hold_if_serving;
#endif
