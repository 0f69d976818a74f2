// The variables of /metrics. `Variables.all` in Configuration.swift includes them.

import Secrets

extension Variables {
    static let metricsToken = Variable<Secret<String>?>.secret(
        "METRICS_TOKEN", .operation, allowed: "16 to 256 printable ASCII characters",
        "Bearer token for GET /metrics. If neither METRICS_TOKEN nor METRICS_PORT is set, /metrics is not served.",
        parse: { $0.utf8.count >= 16 && isName($0) ? Secret($0) : nil })

    static let metricsPort = Variable<Int?>.integer(
        "METRICS_PORT", .operation, in: 1...65_535, unset: "none",
        "Port of METRICS_HOST that serves /metrics, /healthz and /readyz. If set, no other port serves /metrics.")

    static let metricsHost = Variable<String>.text(
        "METRICS_HOST", .operation, default: "127.0.0.1", allowed: "an IP address or a host name",
        "Listen address of METRICS_PORT. Without METRICS_TOKEN, any client that reaches this address can read the "
            + "metrics."
    ) { isHost($0) }

    static let watching: [any Declaration] = [metricsToken, metricsPort, metricsHost]
}
