/// How refolds and deletions share the writer with other work. One transaction continues refolds by at most
/// `rowsPerPiece` events, of one or several drivers, or one deletion by at most `rowsPerErasurePiece` rows; after that,
/// the writer is left to other work for `restFactor` times as long.
struct RefoldPace: Sendable {
    /// Events that a late event may refold in the transaction that stores it; an ordinary late event of a phone refolds
    /// fewer than ten.
    var rowsPerLateEvent = 50
    /// 1.5 ms of the writer's time, about as long as a commit.
    var rowsPerPiece = 500
    /// As long. Each row is rewritten, and its entry in the index of keys moves.
    var rowsPerErasurePiece = 100
    var restFactor = 12
    /// After this time without other work, refolds continue without a pause.
    var quiet = Duration.milliseconds(100)
}

/// What refolds may do in one transaction, and what they did. Each late event has its own `rowsPerLateEvent`,
/// independent of refolds that continue: a long refold does not delay late events of other drivers, and these do not
/// delay the refold.
struct RefoldBudget {
    var rowsPerLateEvent = Int.max
    /// Rows left for refolds that continue; at 0 or below they wait for another transaction.
    var rowsLeft = Int.max
    /// Nil: no refold continued.
    private(set) var time: Duration?
    /// Charges of late events whose refold is complete.
    var charges: [RefoldCharge] = []

    /// A piece of a deletion was done since `start`: no refold continues in this transaction, and no other deletion.
    mutating func spendAll(since start: ContinuousClock.Instant) {
        rowsLeft = 0
        time = (time ?? .zero) + (ContinuousClock.now - start)
    }

    /// `rowCount` events were refolded since `start`.
    mutating func spend(_ rowCount: Int, since start: ContinuousClock.Instant) {
        rowsLeft -= rowCount
        time = (time ?? .zero) + (ContinuousClock.now - start)
    }
}
