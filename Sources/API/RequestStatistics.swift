// Counts the requests of the last five minutes for the operator page, by status and by duration. Each bucket covers ten
// seconds. The size of a bucket is fixed: it has 500 counts for statuses and 64 for durations.

import HTTP1
package import HTTPServer
import Synchronization

package final class RequestStatistics: RequestObserver {
    package static let bucketSeconds: Int64 = 10
    /// The number of buckets. Together they cover five minutes.
    static let bucketCount = 30

    private struct Bucket: Sendable {
        /// The start of the bucket, as the number of ten-second spans since 1970. A bucket from more than five minutes
        /// ago counts as empty.
        var span: Int64 = -1
        /// The number of requests by status. Index 0 is status 100.
        var statuses = [UInt32](repeating: 0, count: 500)
        var durations = [Int](repeating: 0, count: 64)
    }

    private let buckets = Mutex([Bucket](repeating: Bucket(), count: bucketCount))
    /// A clock in seconds since 1970.
    private let clock: @Sendable () -> Int64

    package init(clock: @escaping @Sendable () -> Int64) {
        self.clock = clock
    }

    package func answered(_ request: CompletedRequest) {
        let span = clock() / Self.bucketSeconds
        // The duration of a stream is not counted, because a stream lasts as long as the client listens.
        let range = request.isStream ? nil : Self.range(microseconds: request.durationNanoseconds / 1000)
        buckets.withLock { buckets in
            let index = Int(((span % Int64(Self.bucketCount)) + Int64(Self.bucketCount)) % Int64(Self.bucketCount))
            if buckets[index].span != span { buckets[index] = Bucket(span: span) }
            let status = request.status.code - 100
            if buckets[index].statuses.indices.contains(status) { buckets[index].statuses[status] &+= 1 }
            if let range { buckets[index].durations[range] += 1 }
        }
    }

    /// Returns the index of the range that contains a duration. Each power of two has two ranges, so a range's longest
    /// duration is at most 1.5 times its shortest. The last range also contains all longer durations.
    static func range(microseconds: UInt64) -> Int {
        guard microseconds > 1 else { return 0 }
        let power = 63 - microseconds.leadingZeroBitCount
        let upperHalf = (microseconds >> UInt64(power - 1)) & 1
        return min(2 * power + Int(upperHalf), 63)
    }

    /// Returns the longest duration in a range.
    static func microseconds(ofRange range: Int) -> Int64 {
        guard range > 1 else { return 1 }
        let (power, upperHalf) = (range / 2, range % 2)
        return upperHalf == 1 ? (1 << (power + 1)) - 1 : (1 << power) + (1 << (power - 1)) - 1
    }

    struct Sum: Hashable {
        var seconds: Int64 = 0
        var statuses: [Int: Int] = [:]
        var count = 0
        var p50Microseconds: Int64?
        var p90Microseconds: Int64?
        var p99Microseconds: Int64?
    }

    /// Returns the counts of the last five minutes, added up.
    func sum() -> Sum {
        let now = clock() / Self.bucketSeconds
        let recent = buckets.withLock { $0 }.filter { $0.span > now - Int64(Self.bucketCount) && $0.span <= now }
        var durations = [Int](repeating: 0, count: 64)
        var sum = Sum()
        for bucket in recent {
            for (status, count) in bucket.statuses.enumerated() where count > 0 {
                sum.statuses[status + 100, default: 0] += Int(count)
            }
            for (range, count) in bucket.durations.enumerated() { durations[range] += count }
        }
        sum.seconds = Int64(Self.bucketCount) * Self.bucketSeconds
        sum.count = sum.statuses.values.reduce(0, +)
        sum.p50Microseconds = Self.quantile(0.5, of: durations)
        sum.p90Microseconds = Self.quantile(0.9, of: durations)
        sum.p99Microseconds = Self.quantile(0.99, of: durations)
        return sum
    }

    private static func quantile(_ part: Double, of durations: [Int]) -> Int64? {
        let count = durations.reduce(0, +)
        guard count > 0 else { return nil }
        var left = Int((Double(count) * part).rounded(.up))
        for (range, count) in durations.enumerated() {
            left -= count
            if left <= 0 { return microseconds(ofRange: range) }
        }
        return nil
    }
}

extension CompletedRequest {
    fileprivate var isStream: Bool { routeTemplate?.hasSuffix("/stream") ?? false }
}
