#define _GNU_SOURCE
#include "CEpoll.h"
#ifdef __linux__
// A name of its own: the importer does not see accept4 when Glibc was already imported without _GNU_SOURCE.
int dwell_accept4(int listener, struct sockaddr *address, socklen_t *length, int flags) {
    return accept4(listener, address, length, flags);
}
#endif
