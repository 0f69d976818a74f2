// Folds the events of one driver again and compares the results with the stored results, like DatabaseCheck of the
// SQLite store. The caller reads the events from the database, in parts.

import Engine
import JourneyModel

struct CheckedJourney {
    let driver: StoredDriver
    private(set) var problems: [String] = []
    private(set) var eventCount = 0
    private var journey: Journey
    private var previous: FoldedEvent?
    /// The events whose time is the same whole second, which is being checked; at most `searchedMax`. Events whose
    /// times have fractions of a second are not added.
    private var second: [FoldedEvent] = []
    private var journeyBeforeSecond = Journey()

    /// - Parameter base: the journey at the driver's floor (the time at which the fold begins); nil if the driver has
    ///   no floor.
    init(_ driver: StoredDriver, base: Journey?, numbers: CheckedNumbers) {
        self.driver = driver
        journey = base ?? Journey()
        problems += numbers.problems(of: driver)
        if (driver.floor == nil) != (base == nil) {
            problems.append("driver \(driver.id): it has a floor without its journey, or a journey without a floor")
        }
    }

    /// Folds the next events. All calls together must pass the driver's events in the stored order. Events before the
    /// driver's floor must be left out.
    mutating func take(_ part: [FoldedEvent]) {
        eventCount += part.count
        for event in part where problems.count < PostgresEventStore.problemsMax { take(event) }
    }

    /// Must be called once, after the last event.
    mutating func finish() {
        compareSecond()
        if problems.isEmpty { compareHead() }
    }

    private mutating func take(_ stored: FoldedEvent) {
        if let previous, !previous.event.sharesSecond(with: stored.event) {
            if !(previous.event < stored.event) { note(stored, "does not come after event \(previous.seq)") }
            compareSecond()
        }
        var untilThen = journey
        if let missing = untilThen.takeDeadline(before: stored.event) {
            note(stored, "comes after a deadline (\(missing.name.canonical)) whose expiry is not stored")
        }
        if stored.event.isWholeSecond {
            if second.isEmpty { journeyBeforeSecond = untilThen }
            // The fold orders only the first `searchedMax` events of a second.
            if second.count < OrderWithinSecond.searchedMax { second.append(stored) }
        }
        var folded = stored
        folded.apply(to: journey)
        if folded.verdict != stored.verdict {
            note(stored, "is stored as \(Self.text(stored.verdict)), the fold gives \(Self.text(folded.verdict))")
        }
        if folded.after != stored.after {
            note(
                stored,
                "is stored with \(stored.after.state) after it, the fold gives \(folded.after.state) or other deadlines"
            )
        }
        if folded.closedSessionID.map(TextKey.init) != stored.closedSessionID.map(TextKey.init) {
            note(stored, "is stored as closing another session than the fold gives")
        }
        // The fold continues from the stored journey. Otherwise one wrong event would be reported again at every later
        // event.
        journey = stored.after
        previous = stored
    }

    private mutating func compareSecond() {
        defer { second.removeAll(keepingCapacity: true) }
        guard second.count > 1, let first = second.first else { return }
        let arrived = second.sorted { $0.seq < $1.seq }
        let order = OrderWithinSecond.order(of: arrived.map(\.event), from: journeyBeforeSecond)
        guard order.map({ arrived[$0].seq }) != second.map(\.seq) else { return }
        note(first, "and others of its second are not in fold order")
    }

    private mutating func compareHead() {
        if driver.headSeq != previous?.seq || driver.headCorrectedAt != previous?.event.occurredAt {
            problems.append("driver \(driver.id): its row does not reference its last event")
        }
        if driver.journey != journey {
            problems.append("driver \(driver.id): its row differs from the fold of its events")
        }
    }

    private mutating func note(_ event: FoldedEvent, _ what: String) {
        problems.append("driver \(driver.id), event \(event.seq): \(what)")
    }

    private static func text(_ verdict: Verdict) -> String {
        verdict.transition.rawValue + (verdict.reason.map { " (\($0.rawValue))" } ?? "")
            + (verdict.implied.isEmpty ? "" : " after " + verdict.implied.names.joined(separator: ", "))
    }
}

/// The facts that a query found about the numbers (`event.seq`) and positions of one driver's events. The positions
/// must ascend with the numbers. The numbers must be 1, 2, 3 and so on up to `lastSeq`, with two exceptions:
///
/// - Retention may have deleted events.
/// - Events that were transferred from SQLite keep their numbers. SQLite numbers the events of all drivers together, so
///   one driver's numbers have gaps.
struct CheckedNumbers {
    /// The lowest number that occurs twice, or whose predecessor is missing. Nil if there is none.
    var gap: Int64?
    /// The number of the first event whose position is lower than that of the event before it. Nil if there is none.
    var misplaced: Int64?
    /// The number of the last event; 0 if there is none.
    var last: Int64

    func problems(of driver: StoredDriver) -> [String] {
        var problems: [String] = []
        if let gap { problems.append("driver \(driver.id), event \(gap): the event with the number before is missing") }
        if last > driver.lastSeq || last < driver.lastSeq && driver.floor == nil {
            problems.append(
                "driver \(driver.id): its last event has the number \(last), its row says \(driver.lastSeq)")
        }
        if let misplaced {
            problems.append(
                "driver \(driver.id), event \(misplaced): its position is lower than that of the event before it")
        }
        return problems
    }
}
