// The interface to an HTTP library, with the types of the module JourneyClient.

package import JourneyClient

package protocol Transport: Sendable {
    /// Sends one request and waits for the whole response. Must not follow redirects, because that would send the token
    /// to another server.
    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome
}
