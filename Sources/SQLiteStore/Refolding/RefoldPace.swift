/// The rules by which refolds and deletions share the writer with other work.
///
/// In one transaction, each new late event may refold `rowsPerLateEvent` events. All other refolds together may refold
/// `rowsPerPiece` events, and one deletion may rewrite `rowsPerErasurePiece` rows. Events with the same time are never
/// split, so these numbers may be exceeded a little.
///
/// After a transaction that worked on a refold or deletion, all refolds and deletions pause. The pause is `pauseFactor`
/// times as long as that work took. There is no pause if the writer has done nothing else for the duration `quiet`.
struct RefoldPace: Sendable {
    /// The maximum number of events that a late event refolds in the transaction that stores it. An ordinary late event
    /// from a phone needs fewer than ten.
    var rowsPerLateEvent = 50
    /// The maximum number of events that all other refolds share in one transaction (`RefoldBudget.rowsLeft`).
    /// Refolding 500 events takes 1.5 ms of the writer's time, about as long as a commit.
    var rowsPerPiece = 500
    /// The maximum number of rows that a deletion rewrites per transaction. Rewriting 100 rows takes as long as
    /// refolding 500 events, because each row's new key gets another place in `event_key`.
    var rowsPerErasurePiece = 100
    var pauseFactor = 12
    var quiet = Duration.milliseconds(100)
}

/// What one transaction may refold, and how long its refolds took. A late event may refold `rowsPerLateEvent` events in
/// the transaction that stores it. All other refolds share `rowsLeft`.
///
/// The limits are separate, so that long refolds do not delay late events of other drivers. Late events do not delay
/// long refolds either.
struct RefoldBudget {
    var rowsPerLateEvent = Int.max
    /// The number of events that all other refolds together may still refold. At 0 or below, they wait for another
    /// transaction.
    var rowsLeft = Int.max
    /// How long the transaction worked on deletions and on refolds that share `rowsLeft`; nil if it did not.
    private(set) var time: Duration?
    var charges: [RefoldCharge] = []

    /// Records the time of a deletion's piece that began at `start`. No refold and no other deletion may then continue
    /// in this transaction.
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
