// Response times as a histogram of fixed size.

/// Counts response times in buckets. The bounds of a bucket differ by up to 1.6 %, so a time that is computed from the
/// buckets is up to 1.6 % too long.
package struct Latencies: Hashable, Sendable {
    /// The number of buckets between a time and its double. The buckets cover 40 doublings, from 1 to 2^40 microseconds
    /// (twelve days).
    private static let bucketsPerDoubling = 64
    private var counts: [Int] = Array(repeating: 0, count: 40 * Latencies.bucketsPerDoubling)
    package private(set) var count = 0
    /// The longest response time, exact.
    package private(set) var maxMicroseconds = 0

    package init() {}

    package mutating func add(microseconds: Int) {
        let microseconds = max(microseconds, 1)
        counts[Self.bucket(of: microseconds)] += 1
        count += 1
        maxMicroseconds = max(maxMicroseconds, microseconds)
    }

    /// Returns the time within which the fraction `share` (0 to 1) of the responses arrived. The time is up to 1.6 %
    /// too long. Returns 0 if there was no response.
    package func microseconds(at share: Double) -> Int {
        let wanted = Int((share * Double(count)).rounded(.up))
        guard wanted > 0 else { return 0 }
        var seen = 0
        for (bucket, count) in counts.enumerated() {
            seen += count
            if seen >= wanted { return min(Self.upperBound(of: bucket), maxMicroseconds) }
        }
        return maxMicroseconds
    }

    /// The highest set bit of `value` selects a doubling. The six bits below that bit select one of the doubling's 64
    /// buckets.
    private static func bucket(of value: Int) -> Int {
        let doubling = min(Int.bitWidth - 1 - value.leadingZeroBitCount, 39)
        let below = min(value, (1 << 40) - 1) - (1 << doubling)
        return doubling * bucketsPerDoubling + (below * bucketsPerDoubling) >> doubling
    }

    private static func upperBound(of bucket: Int) -> Int {
        let (doubling, index) = (bucket / bucketsPerDoubling, bucket % bucketsPerDoubling)
        let base = 1 << doubling
        return base + max(((index + 1) * base) / bucketsPerDoubling, 1) - 1
    }
}
