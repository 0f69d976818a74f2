// How windows and known keys are forgotten without a timer and without a list of who was used when: two
// generations. What is used moves to the young one; when that is full or old enough it becomes the old one,
// and what was old, and not used since, is gone.

/// A dictionary of at most `2 * countMax` values. A value survives at least one whole `ageMilliseconds` without
/// being used, unless the bound on the count is reached first: then the longest unused are forgotten.
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

    /// Ages the whole when it is time; call it with the time of every use, before the use. Values for which `isOwed` is
    /// true are not forgotten for their age.
    mutating func age(at now: Int64, isOwed: (Value) -> Bool = { _ in false }) {
        guard let since = youngSince else {
            youngSince = now
            return
        }
        if young.count >= countMax {
            turn(at: now)
        } else if now - since >= ageMilliseconds {
            // After two ages without a call even the young ones have been unused for longer than one.
            let owed = old.filter { isOwed($0.value) }
            if now - since >= 2 * ageMilliseconds { young = young.filter { isOwed($0.value) } }
            turn(at: now)
            old.merge(owed) { newer, _ in newer }
        }
    }

    /// What was young is old from now on; what was old is forgotten.
    mutating func turn(at now: Int64) {
        old = young
        // As many as before, in all likelihood: a table that grows hashes all it has again and again.
        young = Dictionary(minimumCapacity: min(old.count, countMax))
        youngSince = now
    }

    /// Without counting as a use.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    /// Lends the value, or the initial one, to the closure. It is young then, or gone if it is not worth being kept.
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
