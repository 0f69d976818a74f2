// Tests of a late event that comes before a long journey. The refold takes several pieces, and other drivers' events
// are stored between them. No read sees an incomplete refold.
//
// The amount of work is measured in rows.

import Crypto
import Engine
import Foundation
import GRDB
import Identity
import JourneyModel
import RateLimiting
import Synchronization
import TestSupport
import Testing

@testable import SQLiteStore
@testable import SharedTables

struct LateRefoldTests {
    private static let rowsPerPiece = 10
    private let folder: ScratchFolder
    private let driver = DriverID("late-driver")

    init() throws {
        folder = try ScratchFolder(inMemory: true)
    }

    private func store(
        _ name: String = "db", rowsPerPiece: Int = rowsPerPiece, charging: (any RefoldCharging)? = nil,
        pace: RefoldPace? = nil
    ) throws -> SQLiteEventStore {
        let pool = try DatabaseOpening.open(path: folder.file(name), nowMilliseconds: 0)
        return try SQLiteEventStore(
            pool: pool, charging: charging,
            pace: pace ?? RefoldPace(rowsPerLateEvent: rowsPerPiece, rowsPerPiece: rowsPerPiece))
    }

    /// Stores events that name no charger. A late event that targets a charger before them therefore changes the
    /// journey after each of them.
    private func journey(of count: Int, by driver: DriverID? = nil, in store: SQLiteEventStore) async throws {
        for start in stride(from: 0, to: count, by: 500) {
            let requests = (start..<min(start + 500, count)).map { number in
                request(
                    .sample(.sessionRestored, key: "e\(number)", at: .sample.advanced(bySeconds: 10 + number)),
                    of: driver)
            }
            for outcome in await store.append(requests) { #expect(outcome.isStored) }
        }
    }

    private func request(_ submission: EventSubmission, of driver: DriverID? = nil) -> AppendRequest {
        .sample(submission, of: driver ?? self.driver, receivedAt: .sample.advanced(bySeconds: 1_000_000))
    }

    private func late(_ key: String, charger: String = "c1", from service: DriverID? = nil) -> AppendRequest {
        var event = request(.sample(.chargerTargeted, key: key, charger: charger))
        if let service {
            event.sender = .service
            event.service = service
        }
        return event
    }

    /// Returns how many of the driver's events have the late event's charger in their journey. Also returns whether a
    /// refold is in progress. Both come from one snapshot.
    private func reached(_ store: SQLiteEventStore) async throws -> (rows: Int, isUnderWay: Bool) {
        let driver = driver
        return try await store.read { db in
            (
                try Int.fetchOne(
                    db,
                    sql: """
                        SELECT count(*) FROM event WHERE after_target_charger IS NOT NULL
                            AND driver = (SELECT id FROM driver WHERE driver_id = ?)
                        """, arguments: [driver.rawValue]) ?? 0,
                try RefoldTable.isUnderWay(driver, ofLateEvent: true, db)
            )
        }
    }

    /// Stores a late event before 300 others, sent by `service` or, if that is nil, by the driver. Stops the refold
    /// after twenty rows, as a crash would, and makes `copies` of the database.
    private func cutRefold(copies: String..., from service: DriverID? = nil) async throws {
        let pace = RefoldPace(rowsPerLateEvent: 10, rowsPerPiece: 10, pauseFactor: 1_000_000, quiet: .seconds(3600))
        let store = try store("cut", pace: pace)
        try await journey(of: 300, in: store)
        let answer = Task { [store, request = late("late", from: service)] in await store.append(request) }
        while try await reached(store).rows < 21 { await Task.yield() }
        for copy in copies { try folder.copyDatabase("cut", to: copy) }
        await store.close()
        #expect(await answer.value == .failed(.unknown("the store is closed")))
    }

    /// Completes interrupted refolds, as the server does after its start. Returns the number of calls of `refold`,
    /// without the last one.
    private func completeRefolds(_ store: SQLiteEventStore) async throws -> Int {
        var request = RefoldRequest(urgentOnly: true)
        var parts = 0
        while true {
            let part = try await store.refold(request)
            #expect(part.failure == nil)
            guard let next = part.next else { return parts }
            request.after = next
            parts += 1
        }
    }

    private func check(_ name: String) throws -> DatabaseCheck.Report {
        let check = try DatabaseCheck(path: folder.file(name))
        defer { check.close() }
        return try check.run { _ in }
    }

    @Test func `one transaction folds no more rows than its bound, and others come in between`() async throws {
        let charges = CountedCharges()
        let store = try store(charging: charges)
        try await journey(of: 400, in: store)
        let answer = Task { [store, request = late("late")] in await store.append(request) }
        var seen: Set<Int> = []
        var otherCount = 0
        while true {
            let (rows, isUnderWay) = try await reached(store)
            if rows == 0 { continue }
            // While the refold is in progress, `rows` counts the late event and the events of whole pieces.
            if isUnderWay { #expect((rows - 1) % Self.rowsPerPiece == 0) }
            seen.insert(rows)
            if !isUnderWay { break }
            otherCount += 1
            // The other driver's events all have different times. To place an event, the store searches all events of
            // its millisecond, so equal times would make the test slow.
            let other = request(
                .sample(.chargerTargeted, key: "o\(otherCount)", at: .sample.advanced(bySeconds: otherCount)),
                of: DriverID("other-driver"))
            #expect(await store.append(other).isStored)
        }
        #expect(try await reached(store).rows == 401)
        #expect(otherCount > 0 && seen.count > 1, "Another driver's event was stored before the refold was complete.")
        guard case .stored(let event) = await answer.value else {
            Issue.record("not stored")
            return
        }
        #expect(event.chargesRefold)
        #expect(event.journey.targetChargerID == "c1")
        #expect(charges.counts["late"] == 400)
        await store.close()
    }

    @Test func `no read meets the middle of a refold`() async throws {
        let store = try store()
        try await journey(of: 300, in: store)
        let answer = Task { [store, request = late("late")] in await store.append(request) }
        for _ in 0..<20 {
            let timeline = try await store.timeline(of: driver)
            #expect(timeline.count == 300 || timeline.count == 301)
            if timeline.count == 301 {
                let rows = try await reached(store)
                #expect(rows == (301, false))
            }
        }
        // A repeat of the late event, and the driver's next event, wait until the refold is complete.
        async let again = store.append(late("late"))
        async let next = store.append(
            request(.sample(.enteredChargerIntentZone, key: "next", at: .sample.advanced(bySeconds: 5_000))))
        #expect(await next.isStored)
        #expect(await answer.value.isStored)
        guard case .replayed(let event) = await again else {
            Issue.record("the repeat was stored")
            return
        }
        #expect(event.journey.targetChargerID == "c1")
        #expect(try await store.journey(of: driver).targetChargerID == "c1")
        await store.close()
    }

    @Test func `a refold that a crash cut is completed by the server's run, and by the driver's next event`()
        async throws
    {
        try await cutRefold(copies: "copy", "other")
        let copy = try self.store("copy")
        #expect(try await reached(copy).rows < 301)
        #expect(try await copy.hasUnfinishedRefolds())
        #expect(try check("copy") == DatabaseCheck.Report(refolding: 1))
        #expect(try await completeRefolds(copy) > 2, "One driver takes several parts.")
        let rows = try await reached(copy)
        #expect(rows == (301, false))
        #expect(try await copy.journey(of: driver).targetChargerID == "c1")
        #expect(try await !copy.hasUnfinishedRefolds())
        #expect(try check("copy") == DatabaseCheck.Report(drivers: 1, events: 301))
        guard case .replayed = await copy.append(late("late")) else {
            Issue.record("stored twice")
            return
        }
        await copy.close()

        let other = try self.store("other")
        guard case .replayed(let event) = await other.append(late("late")) else {
            Issue.record("stored twice")
            return
        }
        #expect(event.journey.targetChargerID == "c1")
        #expect(try await reached(other).rows == 301)
        await other.close()
    }

    @Test func `retention deletes nothing of a driver until the refold is complete`() async throws {
        try await cutRefold(copies: "db")
        let store = try store()
        let all = Moment.sample.advanced(bySeconds: 2_000_000)
        let aged = try await store.agedEvents(
            AgedEventsRequest(
                now: all, receivedBefore: all, forwarded: .max, unforwardedBefore: all, after: 0, limit: 100)
        ).events
        #expect(aged.count == 100)
        #expect(try await store.delete(aged[...]) == 0)
        _ = try await completeRefolds(store)
        #expect(try await store.delete(aged[...]) == 100)
        // 201 events remain. The late event is below the driver's floor, because it is older than the deleted events.
        // The check ignores it and counts the other 200.
        #expect(try check("db") == DatabaseCheck.Report(drivers: 1, events: 200))
        await store.close()
    }

    @Test func `the refold of an erased driver is completed without its name`() async throws {
        try await cutRefold(copies: "db")
        let digests = KeyedHashes(secret: SymmetricKey(data: Data(repeating: 1, count: 32)))
        let pool = try DatabaseOpening.open(path: folder.file("db"), nowMilliseconds: 0)
        let charges = CountedCharges()
        let store = try SQLiteEventStore(pool: pool, digests: digests, charging: charges)
        let now = Moment.sample.advanced(bySeconds: 1_000_000)
        try await StoredAccounts(store: store, digests: digests).erase(
            driver, receipt: ErasureReceipt(id: "rcp_1", deletedAt: now), pseudonym: "erased-1", from: .at(now))
        #expect(await store.append(late("again")) == .failed(.driverErased))
        #expect(try await store.hasUnfinishedRefolds())
        _ = try await completeRefolds(store)
        #expect(try check("db") == DatabaseCheck.Report(drivers: 1, events: 301, erasing: 1))
        #expect(try await StoredAccounts(store: store, digests: digests).completeErasures(of: nil) == 1)
        #expect(try check("db") == DatabaseCheck.Report(drivers: 1, events: 301))
        #expect(charges.drivers == [DriverID("erased-1")])
        await store.close()
    }

    /// The app gets 401, because its token belongs to the erased driver. A service's token is still valid, so a service
    /// gets 404 `driver_not_found`.
    @Test func `a driver who is erased during the refold of a late event is unknown to a service`()
        async throws
    {
        let digests = KeyedHashes(secret: SymmetricKey(data: Data(repeating: 1, count: 32)))
        for (sender, expected) in [(nil, .failed(.driverErased)), (DriverID("partner"), .driverNotFound)]
            as [(DriverID?, EventOutcome)]
        {
            let name = sender == nil ? "app" : "service"
            let pool = try DatabaseOpening.open(path: folder.file(name), nowMilliseconds: 0)
            let pace = RefoldPace(rowsPerLateEvent: 1, rowsPerPiece: 1)
            let store = try SQLiteEventStore(pool: pool, digests: digests, pace: pace)
            try await journey(of: 2_000, in: store)
            let answer = Task { [store, request = late("late", from: sender)] in await store.append(request) }
            while try await !reached(store).isUnderWay { await Task.yield() }
            let now = Moment.sample.advanced(bySeconds: 1_000_000)
            try await StoredAccounts(store: store, digests: digests).erase(
                driver, receipt: ErasureReceipt(id: "rcp_1", deletedAt: now), pseudonym: "erased-1", from: .at(now))
            #expect(await answer.value == expected, "\(name)")
            await store.close()
        }
    }

    @Test func `a store that is closed during a refold does not say that the event is not stored`() async throws {
        let store = try store(rowsPerPiece: 1)
        try await journey(of: 2_000, in: store)
        let answer = Task { [store, request = late("late")] in await store.append([request]) }
        while try await !reached(store).isUnderWay { await Task.yield() }
        await store.close()
        for outcome in await answer.value {
            switch outcome {
            case .stored, .failed(.unknown): break
            default: Issue.record("\(outcome)")
            }
        }
    }

    @Test func `late events of others do not put off a refold that waits`() async throws {
        let store = try store(pace: RefoldPace(rowsPerLateEvent: 20, rowsPerPiece: 10, pauseFactor: 0))
        try await journey(of: 400, in: store)
        let others = (0..<8).map { DriverID("other-\($0)") }
        for other in others { try await journey(of: 15, by: other, in: store) }
        // The late event's refold has forty pieces, and each piece is one transaction. Each transaction also stores one
        // late event of each other driver, and each of these refolds 15 rows.
        let storedMax = 400
        let lateEvent = late("late")
        let answered = Answered()
        let storedCount = await withTaskGroup(of: Int.self) { group in
            for other in others {
                let requests = (1...storedMax).map { number in
                    request(
                        .sample(
                            .chargerTargeted, key: "l\(number)", charger: "c\(number % 2)",
                            at: .sample.advanced(byMilliseconds: Int64(number))), of: other)
                }
                group.addTask {
                    var count = 0
                    while !answered.value.load(ordering: .relaxed), count < storedMax {
                        #expect(await store.append(requests[count]).isStored)
                        count += 1
                    }
                    return count
                }
            }
            group.addTask {
                #expect(await store.append(lateEvent).isStored)
                answered.value.store(true, ordering: .relaxed)
                return 0
            }
            return await group.reduce(0, +)
        }
        #expect(try await reached(store).rows == 401)
        #expect(storedCount < others.count * storedMax, "The late event was answered while others still had some.")
        await store.close()
    }

    @Test func `a refold stops where the journey is the stored one, and is charged by its rows`() async throws {
        let charges = CountedCharges()
        let store = try store(rowsPerPiece: 500, charging: charges)
        try await journey(of: 200, in: store)
        #expect(await store.append(request(.sample(.sessionRestored, key: "idle"))).isStored)
        // `mid` comes after the first hundred events and sets the charger anew. The journey after `mid` does not depend
        // on `late`, so the refold of `late` can stop there.
        let mid = request(.sample(.chargerTargeted, key: "mid", charger: "c0", at: .sample.advanced(bySeconds: 110)))
        #expect(await store.append(mid).isStored)
        #expect(await store.append(late("late")).isStored)
        let counts = charges.counts
        #expect(counts["idle", default: 0] <= 1, "It changes nothing.")
        // One other event has the same time as `mid`.
        #expect(counts["mid"] == 101)
        #expect((100...104).contains(counts["late"] ?? 0))
        await store.close()
    }

    /// An event from the driver arrives during the refold and waits for it. For this event, the writer may complete the
    /// refold. The rows must still be charged to the service, whose late event caused the refold.
    @Test func `the refold after a service's event is charged to the service, however many pieces it takes`()
        async throws
    {
        let charges = CountedCharges()
        let store = try store(charging: charges)
        try await journey(of: 400, in: store)
        let partner = DriverID("partner")
        let event = late("late", from: partner)
        let own = request(.sample(.sessionRestored, key: "next", at: .sample.advanced(bySeconds: 5_000)))
        async let answer = store.append(event)
        async let next = store.append(own)
        #expect(await answer.isStored)
        #expect(await next.isStored)
        #expect(charges.drivers == [partner])
        #expect(Set(charges.counts.keys) == [event.claim.idempotencyKey])
        // The driver's own event may be stored before the service's.
        #expect((400...401).contains(charges.counts[event.claim.idempotencyKey] ?? 0))
        await store.close()
    }

    @Test func `the refold after a service's event that a crash cut is charged to nobody`() async throws {
        try await cutRefold(copies: "db", from: DriverID("partner"))
        let charges = CountedCharges()
        let store = try store(charging: charges)
        _ = try await completeRefolds(store)
        #expect(try await reached(store).rows == 301)
        #expect(charges.counts.isEmpty)
        await store.close()
    }

    /// To read one event, SQLite sorts all events of its millisecond. A piece of a refold therefore has all events of a
    /// millisecond, or none.
    @Test func `the events of one millisecond are refolded together`() async throws {
        let store = try store()
        let requests = (0..<300).map { number in
            request(
                .sample(
                    .sessionRestored, key: "e\(1000 + number)",
                    at: .sample.advanced(byMilliseconds: 1_500 + Int64(number / 100))))
        }
        for outcome in await store.append(requests) { #expect(outcome.isStored) }
        let answer = Task { [store, request = late("late")] in await store.append(request) }
        while true {
            let (rows, isUnderWay) = try await reached(store)
            if isUnderWay { #expect((rows - 1) % 100 == 0) }
            if rows > 0 && !isUnderWay { break }
        }
        #expect(await answer.value.isStored)
        #expect(try check("db") == DatabaseCheck.Report(drivers: 1, events: 301))
        await store.close()
    }

    @Test func `only so many events have the same time, where events are limited`() async throws {
        let limits = RateLimits(sessionEvents: 100_000, preSessionEvents: 100_000)
        let admission = LocalRateLimiter(limits: limits, clock: { 1 })
        let store = try store(rowsPerPiece: 500, charging: RefoldCharges(admission: admission, limits: limits))
        let crowd = (0...RefoldCharges.sharingTimeMax + 1).map { number in
            request(.sample(.sessionRestored, key: "e\(10_000 + number)", at: .sample.advanced(byMilliseconds: 500)))
        }
        let other = request(.sample(.sessionRestored, key: "other", at: .sample.advanced(byMilliseconds: 499)))
        let outcomes = await store.append(crowd + [other])
        #expect(outcomes.filter(\.isStored).count == RefoldCharges.sharingTimeMax + 1)
        #expect(outcomes[RefoldCharges.sharingTimeMax] == .rateLimited)
        #expect(outcomes.last?.isStored == true)
        // To place an event, SQLite sorts it with the earlier events of its millisecond. The driver is charged once for
        // every 100 of these.
        //
        // The first 100 events cost nothing, each of the next 100 costs one charge, and so on. Each of the last 100
        // costs nine charges, which makes 4,500 in total.
        let remaining = admission.quota(of: driver, in: .preSessionEvents).remaining
        #expect(remaining == 100_000 - 4_500)
        await store.close()
    }

    @Test func `what refolds owe refuses the next late events, not the others`() async throws {
        let limits = RateLimits(sessionEvents: 60, preSessionEvents: 30)
        let admission = LocalRateLimiter(limits: limits, clock: { 1 })
        let store = try store(rowsPerPiece: 500, charging: RefoldCharges(admission: admission, limits: limits))
        try await journey(of: 40 * RefoldCharges.rowsPerCharge, in: store)
        let outcomes = await store.append(
            (0..<12).map { late("late\($0)", charger: "c\($0)") }
                + [request(.sample(.chargerTargeted, key: "now", at: .sample.advanced(bySeconds: 900_000)))])
        #expect(outcomes[0].isStored)
        for outcome in outcomes[1..<12] { #expect(outcome == .rateLimited) }
        #expect(outcomes[12].isStored)
        #expect(admission.isOverdrawn(by: driver, in: .preSessionEvents))
        #expect(admission.quota(of: driver, in: .preSessionEvents).remaining == 0)
        #expect(!admission.isOverdrawn(by: driver, in: .sessionEvents))
        await store.close()
    }
}

private final class Answered: Sendable {
    let value = Atomic(false)
}

/// Records the number of charged rows for each late event, by the event's idempotency key.
private final class CountedCharges: RefoldCharging {
    private let state = Mutex<(counts: [String: Int], drivers: Set<DriverID>)>(([:], []))

    var counts: [String: Int] { state.withLock { $0.counts } }
    var drivers: Set<DriverID> { state.withLock { $0.drivers } }

    func permitsRefold(_ claim: AdmissionClaim, sharingTime: Int) -> Bool { true }

    func charge(_ claim: AdmissionClaim, rowCount: Int) {
        state.withLock { state in
            state.counts[claim.idempotencyKey, default: 0] += rowCount
            state.drivers.insert(claim.driver)
        }
    }
}

extension EventOutcome {
    fileprivate var isStored: Bool { if case .stored = self { true } else { false } }
}
