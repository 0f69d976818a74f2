// The interface to HTTP: requests and outcomes are JourneyClient's.

package import JourneyClient

package protocol Transport: Sendable {
    /// Sends one request and waits for the whole response. Follows no redirect, which would send the token to another
    /// server.
    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome
}
