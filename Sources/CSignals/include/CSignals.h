// Catches the signals that stop a server or reload its settings, beginning before main(). Otherwise a signal that
// arrives before the server is ready would end the process.
#ifndef DWELL_CSIGNALS_H
#define DWELL_CSIGNALS_H

// Catches SIGHUP, SIGINT and SIGTERM. A caught signal waits, without a time limit, until dwell_next_signal returns it.
// Blocking the signals would not work, because libdispatch unblocks every signal in the main thread of a Swift program.
//
// A second call has no effect. The function also ignores SIGPIPE, and opens /dev/null in place of each standard stream
// that is closed.
//
// On glibc, `dwell serve` calls the function before the initializer of any library. On other platforms, main() calls
// it.
void dwell_hold_signals(void);

// Restores the default action of SIGHUP, SIGINT, SIGTERM and SIGPIPE, for a command that is not a server.
void dwell_release_signals(void);

// Waits for the next caught signal and returns its number. Must be called after dwell_hold_signals, by one thread
// only.
int dwell_next_signal(void);

#endif
