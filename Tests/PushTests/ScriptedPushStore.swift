// An outbox in memory whose content and failures a test sets, and a push service that returns scripted outcomes.

import Engine
import Identity
import JourneyModel
import Logging
import Push
import Synchronization

final class ScriptedPushStore: PushStore {
    struct State: Sendable {
        var position: Int64 = 0
        var newest: Int64 = 0
        var changes: [(event: Int64, change: PushChange)] = []
        var since: Moment?
        var queued: [PushEntry] = []
        var outbox: [DuePush] = []
        var nextAttempt: [Int64: Moment] = [:]
        var results: [[PushResult]] = []
        var failure: StoreFailure?
        /// Called at each read of due entries, after they are reserved.
        var whenTaken: (@Sendable () -> Void)?
    }

    private let mutex = Mutex(State())
    var state: State { mutex.withLock { $0 } }

    func set(_ change: (inout State) -> Void) { mutex.withLock { change(&$0) } }

    private func withState<Value>(_ body: (inout State) -> Value) throws(StoreFailure) -> Value {
        try mutex.withLock { state -> Result<Value, StoreFailure> in
            if let failure = state.failure { return .failure(failure) }
            return .success(body(&state))
        }.get()
    }

    func pushPosition(at now: Moment) async throws(StoreFailure) -> Int64 {
        try withState { $0.position }
    }

    func pushChanges(after id: Int64, since: Moment) async throws(StoreFailure) -> PushChanges {
        try withState { state in
            state.since = since
            let changes = state.changes.filter { $0.event > id && $0.event <= state.newest }.map(\.change)
            return PushChanges(last: max(id, state.newest), hasMore: false, changes: changes)
        }
    }

    func queue(
        _ entries: [PushEntry], after base: Int64, upTo last: Int64, at now: Moment
    ) async throws(StoreFailure) -> Bool {
        try withState { state in
            guard state.position <= base else { return false }
            state.queued += entries
            state.position = last
            return true
        }
    }

    /// Whether `takeDuePushes` would return anything.
    func hasDue(at now: Moment) -> Bool { !Self.due(in: state, at: now).isEmpty }

    private static func due(in state: State, at now: Moment) -> [DuePush] {
        var devices: Set<Int64> = []
        return state.outbox.filter { push in
            let isDue = state.nextAttempt[push.id, default: push.entry.dueAt] <= now
            guard push.attemptCount > 0 || isDue else { return false }
            return devices.insert(push.entry.device).inserted && isDue
        }
    }

    func takeDuePushes(at now: Moment, limit: Int, lease: Moment) async throws(StoreFailure) -> [DuePush] {
        defer { state.whenTaken?() }
        return try withState { state in
            let due = Self.due(in: state, at: now).prefix(limit)
            for push in due {
                state.nextAttempt[push.id] = lease
                for index in state.outbox.indices where state.outbox[index].id == push.id {
                    state.outbox[index].attemptCount += 1
                }
            }
            return Array(due)
        }
    }

    func finish(_ results: [PushResult], at now: Moment) async throws(StoreFailure) {
        try withState { state in
            state.results.append(results)
            for result in results {
                switch result.change {
                case .retry(let moment): state.nextAttempt[result.id] = moment
                case .putBack:
                    state.nextAttempt[result.id] = nil
                    for index in state.outbox.indices where state.outbox[index].id == result.id {
                        state.outbox[index].attemptCount -= 1
                    }
                case .remove, .removeDevice, .removeLiveActivity: state.outbox.removeAll { $0.id == result.id }
                }
            }
        }
    }
}

/// Records the notifications in the order of their arrival.
final class ScriptedDelivery: PushDelivery {
    struct State: Sendable {
        var sent: [PushNotification] = []
        var answer: @Sendable (PushNotification) -> PushOutcome = { _ in .delivered }
        var isHeld = false
        var held: [CheckedContinuation<Void, Never>] = []
        var inFlight = 0
        var inFlightMost = 0
    }

    let attemptSecondsMax = 20
    private let mutex = Mutex(State())
    var state: State { mutex.withLock { $0 } }
    var tokens: [String] { state.sent.map(\.token) }

    func answer(_ answer: @escaping @Sendable (PushNotification) -> PushOutcome) {
        mutex.withLock { $0.answer = answer }
    }

    /// Makes calls wait until `release`.
    func hold() { mutex.withLock { $0.isHeld = true } }

    func release() {
        let held = mutex.withLock { state in
            state.isHeld = false
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    func send(_ notification: PushNotification) async -> PushOutcome {
        mutex.withLock { state in
            state.sent.append(notification)
            state.inFlight += 1
            state.inFlightMost = max(state.inFlightMost, state.inFlight)
        }
        await withCheckedContinuation { continuation in
            let isHeld = mutex.withLock { state in
                if state.isHeld { state.held.append(continuation) }
                return state.isHeld
            }
            if !isHeld { continuation.resume() }
        }
        return mutex.withLock { state in
            state.inFlight -= 1
            return state.answer(notification)
        }
    }
}

extension Logger {
    static let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
}
