/// The rules by which refolds and deletions share the writer with other work.
///
/// One transaction refolds at most `rowsPerPiece` events, not counting the refolds of its own late events. It also
/// continues at most one deletion, by at most `rowsPerErasurePiece` rows. Both limits may be exceeded a little, because
/// events of one millisecond are never split between transactions.
///
/// If there was no other work for the duration `quiet`, refolds and deletions continue without a pause. Otherwise they
/// all pause after each transaction that worked on one of them. The pause is `pauseFactor` times as long as the
/// transaction worked on them.
struct RefoldPace: Sendable {
    /// The maximum number of events that a late event refolds in the transaction that stores it. An ordinary late event
    /// from a phone causes fewer than ten events to be refolded.
    var rowsPerLateEvent = 50
    /// The maximum number of events that all other refolds of a transaction refold together. 500 events take 1.5 ms of
    /// the writer's time, about as long as a commit.
    var rowsPerPiece = 500
    /// The maximum number of rows of a deletion per transaction. 100 rows take as long as refolding 500 events: each
    /// row is rewritten, and the event's new key gets another place in `event_key`.
    var rowsPerErasurePiece = 100
    var pauseFactor = 12
    /// If there was no other work for this duration, refolds and deletions continue without a pause.
    var quiet = Duration.milliseconds(100)
}

/// What one transaction may refold, and how long its refolds took. A late event may refold `rowsPerLateEvent` events in
/// its own transaction. All other refolds share `rowsLeft`.
///
/// The two limits are independent, so long refolds and late events of other drivers do not delay each other.
struct RefoldBudget {
    var rowsPerLateEvent = Int.max
    /// How many more events this transaction may refold in the refolds that share this number. At 0 or below, these
    /// refolds wait for another transaction.
    var rowsLeft = Int.max
    /// How long the transaction worked on deletions, and on the refolds that share `rowsLeft`. Nil if it did no such
    /// work.
    private(set) var time: Duration?
    /// The completed refolds of late events, to be counted against the rate limits.
    var charges: [RefoldCharge] = []

    /// Records that a piece of a driver's deletion was done since `start`. After that, no refold and no other deletion
    /// may continue in this transaction.
    mutating func spendAll(since start: ContinuousClock.Instant) {
        rowsLeft = 0
        time = (time ?? .zero) + (ContinuousClock.now - start)
    }

    /// Records that `rowCount` events were refolded since `start`.
    mutating func spend(_ rowCount: Int, since start: ContinuousClock.Instant) {
        rowsLeft -= rowCount
        time = (time ?? .zero) + (ContinuousClock.now - start)
    }
}
