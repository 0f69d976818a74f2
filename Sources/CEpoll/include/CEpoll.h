// The Glibc module omits epoll, accept4 and eventfd. This target makes them available to Swift.
#ifndef DWELL_CEPOLL_H
#define DWELL_CEPOLL_H
#ifdef __linux__
// This header must not define _GNU_SOURCE or include sys/socket.h. Otherwise, types such as fd_set and sockaddr would
// differ from those of the Glibc module.
#include <sys/epoll.h>
// Calls accept4 with SOCK_NONBLOCK and SOCK_CLOEXEC. Returns -1 and sets errno on failure. `address` points to a struct
// sockaddr.
int dwell_accept4(int listener, void *address, unsigned int *length);
// Returns a new eventfd with EFD_NONBLOCK and EFD_CLOEXEC. Returns -1 and sets errno on failure.
int dwell_eventfd(void);
#endif
#endif
