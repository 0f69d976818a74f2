// Catches the signals that stop a server or reload its settings. On glibc, the catching begins before main(), because a
// signal would otherwise end a process that is not ready yet.
#ifndef DWELL_CSIGNALS_H
#define DWELL_CSIGNALS_H

// Catches SIGHUP, SIGINT and SIGTERM, and keeps each signal until dwell_next_signal returns it. Blocking the signals
// would not work, because libdispatch unblocks every signal in the main thread of a Swift program.
//
// Also ignores SIGPIPE, and opens /dev/null for each standard stream that is closed. A second call has no effect.
//
// On glibc, `dwell serve` calls the function before the initializer of any library. On other platforms, main() calls
// the function.
void dwell_hold_signals(void);

// Restores the default action of SIGHUP, SIGINT, SIGTERM and SIGPIPE, for a command that is not a server.
void dwell_release_signals(void);

// Waits for the next caught signal and returns its number. dwell_hold_signals must be called first. Only one thread may
// call this function.
int dwell_next_signal(void);

#endif
