// Tests that the order of arrival of Apple's facts (signed transactions and renewals) does not change a driver's
// entitlements.
//
// Each driver has a year of facts. Notifications and the app deliver these facts in any order, late or twice. Between
// deliveries, the server restarts or crashes.
//
// Set DWELL_PURCHASE_STORES=100000 for a long run. A failure prints its seed; DWELL_PROPERTY_SEED=<seed>
// DWELL_PURCHASE_STORES=1 repeats that year alone. On PostgreSQL, only a tenth of the years is tested.

import Identity
import JourneyModel
import Purchases
import TestSupport
import Testing

@testable import SharedTables

struct PurchaseConvergenceTests {
    private static let seeds = PropertyRun.seeds("DWELL_PURCHASE_STORES", unlessSet: 100)

    @Test(arguments: TestedDatabase.allCases)
    func `a year's facts in any order, doubled, delayed, with restarts between, give one entitlement`(
        _ database: TestedDatabase
    ) async throws {
        let count = UInt64(Self.seeds.count)
        let last = Self.seeds.lowerBound + (database == .sqlite ? count : (count + 9) / 10)
        // All drivers of a database send at the same time. With more than a hundred drivers, requests could time out
        // while they wait for a PostgreSQL connection.
        let driversPerDatabase: UInt64 = database == .sqlite ? 1000 : 100
        var first = Self.seeds.lowerBound
        while first < last {
            let end = min(first + driversPerDatabase, last)
            let differences = try await PurchaseRound(seeds: first..<end, database: database).play()
            for difference in differences.prefix(5) { Issue.record("\(difference)") }
            guard differences.isEmpty else { return }
            first = end
        }
    }

    @Test func `the years have facts before and after restarts, repeats, and every source`() throws {
        let years = try (UInt64(1)...100).map { try PurchaseYear(seed: $0) }
        #expect(years.allSatisfy { $0.turns.count == PurchaseYear.turnCount })
        #expect(years.flatMap(\.turns).count { !$0.isEmpty } > 500)
        let deliveries = years.flatMap(\.turns).joined()
        let uuids = deliveries.compactMap { delivery -> String? in
            if case .notification(let notification) = delivery { notification.notificationUUID } else { nil }
        }
        #expect(uuids.count > Set(uuids).count && Set(uuids).count > 1000)
        #expect(deliveries.count > uuids.count + 1000)
        #expect(years.contains { year in year.expected.transactions.values.contains { $0.revocation != nil } })
    }
}

/// The years of many drivers, stored in one database.
private struct PurchaseRound {
    let seeds: Range<UInt64>
    let database: TestedDatabase

    private enum Restart { case clean, crash }
    /// The kind of restart after each turn but the last.
    private static let restarts: [Restart] = [.clean, .crash, .clean, .crash, .crash]

    /// Compares the stored entitlements with those that follow from the ordered facts, and returns the differences.
    /// Each difference begins with the seed of a year.
    func play() async throws -> [String] {
        let years = try seeds.map { try PurchaseYear(seed: $0) }
        let digests = try Sample.digests()
        let database = try await database.open()
        var purchases = StoredPurchases(store: database.store, digests: digests)
        var differences: [String] = []
        for turn in 0..<PurchaseYear.turnCount {
            let isAfterCrash = turn > 0 && Self.restarts[turn - 1] == .crash
            differences += await withTaskGroup(of: [String].self) { [purchases] group in
                for year in years {
                    group.addTask { await year.deliver(turn: turn, repeatsLast: isAfterCrash, to: purchases) }
                }
                return await group.reduce(into: []) { $0 += $1 }
            }
            guard differences.isEmpty, turn < Self.restarts.count else { break }
            switch Self.restarts[turn] {
            case .clean: try await database.closeAndOpen()
            case .crash: try await database.crashAndOpen()
            }
            purchases = StoredPurchases(store: database.store, digests: digests)
        }
        if differences.isEmpty {
            for year in years { differences += try await year.differences(in: purchases) }
        }
        await database.close()
        return differences
    }
}

/// A driver's year: the facts that Apple signs, and their deliveries in each turn. The seed determines everything.
private struct PurchaseYear: Sendable {
    static let turnCount = 6

    enum Delivery: Sendable {
        case notification(StoreNotification)
        case shown(ShownPurchase)
    }

    let seed: UInt64
    let caller: Caller
    /// The account token, which Apple signs into some of the transactions.
    let token: String
    /// All facts, in the order of their signatures.
    private(set) var expected = PurchaseFacts()
    private(set) var turns: [[Delivery]]
    /// Times at which the entitlements are compared.
    private let times: [Moment]

    init(seed: UInt64) throws {
        self.seed = seed
        caller = Caller(driver: DriverID("driver-\(seed)"))
        token = Self.uuid(seed, 0)
        var random = SeededRandom(seed: seed)
        let purchases = try Self.purchases(seed, token, &random)
        for purchase in purchases {
            expected.add(purchase.transaction)
            if let renewal = purchase.renewal { expected.add(renewal) }
        }
        turns = Array(repeating: [], count: Self.turnCount)
        for (number, purchase) in (purchases + purchases.filter { _ in random.chance(1, in: 4) }).enumerated() {
            let isNotification = random.chance(1, in: 2)
            let delivery =
                isNotification ? .notification(Self.notification(seed, number, purchase)) : Delivery.shown(purchase)
            for _ in 0..<(random.chance(1, in: 4) ? 2 : 1) {
                turns[Int.random(in: 0..<Self.turnCount, using: &random)].append(delivery)
            }
        }
        for turn in turns.indices { turns[turn].shuffle(using: &random) }
        // The app makes the final delivery, so that the purchase always has an owner.
        turns[Self.turnCount - 1].append(.shown(ShownPurchase(transaction: purchases[0].transaction)))
        times = (0..<3).map { _ in Sample.now.day(.random(in: 0...400, using: &random)) }
    }

    private static func purchases(
        _ seed: UInt64, _ token: String, _ random: inout SeededRandom
    ) throws -> [ShownPurchase] {
        var purchases: [ShownPurchase] = []
        for period in 0..<12 {
            let begin = period * 30
            let isNamed = random.chance(1, in: 2)
            for (day, isRefunded) in [(0, false), (3, true), (5, false)] where day == 0 || random.chance(1, in: 3) {
                let signed = Sample.now.day(begin + day).millisecondsSinceEpoch
                var members = [
                    #""transactionId":"\#(seed)\#(period + 10)","originalTransactionId":"\#(seed)10""#,
                    #""bundleId":"com.example.dwell","productId":"monthly","subscriptionGroupIdentifier":"group""#,
                    #""type":"Auto-Renewable Subscription","environment":"Production","signedDate":\#(signed)"#,
                    #""purchaseDate":\#(Sample.now.day(begin).millisecondsSinceEpoch)"#,
                    #""expiresDate":\#(Sample.now.day(begin + 30).millisecondsSinceEpoch)"#,
                ]
                if isNamed { members.append(#""appAccountToken":"\#(token)""#) }
                if isRefunded { members.append(#""revocationDate":\#(signed)"#) }
                let renewal = """
                    {"autoRenewStatus":\(random.chance(1, in: 2) ? 1 : 0),"environment":"Production",\
                    "originalTransactionId":"\(seed)10","productId":"monthly","signedDate":\(signed)}
                    """
                let proof = SignatureProof(header: "e30", signature: [UInt8(period), UInt8(day)])
                purchases.append(
                    ShownPurchase(
                        transaction: try TransactionFact(
                            payload: Array("{\(members.joined(separator: ","))}".utf8), proof: proof),
                        renewal: try RenewalFact(payload: Array(renewal.utf8), proof: proof)))
            }
        }
        return purchases
    }

    private static func notification(_ seed: UInt64, _ number: Int, _ purchase: ShownPurchase) -> StoreNotification {
        StoreNotification(
            notificationUUID: uuid(seed, number + 1), type: "DID_RENEW", subtype: nil, environment: .production,
            bundleID: "com.example.dwell", transaction: purchase.transaction, renewal: purchase.renewal,
            signedDate: purchase.transaction.signedDate, payload: [])
    }

    private static func uuid(_ seed: UInt64, _ number: Int) -> String {
        let digits = String(seed * 1000 + UInt64(number))
        return "00000000-0000-4000-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
    }

    // MARK: Delivery

    /// Delivers the facts of a turn and returns the unexpected responses. After a crash, a sender repeats a fact whose
    /// response was lost. If `repeatsLast` is true, the previous turn's last fact is therefore delivered first.
    func deliver(turn: Int, repeatsLast: Bool, to purchases: StoredPurchases) async -> [String] {
        let now = Sample.now.day(400 + turn)
        var differences: [String] = []
        do {
            if turn == 0 {
                guard try await purchases.appAccountToken(of: caller, new: token, at: now) == token else {
                    return ["seed \(seed): has another account token"]
                }
            }
            var taken = Set(turns[..<turn].joined().compactMap(\.notificationUUID))
            let lost = repeatsLast ? turns[turn - 1].suffix(1) : []
            for delivery in lost + turns[turn] {
                switch delivery {
                case .notification(let notification):
                    let isNew = taken.insert(notification.notificationUUID).inserted
                    let outcome = try await purchases.take(notification, at: now)
                    if (outcome != .repeated) != isNew {
                        differences.append(
                            "seed \(seed): \(isNew ? "a new" : "a repeated") notification had the outcome \(outcome)")
                    }
                case .shown(let purchase):
                    guard case .stored = try await purchases.add(purchase, of: caller, at: now) else {
                        differences.append("seed \(seed): the purchase belongs to another driver")
                        continue
                    }
                }
            }
        } catch {
            differences.append("seed \(seed): \(error)")
        }
        return differences
    }

    func differences(in purchases: StoredPurchases) async throws -> [String] {
        let found = try await purchases.facts(of: caller.driver)
        var differences = times.filter { found.entitlements(at: $0) != expected.entitlements(at: $0) }.map {
            "seed \(seed): at \($0) \(found.entitlements(at: $0)) instead of \(expected.entitlements(at: $0))"
        }
        if found != expected { differences.append("seed \(seed): the facts differ") }
        return differences
    }
}

extension PurchaseYear.Delivery {
    fileprivate var notificationUUID: String? {
        if case .notification(let notification) = self { notification.notificationUUID } else { nil }
    }
}

extension Moment {
    fileprivate func day(_ days: Int) -> Moment { advanced(bySeconds: days * 86_400) }
}
