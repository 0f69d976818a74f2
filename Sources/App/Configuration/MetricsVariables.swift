// The variables of /metrics. They are part of the table in Configuration.swift.

import Secrets

extension Variables {
    static let metricsToken = Variable<Secret<String>?>.secret(
        "METRICS_TOKEN", .operation, allowed: "16 to 256 printable ASCII characters",
        "Bearer token for GET /metrics. If neither this nor METRICS_PORT is set, /metrics is not served.",
        parse: { $0.utf8.count >= 16 && isName($0) ? Secret($0) : nil })

    static let metricsPort = Variable<Int?>.integer(
        "METRICS_PORT", .operation, in: 1...65_535, unset: "none",
        "Serve /metrics, /healthz and /readyz on this port of METRICS_HOST, and /metrics only there.")

    static let metricsHost = Variable<String>.text(
        "METRICS_HOST", .operation, default: "127.0.0.1", allowed: "an IP address or a host name",
        "Address of that port. Without METRICS_TOKEN, any client that reaches it can read the metrics."
    ) { isHost($0) }

    static let watching: [any Declaration] = [metricsToken, metricsPort, metricsHost]
}
