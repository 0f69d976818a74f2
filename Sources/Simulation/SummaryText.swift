// The result of a run as text.

extension Summary {
    /// Returns the summary as lines, without a final line feed.
    package func text(seed: UInt64, seconds: Double) -> String {
        let played = Scenario.allCases.compactMap { scenario in drives[scenario].map { "\(scenario.rawValue) \($0)" } }
        var lines = [
            ("drives", played.joined(separator: ", ")),
            ("events", "\(events) stored, \(duplicates) duplicates recognized"),
            ("requests", "\(requests) in \(Self.decimal(seconds)) s"),
            (
                "latency",
                "p50 \(milliseconds(0.5)) ms, p99 \(milliseconds(0.99)) ms, max \(milliseconds(1)) ms"
            ),
            ("seed", "\(seed)"),
            ("divergences", "0"),
        ]
        if limited > 0 {
            lines.insert(("deferred", "\(limited) request\(limited == 1 ? "" : "s") by the rate limiter"), at: 3)
        }
        if repeatedRequests > 0 {
            lines.insert(("sent again", "\(repeatedRequests) request\(repeatedRequests == 1 ? "" : "s")"), at: 3)
        }
        return lines.map { name, value in
            name + String(repeating: " ", count: max(1, 13 - name.count)) + value
        }.joined(separator: "\n")
    }

    private func milliseconds(_ share: Double) -> String {
        let microseconds = share < 1 ? latencies.microseconds(at: share) : latencies.maxMicroseconds
        return Self.decimal(Double(microseconds) / 1000)
    }

    /// Formats a number with one digit after the point.
    private static func decimal(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
