#define _GNU_SOURCE
#include "CEpoll.h"
#ifdef __linux__
#include <sys/eventfd.h>
#include <sys/socket.h>
int dwell_accept4(int listener, void *address, unsigned int *length) {
    return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
int dwell_eventfd(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}
#endif
