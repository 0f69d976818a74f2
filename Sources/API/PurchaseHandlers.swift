// POST /native/purchases, PUT /native/purchases/consent, GET /native/entitlements, and POST /apple/store-notifications,
// which Apple's server calls. The server trusts only data that Apple signed, and nothing that the app itself states
// about a purchase.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import Logging
import Purchases
import RateLimiting

struct PurchaseHandlers: Sendable {
    /// The purchase service; nil if no app is configured for purchases.
    let purchases: (any PurchaseService)?
    let refusedNotifications: RefusedNotificationLimit
    let limit: DriverLimit
    /// Called with a driver whose entitlements may have changed.
    let changed: @Sendable (DriverID) -> Void
    let failures: AccountFailures
    let metrics: PurchaseMetrics

    /// Each POST /native/purchases is charged once to the limit `purchases`, because it verifies a signature of Apple.
    /// It is charged once more for each 100 stored facts (transactions and renewals) that it reads. Reading 100 facts
    /// takes as long as verifying the signature.
    private static let factsPerPurchase = 100

    /// The seconds that the client should wait if a signature is dated in the future. In this case Apple's clock or
    /// this server's clock is wrong.
    private static let clockRetryAfterSeconds = 60
    /// The seconds that the client should wait if too many verifications are already waiting. The server completes
    /// those verifications in less time.
    private static let busyRetryAfterSeconds = 2

    var post: CallerHandler {
        { request, caller throws(ProblemResponse) in
            guard let purchases else { throw .takesNoPurchases }
            let body = try PurchaseBody.decode(request)
            do throws(PurchaseFailure) {
                let entitlements =
                    switch body {
                    case .signed(let transaction, let renewal):
                        try await purchases.add(
                            signedTransaction: transaction, signedRenewal: renewal, of: caller,
                            at: request.receivedAt)
                    case .claimed(let claim): try await purchases.add(claim, of: caller, at: request.receivedAt)
                    }
                metrics.count(purchase: .stored)
                changed(caller.driver)
                limit.charge(caller.driver, .purchases, times: entitlements.factCount / Self.factsPerPurchase)
                return EntitlementResponses.whole(entitlements.entitlements)
            } catch {
                metrics.count(purchase: PurchaseMetrics.Purchase(error))
                if case .ownedByAnother(let owner?) = error { changed(owner) }
                throw problem(error, request)
            }
        }
    }

    var entitlements: CallerHandler {
        { request, caller throws(ProblemResponse) in
            guard let purchases else { throw .takesNoPurchases }
            do throws(AccountFailure) {
                let read = try await purchases.entitlements(of: caller.driver, at: request.receivedAt)
                limit.chargeRead(ofFacts: read.factCount, by: caller.driver)
                return EntitlementResponses.response(read.entitlements, to: request)
            } catch { throw failures.problem(reading: error, request) }
        }
    }

    var putConsent: CallerHandler {
        { request, caller throws(ProblemResponse) in
            guard let purchases else { throw .takesNoPurchases }
            let consumption = try ConsentBody.decode(request)
            do throws(AccountFailure) {
                let consent = try await purchases.setConsumptionConsent(
                    consumption, of: caller, at: request.receivedAt)
                return EntitlementResponses.consent(consent)
            } catch { throw failures.problem(error, request) }
        }
    }

    var takeNotification: OpenHandler {
        { request throws(ProblemResponse) in
            guard let purchases else { throw .takesNoPurchases }
            try refusedNotifications.check(request)
            let payload: String
            do throws(ProblemResponse) {
                payload = try StoreNotificationBody.decode(request)
            } catch {
                // A body that cannot be decoded is charged too, because decompressing and parsing it takes time and
                // memory, and anyone can send it.
                refusedNotifications.charge(request)
                throw error
            }
            do throws(PurchaseFailure) {
                let taken = try await purchases.take(signedPayload: payload, at: request.receivedAt)
                metrics.count(taken)
                if case .taken(let owner?) = taken.outcome { changed(owner) }
                return AccountResponses.noticeTaken
            } catch {
                metrics.count(refusedNotification: error)
                if case .refused(let refusal) = error, !refusal.isTemporary {
                    refusedNotifications.charge(request)
                }
                throw problem(error, request)
            }
        }
    }

    /// Returns the problem for a failure.
    ///
    /// If Apple did not sign the data for an app of this server, Apple's server gets 401, and the app gets
    /// `refusedPurchase`. The client does not learn the exact reason, which only the access log contains.
    ///
    /// If the failure may be temporary, for example because the signature is dated in the future, the client gets 503.
    /// After a 503, Apple sends the notification again.
    private func problem(_ failure: PurchaseFailure, _ request: Request) -> ProblemResponse {
        switch failure {
        case .refused(.signedInFuture):
            var problem = ProblemResponse(
                .serviceUnavailable, "The signature is dated in the future. Try again later.",
                retryAfterSeconds: Self.clockRetryAfterSeconds)
            problem.reason = PurchaseRefusal.signedInFuture.rawValue
            return problem
        case .refused(let refusal):
            var problem: ProblemResponse =
                request.path.hasPrefix("/apple/") ? .refusedCredential : .refusedPurchase
            problem.reason = refusal.rawValue
            return problem
        case .busy:
            var problem = ProblemResponse(
                .serviceUnavailable, "Too many purchases are being verified. Try again later.",
                retryAfterSeconds: Self.busyRetryAfterSeconds)
            problem.reason = "busy"
            return problem
        case .ownedByAnother: return .purchaseOwnedByAnother
        case .needsSignedTransaction: return .needsSignedTransaction
        case .unknownTransaction: return .unknownTransaction
        case .appleUnavailable(let seconds, let reason):
            var problem = ProblemResponse(
                .upstreamUnavailable, "Apple cannot be asked about the purchase now. Try again in \(seconds) s.",
                retryAfterSeconds: seconds)
            problem.reason = reason
            return problem
        case .store(.unknown(let text)):
            failures.log(.unknown(text), request)
            // It is unknown whether the purchase data was stored. Storing it again has no effect, so the client can
            // safely repeat the request.
            return .accountsUnreadable
        case .store(let failure): return failures.problem(failure, request)
        }
    }
}

extension ProblemResponse {
    static let takesNoPurchases = ProblemResponse(.notFound, "This server accepts no purchases.")

    /// The problem for a purchase that Apple did not sign for an app of this server. It is not a 401, because shipped
    /// clients sign the driver out after a 401.
    static let refusedPurchase = ProblemResponse(
        .invalid(
            InvalidFields([
                FieldError(
                    pointer: "/signed_transaction",
                    detail: "must be signed by Apple for an app of this server, and so must signed_renewal_info")
            ])))

    static let needsSignedTransaction = ProblemResponse(
        .invalid(InvalidFields([FieldError(pointer: "/signed_transaction", detail: "is required")])))

    static let unknownTransaction = ProblemResponse(
        .invalid(
            InvalidFields([
                FieldError(
                    pointer: "/transactionId", detail: "must be a transaction of this product, which Apple knows")
            ])))

    static let purchaseOwnedByAnother = ProblemResponse(
        .purchaseOwnedByAnother, "The purchase belongs to another account. Sign in to that account.")
}

extension DriverLimit {
    /// Reading a driver's entitlements counts as one read, plus one read for each `factsPerRead` facts about the
    /// driver's purchases. The additional reads are charged because a hundred facts take as long as fourteen median
    /// reads.
    private static let factsPerRead = 25

    /// Charges one additional read for each `factsPerRead` facts. The request itself is already charged as one read.
    func chargeRead(ofFacts count: Int, by driver: DriverID) {
        charge(driver, .reads, times: count / Self.factsPerRead)
    }
}

/// Limits the refused notifications of each client address. If an address has reached the limit, its notifications are
/// refused without being decoded.
///
/// Data that Apple signed for another app counts like forged data. Everyone who bought something in any app has such
/// data, and refusing it takes as much work. A body that cannot be decoded also counts.
///
/// Accepted notifications do not count, because Apple sends many of them from a few addresses.
struct RefusedNotificationLimit: Sendable {
    let admission: any Admission

    func check(_ request: Request) throws(ProblemResponse) {
        let claim = AdmissionClaim.ofOneRequest(.notifications, fromAddressOf: request)
        let quota = admission.quota(of: claim.driver, in: claim.limitClass)
        guard quota.limit == 0 || quota.remaining > 0 else { throw .tooManyRequests(quota) }
    }

    func charge(_ request: Request) {
        admission.charge(.ofOneRequest(.notifications, fromAddressOf: request), times: 1)
    }
}
