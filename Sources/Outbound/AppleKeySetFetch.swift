// Fetches Apple's key set over HTTP.

package import Foundation
package import Identity
package import Logging
import StructuredLogging

package struct AppleKeySetFetch: AppleKeySetSource {
    /// Timeout of a fetch in milliseconds. It is short because a sign-in waits for the fetch.
    static let timeoutMilliseconds = 5_000
    /// Maximum bytes of a response. Apple's key set has about 2 KiB.
    static let answerBytesMax = 262_144

    private let http: OutgoingHTTP
    private let url: URL
    private let logger: Logger

    /// Creates the source. `url` is the URL in `APPLE_JWKS_URL`.
    package init(http: OutgoingHTTP, url: URL, logger: Logger) {
        self.http = http
        self.url = url
        self.logger = logger
    }

    package func fetch() async -> FetchedKeySet? {
        do throws(OutgoingFailure) {
            let answer = try await http.send(
                OutgoingRequest(.get, url, fields: [("Accept", "application/json")]),
                timeoutMilliseconds: Self.timeoutMilliseconds, answerBytesMax: Self.answerBytesMax)
            guard answer.status == 200 else {
                logger.warning("fetching Apple's key set failed", metadata: ["status": .number(answer.status)])
                return nil
            }
            return FetchedKeySet(
                body: answer.body, maxAgeSeconds: answer.cacheControl.flatMap(CacheControl.maxAgeSeconds))
        } catch {
            logger.warning("fetching Apple's key set failed", metadata: ["failure": "\(error.rawValue)"])
            return nil
        }
    }
}

enum CacheControl {
    /// Returns the value of the first `max-age` (RFC 9111, section 5.2.2.1) in seconds. Returns nil when there is no
    /// `max-age` or when its value is not a number. Values above a century are clamped to a century.
    static func maxAgeSeconds(_ field: String) -> Int? {
        for directive in field.split(separator: ",") {
            let parts = directive.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != " " && $0 != "\t" } }
            guard parts.count == 2, parts[0].lowercased() == "max-age" else { continue }
            let digits = parts[1].filter { $0 != "\"" }
            guard !digits.isEmpty, digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
            else { return nil }
            return min(Int(digits) ?? .max, 3_155_760_000)
        }
        return nil
    }
}
