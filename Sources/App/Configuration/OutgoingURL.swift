// Parses the URLs that the server may call.

import Foundation

/// An https URL. An http URL is allowed only if it names this machine, because traffic within the machine cannot be
/// intercepted.
struct OutgoingURL: Hashable, Sendable, ExpressibleByStringLiteral {
    static let secureAllowed = "an https URL without user and fragment"
    static let allowed = "an https URL, or an http URL of localhost, 127.0.0.0/8 or [::1], without user and fragment"

    let url: URL

    var isSecure: Bool { url.scheme?.lowercased() == "https" }

    var text: String { url.absoluteString }

    /// The scheme, the host and the port. The path and the query are left out, because they may contain a secret.
    var origin: String {
        var components = URLComponents(url: url, resolvingAgainstBaseURL: false)
        components?.percentEncodedPath = ""
        components?.percentEncodedQuery = nil
        return components?.string ?? "set"
    }

    /// Parses a URL. Returns nil for a URL that is not allowed, and for text that is not a URL.
    init?(_ text: String) {
        guard text.utf8.count <= 2048, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let components = URLComponents(string: text), let url = components.url,
            let host = components.host, !host.isEmpty, components.user == nil, components.password == nil,
            components.fragment == nil, components.port.map({ (1...65_535).contains($0) }) ?? true
        else { return nil }
        switch components.scheme?.lowercased() {
        case "https": break
        case "http" where Self.isLoopback(host): break
        default: return nil
        }
        self.url = url
    }

    /// Creates the default of a variable from a literal. An invalid literal is not reported here, because a test parses
    /// every default.
    init(stringLiteral text: StaticString) {
        url = Self.init("\(text)")?.url ?? URL(filePath: "/")
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" || host == "[::1]" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { (1...3).contains($0.utf8.count) && UInt8($0) != nil }
    }
}
