// Evicts windows and known keys without a timer and without a list of last uses, by two generations. A used entry
// moves to the young generation. When the young generation is full or old enough, it becomes the old one, and the
// previous old generation, whose entries were not used meanwhile, is dropped.

/// A dictionary of at most `2 * countMax` values. A value is kept for at least `ageMilliseconds` without use. If the
/// bound on the count is reached before that, the least recently used values are evicted.
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

    /// Changes the generations when due. Callers pass the time of every use, before the use. Values for which `isOwed`
    /// returns true are not evicted because of their age.
    mutating func age(at now: Int64, isOwed: (Value) -> Bool = { _ in false }) {
        guard let since = youngSince else {
            youngSince = now
            return
        }
        if young.count >= countMax {
            turn(at: now)
        } else if now - since >= ageMilliseconds {
            // After `2 * ageMilliseconds` without a change, the young values too are older than `ageMilliseconds`.
            let owed = old.filter { isOwed($0.value) }
            if now - since >= 2 * ageMilliseconds { young = young.filter { isOwed($0.value) } }
            turn(at: now)
            old.merge(owed) { newer, _ in newer }
        }
    }

    /// Makes the young generation the old one, and drops the previous old one.
    mutating func turn(at now: Int64) {
        old = young
        // Reserves space for as many values as before, because a growing table rehashes its content repeatedly.
        young = Dictionary(minimumCapacity: min(old.count, countMax))
        youngSince = now
    }

    /// Returns the value without counting as a use.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    /// Passes the value, or `initial` if there is none, to the closure. Afterwards the value is in the young
    /// generation, or is removed if `isKept` returns false.
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
