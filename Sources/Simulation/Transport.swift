// The seam to HTTP: requests and outcomes are JourneyClient's.

package import JourneyClient

package protocol Transport: Sendable {
    /// Carries out one request and waits for the whole answer. Follows no redirect, which would carry the token
    /// elsewhere.
    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome
}
