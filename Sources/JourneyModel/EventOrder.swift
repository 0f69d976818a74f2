// The contract's total order of a driver's events (section 1, "The order"). The comparison uses only stored members of
// the events, so the order of arrival has no effect.

import Foundation

extension OrderedEvent: Comparable {
    /// Compares these criteria, in turn:
    ///
    /// - corrected time
    /// - origin: an event of a client comes before an expiry event of the server
    /// - `sequence`: an event without a `sequence` comes before an event with one; of two sequences, the lower one
    ///   comes first
    /// - precision: a time that was sent with a fraction of a second comes before one without
    /// - lifecycle rank
    /// - event_id as bytes
    /// - idempotency key as bytes
    ///
    /// If `sharesSecond` is true for two events, OrderWithinSecond.swift decides their final order, not this operator.
    ///
    /// No two stored events of one driver are equal in this order, because their idempotency keys differ.
    public static func < (earlier: OrderedEvent, later: OrderedEvent) -> Bool {
        if earlier.occurredAt != later.occurredAt { return earlier.occurredAt < later.occurredAt }
        if earlier.origin != later.origin { return earlier.origin.rawValue < later.origin.rawValue }
        if earlier.sequence != later.sequence { return precedes(earlier.sequence, later.sequence) }
        if earlier.isWholeSecond != later.isWholeSecond { return later.isWholeSecond }
        return earlier.precedesByRank(later)
    }

    /// Returns whether both events have the same time in whole seconds, the same origin, and the same sequence or none.
    /// The order of such events depends on the journey before them.
    public func sharesSecond(with other: OrderedEvent) -> Bool {
        isWholeSecond && other.isWholeSecond && occurredAt == other.occurredAt && origin == other.origin
            && sequence == other.sequence
    }

    func precedesByRank(_ later: OrderedEvent) -> Bool {
        let earlier = self
        let (earlierRank, laterRank) = (earlier.name.lifecycleRank, later.name.lifecycleRank)
        if earlierRank != laterRank { return earlierRank < laterRank }
        if !haveSameBytes(earlier.eventID, later.eventID) {
            return earlier.eventID.utf8.lexicographicallyPrecedes(later.eventID.utf8)
        }
        return earlier.idempotencyKey.utf8.lexicographicallyPrecedes(later.idempotencyKey.utf8)
    }

    /// An absent sequence comes before every present sequence. If the ranks decided between an event with a sequence
    /// and one without, the order would not be transitive. For example, an event without a sequence could then come
    /// after sequence 2 but before sequence 1.
    private static func precedes(_ earlier: Int64?, _ later: Int64?) -> Bool {
        guard let later else { return false }
        guard let earlier else { return true }
        return earlier < later
    }
}

/// Returns whether both texts have the same bytes. `==` on String also treats canonically equivalent texts as equal,
/// but a database does not.
package func haveSameBytes(_ one: String, _ other: String) -> Bool {
    guard one.utf8.count == other.utf8.count else { return false }
    var (one, other) = (one, other)
    return one.withUTF8 { one in
        other.withUTF8 { other in
            guard let start = one.baseAddress, let otherStart = other.baseAddress else { return true }
            return memcmp(start, otherStart, one.count) == 0
        }
    }
}

func haveSameBytes(_ one: String?, _ other: String?) -> Bool {
    switch (one, other) {
    case (nil, nil): true
    case (let one?, let other?): haveSameBytes(one, other)
    default: false
    }
}
