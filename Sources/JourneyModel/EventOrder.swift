// The contract's total order of a driver's events (section 1, "The order"). Compares stored members only, never the
// order of arrival.

import Foundation

extension OrderedEvent: Comparable {
    /// Compares by corrected time; the server's expiries after every client event of their millisecond; `sequence`,
    /// an absent one before every present one; events with a fraction of a second before those without; lifecycle
    /// rank; event_id as bytes; idempotency key as bytes. The last three do not decide between two events that
    /// `sharesSecond`.
    ///
    /// Two stored events of one driver never tie: their idempotency keys differ.
    public static func < (earlier: OrderedEvent, later: OrderedEvent) -> Bool {
        if earlier.occurredAt != later.occurredAt { return earlier.occurredAt < later.occurredAt }
        if earlier.origin != later.origin { return earlier.origin.rawValue < later.origin.rawValue }
        if earlier.sequence != later.sequence { return precedes(earlier.sequence, later.sequence) }
        if earlier.isWholeSecond != later.isWholeSecond { return later.isWholeSecond }
        return earlier.precedesByRank(later)
    }

    /// Whether both events came without a fraction of a second, at one time and with one sequence. The journey
    /// before them then decides which is first.
    public func sharesSecond(with other: OrderedEvent) -> Bool {
        isWholeSecond && other.isWholeSecond && occurredAt == other.occurredAt && origin == other.origin
            && sequence == other.sequence
    }

    /// Lifecycle rank; event_id as bytes; idempotency key as bytes.
    func precedesByRank(_ later: OrderedEvent) -> Bool {
        let earlier = self
        let (earlierRank, laterRank) = (earlier.name.lifecycleRank, later.name.lifecycleRank)
        if earlierRank != laterRank { return earlierRank < laterRank }
        if !haveSameBytes(earlier.eventID, later.eventID) {
            return earlier.eventID.utf8.lexicographicallyPrecedes(later.eventID.utf8)
        }
        return earlier.idempotencyKey.utf8.lexicographicallyPrecedes(later.idempotencyKey.utf8)
    }

    /// Comparing sequences only where both events have one would not be transitive: A(1) < B(2), and an event C
    /// without one could be placed between them by its rank from either side.
    private static func precedes(_ earlier: Int64?, _ later: Int64?) -> Bool {
        guard let later else { return false }
        guard let earlier else { return true }
        return earlier < later
    }
}

/// Byte equality. `==` on String treats canonically equivalent texts as equal, which a database does not.
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
