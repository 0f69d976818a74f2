// Tests of the routes for purchases, entitlements and Apple's notifications, with a scripted purchase service. Also
// tests the account token of GET /auth/me.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import RateLimiting
import Testing

@testable import API
@testable import Purchases

@Suite struct PurchaseRouteTests {
    static let monthly = Entitlement(
        environment: .sandbox, bundleID: "com.example.dwell", subscriptionGroupID: "21000001",
        productID: "com.example.dwell.monthly", kind: .autoRenewable, status: .grace,
        accessEnds: Moment(millisecondsSinceEpoch: 1_800_000_000_000),
        purchaseDate: Moment(millisecondsSinceEpoch: 1_790_000_000_000), autoRenews: true,
        renewsToProductID: "com.example.dwell.yearly", ownership: .purchased,
        offer: TransactionFact.Offer(type: 1, identifier: "spring"), quantity: 1, transactionID: "7",
        originalTransactionID: "6")

    static let json = #"""
        {"entitlements":[{"product_id":"com.example.dwell.monthly","subscription_group_id":"21000001",\#
        "kind":"auto_renewable","status":"grace","gives_access":true,"access_ends_at":"2027-01-15T08:00:00.000Z",\#
        "purchased_at":"2026-09-21T14:13:20.000Z","auto_renews":true,\#
        "renews_to_product_id":"com.example.dwell.yearly","ownership":"purchased","offer_type":1,\#
        "offer_id":"spring","quantity":1,"environment":"sandbox","bundle_id":"com.example.dwell",\#
        "transaction_id":"7","original_transaction_id":"6"}]}
        """#

    @Test func `a stored purchase is answered with the entitlements`() async {
        let api = ScriptedAPI()
        api.purchases.stub([Self.monthly])
        let answer = await api.send(
            "POST", "/native/purchases", #"{"signed_transaction":"good","signed_renewal_info":"r"}"#)
        #expect(answer.status == .ok)
        #expect(answer.text == Self.json)
        #expect(api.purchases.asked == ["add good r driver"])
    }

    @Test func `the entity tag is strong, and depends on nothing but the entitlements`() async throws {
        let api = ScriptedAPI()
        api.purchases.stub([Self.monthly])
        let first = await api.askSignedIn("/native/entitlements")
        let etag = try #require(first.fields.first("ETag"))
        #expect(first.status == .ok && first.text == Self.json)
        #expect(etag.hasPrefix("\"") && etag.utf8.count == 34)
        #expect(first.fields.first("Cache-Control") == "private, no-cache")
        func again() async -> Response {
            await api.ask(
                "/native/entitlements", fields: [("Authorization", "Bearer good"), ("If-None-Match", etag)])
        }
        let second = await again()
        #expect(second.status == .notModified && second.text.isEmpty && second.fields.first("ETag") == etag)
        let other = await api.ask(
            "/native/entitlements", fields: [("Authorization", "Bearer good"), ("If-Match", "\"other\"")])
        #expect(other.status.code == 412)
        var ended = Self.monthly
        ended.status = .expired
        api.purchases.stub([ended])
        let third = await again()
        #expect(third.status == .ok && third.fields.first("ETag") != etag)
    }

    /// Returns the number of requests that are left in the rate limit `window`, according to the `RateLimit` field.
    /// Returns nil if the field does not describe exactly this limit.
    private func left(_ window: String, _ answer: Response) -> Int? {
        let members = answer.fields.first("RateLimit")?.split(separator: ";") ?? []
        guard members.count == 3, members[0] == "\"\(window)\"" else { return nil }
        return Int(members[1].dropFirst(2))
    }

    @Test func `a read of many facts is charged as several reads, also when nothing changed`() async throws {
        let api = ScriptedAPI()
        api.purchases.stub([Self.monthly], ofFacts: 24)
        let first = await api.askSignedIn("/native/entitlements")
        #expect(left("reads", first) == 599)
        api.purchases.stub([Self.monthly], ofFacts: 100)
        #expect(left("reads", await api.askSignedIn("/native/entitlements")) == 598)
        let etag = try #require(first.fields.first("ETag"))
        let known = await api.ask(
            "/native/entitlements", fields: [("Authorization", "Bearer good"), ("If-None-Match", etag)])
        // A request that reads 100 facts costs one read before its response and four reads after it. The previous
        // response therefore showed 598, but only 594 reads were left after it. This response shows 593.
        #expect(known.status == .notModified && left("reads", known) == 593)
        #expect(left("reads", await api.askSignedIn("/native/session")) == 588)
    }

    @Test func `a purchase by the owner of many facts is charged as several`() async {
        let api = ScriptedAPI()
        api.purchases.stub([Self.monthly], ofFacts: 250)
        func post() async -> Int? {
            left("purchases", await api.send("POST", "/native/purchases", #"{"signed_transaction":"good"}"#))
        }
        #expect(await post() == 29)
        #expect(await post() == 26)
        for _ in 0..<9 { _ = await post() }
        let asked = api.purchases.asked.count
        #expect(
            await api.send("POST", "/native/purchases", #"{"signed_transaction":"good"}"#).status == .tooManyRequests)
        #expect(api.purchases.asked.count == asked)
    }

    @Test(arguments: [
        (PurchaseFailure.refused(.wrongSignature), 400, "validation_failed"),
        (.refused(.wrongBundle), 400, "validation_failed"), (.refused(.wrongClaims), 400, "validation_failed"),
        (.refused(.signedInFuture), 503, "service_unavailable"),
        (.ownedByAnother(owner: nil), 409, "purchase_owned_by_another"),
        (.needsSignedTransaction, 400, "validation_failed"),
        (.unknownTransaction, 400, "validation_failed"),
        (.appleUnavailable(retryAfterSeconds: 9, reason: "wrong_word"), 503, "upstream_unavailable"),
        (.busy, 503, "service_unavailable"), (.store(.unavailable("disk full")), 503, "store_unavailable"),
        (.store(.unknown("commit")), 503, "store_unavailable"),
        (.store(.unauthorized), 401, "unauthorized"),
    ])
    func `every failure of a purchase has its status`(failure: PurchaseFailure, status: Int, code: String) async {
        let api = ScriptedAPI()
        api.purchases.fail(with: failure)
        let answer = await api.send("POST", "/native/purchases", #"{"signed_transaction":"good"}"#)
        #expect(answer.status.code == status)
        #expect(answer.text.contains("\"code\":\"\(code)\""))
        #expect((answer.fields.first("Retry-After") != nil) == (status == 503))
        #expect(!answer.text.contains("disk full") && !answer.text.contains("wrong_"))
    }

    @Test(arguments: [
        (PurchaseFailure.refused(.untrustedRoot), 401), (.refused(.wrongApp), 401), (.refused(.signedInFuture), 503),
        (.busy, 503), (.store(.unavailable("x")), 503), (.store(.unknown("x")), 503), (.store(.cancelled), 503),
    ])
    func `temporary trouble with a notification is 503`(failure: PurchaseFailure, status: Int) async {
        let api = ScriptedAPI()
        api.purchases.fail(with: failure)
        let answer = await api.send("POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#)
        #expect(answer.status.code == status)
    }

    @Test(arguments: ["", "[]", "{}", #"{"signedPayload":1}"#, #"{"signedPayload":""}"#, "{"])
    func `a body that is no notification is 400`(body: String) async {
        let api = ScriptedAPI()
        #expect(await api.send("POST", "/apple/store-notifications", body).status.code == 400)
        #expect(api.purchases.asked.isEmpty)
    }

    @Test func `an app without StoreKit 2 names the transaction`() async {
        let api = ScriptedAPI()
        let whole = #"{"transactionId":"7","productId":"p","originalTransactionId":"6"}"#
        #expect(await api.send("POST", "/native/purchases", whole).status == .ok)
        #expect(api.purchases.asked == ["ask 7 p"])
        let bad = await api.send("POST", "/native/purchases", #"{"transactionId":"../7","productId":1}"#)
        #expect(bad.status.code == 400)
        for pointer in ["/transactionId", "/productId", "/originalTransactionId"] {
            #expect(bad.text.contains(pointer))
        }
        #expect(await api.send("POST", "/native/purchases", "{}").text.contains("/signed_transaction"))
    }

    @Test func `a repeated notification is 200 too`() async {
        let api = ScriptedAPI()
        api.purchases.stub(NotificationOutcome.repeated)
        #expect(await api.send("POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#).status == .ok)
    }

    @Test func `only refused notifications are charged to an address, and never to RATE_LIMIT_AUTH`() async {
        let api = ScriptedAPI(limits: RateLimits(auth: 1, notifications: 2))
        func post(_ payload: String, from address: String = "192.0.2.7") async -> Int {
            await api.send(
                "POST", "/apple/store-notifications", #"{"signedPayload":"\#(payload)"}"#, address: address
            ).status.code
        }
        for _ in 0..<50 { #expect(await post("good") == 200) }
        // These failures are temporary, and not the sender's fault.
        for failure in [PurchaseFailure.refused(.signedInFuture), .busy, .store(.unavailable("x"))] {
            api.purchases.fail(with: failure)
            for _ in 0..<50 { #expect(await post("good") == 503) }
        }
        api.purchases.fail(with: nil)
        #expect(await post("bad") == 401)
        #expect(await post("good") == 200)
        #expect(await post("bad") == 401)
        let asked = api.purchases.asked.count
        #expect(await post("good") == 429)
        #expect(api.purchases.asked.count == asked)
        #expect(await post("good", from: "192.0.2.8") == 200)
    }

    /// A valid Apple signature does not exempt a request from the charge, because every customer of any app has data
    /// signed by Apple.
    @Test(arguments: PurchaseRefusal.allCases.filter { $0 != .signedInFuture })
    func `a text that is no notification for this server is charged, whoever signed it`(
        refusal: PurchaseRefusal
    ) async {
        let api = ScriptedAPI(limits: RateLimits(notifications: 2))
        api.purchases.fail(with: .refused(refusal))
        var statuses: [Int] = []
        for _ in 0..<4 {
            let answer = await api.send(
                "POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#, address: "192.0.2.7")
            statuses.append(answer.status.code)
        }
        #expect(statuses == [401, 401, 429, 429])
        #expect(api.purchases.asked.count == 2)
    }

    @Test(arguments: [
        ("{", "application/json", 400), (#"{"signedPayload":1}"#, "application/json", 400), ("{}", "text/plain", 415),
    ])
    func `a body without a text is charged too`(body: String, type: String, status: Int) async {
        let api = ScriptedAPI(limits: RateLimits(notifications: 2))
        var statuses: [Int] = []
        for body in [body, body, body, #"{"signedPayload":"good"}"#] {
            let answer = await api.send(
                "POST", "/apple/store-notifications", body, type: type, address: "192.0.2.7")
            statuses.append(answer.status.code)
        }
        #expect(statuses == [status, status, 429, 429])
        #expect(api.purchases.asked.isEmpty)
        let other = await api.send(
            "POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#, address: "192.0.2.8")
        #expect(other.status == .ok)
    }

    @Test func `a server without apps has no purchases`() async {
        let api = ScriptedAPI(takesPurchases: false)
        #expect(await api.send("POST", "/native/purchases", #"{"signed_transaction":"good"}"#).status == .notFound)
        #expect(await api.askSignedIn("/native/entitlements").status == .notFound)
        #expect(
            await api.send("POST", "/apple/store-notifications", #"{"signedPayload":"good"}"#).status == .notFound)
        #expect(!(await api.askSignedIn("/auth/me").text.contains("app_account_token")))
    }

    @Test func `the account has the token for StoreKit`() async {
        let api = ScriptedAPI()
        let answer = await api.askSignedIn("/auth/me")
        #expect(answer.text.contains("\"app_account_token\":\"\(ScriptedPurchases.token)\""))
        for failure in [AccountFailure.unavailable("x"), .unknown("x")] {
            api.purchases.fail(with: .store(failure))
            #expect(await api.askSignedIn("/auth/me").status.code == 503)
        }
    }

    /// A notification of Apple has about 20 kB.
    @Test func `the route of notifications takes bodies of 64 KiB`() throws {
        let api = ScriptedAPI()
        let route = try #require(api.routes.first { $0.template == "/apple/store-notifications" })
        #expect(route.bodyBytesMax == 64 * 1024)
    }
}
