// The Glibc module omits epoll, accept4 and eventfd; this target makes them available to Swift.
#ifndef DWELL_CEPOLL_H
#define DWELL_CEPOLL_H
#ifdef __linux__
// Without _GNU_SOURCE and sys/socket.h: types such as fd_set and sockaddr would differ from the Glibc module's.
#include <sys/epoll.h>
// accept4 with SOCK_NONBLOCK and SOCK_CLOEXEC; -1 and errno on failure. `address` is a struct sockaddr.
int dwell_accept4(int listener, void *address, unsigned int *length);
// A new eventfd with EFD_NONBLOCK and EFD_CLOEXEC; -1 and errno on failure.
int dwell_eventfd(void);
#endif
#endif
