// Scripted ports record their calls, so that a test can check the order in which Ingest calls them.

import Engine
import JourneyModel
import RateLimiting
import Synchronization

final class ScriptedStore: EventStore {
    private struct State {
        var outcomes: [EventOutcome] = []
        var known: [String: EventOutcome] = [:]
        var appended: [AppendRequest] = []
        var lookedUp: [String] = []
        var readsOfMany = 0
    }
    private let state: Mutex<State>

    init(_ outcomes: [EventOutcome] = [], known: [String: EventOutcome] = [:]) {
        state = Mutex(State(outcomes: outcomes, known: known))
    }

    var appended: [AppendRequest] { state.withLock { $0.appended } }
    var lookedUp: [String] { state.withLock { $0.lookedUp } }

    func append(_ request: AppendRequest) async -> EventOutcome {
        state.withLock { state in
            state.appended.append(request)
            return state.outcomes.isEmpty ? .failed(.unavailable("nothing scripted")) : state.outcomes.removeFirst()
        }
    }

    func append(_ requests: [AppendRequest]) async -> [EventOutcome] {
        var results: [EventOutcome] = []
        for request in requests { results.append(await append(request)) }
        return results
    }

    func lookUp(_ submission: EventSubmission, of driver: DriverID) async throws(StoreFailure) -> EventOutcome? {
        state.withLock { state in
            state.lookedUp.append(submission.idempotencyKey)
            return state.known[submission.idempotencyKey]
        }
    }

    func lookUp(
        _ submissions: [EventSubmission], of driver: DriverID
    ) async throws(StoreFailure) -> [EventOutcome?] {
        state.withLock { state in
            state.readsOfMany += 1
            state.lookedUp += submissions.map(\.idempotencyKey)
            return submissions.map { state.known[$0.idempotencyKey] }
        }
    }

    /// The number of calls that look up several events at once.
    var readsOfMany: Int { state.withLock { $0.readsOfMany } }

    func register(_ registration: SessionRegistration) async throws(StoreFailure) -> RegistrationOutcome {
        .created
    }
}

final class ScriptedAdmission: Admission {
    enum Call: Hashable {
        case admit(String)
        case recordStored(String)
        case recordRepeated(String)
        case forceCharge(String)
        case refund(String)
    }
    private struct State {
        var verdicts: [AdmissionDecision.Verdict]
        var calls: [Call] = []
    }
    private let state: Mutex<State>
    static let quota = Quota(limit: 60, windowSeconds: 60, remaining: 12, resetMilliseconds: 2_500)

    init(_ verdicts: [AdmissionDecision.Verdict]) {
        state = Mutex(State(verdicts: verdicts))
    }

    var calls: [Call] { state.withLock { $0.calls } }

    func admit(_ claim: AdmissionClaim) async -> AdmissionDecision {
        state.withLock { state in
            state.calls.append(.admit(claim.idempotencyKey))
            let verdict = state.verdicts.isEmpty ? .admitted : state.verdicts.removeFirst()
            return AdmissionDecision(verdict: verdict, quota: Self.quota)
        }
    }

    func quota(of driver: DriverID, in limitClass: RateLimitClass) -> Quota { Self.quota }

    func recordStored(_ claim: AdmissionClaim, isRepeat: Bool) {
        let key = claim.idempotencyKey
        state.withLock { $0.calls.append(isRepeat ? .recordRepeated(key) : .recordStored(key)) }
    }

    func forceCharge(_ claim: AdmissionClaim) {
        state.withLock { $0.calls.append(.forceCharge(claim.idempotencyKey)) }
    }

    func charge(_ claim: AdmissionClaim, times: Int) {}

    func isOverdrawn(by driver: DriverID, in limitClass: RateLimitClass) -> Bool { false }

    func refund(_ claim: AdmissionClaim) {
        state.withLock { $0.calls.append(.refund(claim.idempotencyKey)) }
    }
}
