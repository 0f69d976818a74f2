// The signals by which a server is told to end or to read its settings again, caught from before main(). Without it they
// have their default action, which ends the process, until the server is ready for them.
#ifndef DWELL_CSIGNALS_H
#define DWELL_CSIGNALS_H

// SIGHUP, SIGINT and SIGTERM are caught from now on and wait for dwell_next_signal, however long that takes. Caught and
// not blocked: the main thread of a Swift program ends up in libdispatch, which unblocks every signal there.
//
// `dwell serve` does this by itself as soon as the dynamic linker is done, before any library's initializer; a second
// call changes nothing.
void dwell_hold_signals(void);

// Gives those their default action again: for a command that is no server.
void dwell_release_signals(void);

// Waits for one of them and returns its number. For one thread; after dwell_hold_signals.
int dwell_next_signal(void);

#endif
