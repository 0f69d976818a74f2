// The deliveries of each scenario: in which order, how often and in which requests the phone reports its events.

extension DriveScript {
    /// Returns the deliveries. Together they contain every event at least once.
    func deliveries() -> [Delivery] {
        var random = random
        let all = Array(events.indices)
        switch scenario {
        case .happyPath, .clockJump, .staleTimestamp, .retriedSignIn: return all.map(alone)
        case .offlineGap: return offlineGap(all, &random)
        case .duplicates: return all.flatMap { duplicates(of: $0, &random) } + repeats(all, &random)
        case .shuffledDelivery: return shuffled(all, &random)
        case .lostEvents, .verifiedAnywhere, .earlyEnd, .sameSecond, .targetSetAgain:
            return random.happens(inPercent: 50) ? shuffled(all, &random) : all.map(alone)
        case .rebuiltBody: return all.flatMap { rebuilt($0, &random) }
        case .forceQuit:
            let reported = reportedBeforeQuit ?? all.count
            return all.prefix(reported).map(alone)
                + (reported < all.count ? [batch(all.suffix(all.count - reported))] : [])
        }
    }

    private func alone(_ event: Int) -> Delivery {
        Delivery(form: .alone, events: [event], clockErrorMilliseconds: events[event].clockErrorMilliseconds)
    }

    private func batch(_ indexes: some Sequence<Int>) -> Delivery {
        Delivery(form: .batch, events: Array(indexes), clockErrorMilliseconds: 0)
    }

    /// The phone loses its connection for some time. It sends the events of that time in one batch, and every other
    /// event in a request of its own.
    ///
    /// In half of the drives, the loss begins before the response to an event arrives. The batch then contains that
    /// event again.
    private func offlineGap(_ all: [Int], _ random: inout ScriptRandom) -> [Delivery] {
        let first = Int.random(in: 1..<(all.count - 1), using: &random)
        let end = Int.random(in: (first + 1)...all.count, using: &random)
        let lostResponses = random.happens(inPercent: 50) ? 1 : 0
        return all[..<first].map(alone) + [batch(all[(first - lostResponses)..<end])] + all[end...].map(alone)
    }

    private func duplicates(of event: Int, _ random: inout ScriptRandom) -> [Delivery] {
        switch Int.random(in: 0..<3, using: &random) {
        case 0: return [alone(event)]
        case 1: return [alone(event), alone(event)]
        default:
            let copies = Int.random(in: 2...4, using: &random)
            return [
                Delivery(form: .together, events: Array(repeating: event, count: copies), clockErrorMilliseconds: 0)
            ]
        }
    }

    /// Returns the deliveries of one of four cases, chosen at random:
    ///
    /// - Case 0: the response to the first request is lost, and the app builds the body again.
    /// - Case 1: the request with the rebuilt body arrives before the first request.
    /// - Case 2: as in case 0, but the app also sends a body with another time of the event. The server must reject
    ///   that body.
    /// - Case 3: the event is sent once.
    private func rebuilt(_ event: Int, _ random: inout ScriptRandom) -> [Delivery] {
        let forms: [Delivery.Form] =
            switch Int.random(in: 0..<4, using: &random) {
            case 0: [.alone, .rebuilt]
            case 1: [.rebuilt, .alone]
            case 2: [.alone, .changed, .rebuilt]
            default: [.alone]
            }
        return forms.map { Delivery(form: $0, events: [event], clockErrorMilliseconds: 0) }
    }

    private func repeats(_ all: [Int], _ random: inout ScriptRandom) -> [Delivery] {
        all.shuffled(using: &random).prefix(3).map(alone)
    }

    private func shuffled(_ all: [Int], _ random: inout ScriptRandom) -> [Delivery] {
        let twice = all.filter { _ in random.happens(inPercent: 25) }
        var left = (all + twice).shuffled(using: &random)[...]
        var deliveries: [Delivery] = []
        while let event = left.first {
            let count = random.happens(inPercent: 20) ? min(3, left.count) : 1
            deliveries.append(count > 1 ? batch(left.prefix(count)) : alone(event))
            left = left.dropFirst(count)
        }
        return deliveries
    }
}
