// Tests of transfers from SQLite to PostgreSQL. Afterwards, both databases must contain the same journeys. A transfer
// may be interrupted after each part, and a server starts only after a complete transfer.

import Engine
import Foundation
import Identity
import JourneyModel
import Logging
import Postgres
import Purchases
import Push
import Secrets
import SharedTables
import Sockets
import Synchronization
import TestSupport
import Testing

@testable import PostgresStore
@testable import SQLiteStore

struct TransferTests {
    // MARK: Databases

    private static func key() throws -> SigningKey {
        try SigningKey(secret: Secret("a secret of the tests, 32 bytes or more"))
    }

    private static func digests() throws -> KeyedHashes { KeyedHashes(signingKey: try key()) }

    private static func openSQLite(_ database: TestDatabase) throws -> SQLiteEventStore {
        try SQLiteEventStore(path: database.path, nowMilliseconds: 0, digests: try digests())
    }

    /// - Parameter interrupt: called after the target has stored a part.
    private static func transfer(
        _ source: TestDatabase, to target: TestDatabase,
        report: @escaping @Sendable (TransferReport) -> Void = { _ in },
        interrupt: @escaping @Sendable () throws -> Void = {}
    ) async throws {
        let path = source.path
        let postgres = try await PostgresTransferTarget.open(
            try target.configuration, on: TestDatabase.loops.next(), atMilliseconds: 1)
        let transfer = DatabaseTransfer(
            open: { try SQLiteTransferSource.open(path) }, lock: { try SQLiteTransferSource.lock(path) },
            target: InterruptedTarget(target: postgres, interrupt: interrupt), report: report)
        let result: Result<Void, any Error>
        do { result = .success(try await transfer.run()) } catch { result = .failure(error) }
        await postgres.close()
        try result.get()
    }

    private struct InterruptedTarget: TransferTarget {
        let target: PostgresTransferTarget
        let interrupt: @Sendable () throws -> Void

        func begin(_ source: [UInt8]) async throws -> [Int64: TransferredDriver] { try await target.begin(source) }
        func write(_ part: TransferPart) async throws {
            try await target.write(part)
            try interrupt()
        }
        func remove(_ drivers: [Int64]) async throws { try await target.remove(drivers) }
        func analyze() async throws { try await target.analyze() }
        func beginLastTransaction() async throws -> [String: [String]] { try await target.beginLastTransaction() }
        func write(_ rows: TransferRows) async throws {
            try await target.write(rows)
            try interrupt()
        }
        func commitLastTransaction() async throws { try await target.commitLastTransaction() }
    }

    private struct Interrupted: Error {}

    // MARK: Drivers

    private static let end = Moment.sample.advanced(bySeconds: 900_000)
    private static let received = Moment.sample.advanced(bySeconds: 1_000_000)
    private static let driverCount = 60

    /// The requests of one driver. Half of them are sent before the transfer.
    private struct Sent: Sendable {
        var driver: DriverID
        var deliveries: [AppendRequest]

        init(_ seed: Int) {
            var random = SeededRandom(seed: UInt64(seed))
            let driver = DriverID("driver-\(seed)")
            self.driver = driver
            // Every fifth driver's first events are old enough for retention.
            let start = Moment.sample.advanced(bySeconds: seed % 5 == 0 ? -3_000_000 : 0)
            let events = RandomJourney.events(from: start, countMax: 40, sessionPrefix: "s\(seed)-", &random)
            let delayMax = [0, 3, 100].randomPick(&random)
            let order = events.indices.map { ($0 + Int.random(in: 0...delayMax, using: &random), $0) }.sorted(by: <)
            deliveries = order.enumerated().map { place, event in
                let event = events[event.1]
                let isOld = seed % 5 == 0 && place < events.count / 2
                let receivedAt = (isOld ? received.advanced(bySeconds: -3_000_000) : received)
                    .advanced(byMilliseconds: Int64(place * driverCount + seed))
                var submission = EventSubmission.sample(
                    event.name, key: event.idempotencyKey, eventID: event.eventID, session: event.sessionID,
                    charger: event.chargerID, merchant: seed % 2 == 0 ? "merchant-\(seed % 3)" : nil,
                    at: event.occurredAt, sequence: event.sequence,
                    metadata: seed % 4 == 0 ? "{\"cup\":\"\u{1F375}\"}" : nil, previousState: event.previousState,
                    isWholeSecond: event.isWholeSecond)
                if seed % 6 == 0 { submission.details = "{\"detail\":\(place)}" }
                return AppendRequest(
                    driver: driver, submission: submission, receivedAt: receivedAt,
                    settings: VersionedSettings(
                        settings: Settings(
                            gracePeriodSeconds: event.gracePeriodSeconds, hardTimeoutSeconds: event.hardTimeoutSeconds),
                        version: "\(event.gracePeriodSeconds)-\(event.hardTimeoutSeconds)"),
                    sender: event.sender)
            }
        }

        var half: Int { deliveries.count / 2 }
    }

    private static func expireAll(_ store: SQLiteEventStore) async throws {
        var request = ExpiryRequest(now: end, settings: VersionedSettings(Settings()), driversMax: 64)
        repeat {
            request.after = try await store.storeExpiries(request).next
        } while request.after != nil
    }

    private static func deleteOldEvents(_ store: SQLiteEventStore) async throws -> Int {
        try await RetentionService(
            store: store, days: 7, clock: { received },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            forwarded: { () throws(StoreFailure) in .max }
        ).round().events
    }

    private static func correct(_ store: SQLiteEventStore) async throws {
        let settings = VersionedSettings(Settings(gracePeriodSeconds: 1200, hardTimeoutSeconds: 7000))
        _ = try await store.record(settings, at: received)
        let now = received.advanced(bySeconds: 1000)
        let outcome = try await store.begin(
            CorrectionOrder(since: received, settings: .current, insteadOf: "60-600"),
            note: SettingsChangeNote(changedBy: "Ann", reason: "why"), at: now)
        guard case .begun(let correction, _) = outcome else { throw Interrupted() }
        var request = RefoldRequest(correction: correction.id, now: end)
        while let next = try await store.refold(request).next { request.after = next }
        try await store.finish(correction: correction.id, at: now)
    }

    private static func erase(_ driver: DriverID, _ store: SQLiteEventStore) async throws {
        let accounts = OperatorAccounts(
            store: StoredAccounts(store: store, digests: try digests()), forget: { _ in })
        let receipt = try await accounts.erase(driver, at: received)
        #expect(receipt != nil)
        _ = await accounts.finishRemoval()
    }

    /// Returns everything about the drivers that clients and consumers can see. First waits until the feed has
    /// `eventCount` events.
    private static func seen(
        _ sent: [Sent], _ store: any EventStore & JourneyReader & EventFeed, eventCount: Int = 0
    ) async throws -> [String] {
        var seen: [String] = []
        for one in sent {
            let driver = one.driver
            seen.append("journey \(try await store.journey(of: driver))")
            for id in [nil, 0, 7, 900] as [Int64?] {
                seen.append("changes \(try await store.changes(of: driver, after: id))")
            }
            let submissions = one.deliveries.map(\.submission)
            seen.append("repeats \(try await store.lookUp(submissions, of: driver))")
            let others = submissions.map { submission in
                var other = submission
                other.canonicalForm += [0]
                other.metadata = "{\"other\":1}"
                return other
            }
            seen.append("reused keys \(try await store.lookUp(others, of: driver))")
            let page = try await store.sessions(of: driver, limit: 50, after: nil)
            seen.append("sessions \(page as Any)")
            for session in page?.sessions ?? [] {
                let all = try await store.timeline(of: session.sessionID, of: driver, limit: 100, after: nil)
                seen.append("timeline \(all)")
                guard case .found(let timeline) = all, let first = timeline.events.first else { continue }
                let rest = try await store.timeline(of: session.sessionID, of: driver, limit: 2, after: first.id)
                seen.append("timeline after \(first.id) \(rest)")
            }
        }
        for event in try await store.fed(eventCount) { seen.append("\(feedPrefix)\(event)") }
        // `waitingCount` is left out, because SQLite does not count the waiting events.
        let position = try await store.position(of: "analytics")
        seen.append("position \(position.last) \(position.newest) \(position.lostCount)")
        return seen
    }

    private static let feedPrefix = "feed "

    private static func eventCount(_ lines: [String]) -> Int { lines.count { $0.hasPrefix(feedPrefix) } }

    private static func expectSame(_ before: [String], _ after: [String]) {
        #expect(before.count == after.count && before.count > 300)
        let differences = zip(before, after).filter { $0 != $1 }
        for (one, other) in differences.prefix(3) { Issue.record("\(one)\n\(other)") }
    }

    @Test func `everything that clients see is the same afterwards, also what changes during the transfer`()
        async throws
    {
        let (source, target) = (try await TestDatabase(.sqlite), try await TestDatabase(.postgresql))
        let sqlite = try Self.openSQLite(source)
        let sent = (1...Self.driverCount).map(Sent.init)
        for one in sent { for request in one.deliveries.prefix(one.half) { _ = await sqlite.append([request]) } }
        try await Self.expireAll(sqlite)
        #expect(try await Self.deleteOldEvents(sqlite) > 0)
        try await Self.erase(DriverID("driver-1"), sqlite)
        try await sqlite.move("analytics", to: 400, losing: 3, at: Self.received)
        for index in 0..<3 {
            _ = try await sqlite.register(
                SessionRegistration(
                    sessionID: "registered-\(index)", driver: DriverID("driver-2"), chargerID: "c1", merchantID: nil,
                    receivedAt: Self.received.advanced(bySeconds: 100 + index)))
        }

        let simulated = DriverID(DriverID.simulatedPrefix + "1")
        _ = await sqlite.append([.sample(.sample(.reset, key: "sim", session: "sim"), of: simulated)])

        let (reports, continuation) = AsyncStream.makeStream(of: TransferReport.self)
        let transfer = Task {
            defer { continuation.finish() }
            try await Self.transfer(source, to: target, report: { continuation.yield($0) })
        }
        var waits = false
        for await report in reports {
            if case .waits = report { waits = true }
            if waits { break }
        }
        #expect(waits)
        if !waits { return try await transfer.value }
        // The drivers after the 40th send nothing more.
        for one in sent.prefix(40) {
            for request in one.deliveries.dropFirst(one.half) { _ = await sqlite.append([request]) }
        }
        try await Self.expireAll(sqlite)
        try await Self.erase(DriverID("driver-3"), sqlite)
        #expect(try await sqlite.removeSimulatedDrivers(driversMax: 10).drivers == 1)
        let again = try await sqlite.register(
            SessionRegistration(
                sessionID: "registered-late", driver: DriverID("driver-50"), chargerID: "c2", merchantID: "m",
                receivedAt: Self.received.advanced(bySeconds: 200)))
        #expect(again == .created)
        try await Self.correct(sqlite)
        try await Self.expireAll(sqlite)
        let before = try await Self.seen(sent, sqlite)
        await sqlite.close()
        try await transfer.value

        let (postgres, close) = try target.open(try Self.digests())
        let store = try #require(postgres as? PostgresEventStore)
        #expect(try await store.check { _, _ in }.problems == [])
        Self.expectSame(before, try await Self.seen(sent, store, eventCount: Self.eventCount(before)))
        // Deleted drivers stay deleted.
        #expect(try await store.journey(of: DriverID("driver-3")) == Journey())
        // A new event comes after the transferred events in the feed.
        let late = sent[59].deliveries[sent[59].half]
        guard case .stored = await store.append([late])[0] else { throw Interrupted() }
        #expect(await store.append([late])[0].isReplay)
        let last = try #require(try await store.fed(Self.eventCount(before) + 1).last)
        #expect(last.eventID == late.submission.eventID)
        #expect(try await store.check { _, _ in }.problems == [])
        await close()
    }

    @Test func `an interrupted transfer continues, and no server starts before it is complete`() async throws {
        let (source, target) = (try await TestDatabase(.sqlite), try await TestDatabase(.postgresql))
        let sqlite = try Self.openSQLite(source)
        let sent = (1...20).map(Sent.init)
        for one in sent { for request in one.deliveries { _ = await sqlite.append([request]) } }
        // One part of a transfer is too small for this driver's events.
        let busy = DriverID("busy")
        let many = (0..<9_000).map { index in
            AppendRequest.sample(
                .sample(
                    .sessionRestored, key: "busy-\(index)", session: "s",
                    at: .sample.advanced(byMilliseconds: Int64(index * 10))), of: busy)
        }
        for start in stride(from: 0, to: many.count, by: 500) {
            _ = await sqlite.append(Array(many[start..<start + 500]))
        }
        let before = try await Self.seen(sent, sqlite)
        await sqlite.close()

        var runs = 0
        var copied: [Int] = []
        while true {
            runs += 1
            let found = Mutex(0)
            let left = Mutex(runs)
            do {
                try await Self.transfer(source, to: target) { report in
                    if case .begins(_, let count) = report { found.withLock { $0 = count } }
                } interrupt: {
                    // The n-th run is interrupted after n parts.
                    if left.withLock({ left in
                        left -= 1
                        return left == 0
                    }) {
                        throw Interrupted()
                    }
                }
                copied.append(found.withLock { $0 })
                break
            } catch is Interrupted {
                copied.append(found.withLock { $0 })
                await #expect(throws: PostgresMigrationRefusal.isTransferred) {
                    _ = try await PostgresEventStore.migrate(
                        try target.configuration, on: TestDatabase.loops.next(), atMilliseconds: 1,
                        until: .inSeconds(30))
                }
            }
        }
        #expect(runs > 3)
        #expect(copied.first == 0 && copied.last == 21 && copied == copied.sorted(), "\(copied)")

        let (postgres, close) = try target.open(try Self.digests())
        let store = try #require(postgres as? PostgresEventStore)
        #expect(try await store.check { _, _ in }.problems == [])
        Self.expectSame(before, try await Self.seen(sent, store, eventCount: Self.eventCount(before)))
        #expect(try await store.lookUp(many.map(\.submission), of: busy).allSatisfy { $0?.isReplay == true })
        await close()
    }

    @Test func `a target with other data, or of another source, is refused`() async throws {
        let (source, other) = (try await TestDatabase(.sqlite), try await TestDatabase(.sqlite))
        for database in [source, other] {
            let store = try Self.openSQLite(database)
            for request in Sent(1).deliveries { _ = await store.append([request]) }
            await store.close()
        }
        let used = try await TestDatabase(.postgresql)
        let (store, close) = try used.open(try Self.digests())
        _ = await store.append([Sent(2).deliveries[0]])
        await close()
        await #expect(throws: TransferRefusal.self) { try await Self.transfer(source, to: used) }

        let target = try await TestDatabase(.postgresql)
        await #expect(throws: Interrupted.self) {
            try await Self.transfer(source, to: target, interrupt: { throw Interrupted() })
        }
        await #expect(throws: TransferRefusal.self) { try await Self.transfer(other, to: target) }
        try await Self.transfer(source, to: target)
        await #expect(throws: TransferRefusal.self) { try await Self.transfer(source, to: target) }
    }

    @Test func `a view in an empty target, such as an extension creates, is no data`() async throws {
        let (source, target) = (try await TestDatabase(.sqlite), try await TestDatabase(.postgresql))
        let sqlite = try Self.openSQLite(source)
        let sent = Sent(1)
        for request in sent.deliveries { _ = await sqlite.append([request]) }
        let before = try await sqlite.journey(of: sent.driver)
        await sqlite.close()
        let connection = try await PostgresConnection.open(try target.configuration, on: TestDatabase.loops.next())
        try await connection.runScript("CREATE VIEW pg_stat_statements AS SELECT 1::int8 AS calls")
        connection.close()
        try await Self.transfer(source, to: target)

        let (postgres, close) = try target.open(try Self.digests())
        let store = try #require(postgres as? PostgresEventStore)
        #expect(try await store.journey(of: sent.driver) == before)
        await close()
    }

    @Test func `accounts go on: a refresh token, a code, an outbox, the audit`() async throws {
        let (source, target) = (try await TestDatabase(.sqlite), try await TestDatabase(.postgresql))
        let old = try await AccountFixture(in: source)
        let pair = try await old.signIn(phone: "+4915112345678")
        let apple = try await old.signInWithApple()
        try await old.signIns.sendCode(to: "+4915112345679", from: .at(.signedIn))
        let code = old.phones.last(to: "+4915112345679")
        let audit = try await old.audit()
        let history = NotificationSource(environment: .sandbox, bundleID: "com.example.dwell")
        try await StoredPurchases(accounts: old.accounts).record(historyReadTo: .signedIn, of: history)
        var counts: [String: Int] = [:]
        for table in TransferredTables.shared { counts[table] = try await old.count(table) }
        await old.close()
        try await Self.transfer(source, to: target)

        let new = try await AccountFixture(in: target)
        for table in TransferredTables.shared { #expect(try await new.count(table) == counts[table], "\(table)") }
        #expect(try await new.audit() == audit)
        #expect(try await StoredPurchases(accounts: new.accounts).historyReadTo(of: history) == .signedIn)
        let later = Moment.signedIn.advanced(bySeconds: 60)
        let renewed = try await new.sessions.refresh(pair.refreshToken, for: .current, from: .at(later))
        #expect(await new.refusal(of: renewed.accessToken, at: later) == nil)
        #expect(await new.refusal(of: apple.accessToken, at: later) == nil)
        _ = try await new.signIns.signIn(phone: "+4915112345679", code: Secret(code), from: .at(later))
        await new.close()
    }
}

extension EventOutcome {
    fileprivate var isReplay: Bool { if case .replayed = self { true } else { false } }
}
