// The events of a batch that exceed the rate limit. They wait until another event of the batch is refunded. A refunded
// event no longer counts against the rate limit, so a waiting event can take its place.
//
// This file only manages the lines (queues) of waiting events. Its caller calls the rate limiter and the store.

import RateLimiting

/// The waiting events of a batch, in one line (queue) for each rate limit. Events with the same idempotency key share
/// one place in the line, because the rate limiter charges only one of them.
struct WaitingEvents {
    private struct Place {
        var limitClass: RateLimitClass
        var idempotencyKey: TextHash
        /// Indexes in the batch, in ascending order.
        var events: [Int]
    }

    /// The idempotency keys of all events of the batch.
    private let keys: [TextHash]
    /// The idempotency keys of the events that are already on disk. An event with one of these keys does not count
    /// against the rate limit.
    private var storedKeys: Set<TextHash> = []
    /// Each array holds its queue in reverse: the last element is the front of the queue and is removed in constant
    /// time.
    private var lines: [RateLimitClass: [Place]] = [:]
    /// The places that the most recent `take` removed.
    private var taken: [Place] = []

    /// Puts the refused events into lines. `claims` and `verdicts` have one element for each event of the batch.
    init(_ claims: [AdmissionClaim], _ verdicts: [AdmissionDecision.Verdict]) {
        keys = claims.map { TextHash($0.idempotencyKey) }
        var places: [Place] = []
        var numbers: [RateLimitClass: [TextHash: Int]] = [:]
        for (event, claim) in claims.enumerated() where verdicts[event] == .refused {
            if let number = numbers[claim.limitClass]?[keys[event]] {
                places[number].events.append(event)
            } else {
                numbers[claim.limitClass, default: [:]][keys[event]] = places.count
                places.append(Place(limitClass: claim.limitClass, idempotencyKey: keys[event], events: [event]))
            }
        }
        for place in places.reversed() { lines[place.limitClass, default: []].append(place) }
    }

    var events: [(event: Int, limitClass: RateLimitClass)] {
        lines.values.joined().flatMap { place in place.events.map { ($0, place.limitClass) } }
    }

    /// Removes places from the front of the lines. `open` has the number of unused refunds for each line. Each removed
    /// place uses one refund, except a place whose event is on disk.
    ///
    /// Returns the indexes of the events in these places, in ascending order. The caller must let the rate limiter
    /// decide on these events, and then call `settle`.
    mutating func take(_ open: [RateLimitClass: Int]) -> [Int] {
        taken = []
        for (limitClass, count) in open {
            var left = count
            while left > 0, let place = lines[limitClass]?.popLast() {
                taken.append(place)
                if !storedKeys.contains(place.idempotencyKey) { left -= 1 }
            }
        }
        return taken.flatMap(\.events).sorted()
    }

    mutating func recordStored(_ event: Int) { storedKeys.insert(keys[event]) }

    /// Takes the rate limiter's verdicts on the events that `take` returned. If an event is refused again, another
    /// request has used up the refund. The event then goes back to the front of its line.
    ///
    /// Returns how many refunds are unused. `take` used one refund for each place, except for a place whose event is on
    /// disk. If all events of a place are `.known`, none of them was charged, so the refund of this place is unused
    /// again.
    mutating func settle(_ verdicts: [Int: AdmissionDecision.Verdict]) -> [RateLimitClass: Int] {
        var open: [RateLimitClass: Int] = [:]
        for var place in taken.reversed() {
            let isAdmitted = place.events.contains { verdicts[$0] == .admitted }
            place.events.removeAll { verdicts[$0] != .refused }
            if !place.events.isEmpty {
                lines[place.limitClass]?.append(place)
            } else if !isAdmitted, !storedKeys.contains(place.idempotencyKey) {
                open[place.limitClass, default: 0] += 1
            }
        }
        taken = []
        return open
    }
}
