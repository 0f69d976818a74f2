// The charges of one driver in one rate limit class (contract, section 4). Each charge has a time and the hash of an
// idempotency key.
//
// The window is exact: a charge made at `t` counts until `t + window` and not a millisecond longer. If two events have
// idempotency keys with the same hash, only one event is charged.

/// A sliding window log. All times are milliseconds of the same clock, and need not ascend from call to call.
package struct SlidingWindowLog: Sendable {
    /// A log with more charges than this builds a hash table of its keys, which takes 7 KB or more. A smaller log is
    /// searched linearly. A driver with 60 events a minute never needs the table.
    private static let linearSearchMax = 128

    private struct Charge {
        var time: Int64
        var key: TextHash
    }

    /// The charges, sorted by time. Charges at indexes below `first` have expired.
    private var charges: [Charge] = []
    private var first = 0
    /// The time of each charge, by key. Nil until the number of charges first exceeds `linearSearchMax`.
    private var times: [TextHash: Int64]?

    package init() {}

    /// The number of charges: at most the limit, plus forced charges.
    package var count: Int { charges.count - first }

    package func contains(_ key: TextHash) -> Bool {
        if let times { times[key] != nil } else { index(of: key) != nil }
    }

    /// The time of the oldest charge; nil when there is none.
    package var oldestTime: Int64? { first < charges.count ? charges[first].time : nil }

    /// The latest time of a charge; nil without charges. It may be in the future, because the rate limiter gives future
    /// times to charges beyond the limit.
    package var latestTime: Int64? { first < charges.count ? charges[charges.count - 1].time : nil }

    /// Returns the time of the charge at `index`; nil beyond the last charge. The oldest charge has index 0.
    package func time(at index: Int) -> Int64? {
        first + index < charges.count ? charges[first + index].time : nil
    }

    /// Removes every charge made at `time` or before. Amortised O(1) per charge.
    package mutating func removeCharges(through time: Int64) {
        while first < charges.count, charges[first].time <= time {
            times?[charges[first].key] = nil
            first += 1
        }
        compact()
    }

    /// Charges the key at `time`. If the key is already charged, returns false and changes nothing. O(1) if no earlier
    /// call passed a later time.
    @discardableResult
    package mutating func insert(_ key: TextHash, at time: Int64) -> Bool {
        guard !contains(key) else { return false }
        var index = charges.count
        while index > first, charges[index - 1].time > time { index -= 1 }
        charges.insert(Charge(time: time, key: key), at: index)
        times?[key] = time
        if times == nil, count > Self.linearSearchMax {
            times = Dictionary(charges[first...].map { ($0.key, $0.time) }, uniquingKeysWith: { one, _ in one })
        }
        return true
    }

    /// Removes the charge of a key. Returns false if the key is not charged.
    @discardableResult
    package mutating func remove(_ key: TextHash) -> Bool {
        var start = first
        if times != nil {
            guard let time = times?.removeValue(forKey: key) else { return false }
            start = firstPlace(at: time)
        }
        guard let index = index(of: key, from: start) else { return false }
        charges.remove(at: index)
        return true
    }

    package mutating func removeOldest() {
        guard first < charges.count else { return }
        times?[charges[first].key] = nil
        first += 1
        compact()
    }

    /// Returns the number of charges after that time. O(log n).
    package func count(after time: Int64) -> Int {
        let (next, overflow) = time.addingReportingOverflow(1)
        return overflow ? 0 : charges.count - firstPlace(at: next)
    }

    private func index(of key: TextHash, from start: Int? = nil) -> Int? {
        var index = start ?? first
        while index < charges.count {
            if charges[index].key == key { return index }
            index += 1
        }
        return nil
    }

    /// Returns the index of the first charge made at `time` or later.
    private func firstPlace(at time: Int64) -> Int {
        var low = first
        var high = charges.count
        while low < high {
            let middle = low + (high - low) / 2
            if charges[middle].time < time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Removes the expired charges only when they are at least half of the array. On average, each charge is therefore
    /// moved at most once.
    private mutating func compact() {
        guard first > 0, first * 2 >= charges.count else { return }
        charges.removeFirst(first)
        first = 0
    }
}
