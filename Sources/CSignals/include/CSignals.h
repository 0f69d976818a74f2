// The signals that stop a server or reload its settings, caught from before main(). Otherwise they have their
// default action, which ends the process, until the server is ready for them.
#ifndef DWELL_CSIGNALS_H
#define DWELL_CSIGNALS_H

// SIGHUP, SIGINT and SIGTERM are caught from now on and wait for dwell_next_signal, however long that takes. Caught
// and not blocked: the main thread of a Swift program ends up in libdispatch, which unblocks every signal there.
//
// `dwell serve` calls this as soon as the dynamic linker is done, before any library's initializer; a second call
// has no effect.
void dwell_hold_signals(void);

// Restores their default action: for a command that is not a server.
void dwell_release_signals(void);

// Waits for one of them and returns its number. For one thread; after dwell_hold_signals.
int dwell_next_signal(void);

#endif
