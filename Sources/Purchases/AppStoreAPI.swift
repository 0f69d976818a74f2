// The port to Apple's App Store Server API. The signed data that it returns is verified like data from any other
// source.

package import JourneyModel

package enum AppStoreAPIFailure: Error, Hashable, Sendable {
    /// No environment of any app has this transaction.
    case notFound
    /// Apple is unreachable, too slow, or limits requests. `reason` is one word for the log.
    case unavailable(retryAfterSeconds: Int, reason: String)
}

package protocol AppStoreAPI: Sendable {
    /// Returns the `signedTransactionInfo` of a transaction id (1 to 64 digits): from production, or from the sandbox
    /// if production does not have the transaction.
    func signedTransaction(_ id: String) async throws(AppStoreAPIFailure) -> String

    /// Returns one page of the notifications that Apple sent, oldest first.
    func notifications(_ request: NotificationHistoryRequest) async throws(AppStoreAPIFailure)
        -> NotificationHistoryPage

    /// Tells Apple that the product was delivered, and that the customer consented to this report. Throws `notFound`
    /// when Apple rejects the report.
    func sendConsumption(of request: ConsumptionRequest) async throws(AppStoreAPIFailure)
}

package struct NotificationHistoryRequest: Hashable, Sendable {
    package var environment: AppStoreEnvironment
    package var bundleID: String
    package var from: Moment
    package var to: Moment
    /// Whether to return only notifications that this server did not accept.
    package var onlyFailures: Bool
    /// The token from the previous page.
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
    /// Nil for the last page.
    package var nextPageToken: String?

    package init(signedPayloads: [String], nextPageToken: String?) {
        self.signedPayloads = signedPayloads
        self.nextPageToken = nextPageToken
    }
}
