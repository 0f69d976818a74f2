/// A dictionary that holds the most recently used values, between half of `countMax` and `countMax` of them. When the
/// young generation is full, an insertion turns it into the old generation and drops the previous old one, so every
/// call takes constant time.
package struct TwoGenerationCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]
    private let generationCountMax: Int

    package init(countMax: Int) {
        generationCountMax = max(1, countMax / 2)
    }

    package var count: Int { young.count + old.count }

    /// Returns nil on a cache miss. A hit counts as a use.
    package mutating func find(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    package mutating func insert(_ value: Value, for key: Key) {
        if young.count >= generationCountMax {
            old = young
            young = [:]
        }
        young[key] = value
    }

    package mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    package mutating func removeAll() {
        young = [:]
        old = [:]
    }
}
