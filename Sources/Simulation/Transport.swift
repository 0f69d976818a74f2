// The interface to an HTTP library. The types of requests and outcomes are those of the module JourneyClient.

package import JourneyClient

package protocol Transport: Sendable {
    /// Sends one request and waits for the whole response. Does not follow redirects, because a redirected request
    /// would send the token to another server.
    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome
}
