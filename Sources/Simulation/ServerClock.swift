// An estimate of the server's clock, from which the times of the simulated events are computed.

import Foundation
package import JourneyModel

/// This machine's clock, corrected by the `Date` of one of the server's responses (RFC 9110, section 6.6.1).
package struct ServerClock: Sendable {
    private let local: @Sendable () -> Moment
    private let offsetMilliseconds: Int64

    /// The clock is corrected only if it differs from `Date` by at least this much. Because `Date` has whole seconds,
    /// and a response takes time, a smaller difference does not prove that the clock is wrong.
    private static let noticedMilliseconds: Int64 = 2_000

    package init(local: @escaping @Sendable () -> Moment = ServerClock.system, date: String? = nil) {
        self.local = local
        let offset = date.flatMap(Self.moment).map { $0.advanced(byMilliseconds: 500).milliseconds(since: local()) }
        offsetMilliseconds = offset.map { $0.magnitude < Self.noticedMilliseconds ? 0 : $0 } ?? 0
    }

    package var now: Moment { local().advanced(byMilliseconds: offsetMilliseconds) }

    package static let system: @Sendable () -> Moment = {
        Moment(millisecondsSinceEpoch: Int64(Date().timeIntervalSince1970 * 1000))
    }

    /// Parses a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    private static func moment(ofDate text: String) -> Moment? {
        let parts = text.split(separator: " ").map(String.init)
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        guard parts.count == 6, let month = months.firstIndex(of: parts[2]), parts[5] == "GMT" else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return RFC3339.moment(from: "\(parts[3])-\(number)-\(parts[1])T\(parts[4])Z")
    }
}
