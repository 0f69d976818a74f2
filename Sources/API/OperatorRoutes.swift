// The monitoring routes (contract, section 7): /readyz, /metrics and /healthz. If METRICS_PORT is set, the listener on
// that port has all three routes.
//
// The public listener always has /readyz and /healthz. It has /metrics only if METRICS_TOKEN is set and METRICS_PORT is
// not. Routes.swift adds /healthz to the public listener.

import HTTP1
package import HTTPServer
import JourneyModel
package import Secrets

package struct OperatorRoutes: Sendable {
    private let readiness: Readiness
    private let metricsMediaType: String
    private let metricsText: @Sendable () async -> String
    /// The value of `METRICS_TOKEN`. If nil, everybody who can reach the listener may read the metrics.
    private let metricsToken: Secret<String>?
    private let guesses: OperatorGuesses

    /// - Parameter metricsText: returns all metrics as text, in the format of `metricsMediaType`.
    package init(
        readiness: Readiness, metricsToken: Secret<String>?, guesses: OperatorGuesses,
        metricsMediaType: String, metricsText: @escaping @Sendable () async -> String
    ) {
        self.readiness = readiness
        self.metricsToken = metricsToken
        self.guesses = guesses
        self.metricsMediaType = metricsMediaType
        self.metricsText = metricsText
    }

    package var health: [Route] {
        [
            Route(.get, "/healthz") { _ in HealthHandler.alive },
            ready,
        ]
    }

    package var ready: Route {
        Route(.get, "/readyz") { [readiness] request in
            ReadyHandler.response(await readiness.report(), requestID: request.id)
        }
    }

    package var metrics: Route {
        Route(
            .get, "/metrics",
            credential: CredentialCheck(handler: { [self] request in
                do throws(ProblemResponse) {
                    try await admitReader(request)
                } catch {
                    return error.response(requestID: request.id)
                }
                return Response(
                    status: .ok,
                    fields: Fields([("Content-Type", metricsMediaType), ("Cache-Control", "no-store")]),
                    body: .bytes(Array(await metricsText().utf8)))
            }))
    }

    private func admitReader(_ request: Request) async throws(ProblemResponse) {
        guard let metricsToken else { return }
        try await guesses.judged(request, token: "metrics_token") { () throws(ProblemResponse) in
            guard metricsToken.isShown(by: request) else {
                throw ProblemResponse(
                    .unauthorized, "The bearer token of METRICS_TOKEN is required.",
                    fields: Fields([("WWW-Authenticate", "Bearer realm=\"metrics\"")]))
            }
        }
    }
}

/// The handler of GET /readyz. Responds with 200 or with 503. Both responses contain the results of the checks.
enum ReadyHandler {
    static let retryAfterSeconds = 2

    static func response(_ report: Readiness.Report, requestID: String) -> Response {
        guard !report.isReady else {
            return Response(
                status: .ok, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
                body: .bytes(Array(#"{"status":"ready",\#(checks(report))}"#.utf8)))
        }
        let detail = report.isDraining ? "The server is shutting down." : "The database cannot be written."
        var response = ProblemResponse(.serviceUnavailable, detail, retryAfterSeconds: retryAfterSeconds)
            .response(requestID: requestID)
        // Insert `checks` as an extension member (RFC 9457 section 3.2) before the closing brace of the problem.
        if case .bytes(let problem) = response.body, problem.last == UInt8(ascii: "}") {
            response.body = .bytes(problem.dropLast() + Array(",\(checks(report))}".utf8))
        }
        return response
    }

    /// Returns the member `checks` of the response. All its values are fixed words, so they need no escaping.
    private static func checks(_ report: Readiness.Report) -> String {
        let drain = report.isDraining ? "draining" : "ok"
        return #""checks":{"database":"\#(report.database.rawValue)","drain":"\#(drain)","#
            + #""redis":"\#(report.redis.rawValue)"}"#
    }
}
