// Counts the allocations of this process. This file replaces malloc and the other functions that allocate; each calls
// the function of glibc. glibc permits this (its manual, "Replacing malloc"), although ISO C does not.
//
// Without glibc, nothing is counted.

#include "Allocations.h"
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static _Atomic uint64_t count;

uint64_t allocations_so_far(void) {
    return atomic_load_explicit(&count, memory_order_relaxed);
}

#ifdef __GLIBC__
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void one_more(void) {
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

void *malloc(size_t size) {
    one_more();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    one_more();
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
    one_more();
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    one_more();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    one_more();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    one_more();
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    __libc_free(block);
}
#endif
