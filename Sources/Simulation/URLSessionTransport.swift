// A transport that uses Foundation's URLSession. A deployed server is usually reached over TLS, which Dwell's module
// Sockets lacks. URLSession comes with the toolchain, so the build needs no second event loop and no second TLS
// library.
//
// On Linux, URLSession uses libcurl. A binary with a static standard library does not contain libcurl, so the machine
// must have libcurl and CA certificates.

import Foundation
package import JourneyClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

package struct URLSessionTransport: Transport {
    private let base: String
    private let session: URLSession
    private let redirects = RefusedRedirects()

    /// Creates a transport to the server at `url`. Returns nil if `url` does not have the form described below. Also
    /// returns nil for an IPv6 address, which URLSession cannot reach on Linux.
    ///
    /// - Parameters:
    ///   - url: `http://` or `https://`, a host, and optionally the prefix of the server's paths.
    ///   - connectionsMax: the maximum number of connections open at once.
    package init?(url: String, timeoutSeconds: Int, connectionsMax: Int) {
        guard let components = URLComponents(string: url), let host = components.host, !host.isEmpty,
            !host.contains(":"), ["http", "https"].contains(components.scheme?.lowercased() ?? ""),
            components.user == nil, components.query == nil, components.fragment == nil
        else { return nil }
        base = url.hasSuffix("/") ? String(url.dropLast()) : url
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = Double(timeoutSeconds)
        configuration.timeoutIntervalForResource = Double(timeoutSeconds)
        configuration.httpMaximumConnectionsPerHost = connectionsMax
        configuration.httpShouldSetCookies = false
        configuration.urlCache = nil
        session = URLSession(configuration: configuration, delegate: redirects, delegateQueue: nil)
    }

    package func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome {
        guard let url = URL(string: base + request.path) else { return .noResponse }
        var carried = URLRequest(url: url)
        carried.httpMethod = request.method
        for field in request.fields { carried.setValue(field.value, forHTTPHeaderField: field.name) }
        if !request.body.isEmpty { carried.httpBody = Data(request.body) }
        guard let (body, response) = try? await session.data(for: carried, delegate: redirects),
            let http = response as? HTTPURLResponse
        else { return .noResponse }
        let fields = http.allHeaderFields.compactMap { name, value in
            (name as? String).map { HTTPExchange.Field($0, "\(value)") }
        }
        return .response(HTTPExchange.Response(status: http.statusCode, fields: fields, body: [UInt8](body)))
    }

    /// Cancels the requests in progress and closes all connections. No further request may be sent.
    package func close() {
        session.invalidateAndCancel()
    }
}

/// Makes URLSession return a redirect like any other response.
private final class RefusedRedirects: NSObject, URLSessionTaskDelegate {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
