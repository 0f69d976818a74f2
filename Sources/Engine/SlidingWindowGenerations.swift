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

    /// Ages the whole when it is time; call it with the time of every use, before the use.
    mutating func age(at now: Int64) {
        guard let since = youngSince else {
            youngSince = now
            return
        }
        if young.count >= countMax {
            turn(at: now)
        } else if now - since >= ageMilliseconds {
            // After two ages without a call even the young ones have been unused for longer than one.
            if now - since >= 2 * ageMilliseconds { young = [:] }
            turn(at: now)
        }
    }

    /// What was young is old from now on; what was old is forgotten.
    mutating func turn(at now: Int64) {
        old = young
        young = [:]
        youngSince = now
    }

    /// Without counting as a use.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    /// Takes the value out; put it back with `put`, which makes it young.
    mutating func take(_ key: Key) -> Value? { young.removeValue(forKey: key) ?? old.removeValue(forKey: key) }

    mutating func put(_ value: Value, for key: Key) { young[key] = value }
}
