// The variables of the HTTP server: where it listens, and its limits on connections, time and memory.
// ServerConfiguration.swift of the module HTTPServer explains what each limit means.

import HTTPServer

extension Variables {
    static let hosts = Variable<[String]>(
        name: "HTTP_HOST", section: .http, defaultText: "127.0.0.1", defaultValue: ["127.0.0.1"],
        allowed: .text(
            "comma-separated IP addresses or host names that do not overlap, or empty with HTTP_UNIX_SOCKET"),
        isSecret: false,
        sentence: "Listen addresses; 0.0.0.0 means every IPv4 address, and :: every IPv4 and IPv6 address. If empty, "
            + "the server does not listen on TCP.",
        parse: hosts(in:), show: { $0.isEmpty ? "none" : $0.joined(separator: ",") })

    static let port = Variable<Int>.integer(
        "HTTP_PORT", .http, default: 8080, in: 0...65_535,
        "TCP port of each address; 0 selects a free port.")

    static let unixSocket = Variable<String?>.text(
        "HTTP_UNIX_SOCKET", .http, allowed: "the path of a socket, at most 107 bytes",
        "The server also listens on this Unix socket."
    ) { isPath($0) && $0.utf8.count <= 107 }

    /// The maximum number of event loops. Each event loop occupies one thread of Dispatch, which has at most 255
    /// threads for the whole process. The database, the metrics and all other work need the remaining threads.
    static let eventLoopsMax = 128

    static let eventLoops = Variable<Int?>.integer(
        "EVENT_LOOPS", .http, in: 1...eventLoopsMax, unset: "one per core, at most \(eventLoopsMax)",
        "Number of threads that serve connections. Default: one per core, at most \(eventLoopsMax).")

    static let connectionsMax = Variable<Int>.integer(
        "MAX_CONNECTIONS", .http, default: 10_000, in: 1...1_000_000, "Maximum number of open connections.")

    static let connectionsPerAddressMax = Variable<Int>.integer(
        "MAX_CONNECTIONS_PER_ADDRESS", .http, default: 0, in: 0...1_000_000,
        "Maximum number of open connections per client address; 0 means no limit. Use 0 behind a proxy.")

    static let trustedProxies = Variable<TrustedProxies>(
        name: "TRUSTED_PROXIES", section: .http, defaultText: "", defaultValue: TrustedProxies(),
        allowed: .text("comma-separated IP addresses, networks such as 10.0.0.0/8, and the word unix"),
        isSecret: false,
        sentence: "Proxies whose TRUSTED_PROXIES_HEADER identifies the client. The word unix means any peer on the "
            + "Unix socket.",
        parse: { TrustedProxies(items(in: $0)) },
        show: { $0.description.isEmpty ? "none" : $0.description })

    static let trustedProxiesField = Variable<ForwardingField>.words(
        "TRUSTED_PROXIES_HEADER", .http, default: .xForwardedFor,
        "The header that the proxies set. The server ignores the other header, because clients can send it through a "
            + "proxy.")

    static let corsAllowedOrigins = Variable<CrossOrigin?>(
        name: "CORS_ALLOWED_ORIGINS", section: .http, defaultText: "", defaultValue: nil,
        allowed: .text(
            "1 to \(CrossOrigin.originsMax) lower-case origins such as https://app.example.org or "
                + "http://localhost:5173, comma-separated, without a path or the scheme's default port; not *"),
        isSecret: false,
        sentence:
            "Web origins whose pages may call the server and read its responses. Default: none.",
        parse: { CrossOrigin(items(in: $0)).map(Optional.some) },
        show: { $0?.origins.joined(separator: ",") ?? "none" })

    static let headerTimeoutSeconds = Variable<Int>.integer(
        "HTTP_HEADER_TIMEOUT_SECONDS", .http, default: 10, in: 1...600,
        "Time limit from the first byte of a request to the end of its header. A slower request gets 408 or 503.")

    static let bodyTimeoutSeconds = Variable<Int>.integer(
        "HTTP_BODY_TIMEOUT_SECONDS", .http, default: 20, in: 1...3600,
        "Time limit for a body, in addition to the time that its bytes take at HTTP_BODY_BYTES_PER_SECOND_MIN. A "
            + "slower GET, HEAD or OPTIONS request gets 408, any other slower request 503.")

    static let bodyBytesPerSecondMin = Variable<Int>.integer(
        "HTTP_BODY_BYTES_PER_SECOND_MIN", .http, default: 500, in: 1...1_000_000_000,
        "Minimum rate of a body.")

    static let bodyTimeMaxSeconds = Variable<Int>.integer(
        "HTTP_BODY_TIME_MAX_SECONDS", .http, default: 180, in: 1...86_400,
        "Time limit for one body, regardless of its rate. A slower request gets 408 or 503, as with "
            + "HTTP_BODY_TIMEOUT_SECONDS.")

    static let idleTimeoutSeconds = Variable<Int>.integer(
        "HTTP_IDLE_TIMEOUT_SECONDS", .http, default: 75, in: 1...86_400,
        "Time limit of an idle connection. Must be longer than the idle timeout of a proxy in front of the server.")

    static let writeStallTimeoutSeconds = Variable<Int>.integer(
        "HTTP_WRITE_STALL_TIMEOUT_SECONDS", .http, default: 30, in: 1...3600,
        "The server disconnects a client that reads nothing of its response for this time.")

    static let outputBufferBytes = Variable<Int>.integer(
        "HTTP_OUTPUT_BUFFER_BYTES", .http, default: 65_536, in: 4096...16_777_216,
        "Output buffer of one connection for responses to pipelined requests.")

    /// The lower bound of the range is enough memory for one event batch of the maximum size, including the copies of
    /// the batch.
    static let bufferedBytesMax = Variable<Int>.integer(
        "HTTP_BUFFERED_BYTES_MAX", .http, default: 268_435_456, in: 4_194_304...1_099_511_627_776,
        "Maximum memory of all connections for received and decompressed bodies, incomplete requests and unsent "
            + "responses; a request beyond it gets 503. If unsent responses need more than half of it, the server "
            + "disconnects clients that do not read.")

    static let http: [any Declaration] = [
        hosts, port, unixSocket, eventLoops, connectionsMax, connectionsPerAddressMax, trustedProxies,
        trustedProxiesField, corsAllowedOrigins, headerTimeoutSeconds, bodyTimeoutSeconds, bodyBytesPerSecondMin,
        bodyTimeMaxSeconds, idleTimeoutSeconds, writeStallTimeoutSeconds, outputBufferBytes, bufferedBytesMax,
    ]
}
