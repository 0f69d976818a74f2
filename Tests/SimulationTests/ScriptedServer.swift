// A server in memory that folds events by the contract's rules. A test can make it return wrong responses.

import JourneyClient
import JourneyModel
import Simulation
import Synchronization

/// Decodes requests with the same module as the real server, and responds in the same format.
final class ScriptedServer: Transport {
    /// Changes the response to an event. `number` counts these responses from 1, including responses to repeats.
    typealias Lie = @Sendable (_ number: Int, inout EventResponse) -> Void
    /// Returns the response to a request that the server does not read. Returns nil if the server must read the request
    /// and respond correctly.
    typealias Refusal = @Sendable (_ requestNumber: Int) -> HTTPExchange.Outcome?

    fileprivate struct Driver {
        var events: [OrderedEvent] = []
        /// The submissions by idempotency key.
        var submissions: [String: EventSubmission] = [:]
        var clockMemory = ClockMemory()
    }

    private struct State {
        var drivers: [String: Driver] = [:]
        var answeredCount = 0
        var requestCount = 0
        var bodies: [[UInt8]] = []
    }

    private let state = Mutex(State())
    private let clock: @Sendable () -> Moment
    private let lie: Lie
    private let refusal: Refusal
    private let losesAnswer: @Sendable (Int) -> Bool
    /// The response to an event that reuses the idempotency key of another event. If nil, the server rejects the event.
    private let reusesKeys: EventResponse?
    /// The reason for the end of every session. If nil, the server reports the real reason.
    private let showsEnding: Journey.Ending?

    init(
        clock: @escaping @Sendable () -> Moment = ServerClock.system, lie: @escaping Lie = { _, _ in },
        refusal: @escaping Refusal = { _ in nil }, losesAnswer: @escaping @Sendable (Int) -> Bool = { _ in false },
        reusesKeys: EventResponse? = nil, showsEnding: Journey.Ending? = nil
    ) {
        self.clock = clock
        self.lie = lie
        self.refusal = refusal
        self.losesAnswer = losesAnswer
        self.reusesKeys = reusesKeys
        self.showsEnding = showsEnding
    }

    var bodies: [[UInt8]] { state.withLock(\.bodies) }

    func send(_ request: HTTPExchange.Request) async -> HTTPExchange.Outcome {
        if request.path == "/native/config" { return .response(configuration) }
        return state.withLock { state in
            state.requestCount += 1
            if request.method == "GET" { return .response(session(request, state)) }
            if let outcome = refusal(state.requestCount) { return outcome }
            state.bodies.append(request.body)
            let answer = answer(to: request, &state)
            return losesAnswer(state.requestCount) ? .noResponse : .response(answer)
        }
    }

    private var configuration: HTTPExchange.Response {
        HTTPExchange.Response(
            status: 200, fields: [HTTPExchange.Field("Date", Self.date(clock()))], body: Settings().wireJSON)
    }

    /// Returns a date such as `Mon, 16 Nov 2026 20:00:00 GMT`. The weekday is always Mon, because no client reads it.
    private static func date(_ moment: Moment) -> String {
        let text = RFC3339.text(of: moment)
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let month = months[(Int(text.dropFirst(5).prefix(2)) ?? 1) - 1]
        return "Mon, \(text.dropFirst(8).prefix(2)) \(month) \(text.prefix(4)) \(text.dropFirst(11).prefix(8)) GMT"
    }

    private func answer(to request: HTTPExchange.Request, _ state: inout State) -> HTTPExchange.Response {
        let token = request.fields.first { $0.name == "Authorization" }?.value ?? ""
        let sentAt = request.fields.first { $0.name == "X-Sent-At" }?.value
        do throws(BodyRefusal) {
            if request.path.hasSuffix("/batch") {
                let results = try EventBatch.decode(request.body, sentAt: sentAt).map { result in
                    switch result {
                    case .success(let submission):
                        take(submission, from: token, &state).map { BatchResult.response($0) }
                            ?? BatchResult.problem(Self.keyReused)
                    case .failure(let refusal): BatchResult.problem(Problem(refusal))
                    }
                }
                return HTTPExchange.Response(status: 200, body: BatchResult.encode(results))
            }
            let submission = try EventSubmission.decode(
                request.body, route: Self.route(request.path), headers: EventHeaders(sentAt: sentAt))
            guard let answer = take(submission, from: token, &state) else {
                return HTTPExchange.Response(status: 422, body: Self.keyReused.encoded())
            }
            return HTTPExchange.Response(status: 200, body: answer.encoded())
        } catch {
            return HTTPExchange.Response(status: 400, body: Problem(error).encoded())
        }
    }

    private func session(_ request: HTTPExchange.Request, _ state: State) -> HTTPExchange.Response {
        let token = request.fields.first { $0.name == "Authorization" }?.value ?? ""
        let id = request.path.dropFirst("/native/sessions/".count).prefix { $0 != "?" }
        guard let driver = state.drivers[token] else { return HTTPExchange.Response(status: 404) }
        var members: [JSONMember] = []
        if let journey = driver.session(String(id)) {
            members.append(JSONMember("state", .string(journey.state.rawValue)))
            if let ending = showsEnding ?? journey.endedBy {
                members.append(JSONMember("ended_by", .string(ending.rawValue)))
            }
        }
        var writer = JSONWriter()
        writer.value(.object(members))
        return HTTPExchange.Response(status: 200, body: writer.bytes)
    }

    private static func route(_ path: String) -> EventRoute {
        switch path {
        case "/v1/native/session-events": .v1Session
        case "/v1/native/pre-session-events": .v1PreSession
        default: .native
        }
    }

    private static let keyReused = Problem(.idempotencyKeyReused, detail: "why")

    private func take(_ submission: EventSubmission, from token: String, _ state: inout State) -> EventResponse? {
        var driver = state.drivers[token] ?? Driver()
        let stored = driver.submissions[submission.idempotencyKey]
        if let stored, !submission.isRepeat(of: stored) { return reusesKeys }
        let isRepeat = stored != nil
        let now = clock()
        if !isRepeat { driver.take(submission, at: now) }
        state.drivers[token] = driver
        let ordered = Fold.inOrder(driver.events)
        let folded = Fold.replay(ordered)
        let index = ordered.firstIndex { $0.idempotencyKey == submission.idempotencyKey } ?? 0
        let head = folded[folded.count - 1].journey.advanced(to: now)
        var answer = EventResponse(
            status: isRepeat ? .alreadyProcessed : .ok, eventID: submission.eventID, state: head.state,
            endedBy: head.endedBy, verdict: folded[index].verdict)
        state.answeredCount += 1
        lie(state.answeredCount, &answer)
        return answer
    }
}

extension ScriptedServer.Driver {
    fileprivate mutating func take(_ submission: EventSubmission, at now: Moment) {
        let clock = ClockCorrection(
            occurredAt: submission.occurredAt, sentAt: submission.sentAt, timestamp: submission.timestamp,
            receivedAt: now, memory: clockMemory)
        clockMemory = clock.memory
        submissions[submission.idempotencyKey] = submission
        events.append(
            OrderedEvent(
                name: submission.name, sessionID: submission.sessionID, chargerID: submission.chargerID,
                occurredAt: clock.corrected, sequence: submission.sequence, eventID: submission.eventID,
                idempotencyKey: submission.idempotencyKey, origin: .client,
                previousState: submission.previousState, isWholeSecond: submission.isWholeSecond,
                gracePeriodSeconds: Settings().gracePeriodSeconds, hardTimeoutSeconds: Settings().hardTimeoutSeconds))
    }
}

extension ScriptedServer.Driver {
    /// Returns the session's journey. All drives are in the past, so the journey includes every expiry.
    fileprivate func session(_ id: String) -> Journey? {
        let ordered = Fold.inOrder(events)
        var found: Journey?
        for (event, step) in zip(ordered, Fold.replay(ordered)) {
            let isOver = found?.advanced(to: event.occurredAt).state == .sessionEnded
            if step.journey.sessionID == id {
                found = step.journey
            } else if !isOver, let ending = found?.closing(by: step.journey) {
                found = Journey(state: .sessionEnded, sessionID: id, endedBy: ending)
            }
        }
        return found?.advanced(to: Moment(millisecondsSinceEpoch: .max))
    }
}

extension EventSubmission {
    fileprivate func isRepeat(of stored: EventSubmission) -> Bool {
        canonicalForm == stored.canonicalForm
            || canonicalForm(appState: stored.appState, schemaVersion: stored.schemaVersion) == stored.canonicalForm
    }
}

/// Runs the simulated drivers against the server, as fast as possible.
func simulate(
    _ server: ScriptedServer, seed: UInt64 = 1, drivers: Int = 1, scenarios: [Scenario] = Scenario.drives,
    clock: @escaping @Sendable () -> Moment = ServerClock.system,
    sleep: @escaping @Sendable (Duration) async throws -> Void = { _ in }
) async throws -> Summary {
    let options = SimulatedDrivers.Options(
        seed: seed, drivers: drivers, eventsPerSecond: 1_000_000, scenarios: scenarios, runID: "run-1")
    return try await SimulatedDrivers(
        options, transport: server, tokens: .perDriver { "token of \($0)" }, clock: clock, sleep: sleep
    ).run { _ in }
}
