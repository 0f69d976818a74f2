// The failures of Redis. After such a failure, the limiter in this process makes the rate limit decision, so no request
// fails.

/// The reason why a call or a probe failed. Its description is for the log.
enum RedisFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The connection could not be made, or was lost while calls were waiting.
    case connection
    case timedOut
    /// A reply was not RESP, had an unexpected type, or arrived although no command was waiting for a reply.
    case unexpectedReply
    /// Redis sent an error reply. Only its first word is kept, because the rest may quote the command.
    case errorReply(String)
    /// The server is a node of a cluster, so another node may have the keys.
    case isCluster
    /// The URL names a database, but the server is a node of a cluster.
    case databaseOfCluster
    /// The URL has several hosts, but the server is not a node of a cluster.
    case noCluster
    /// The server is a sentinel, but the URL does not say so.
    case isSentinel
    /// The server is a replica.
    case notPrimary
    /// The sentinels know no primary with the name in the URL.
    case unknownPrimary

    /// The TLS handshake failed, or the peer sent no TLS.
    case tls
    /// The server's certificate is not trusted, has expired, or is for another host.
    case untrusted
    /// The files with certificates cannot be used.
    case certificateFiles

    init(errorText: String) {
        let word = errorText.prefix { $0.isASCII && ($0.isUppercase || $0 == "_") }
        self = .errorReply(word.isEmpty ? "ERR" : String(word.prefix(32)))
    }

    var description: String {
        switch self {
        case .connection: "no connection"
        case .timedOut: "no reply in time"
        case .unexpectedReply: "unexpected reply"
        case .errorReply(let word): word
        case .isCluster: "the server is a node of a cluster"
        case .databaseOfCluster: "REDIS_URL names a database, but a cluster has only database 0"
        case .noCluster: "REDIS_URL has several hosts, but the server is not a node of a cluster"
        case .isSentinel: "the server is a sentinel; REDIS_URL must begin with redis+sentinel://"
        case .notPrimary: "the server is a replica"
        case .unknownPrimary: "the sentinels know no primary with the name in REDIS_URL"
        case .tls: "TLS failed"
        case .untrusted: "the certificate of the server is not trusted, or is for another host"
        case .certificateFiles: "the files ca, cert or key of REDIS_URL cannot be used"
        }
    }

    /// Whether the error is a redirect of a cluster: the server works, but does not have all keys of the command.
    var isRedirect: Bool {
        switch self {
        case .errorReply("MOVED"), .errorReply("ASK"), .errorReply("TRYAGAIN"): true
        default: false
        }
    }
}
