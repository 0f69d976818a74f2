// The client side of TLS (RFC 8446) without sockets: bytes in, bytes out. OpenSSL does the work. Swift does not import
// OpenSSL's own headers, because many of their functions are macros.

#ifndef CTLS_H
#define CTLS_H

#include <stdbool.h>
#include <stddef.h>

/// The trusted certificates and this client's certificate. Several connections and threads may share a context.
typedef struct tls_context tls_context;
/// The TLS session of one connection. Only one thread at a time may use it.
typedef struct tls_session tls_session;

/// Creates a context. Returns null if memory is exhausted, if a file is unreadable or malformed, or if the key does not
/// belong to the certificate.
///
/// Each path may be null. If `ca_file` is null, the system's certificates are trusted. Servers that ask for a client
/// certificate need `certificate_file` and `key_file` (PEM).
tls_context *_Nullable tls_context_create(
    const char *_Nullable ca_file, const char *_Nullable certificate_file, const char *_Nullable key_file);
void tls_context_free(tls_context *_Nonnull context);

/// Creates the session of a connection to `host`. Returns null if memory is exhausted, or if `host` is invalid. `host`
/// is a name or, if `is_address`, the text of an IP address. The handshake fails if the server's certificate does not
/// contain `host`.
tls_session *_Nullable tls_session_create(tls_context *_Nonnull context, const char *_Nonnull host, bool is_address);
void tls_session_free(tls_session *_Nonnull session);

typedef enum { TLS_DONE, TLS_WANTS_BYTES, TLS_ENDED, TLS_UNTRUSTED, TLS_FAILED } tls_result;

/// Continues the handshake. After each call, send what `tls_take` returns.
tls_result tls_handshake(tls_session *_Nonnull session);

/// Adds bytes that the peer sent. Returns false if memory is exhausted.
bool tls_receive(tls_session *_Nonnull session, const void *_Nonnull bytes, size_t count);

/// Decrypts received bytes. TLS_DONE means that `*count` bytes were written to `buffer`. TLS_WANTS_BYTES means that the
/// received bytes contain no complete record.
tls_result tls_read(
    tls_session *_Nonnull session, void *_Nonnull buffer, size_t capacity, size_t *_Nonnull count);

/// Encrypts all bytes. Send what `tls_take` returns.
tls_result tls_write(tls_session *_Nonnull session, const void *_Nonnull bytes, size_t count);

/// Moves at most `capacity` bytes for the peer to `buffer`. Returns the number of bytes.
size_t tls_take(tls_session *_Nonnull session, void *_Nonnull buffer, size_t capacity);

#endif
