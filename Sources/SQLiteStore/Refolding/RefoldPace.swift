/// How refolds share the writer with other work. One transaction continues refolds by at most `rowsPerPiece` events, of one
/// driver or of several; then other work has the writer for `restFactor` times as long as that took.
struct RefoldPace {
    /// Events that a late event may refold in the transaction that stores it; an ordinary late event of a phone refolds
    /// fewer than ten.
    var rowsPerLateEvent = 50
    /// 1.5 ms of the writer, about as long as a commit.
    var rowsPerPiece = 500
    var restFactor = 12
    /// After this time without other work there is no rest.
    var quiet = Duration.milliseconds(100)
}

/// What refolds may do in one transaction, and what they did. Late events have `rowsPerLateEvent` each, whatever refolds that
/// continue have used: so a long refold does not hold up the late events of others, nor they the refold.
struct RefoldBudget {
    var rowsPerLateEvent = Int.max
    /// For refolds that continue; at 0 or below they wait for another transaction.
    var rowsLeft = Int.max
    /// Nil: no refold continued.
    private(set) var time: Duration?
    /// For late events whose refold is complete.
    var charges: [RefoldCharge] = []

    /// `rowCount` events were refolded since `start`.
    mutating func spend(_ rowCount: Int, since start: ContinuousClock.Instant) {
        rowsLeft -= rowCount
        time = (time ?? .zero) + (ContinuousClock.now - start)
    }
}
