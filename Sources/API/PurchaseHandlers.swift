// Apps call POST /native/purchases, PUT /native/purchases/consent and GET /native/entitlements. Apple's server calls
// POST /apple/store-notifications. Dwell trusts only data that Apple signed, not what an app states about a purchase.

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

    /// Each POST /native/purchases is charged to the limit `purchases` once for the signature, and once for each
    /// `factsPerPurchase` stored facts (transactions and renewals). Reading so many facts takes as long as verifying a
    /// signature of Apple.
    private static let factsPerPurchase = 100

    /// The seconds in `Retry-After` if a signature is dated in the future, because Apple's clock or this server's clock
    /// is wrong.
    private static let clockRetryAfterSeconds = 60
    /// The seconds in `Retry-After` if too many verifications are waiting. The server completes them in less time.
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
                // Also charge a body that cannot be decoded. Anyone can send such bodies, and decompressing and parsing
                // them takes time and memory.
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
    /// If Apple did not sign the data for an app of this server, the response to Apple's server is 401, and the
    /// response to an app is `refusedPurchase`. Only the access log contains the exact reason.
    ///
    /// A failure that may be temporary, for example a signature that is dated in the future, results in 503. After a
    /// 503, Apple sends the notification again.
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
            // The purchase data may or may not be stored. Storing it twice has no effect, so the client can safely
            // repeat the request.
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
    /// A driver with many facts about purchases is charged one additional read for each group of this many facts.
    /// docs/cost.md limits the time per charge: reading a hundred facts takes about as long as thirteen median reads,
    /// and is charged as five.
    private static let factsPerRead = 25

    /// Charges one additional read for each `factsPerRead` facts. The request itself is already charged as one read.
    func chargeRead(ofFacts count: Int, by driver: DriverID) {
        charge(driver, .reads, times: count / Self.factsPerRead)
    }
}

/// Limits the refused notifications of each client address. When an address has reached the limit, the server refuses
/// its notifications without decoding them.
///
/// Three kinds of notifications count: forged data, data that Apple signed for another app, and bodies that cannot be
/// decoded. Data for another app counts, because everyone who has bought something in any app can send such data.
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
