// The port to Apple's App Store Server API. Data that the API returns is signed, and is verified like signed data from
// any other source.

package import JourneyModel

package enum AppStoreAPIFailure: Error, Hashable, Sendable {
    /// The meaning depends on the call:
    ///
    /// - `signedTransaction`: no configured app has the transaction in an environment that this server accepts.
    /// - `notifications`: this server does not accept the environment of the request.
    /// - `sendConsumption`: this server does not accept the environment of the request, or Apple rejects the report.
    case notFound
    /// There is no usable response: Apple is unreachable, responds too slowly, or responds with an unexpected status
    /// such as 401 or 429. `reason` is one word for the log.
    case unavailable(retryAfterSeconds: Int, reason: String)
}

package protocol AppStoreAPI: Sendable {
    /// Returns the `signedTransactionInfo` of the transaction with this id (1 to 64 digits). Looks in the sandbox if
    /// production does not have the transaction.
    func signedTransaction(_ id: String) async throws(AppStoreAPIFailure) -> String

    /// Returns one page of the notifications that Apple sent, oldest first. Throws `unavailable` if Apple refuses the
    /// request, for example because it begins too far in the past.
    func notifications(_ request: NotificationHistoryRequest) async throws(AppStoreAPIFailure)
        -> NotificationHistoryPage

    /// Sends Apple the consumption report for `request`. It says that the product was delivered and that the customer
    /// consented to the report. Throws `notFound` if this server does not accept the environment of `request`, or if
    /// Apple rejects the report.
    func sendConsumption(of request: ConsumptionRequest) async throws(AppStoreAPIFailure)
}

package struct NotificationHistoryRequest: Hashable, Sendable {
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var from: Moment
    package var to: Moment
    /// Whether to request only the notifications that Apple could not deliver to this server.
    package var onlyFailures: Bool
    /// The `nextPageToken` of the previous page. Nil for the first page.
    package var pageToken: String?

    package init(
        environment: AppStoreEnvironment, bundleID: String, from: Moment, to: Moment, onlyFailures: Bool,
        pageToken: String? = nil
    ) {
        self.environment = environment
        self.bundleID = bundleID
        self.from = from
        self.to = to
        self.onlyFailures = onlyFailures
        self.pageToken = pageToken
    }
}

package struct NotificationHistoryPage: Hashable, Sendable {
    package var signedPayloads: [String]
    /// The token to request the next page with. Nil for the last page.
    package var nextPageToken: String?
    /// Whether Apple has a history of the app. False for the production environment before the app's first release.
    package var isAvailable: Bool

    package init(signedPayloads: [String], nextPageToken: String?, isAvailable: Bool = true) {
        self.signedPayloads = signedPayloads
        self.nextPageToken = nextPageToken
        self.isAvailable = isAvailable
    }
}
