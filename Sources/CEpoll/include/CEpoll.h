// The Glibc module leaves out epoll and accept4; this target is how Swift reaches them.
#ifndef DWELL_CEPOLL_H
#define DWELL_CEPOLL_H
#ifdef __linux__
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/epoll.h>
#include <sys/socket.h>
int dwell_accept4(int listener, struct sockaddr *address, socklen_t *length, int flags);
#endif
#endif
