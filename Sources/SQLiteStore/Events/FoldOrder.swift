// The order of the fold as terms of an SQL ORDER BY. It equals the order that `<` defines for OrderedEvent, because
// SQLite sorts NULL before integers and compares texts by memcmp.
//
// For events that share a second, `second_place` contains the order that the fold has determined.

enum FoldOrder {
    /// Columns of `event` and `event_kind`.
    static let ascending = """
        corrected_at_ms, origin, sequence, second_place, lifecycle_rank, coalesce(event_id, idempotency_key),
        idempotency_key
        """
    static let descending = """
        corrected_at_ms DESC, origin DESC, sequence DESC, second_place DESC, lifecycle_rank DESC,
        coalesce(event_id, idempotency_key) DESC, idempotency_key DESC
        """
}
