// A layer over SQLite's page cache, https://www.sqlite.org/c3ref/pcache_methods2.html. It skips truncations that would
// remove nothing.
//
// At the end of every transaction, SQLite truncates the page cache to the size of the database (pager.c,
// pager_end_transaction). The truncation visits the hash buckets of all page numbers from that size to the highest
// number ever cached. Normally these are few numbers.
//
// But when a B-tree node is split, a page briefly gets the number of the lock-byte page at 1 GiB (btree.c,
// balance_nonroot). The truncation then visits all cached pages. With a cache of 48 MiB, this takes about 7 % of an
// event's processor time.
//
// This layer records the highest page number in the cache. It ignores the number of the lock-byte page, because no page
// keeps that number for long. A truncation above the recorded number would remove nothing, so the layer skips it.

#include "CSQLiteVFS.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>

static sqlite3_pcache_methods2 below;
static atomic_ullong truncations;

struct cache {
    sqlite3_pcache *below;
    // At least the highest page number in the cache, apart from the lock-byte page.
    unsigned highest;
    unsigned lock_byte_page;
};

static struct cache *cache_of(sqlite3_pcache *cache) { return (struct cache *)cache; }

static void note_page(struct cache *cache, unsigned page) {
    if (page > cache->highest && page != cache->lock_byte_page) cache->highest = page;
}

static int cache_init(void *argument) {
    (void)argument;
    return below.xInit(below.pArg);
}

static void cache_shutdown(void *argument) {
    (void)argument;
    if (below.xShutdown != NULL) below.xShutdown(below.pArg);
}

static sqlite3_pcache *cache_create(int page_bytes, int extra_bytes, int is_purgeable) {
    struct cache *cache = malloc(sizeof *cache);
    if (cache == NULL) return NULL;
    cache->below = below.xCreate(page_bytes, extra_bytes, is_purgeable);
    if (cache->below == NULL) {
        free(cache);
        return NULL;
    }
    cache->highest = 0;
    // The lock byte is at 1 GiB: https://www.sqlite.org/fileformat2.html#the_lock_byte_page
    cache->lock_byte_page = 0x40000000u / (unsigned)page_bytes + 1;
    return (sqlite3_pcache *)cache;
}

static void cache_set_size(sqlite3_pcache *cache, int pages) { below.xCachesize(cache_of(cache)->below, pages); }

static int cache_page_count(sqlite3_pcache *cache) { return below.xPagecount(cache_of(cache)->below); }

static sqlite3_pcache_page *cache_fetch(sqlite3_pcache *handle, unsigned page, int create) {
    struct cache *cache = cache_of(handle);
    if (create != 0) note_page(cache, page);
    return below.xFetch(cache->below, page, create);
}

static void cache_unpin(sqlite3_pcache *cache, sqlite3_pcache_page *page, int is_discarded) {
    below.xUnpin(cache_of(cache)->below, page, is_discarded);
}

static void cache_rekey(sqlite3_pcache *handle, sqlite3_pcache_page *page, unsigned old_number, unsigned new_number) {
    struct cache *cache = cache_of(handle);
    note_page(cache, new_number);
    below.xRekey(cache->below, page, old_number, new_number);
}

static void cache_truncate(sqlite3_pcache *handle, unsigned limit) {
    struct cache *cache = cache_of(handle);
    if (limit > cache->highest) return;
    atomic_fetch_add_explicit(&truncations, 1, memory_order_relaxed);
    below.xTruncate(cache->below, limit);
    cache->highest = limit > 0 ? limit - 1 : 0;
}

static void cache_destroy(sqlite3_pcache *handle) {
    below.xDestroy(cache_of(handle)->below);
    free(handle);
}

static void cache_shrink(sqlite3_pcache *cache) { below.xShrink(cache_of(cache)->below); }

int dwell_skip_empty_truncations(void) {
    int code = sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &below);
    if (code != SQLITE_OK) return code;
    sqlite3_pcache_methods2 methods = {
        .iVersion = below.iVersion,
        .xInit = cache_init,
        .xShutdown = cache_shutdown,
        .xCreate = cache_create,
        .xCachesize = cache_set_size,
        .xPagecount = cache_page_count,
        .xFetch = cache_fetch,
        .xUnpin = cache_unpin,
        .xRekey = cache_rekey,
        .xTruncate = cache_truncate,
        .xDestroy = cache_destroy,
        .xShrink = cache_shrink,
    };
    return sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods);
}

unsigned long long dwell_page_cache_truncations(void) {
    return atomic_load_explicit(&truncations, memory_order_relaxed);
}
