// Evicts windows and known keys without a timer and without a list of last uses: two generations. A used entry
// moves to the young one; when that is full or old enough it becomes the old one, and the previous old one, unused
// since, is dropped.

/// A dictionary of at most `2 * countMax` values. A value survives at least one whole `ageMilliseconds` without
/// use, unless the bound on the count is reached first: then the least recently used are evicted.
struct SlidingWindowGenerations<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]
    private var youngSince: Int64?
    private let countMax: Int
    private let ageMilliseconds: Int64

    init(countMax: Int, ageMilliseconds: Int64) {
        self.countMax = max(countMax, 1)
        self.ageMilliseconds = ageMilliseconds
    }

    var count: Int { young.count + old.count }

    /// Changes the generations when due; call it with the time of every use, before the use. Values for which
    /// `isOwed` returns true are not evicted because of their age.
    mutating func age(at now: Int64, isOwed: (Value) -> Bool = { _ in false }) {
        guard let since = youngSince else {
            youngSince = now
            return
        }
        if young.count >= countMax {
            turn(at: now)
        } else if now - since >= ageMilliseconds {
            // After two ages without a call even the young values have been unused for longer than one.
            let owed = old.filter { isOwed($0.value) }
            if now - since >= 2 * ageMilliseconds { young = young.filter { isOwed($0.value) } }
            turn(at: now)
            old.merge(owed) { newer, _ in newer }
        }
    }

    /// The young generation becomes the old one; the old one is dropped.
    mutating func turn(at now: Int64) {
        old = young
        // Probably as many as before: a growing table rehashes its content repeatedly.
        young = Dictionary(minimumCapacity: min(old.count, countMax))
        youngSince = now
    }

    /// Does not count as a use.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    /// Passes the value, or the initial one, to the closure. It is young afterwards, or removed if `isKept` returns
    /// false.
    mutating func withValue<Answer>(
        _ key: Key, initial: Value, isKept: (Value) -> Bool, _ body: (inout Value) -> Answer
    ) -> Answer {
        if let place = young.index(forKey: key) {
            let answer = body(&young.values[place])
            if !isKept(young.values[place]) { young.remove(at: place) }
            return answer
        }
        var value = old.removeValue(forKey: key) ?? initial
        let answer = body(&value)
        if isKept(value) { young[key] = value }
        return answer
    }

    mutating func put(_ value: Value, for key: Key) { young[key] = value }
}
