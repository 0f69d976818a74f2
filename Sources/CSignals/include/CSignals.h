// Catches the signals that stop a server or reload its settings, beginning before main(). The default action of these
// signals would end the process if one arrived before the server is ready.
#ifndef DWELL_CSIGNALS_H
#define DWELL_CSIGNALS_H

// Catches SIGHUP, SIGINT and SIGTERM. A caught signal waits, without a time limit, until dwell_next_signal returns it.
// Blocking the signals instead would not work: the main thread of a Swift program runs the loop of libdispatch, which
// unblocks every signal in that thread.
//
// In `dwell serve`, dwell_hold_signals is called as soon as the dynamic linker is done, before the initializer of any
// library. A second call has no effect. The function also opens /dev/null as each standard stream that is closed, and
// ignores SIGPIPE.
void dwell_hold_signals(void);

// Restores the default action of SIGHUP, SIGINT, SIGTERM and SIGPIPE, for a command that is not a server.
void dwell_release_signals(void);

// Waits for the next caught signal and returns its number. Must be called after dwell_hold_signals, by one thread
// only.
int dwell_next_signal(void);

#endif
