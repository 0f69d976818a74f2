// A cache that drops unused values. It keeps two generations of values: a young one and an old one. Each use of a value
// moves the value to the young generation.
//
// When the young generation is full or old enough, a rotation drops the old generation. The young generation then
// becomes the old one. The dropped values were not used since the previous rotation.

/// A dictionary that keeps at least the `generationCountMax` most recently used values, and at most twice as many.
/// Values that are exempt from expiry (`expire(at:isExempt:)`) may exceed this maximum. A call takes constant time on
/// average.
///
/// Unused values can also expire by age. If `ageMilliseconds` is set, the owner of the cache must call `expire(at:)`
/// with the current time before each use.
///
/// The type is public and inlinable, so that importing modules specialize it for their keys and values. The compiler
/// does not specialize `package` declarations across modules. Without specialization, calls would take three times as
/// long.
public struct TwoGenerationCache<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    @usableFromInline var young: [Key: Value] = [:]
    @usableFromInline var old: [Key: Value] = [:]
    /// The time from which the age of the young generation is measured, in milliseconds. It is nil in a new cache, and
    /// after a rotation that `expire(at:)` did not cause. The next call of `expire(at:)` sets it.
    @usableFromInline var youngSince: Int64?
    @usableFromInline let generationCountMax: Int
    @usableFromInline let ageMilliseconds: Int64

    /// - Parameter ageMilliseconds: the minimum time for which an unused value is kept. A full cache may drop the value
    ///   earlier.
    @inlinable
    public init(generationCountMax: Int, ageMilliseconds: Int64 = .max) {
        self.generationCountMax = max(1, generationCountMax)
        self.ageMilliseconds = ageMilliseconds
    }

    @inlinable public var count: Int { young.count + old.count }

    /// Returns the value of the key; nil on a cache miss. A hit counts as a use.
    @inlinable
    public mutating func find(_ key: Key) -> Value? {
        if let value = young[key] { return value }
        guard let value = old.removeValue(forKey: key) else { return nil }
        insert(value, for: key)
        return value
    }

    /// Returns the value without counting as a use.
    @inlinable
    public func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    @inlinable
    public mutating func insert(_ value: Value, for key: Key) {
        if young.count >= generationCountMax { rotate() }
        young[key] = value
    }

    /// Calls `body` with the stored value, or with `initial` if no value is stored. Then calls `isKept` with the
    /// changed value. If the answer is true, the value is kept in the young generation; if false, the value is removed.
    @inlinable
    public mutating func withValue<Answer>(
        _ key: Key, initial: Value, isKept: (Value) -> Bool, _ body: (inout Value) -> Answer
    ) -> Answer {
        if let index = young.index(forKey: key) {
            let answer = body(&young.values[index])
            if !isKept(young.values[index]) { young.remove(at: index) }
            return answer
        }
        var value = old.removeValue(forKey: key) ?? initial
        let answer = body(&value)
        if isKept(value) { insert(value, for: key) }
        return answer
    }

    @inlinable
    public mutating func remove(_ key: Key) {
        young[key] = nil
        old[key] = nil
    }

    @inlinable
    public mutating func removeAll() {
        young = [:]
        old = [:]
    }

    /// Drops every value that was not used for `2 * ageMilliseconds`, and may drop a value that was not used for
    /// `ageMilliseconds`. Keeps values for which `isExempt` returns true. Must be called with the current time before
    /// each use of the cache.
    @inlinable
    public mutating func expire(at now: Int64, isExempt: (Value) -> Bool = { _ in false }) {
        guard let since = youngSince else {
            youngSince = now
            return
        }
        guard now - since >= ageMilliseconds else { return }
        // If `since` is at least `2 * ageMilliseconds` ago, no young value was used in the last `ageMilliseconds`.
        // Before such a use, a call of this method would have rotated the generations. The young values have therefore
        // expired too.
        let exempt = old.filter { isExempt($0.value) }
        if now - since >= 2 * ageMilliseconds { young = young.filter { isExempt($0.value) } }
        rotate()
        youngSince = now
        old.merge(exempt) { newer, _ in newer }
    }

    /// Makes the young generation the old generation, and drops the previous old generation.
    @inlinable
    public mutating func rotate() {
        old = young
        // Reserve space for as many values as the previous young generation has. Otherwise the dictionary would grow in
        // steps, and rehash its content at each step.
        young = Dictionary(minimumCapacity: min(old.count, generationCountMax))
        youngSince = nil
    }
}
