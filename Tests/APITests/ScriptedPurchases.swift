// A scripted purchase service that returns stubbed values and records its calls. Only the payload "good" counts as
// validly signed. The purchase "another's" belongs to the driver "driver".

import Identity
import JourneyModel
import Synchronization

@testable import Purchases

final class ScriptedPurchases: PurchaseService {
    static let token = "a1b2c3d4-0000-4000-8000-00000000000a"

    private struct State {
        var failure: PurchaseFailure?
        var entitlements = DriverEntitlements([], factCount: 0)
        var asked: [String] = []
        var outcome = NotificationOutcome.taken(owner: nil)
    }

    private let state = Mutex(State())

    var asked: [String] { state.withLock { $0.asked } }

    func fail(with failure: PurchaseFailure?) { state.withLock { $0.failure = failure } }
    func stub(_ entitlements: [Entitlement], ofFacts count: Int = 1) {
        state.withLock { $0.entitlements = DriverEntitlements(entitlements, factCount: count) }
    }
    func stub(_ outcome: NotificationOutcome) { state.withLock { $0.outcome = outcome } }

    func add(
        signedTransaction: String, signedRenewal: String?, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements {
        if signedTransaction == "another's" { throw .ownedByAnother(owner: DriverID("driver")) }
        let question = "add \(signedTransaction) \(signedRenewal ?? "-") \(caller.driver.rawValue)"
        return try answer(question, signedTransaction) { $0.entitlements }
    }

    func add(
        _ claim: PurchaseClaim, of caller: Caller, at now: Moment
    ) async throws(PurchaseFailure) -> DriverEntitlements {
        try answer("ask \(claim.transactionID) \(claim.productID)", "good") { $0.entitlements }
    }

    func entitlements(of driver: DriverID, at now: Moment) async throws(AccountFailure) -> DriverEntitlements {
        do throws(PurchaseFailure) {
            return try answer("entitlements \(driver.rawValue)", "good") { $0.entitlements }
        } catch { throw Self.account(error) }
    }

    func take(signedPayload: String, at now: Moment) async throws(PurchaseFailure) -> TakenNotification {
        try answer("take", signedPayload) { state in
            TakenNotification(
                notification: StoreNotification(
                    notificationUUID: "u", type: "TEST", subtype: nil, environment: .sandbox, bundleID: "b",
                    transaction: nil, renewal: nil, signedDate: now, payload: []),
                outcome: state.outcome)
        }
    }

    func appAccountToken(of caller: Caller, at now: Moment) async throws(AccountFailure) -> String {
        do throws(PurchaseFailure) {
            return try answer("token \(caller.driver.rawValue)", "good") { _ in Self.token }
        } catch { throw Self.account(error) }
    }

    func setConsumptionConsent(
        _ isGiven: Bool, of caller: Caller, at now: Moment
    ) async throws(AccountFailure) -> ConsumptionConsent {
        do throws(PurchaseFailure) {
            return try answer("consent \(isGiven) \(caller.driver.rawValue)", "good") { _ in
                ConsumptionConsent(isGiven: isGiven, changedAt: now)
            }
        } catch { throw Self.account(error) }
    }

    private func answer<Value: Sendable>(
        _ question: String, _ payload: String, _ body: (State) -> Value
    ) throws(PurchaseFailure) -> Value {
        try state.withLock { state -> Result<Value, PurchaseFailure> in
            state.asked.append(question)
            if let failure = state.failure { return .failure(failure) }
            guard payload == "good" else { return .failure(.refused(.wrongSignature)) }
            return .success(body(state))
        }.get()
    }

    private static func account(_ failure: PurchaseFailure) -> AccountFailure {
        if case .store(let failure) = failure { failure } else { .unavailable("\(failure)") }
    }
}
