// Plays the drives of one driver, and compares each response with the expected one. At the end, sends every event once
// more, and compares the final verdicts and the sessions.

import JourneyClient
import JourneyModel

struct DriverPlay {
    private let day: DriverDay
    private let driver: String
    private let requests: DriverRequests
    private let sender: RequestSender
    /// The events of the driver, one array for each drive.
    private var messages: [[EventMessage]]
    private var expected: ExpectedJourney
    private var registered: Set<String> = []

    init(
        _ day: DriverDay, driver: String, runID: String, token: String, start: Journey, settings: Settings,
        sender: RequestSender
    ) {
        self.day = day
        self.driver = driver
        self.sender = sender
        requests = DriverRequests(token: token)
        messages = day.scheduled(endingAt: sender.clock.now).map { drive, startsAt in
            drive.events.map { EventMessage($0, driveStartsAt: startsAt, runID: runID, settings: settings) }
        }
        expected = ExpectedJourney(start: start)
    }

    /// - Throws: `Divergence`, `SimulationFailure`, `CancellationError`.
    mutating func run() async throws {
        for (index, drive) in day.drives.enumerated() {
            for delivery in drive.deliveries { try await deliver(delivery, of: index) }
            sender.tally.change { $0.drives[drive.scenario, default: 0] += 1 }
        }
        for index in day.drives.indices {
            for message in messages[index] { try await deliverAlone(message, of: index, "final delivery") }
        }
        for index in day.drives.indices { try await compareSessions(of: index) }
    }

    // MARK: Deliveries

    private mutating func deliver(_ delivery: Delivery, of drive: Int) async throws {
        for event in delivery.events { self.messages[drive][event].stamp(at: sender.clock.now) }
        let messages = delivery.events.map { self.messages[drive][$0] }
        switch delivery.form {
        case .alone:
            for message in messages {
                try await deliverAlone(message, of: drive, "sent alone", delivery.clockErrorMilliseconds)
            }
        case .batch: try await deliverBatch(messages, of: drive)
        case .together: try await deliverTogether(messages, of: drive)
        case .rebuilt:
            for message in messages {
                try await deliverAlone(message.rebuilt(at: sender.clock.now), of: drive, "with a rebuilt body")
            }
        case .changed:
            for message in messages { try await deliverChanged(message.changed(), of: drive) }
        }
    }

    private mutating func deliverAlone(
        _ message: EventMessage, of drive: Int, _ how: String, _ clockErrorMilliseconds: Int64 = 0
    ) async throws {
        let outcome = try await send(message, clockErrorMilliseconds)
        let answer = Answer(statusCode: outcome.response.status, json: outcome.response.json)
        if answer.isSessionUnknown, try await register(message) {
            return try await deliverAlone(message, of: drive, how, clockErrorMilliseconds)
        }
        try compare(answer, outcome, with: message, of: drive, how)
    }

    /// Sends a body that differs from the stored body with the same idempotency key. The server must reject the body
    /// (contract, section 3, "What counts as a repeat").
    private func deliverChanged(_ message: EventMessage, of drive: Int) async throws {
        let outcome = try await send(message, 0)
        let answer = Answer(statusCode: outcome.response.status, json: outcome.response.json)
        let code = ProblemCode.idempotencyKeyReused
        guard answer.statusCode == code.status, answer.code == code.rawValue else {
            let found = "\(answer.statusCode)\(answer.code.map { " \($0)" } ?? "")"
            throw divergence(
                message, of: drive, "with another time under the same key",
                ["got \(found) instead of \(code.status) \(code.rawValue)"])
        }
    }

    private func send(_ message: EventMessage, _ clockErrorMilliseconds: Int64) async throws -> SendOutcome {
        try await sender.send(events: 1) { sentAt in
            requests.event(message, sentAt: sentAt.advanced(byMilliseconds: clockErrorMilliseconds))
        }
    }

    /// Sends a batch. Then sends some events of the batch again, each alone: those that were rate-limited (429), those
    /// that were not stored (503), and those whose session is not registered.
    private mutating func deliverBatch(_ messages: [EventMessage], of drive: Int) async throws {
        let outcome = try await sender.send(events: messages.count) { requests.batch(messages, sentAt: $0) }
        guard outcome.response.status == 200,
            let answers = Answer.all(inBatch: outcome.response.json, count: messages.count)
        else {
            throw SimulationFailure(
                "a batch of \(messages.count) got \(outcome.response.status), without a result for each event")
        }
        var left: [EventMessage] = []
        for (message, answer) in zip(messages, answers) {
            if answer.statusCode == 429 || answer.statusCode == 503 || answer.isSessionUnknown {
                left.append(message)
            } else {
                try compare(answer, outcome, with: message, of: drive, "sent in a batch of \(messages.count)")
            }
        }
        if !left.isEmpty, let seconds = outcome.response.retryAfterSeconds {
            sender.tally.change { $0.limited += 1 }
            try await sender.sleep(.seconds(seconds))
        }
        for message in left { try await deliverAlone(message, of: drive, "deferred from a batch") }
    }

    /// Sends copies of one event concurrently. The server must store only one of them (contract, section 3).
    private mutating func deliverTogether(_ messages: [EventMessage], of drive: Int) async throws {
        guard let message = messages.first else { return }
        let wasNew = !expected.contains(message.id)
        // The tasks must not capture `self`, because `self` changes when the responses are compared.
        let (sender, requests) = (sender, requests)
        let all = try await withThrowingTaskGroup(of: SendOutcome.self) { tasks in
            for _ in messages {
                tasks.addTask { try await sender.send(events: 1) { requests.event(message, sentAt: $0) } }
            }
            return try await tasks.reduce(into: [SendOutcome]()) { $0.append($1) }
        }
        let how = "\(messages.count) concurrent copies"
        let answers = all.map { Answer(statusCode: $0.response.status, json: $0.response.json) }
        if answers.contains(where: \.isSessionUnknown), try await register(message) {
            return try await deliverTogether(messages, of: drive)
        }
        let firsts = answers.filter { $0.status == EventResponse.Status.ok.rawValue }.count
        let mayBeLost = all.contains(where: \.mayBeRepeat)
        if firsts > (wasNew ? 1 : 0) || (firsts == 0 && wasNew && !mayBeLost && answers.allSatisfy(\.isOK)) {
            throw divergence(message, of: drive, how, ["\(firsts) of them got a response as the first one"])
        }
        for (answer, outcome) in zip(answers, all) {
            let statuses: [EventResponse.Status] = wasNew ? [.ok, .alreadyProcessed] : [.alreadyProcessed]
            try compare(answer, outcome, with: message, of: drive, how, statuses: statuses)
        }
    }

    // MARK: Sessions

    /// Registers the event's session and returns true. Returns false if the event has no session, or if this method has
    /// already registered the session.
    private mutating func register(_ message: EventMessage) async throws -> Bool {
        guard let sessionID = message.placed.sessionID, registered.insert(sessionID).inserted else { return false }
        let outcome = try await sender.send(events: 0) { _ in requests.register(sessionID) }
        guard (200...201).contains(outcome.response.status) else {
            throw SimulationFailure("registering a session got \(outcome.response.status)")
        }
        return true
    }

    // MARK: Comparison

    private func compareSessions(of drive: Int) async throws {
        var compared: Set<String> = []
        for message in messages[drive] {
            guard let sessionID = message.placed.sessionID, compared.insert(sessionID).inserted else { continue }
            let outcome = try await sender.send(events: 0) { _ in
                requests.get("/native/sessions/\(sessionID)?limit=1")
            }
            let (status, json) = (outcome.response.status, outcome.response.json)
            guard status == 200 else { throw SimulationFailure("GET of a session got \(status)") }
            let session = expected.session(sessionID, at: outcome.span.upperBound)
            let differences = [
                Comparison.difference("state", [session?.state.rawValue], json?["state"]?.text),
                Comparison.difference("ended_by", [session?.endedBy?.rawValue], json?["ended_by"]?.text),
            ].compactMap(\.self)
            guard differences.isEmpty else {
                throw divergence(message, of: drive, "its session in GET /native/sessions", differences)
            }
        }
    }

    private mutating func compare(
        _ answer: Answer, _ outcome: SendOutcome, with message: EventMessage, of drive: Int, _ how: String,
        statuses: [EventResponse.Status]? = nil
    ) throws {
        let isRepeat = expected.contains(message.id)
        let firstStatuses: [EventResponse.Status] = outcome.mayBeRepeat ? [.ok, .alreadyProcessed] : [.ok]
        expected.add(message.placed)
        guard let answerExpected = expected.answer(about: message.id, within: outcome.span) else { return }
        let comparison = Comparison(
            expected: answerExpected, eventID: message.id,
            statuses: statuses ?? (isRepeat ? [.alreadyProcessed] : firstStatuses))
        let differences = comparison.differences(from: answer)
        guard differences.isEmpty else { throw divergence(message, of: drive, how, differences) }
        sender.tally.delivered(isRepeat: isRepeat)
    }

    private func divergence(
        _ message: EventMessage, of drive: Int, _ how: String, _ differences: [String]
    ) -> Divergence {
        Divergence(
            seed: day.seed, scenarios: day.drives.map(\.scenario), scenario: day.drives[drive].scenario,
            driver: driver, eventID: message.id, event: message.event.spelling, delivery: how,
            differences: differences)
    }
}

extension Answer {
    fileprivate var isOK: Bool { statusCode == 200 }

    fileprivate var isSessionUnknown: Bool {
        statusCode == 404 && code == ProblemCode.sessionNotFound.rawValue
    }
}
