// The clauses about events of services (contract, section 3). Some confirmations may come only from a service.

import Engine
import JourneyModel

extension EventStoreContract {
    static let services: [Clause] = [
        Clause("a service's event of an unknown driver is refused and creates no driver") { store in
            let (driver, service) = (DriverID("service-unknown"), DriverID("partner"))
            let event = EventSubmission.sample(.chargerTargeted, key: key("k"))
            let request = AppendRequest.sample(event, of: driver, sender: .service, service: service)
            try expect(try await store.appended(request), .driverNotFound, "first")
            try expect(try await store.appended(request), .driverNotFound, "second")
            let erased = AppendRequest.sample(event, of: DriverID("erased-1"), sender: .service, service: service)
            try expect(try await store.appended(erased), .driverNotFound, "the name of a deleted driver")
        },
        Clause("a service's key is not the app's key, and a repeat of it is replayed") { store in
            let driver = DriverID("service-keys")
            let mine = EventSubmission.sample(.chargerTargeted, key: "k")
            _ = try await store.appended(.sample(mine, of: driver))
            let theirs = EventSubmission.sample(.chargerTargeted, key: key("k"), eventID: "k")
            let request = AppendRequest.sample(theirs, of: driver, sender: .service, service: DriverID("partner"))
            let stored = try event(try await store.appended(request), "the service's event")
            try expect(try await store.appended(request), .replayed(stored), "repeat")
        },
        Clause("a service's clock neither uses nor changes what is known of the phone's clock") { store in
            let driver = DriverID("service-clock")
            // The phone's clock is two hours behind.
            func phone(_ name: EventName, _ seconds: Int) -> AppendRequest {
                let at = Moment.sample.advanced(bySeconds: seconds)
                return .sample(
                    .sample(name, key: "\(name.canonical)", at: at, sentAt: at), of: driver,
                    receivedAt: at.advanced(bySeconds: 7200))
            }
            _ = try await store.appended(phone(.enteredChargerIntentZone, 0))
            _ = try await store.appended(phone(.anchorDwellComplete, 10))
            let at = Moment.sample.advanced(bySeconds: 7220)
            let activation = EventSubmission.sample(
                .exclusiveActivatedByWeb, key: key("a"), session: "service-clock", at: at, sentAt: at)
            let outcome = try await store.appended(
                .sample(activation, of: driver, receivedAt: at, sender: .service, service: DriverID("partner")))
            try expect(try event(outcome, "activation").verdict, .applied, "the service's activation")
            let departed = EventSubmission.sample(
                .departedCharger, key: "d", session: "service-clock", at: .sample.advanced(bySeconds: 30),
                sentAt: .sample.advanced(bySeconds: 30))
            let after = try await store.appended(
                .sample(departed, of: driver, receivedAt: .sample.advanced(bySeconds: 7230)))
            try expect(try event(after, "departure").verdict, .applied, "the phone's next event")
        },
        Clause("under the rule, an app's confirmations have no effect, and a service's have, in every order") { store in
            // The indices of the four confirmations in the six events of `checkVisit`. The loop tries every order of
            // the confirmations, before and after the other two events.
            let confirmations = [0, 1, 4, 5]
            for (index, order) in permutations(of: 4).enumerated() {
                let arrival = order.map { confirmations[$0] }
                try await checkVisit(store, driver: DriverID("confirmed-\(index)"), order: arrival + [3, 2])
                try await checkVisit(store, driver: DriverID("confirmed-late-\(index)"), order: [2, 3] + arrival)
            }
        },
    ]

    private static func key(_ key: String) -> String { EventSubmission.servicePrefix + key }

    /// Sends a visit in the order of arrival `order`. The app confirms the activation and the visit, and the service
    /// confirms both too.
    private static func checkVisit(_ store: any EventStore, driver: DriverID, order: [Int]) async throws {
        let session = "s-\(driver)"
        func at(_ seconds: Int) -> Moment { .sample.advanced(bySeconds: seconds) }
        // The driver exists before the service's first event.
        for (name, seconds) in [(EventName.enteredChargerIntentZone, 0), (.anchorDwellComplete, 10)] {
            let event = EventSubmission.sample(name, key: name.canonical, at: at(seconds))
            _ = try await store.appended(.sample(event, of: driver, sender: .unconfirmedApp))
        }
        let visit: [(EventName, Int, isService: Bool)] = [
            (.exclusiveActivatedByWeb, 20, false), (.exclusiveActivatedByWeb, 22, true), (.departedCharger, 30, false),
            (.enteredMerchantZone, 40, false), (.visitVerifiedByWeb, 50, false), (.visitVerifiedByWeb, 52, true),
        ]
        func request(_ index: Int) -> AppendRequest {
            let (name, seconds, isService) = visit[index]
            let id = "\(index)"
            let event = EventSubmission.sample(
                name, key: isService ? key(id) : id, eventID: id, session: session, at: at(seconds))
            return .sample(
                event, of: driver, sender: isService ? .service : .unconfirmedApp,
                service: isService ? DriverID("partner") : nil)
        }
        for index in order {
            guard case .stored(let event) = try await store.appended(request(index)) else {
                throw ContractViolation(description: "event \(index) was not stored in the order \(order)")
            }
            if !visit[index].isService, visit[index].0.isConfirmation {
                try expect(event.verdict, .rejected(.unconfirmed), "the app's claim \(index) in \(order)")
            }
        }
        for index in visit.indices {
            guard case .replayed(let event) = try await store.appended(request(index)) else {
                throw ContractViolation(description: "event \(index) was not repeated in the order \(order)")
            }
            let claims = !visit[index].isService && visit[index].0.isConfirmation
            try expect(event.verdict, claims ? .rejected(.unconfirmed) : .applied, "event \(index) of \(order)")
            try expect(event.journey.state, .sessionEnded, "the state in \(order)")
            try expect(event.journey.endedBy, .verified, "the end in \(order)")
        }
    }

    /// Returns all orders of the first `count` numbers.
    private static func permutations(of count: Int) -> [[Int]] {
        (0..<count).reduce([[]]) { orders, number in
            orders.flatMap { order in
                (0...order.count).map { Array(order[..<$0]) + [number] + Array(order[$0...]) }
            }
        }
    }
}
