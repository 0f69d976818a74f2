// The events of a batch that are over the rate limit. They wait until other events of the batch are refunded, that is,
// no longer count against the rate limit.
//
// This file only manages the waiting events. It does not decide on events, charge them or store them.

import RateLimiting

/// The waiting events of a batch, in one line (queue) for each rate limit. Events with the same idempotency key share a
/// place in the line. Once one of them is charged, the rate limiter admits the others without a charge.
struct WaitingEvents {
    private struct Place {
        var limitClass: RateLimitClass
        var idempotencyKey: TextHash
        /// Indexes in the batch, in ascending order.
        var events: [Int]
    }

    /// The idempotency keys of all events of the batch.
    private let keys: [TextHash]
    /// The idempotency keys of those events of the batch that are already on disk. An event with one of these keys does
    /// not count against the rate limit.
    private var storedKeys: Set<TextHash> = []
    /// The lines of waiting events. Each array holds its line in reverse, so that the place at the front is the last
    /// element and is removed in constant time.
    private var lines: [RateLimitClass: [Place]] = [:]
    /// The places that `take` removed last.
    private var taken: [Place] = []

    /// Creates the lines of the refused events. `claims` and `verdicts` have one element for each event of the batch.
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

    /// The events that still wait.
    var events: [(event: Int, limitClass: RateLimitClass)] {
        lines.values.joined().flatMap { place in place.events.map { ($0, place.limitClass) } }
    }

    /// Removes places from the front of each line. `open` states the number of unused refunds for each line, and each
    /// refund removes one place. A place whose event is already on disk uses up no refund, so it is removed in
    /// addition.
    ///
    /// Returns the events of the removed places in ascending order. The caller must let the rate limiter decide on
    /// these events, and then call `settle`.
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

    /// Records that an event of the batch is on disk.
    mutating func recordStored(_ event: Int) { storedKeys.insert(keys[event]) }

    /// Processes the rate limiter's verdicts on the events that `take` returned. An event that is refused again goes
    /// back to the front of its line, because another request has used up the refund.
    ///
    /// Returns how many refunds are still unused. A place has not used its refund if all its events are `.known`,
    /// because none of them was charged. A place whose event is already on disk had no refund.
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
