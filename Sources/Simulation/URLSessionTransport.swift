// Transport over Foundation's URLSession. Chosen over our own Sockets because a deployed server is behind TLS, and
// over async-http-client because it comes with the toolchain: no second event loop, no second TLS library to build.
// On Linux it uses libcurl; a binary with a static standard library additionally needs libcurl and CA certificates
// installed.

import Foundation
package import JourneyClient

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

package struct URLSessionTransport: Transport {
    private let base: String
    private let session: URLSession
    private let redirects = RefusedRedirects()

    /// - Parameters:
    ///   - url: `http://` or `https://`, a host, and the path before the server's own, if any.
    ///   - connectionsMax: open at once.
    /// Nil for another URL.
    package init?(url: String, timeoutSeconds: Int, connectionsMax: Int) {
        guard let components = URLComponents(string: url), let host = components.host, !host.isEmpty,
            ["http", "https"].contains(components.scheme?.lowercased() ?? ""), components.user == nil,
            components.query == nil, components.fragment == nil
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

    /// No further requests; open connections are closed.
    package func close() {
        session.invalidateAndCancel()
    }
}

/// Returns a redirect like any other response.
private final class RefusedRedirects: NSObject, URLSessionTaskDelegate {
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }
}
