// TLS over two memory BIOs of OpenSSL: one holds the bytes from the peer, the other the bytes for the peer. The caller
// moves the bytes between the BIOs and the socket.

#include "CTLS.h"

#include <limits.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_context {
    SSL_CTX *context;
};

struct tls_session {
    SSL *ssl;
    // `ssl` owns these two BIOs.
    BIO *received;
    BIO *to_send;
};

static bool is_configured(
    SSL_CTX *context, const char *ca_file, const char *certificate_file, const char *key_file) {
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    // Refuse renegotiation (TLS 1.2). During a renegotiation, a read may have to wait until bytes are sent.
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) return false;
    int trusted = ca_file == NULL ? SSL_CTX_set_default_verify_paths(context)
                                  : SSL_CTX_load_verify_locations(context, ca_file, NULL);
    if (trusted != 1) return false;
    if (certificate_file != NULL && SSL_CTX_use_certificate_chain_file(context, certificate_file) != 1) return false;
    if (key_file != NULL && SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1) return false;
    return (certificate_file == NULL && key_file == NULL) || SSL_CTX_check_private_key(context) == 1;
}

tls_context *tls_context_create(const char *ca_file, const char *certificate_file, const char *key_file) {
    tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) return NULL;
    context->context = SSL_CTX_new(TLS_client_method());
    if (context->context == NULL || !is_configured(context->context, ca_file, certificate_file, key_file)) {
        tls_context_free(context);
        context = NULL;
    }
    ERR_clear_error();
    return context;
}

void tls_context_free(tls_context *context) {
    SSL_CTX_free(context->context);
    free(context);
}

tls_session *tls_session_create(tls_context *context, const char *host, bool is_address) {
    tls_session *session = calloc(1, sizeof *session);
    if (session == NULL) return NULL;
    session->ssl = SSL_new(context->context);
    session->received = BIO_new(BIO_s_mem());
    session->to_send = BIO_new(BIO_s_mem());
    if (session->ssl == NULL || session->received == NULL || session->to_send == NULL) {
        BIO_free(session->received);
        BIO_free(session->to_send);
        SSL_free(session->ssl);
        free(session);
        return NULL;
    }
    SSL_set_bio(session->ssl, session->received, session->to_send);
    SSL_set_connect_state(session->ssl);
    // If the host is a name, the name is also sent to the server (SNI, RFC 6066).
    int is_set = is_address
        ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session->ssl), host)
        : SSL_set1_host(session->ssl, host) == 1 && SSL_set_tlsext_host_name(session->ssl, host) == 1;
    if (is_set != 1) {
        tls_session_free(session);
        session = NULL;
    }
    ERR_clear_error();
    return session;
}

void tls_session_free(tls_session *session) {
    SSL_free(session->ssl);
    free(session);
}

// OpenSSL keeps one list of errors per thread, for all connections. The list is cleared before and after each call, so
// that an error never appears in the result of another connection.
static tls_result result(tls_session *session, int returned) {
    int error = SSL_get_error(session->ssl, returned);
    ERR_clear_error();
    switch (error) {
        case SSL_ERROR_NONE: return TLS_DONE;
        case SSL_ERROR_WANT_READ: return TLS_WANTS_BYTES;
        case SSL_ERROR_ZERO_RETURN: return TLS_ENDED;
        default: return SSL_get_verify_result(session->ssl) == X509_V_OK ? TLS_FAILED : TLS_UNTRUSTED;
    }
}

tls_result tls_handshake(tls_session *session) {
    ERR_clear_error();
    return result(session, SSL_do_handshake(session->ssl));
}

bool tls_receive(tls_session *session, const void *bytes, size_t count) {
    size_t written = 0;
    return BIO_write_ex(session->received, bytes, count, &written) == 1 && written == count;
}

tls_result tls_read(tls_session *session, void *buffer, size_t capacity, size_t *count) {
    *count = 0;
    ERR_clear_error();
    return result(session, SSL_read_ex(session->ssl, buffer, capacity, count));
}

tls_result tls_write(tls_session *session, const void *bytes, size_t count) {
    size_t written = 0;
    if (count == 0) return TLS_DONE;
    ERR_clear_error();
    tls_result outcome = result(session, SSL_write_ex(session->ssl, bytes, count, &written));
    // A memory BIO takes all bytes, so a partial write is a failure.
    return outcome == TLS_DONE && written != count ? TLS_FAILED : outcome;
}

size_t tls_take(tls_session *session, void *buffer, size_t capacity) {
    int count = BIO_read(session->to_send, buffer, capacity > INT_MAX ? INT_MAX : (int)capacity);
    return count > 0 ? (size_t)count : 0;
}
