// Calls Apple's App Store Server API (https://developer.apple.com/documentation/appstoreserverapi): reads a transaction
// or the history of notifications, and sends consumption information. A transaction is looked up in the production
// environment first, then in the sandbox.

package import Foundation
package import Identity
package import JourneyModel
package import Purchases
import Secrets

package struct AppStoreServer: AppStoreAPI {
    /// The timeout of one attempt in milliseconds. It is short because the app waits for Apple's response.
    static let timeoutMilliseconds = 5_000
    /// A further attempt may begin only within this many milliseconds of the start of the call. The time is short,
    /// because the app shows a spinner until the call ends.
    static let totalMilliseconds: Int64 = 12_000
    static let attemptsMax = 3
    static let backoffMilliseconds: [Int64] = [400, 1_600]
    /// Maximum bytes of a response. A page of the notification history has twenty notifications of 20 kB each.
    static let answerBytesMax = 4 << 20

    /// The body of Apple's ConsumptionRequest. The server knows that the product was delivered. The optional members
    /// are left out, because the server does not know how much of the product the customer used.
    static let consumption = """
        {"customerConsented":true,"deliveryStatus":"DELIVERED","sampleContentProvided":false}
        """

    private let http: OutgoingHTTP
    private let token: AppStoreToken
    private let bundleIDs: [String]
    private let urls: [(environment: AppStoreEnvironment, url: URL)]
    private let clock: @Sendable () -> Moment

    /// Creates the client. The URL of an environment is nil if this server does not accept purchases from that
    /// environment.
    package init(
        http: OutgoingHTTP, token: AppStoreToken, bundleIDs: [String], production: URL?, sandbox: URL?,
        clock: @escaping @Sendable () -> Moment
    ) {
        self.http = http
        self.token = token
        self.bundleIDs = bundleIDs
        urls = [(AppStoreEnvironment.production, production), (.sandbox, sandbox)].compactMap { environment, url in
            url.map { (environment, $0) }
        }
        self.clock = clock
    }

    package func signedTransaction(_ id: String) async throws(AppStoreAPIFailure) -> String {
        var refused = false
        for (_, url) in urls {
            for bundleID in bundleIDs {
                let answer = try await send(
                    .get, url.appending(path: "inApps/v1/transactions/\(id)"), as: bundleID)
                switch (answer.status, Self.json(answer)) {
                case (200, let json):
                    guard case .string(let signed) = json?["signedTransactionInfo"] else {
                        throw .unavailable(retryAfterSeconds: 60, reason: "malformed_answer")
                    }
                    return signed
                // The production environment responds with 401 until the app's first release.
                case (401, _): refused = true
                case (404, _), (400, _): continue
                default: throw .unavailable(retryAfterSeconds: 60, reason: "status_\(answer.status)")
                }
            }
        }
        // An environment that responded with 401 may have the transaction. The error is therefore `.unavailable` and
        // not `.notFound`.
        throw refused ? .unavailable(retryAfterSeconds: 300, reason: "status_401") : .notFound
    }

    package func notifications(
        _ request: NotificationHistoryRequest
    ) async throws(AppStoreAPIFailure) -> NotificationHistoryPage {
        guard let url = urls.first(where: { $0.environment == request.environment })?.url else { throw .notFound }
        var target = url.appending(path: "inApps/v1/notifications/history")
        if let page = request.pageToken {
            // URLQueryItem would not encode a plus, and many servers read a plus in a query as a space.
            let query = FormBody.text([("paginationToken", page)])
            guard let next = URL(string: "\(target.absoluteString)?\(query)") else {
                throw .unavailable(retryAfterSeconds: 600, reason: "malformed_answer")
            }
            target = next
        }
        let body = """
            {"startDate":\(request.from.millisecondsSinceEpoch),"endDate":\(request.to.millisecondsSinceEpoch)\
            \(request.onlyFailures ? ",\"onlyFailures\":true" : "")}
            """
        let answer = try await send(.post, target, as: request.bundleID, body: Array(body.utf8))
        // A 401 means that the app is not released yet, or that the key is new or wrong. If this server accepts both
        // environments, it takes a 401 of production as a sign that the app is not released. If it accepts only
        // production, a 401 is a failure like any other status.
        if answer.status == 401, request.environment == .production, urls.count > 1 {
            return NotificationHistoryPage(signedPayloads: [], nextPageToken: nil, isAvailable: false)
        }
        guard answer.status == 200 else {
            throw .unavailable(retryAfterSeconds: 600, reason: "status_\(answer.status)")
        }
        guard let json = Self.json(answer), case .array(let entries) = json["notificationHistory"] ?? .array([]) else {
            throw .unavailable(retryAfterSeconds: 600, reason: "malformed_answer")
        }
        let payloads = entries.compactMap { entry -> String? in
            if case .string(let payload) = entry["signedPayload"] { payload } else { nil }
        }
        var next: String?
        if json["hasMore"] == .bool(true), case .string(let token) = json["paginationToken"] { next = token }
        return NotificationHistoryPage(signedPayloads: payloads, nextPageToken: next)
    }

    package func sendConsumption(of request: ConsumptionRequest) async throws(AppStoreAPIFailure) {
        guard let url = urls.first(where: { $0.environment == request.environment })?.url else { throw .notFound }
        let target = url.appending(path: "inApps/v2/transactions/consumption/\(request.transactionID)")
        let answer = try await send(.put, target, as: request.bundleID, body: Array(Self.consumption.utf8))
        switch answer.status {
        case 200..<300: return
        // Apple responds with 401 if the key is new, or if the app is not released yet. A later attempt may therefore
        // succeed.
        case 401: throw .unavailable(retryAfterSeconds: 300, reason: "status_401")
        default: throw .notFound
        }
    }

    // MARK: One request

    /// Sends a request and returns the response. If the status is 429 or 5xx, or if the call fails, sends the request
    /// again after a pause. Throws `unavailable` in five cases:
    ///
    /// - The last attempt failed, or the time for a further attempt is over.
    /// - Apple asks for a longer wait than the next pause.
    /// - The request cannot be signed.
    /// - The call failed for a reason that a retry does not remove, for example because of a redirect.
    /// - The caller's task is cancelled.
    private func send(
        _ method: OutgoingRequest.Method, _ url: URL, as bundleID: String, body: [UInt8] = []
    ) async throws(AppStoreAPIFailure) -> OutgoingResponse {
        let deadline = clock().advanced(byMilliseconds: Self.totalMilliseconds)
        var reason = "busy"
        var retryAfter: Int?
        for attempt in 0..<Self.attemptsMax {
            /// The wait in seconds that this attempt's response asks for in Retry-After.
            var asked: Int?
            do {
                let answer = try await http.send(
                    try await signed(method, url, bundleID, body), timeoutMilliseconds: Self.timeoutMilliseconds,
                    answerBytesMax: Self.answerBytesMax)
                guard answer.status == 429 || answer.status >= 500 else { return answer }
                reason = "status_\(answer.status)"
                asked = seconds(answer.retryAfterSeconds)
                retryAfter = asked ?? retryAfter
            } catch let failure as OutgoingFailure {
                reason = failure.rawValue
                if [.cancelled, .redirected, .notTrusted, .answerTooLong].contains(failure) { break }
            } catch {
                throw .unavailable(retryAfterSeconds: 300, reason: "no_token")
            }
            guard attempt < Self.backoffMilliseconds.count else { break }
            // The random part of the pause prevents many requests from being retried at the same time.
            let pause = Self.backoffMilliseconds[attempt] + Int64.random(in: 0...200)
            if let asked, Int64(asked) * 1000 > pause { break }
            guard clock().advanced(byMilliseconds: pause) < deadline else { break }
            do { try await Task.sleep(for: .milliseconds(pause)) } catch { break }
        }
        throw .unavailable(retryAfterSeconds: retryAfter ?? 30, reason: reason)
    }

    private func signed(
        _ method: OutgoingRequest.Method, _ url: URL, _ bundleID: String, _ body: [UInt8]
    ) async throws -> OutgoingRequest {
        let text = try await token.text(
            for: bundleID, atSecondsSince1970: clock().millisecondsSinceEpoch / 1000)
        var fields = [("Authorization", "Bearer \(text.reveal())"), ("Accept", "application/json")]
        if method != .get { fields.append(("Content-Type", "application/json")) }
        return OutgoingRequest(method, url, fields: fields, body: body)
    }

    /// Converts a value of Retry-After to the number of seconds to wait, from 1 to 3600. Apple sends the time of the
    /// next attempt, in milliseconds since 1970. Other servers send a number of seconds.
    private func seconds(_ retryAfter: Int?) -> Int? {
        guard let retryAfter else { return nil }
        guard retryAfter > 1_000_000_000 else { return min(max(retryAfter, 1), 3600) }
        let milliseconds = Int64(retryAfter) - clock().millisecondsSinceEpoch
        return Int(min(max((milliseconds + 999) / 1000, 1), 3600))
    }

    private static func json(_ answer: OutgoingResponse) -> JSONValue? {
        try? JSONValue.parse(answer.body)
    }
}
