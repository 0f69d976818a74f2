import JourneyModel

/// A model of the store: one driver's events in memory, each with its verdict and the journey after it. The real store
/// must behave like this model.
///
/// A late event is inserted at its place in the order, and the events after it are folded again. The refold stops after
/// an event whose stored journey does not change. When a deadline passes, the fold or the expiry worker stores an
/// expiry.
struct JourneyLog {
    struct Point {
        var event: OrderedEvent
        var verdict: Verdict
        var journey: Journey
        /// The event's number in the order of arrival.
        var arrival = 0
    }

    private(set) var points: [Point] = []
    /// The number of folded points, including repeated folds. Tests use it to check that a refold stops early.
    private(set) var foldedPoints = 0

    /// The journey after the last event.
    var journey: Journey { points.last?.journey ?? Journey() }

    private var arrivals = 0

    mutating func append(_ event: OrderedEvent) {
        if points.contains(where: { $0.event.origin == .client && $0.event.idempotencyKey == event.idempotencyKey }) {
            return
        }
        arrivals += 1
        let point = Point(event: event, verdict: .none, journey: Journey(), arrival: arrivals)
        let index = points.firstIndex { event.sharesSecond(with: $0.event) || event < $0.event } ?? points.endIndex
        points.insert(point, at: index)
        refold(from: index)
    }

    /// Stores the expiries that are due, as the expiry worker does.
    mutating func expire(before now: Moment) {
        var journey = journey
        while let deadline = journey.takeDeadline(before: now) {
            insert(
                .expiry(deadline.name, at: deadline.at, sessionID: journey.sessionID), after: journey, at: points.count)
        }
    }

    private mutating func refold(from first: Int) {
        var journey = first == 0 ? Journey() : points[first - 1].journey
        var index = first
        while index < points.count {
            while let deadline = journey.takeDeadline(before: points[index].event) {
                insert(.expiry(deadline.name, at: deadline.at, sessionID: journey.sessionID), after: journey, at: index)
                index += 1
            }
            let event = points[index].event
            let end = points[index...].firstIndex { !$0.event.sharesSecond(with: event) } ?? points.endIndex
            let second = index..<max(end, index + 1)
            let stored = points[second.last ?? index].journey
            let arrived = points[second].sorted { $0.arrival < $1.arrival }
            let order = OrderWithinSecond.order(of: arrived.map(\.event), from: journey)
            for (place, arrival) in zip(second, order) {
                points[place] = arrived[arrival]
                points[place].verdict = journey.apply(points[place].event)
                points[place].journey = journey
                foldedPoints += 1
            }
            if second.lowerBound > first, journey == stored { return }
            index = second.upperBound
        }
    }

    private mutating func insert(_ expiry: OrderedEvent, after journey: Journey, at index: Int) {
        points.insert(Point(event: expiry, verdict: .applied, journey: journey), at: index)
    }
}
