// Tests of the deletion of a driver in a real file. None of the driver's data is left in a table or in the bytes of the
// file, and the remaining rows are consistent. Tokens that were issued before the deletion are rejected.

import Engine
import Foundation
import GRDB
import JourneyModel
import Secrets
import SharedTables
import TestSupport
import Testing

@testable import Identity
@testable import SQLiteStore

struct ErasingTests {
    private let start = AccountFixture.start

    /// Creates a driver with an Apple identity, a profile, a device and a journey. `traces` are the texts that must not
    /// be found after the deletion.
    private func driverWithEverything(
        _ fixture: AccountFixture, _ tag: String
    ) async throws -> (pair: TokenPair, caller: Caller, traces: [String]) {
        let subject = "001.subject.\(tag)"
        let pair = try await fixture.signIns.signIn(
            .sample(subject, nonce: tag, email: "\(tag)@mail.example"), authorizationCode: Secret("code"),
            profile: FirstProfile(name: "Name of \(tag)"), from: .at(start, address: "198.51.100.\(tag.utf8.count)"))
        let caller = try await fixture.caller(pair)
        let device = Device(pushToken: "push-\(tag)", platform: "ios", environment: "sandbox", appVersion: "1")
        _ = try await fixture.devices.put(device, of: caller, from: .at(start))
        for submission in SampleJourney.whole(prefix: "key-\(tag)-", session: "session-\(tag)", from: start) {
            var submission = submission
            submission.metadata = #"{"plate":"PLATE-\#(tag)"}"#
            _ = try await fixture.store.appended(.sample(submission, of: caller.driver, receivedAt: start))
        }
        let sid = try #require(caller.signInSession)
        return (
            pair, caller,
            [
                caller.driver.rawValue, subject, "\(tag)@mail.example", "Name of \(tag)", "push-\(tag)", "key-\(tag)-",
                "session-\(tag)", "PLATE-\(tag)", sid,
            ]
        )
    }

    /// Stores many drivers, so that pages split and rows move, and deletes some of them while the file is in use.
    /// Afterwards, the file contains no data of the deleted drivers and all data of the others.
    @Test func `nothing of a deleted driver is among the bytes of the file and its WAL`() async throws {
        let fixture = try await AccountFixture()
        var drivers: [(pair: TokenPair, caller: Caller, traces: [String])] = []
        for number in 0..<30 {
            drivers.append(try await driverWithEverything(fixture, "d\(number)x\(UUID().uuidString)"))
        }
        let phone = "+4915155555555"
        let byPhone = try await fixture.signIn(phone: phone)
        let scan = ErasureScan(path: fixture.folder.file("db"))
        for index in stride(from: 0, to: 30, by: 3) {
            let found = try scan.find(drivers[index].traces)
            #expect(Set(found.map(\.identifier)).count == drivers[index].traces.count)
            let receipt = try await fixture.own.erase(drivers[index].caller, from: .at(start))
            #expect(try scan.find(drivers[index].traces) == [])
            #expect(try scan.leftovers(ofReceipt: receipt.id) == [])
        }
        let receipt = try await fixture.own.erase(fixture.caller(byPhone), from: .at(start))
        #expect(try scan.find([phone, byPhone.user.id.rawValue]) == [])
        #expect(receipt.deletedAt == start)
        #expect(try scan.leftovers(ofReceipt: "rcp_unknown") == nil)
        for index in 0..<30 {
            let isErased = index % 3 == 0
            #expect(await fixture.refusal(of: drivers[index].pair.accessToken) == (isErased ? .revoked : nil))
            let count = Set(try scan.find(drivers[index].traces).map(\.identifier)).count
            #expect(count == (isErased ? 0 : drivers[index].traces.count), "driver \(index)")
        }
        #expect(try await fixture.store.eventCount() == 30 * 8)
        await fixture.close()
        for index in stride(from: 0, to: 30, by: 3) { #expect(try scan.find(drivers[index].traces) == []) }
    }

    private struct Texts {
        var place: String
        var merchant: String
        var registered: String
        var source: String
        var diagnostic: String
        var all: [String] { [place, merchant, registered, source, diagnostic, "49151123456", "7349151"] }

        init(_ tag: String) {
            place = "place-\(tag)@mail.example"
            merchant = "merchant-\(tag)@mail.example"
            registered = "registered-\(tag)@mail.example"
            source = "source-\(tag)@mail.example"
            diagnostic = "saw_\(tag)_at_mail_example"
        }
    }

    /// Registers a session and stores events with these texts as places, sources and diagnostic names. All drivers
    /// share the tables of such texts. occurred_at, sequence and schema_version contain digits that look like a phone
    /// number.
    private func store(_ texts: Texts, of driver: DriverID, in fixture: AccountFixture) async throws {
        _ = try await fixture.store.register(
            SessionRegistration(
                sessionID: "s-\(driver)", driver: driver, chargerID: texts.registered, merchantID: texts.place,
                receivedAt: start))
        var events = SampleJourney.whole(prefix: "key-", session: "s-\(driver)", from: start)
        events[0].chargerID = texts.place
        events[0].occurredAtText = "2027-01-15T08:00:00.000000007349151Z"
        events[0].sequence = 4_915_112_345_678
        events[5].merchantID = texts.merchant
        events[6].source = texts.source
        events.append(
            .sample(.diagnostic(texts.diagnostic), key: "diagnostic", at: start.advanced(bySeconds: 600)))
        events[8].schemaVersion = "1.73491511"
        for event in events { _ = try await fixture.store.appended(.sample(event, of: driver, receivedAt: start)) }
    }

    /// The drivers share some texts, and the first driver has others alone. The deletion of the first driver keeps the
    /// shared texts. The later deletion of the second driver removes them.
    @Test func `no free text of a deleted driver is left that nobody else uses`() async throws {
        let fixture = try await AccountFixture()
        let (own, common) = (Texts("own"), Texts("common"))
        let (first, second) = (DriverID("first-driver"), DriverID("second-driver"))
        try await store(own, of: first, in: fixture)
        try await store(common, of: second, in: fixture)
        var shared = EventSubmission.sample(
            .diagnostic(common.diagnostic), key: "shared", charger: common.place, merchant: common.merchant, at: start,
            source: common.source)
        shared.schemaVersion = "1.2"
        for event in [
            shared, .sample(.diagnostic(common.diagnostic), key: "shared-2", charger: common.registered, at: start),
            .sample(.visitVerifiedByWeb, key: "shared-3", session: "shared", at: start, source: common.source),
        ] {
            _ = try await fixture.store.appended(.sample(event, of: first, receivedAt: start))
        }
        let scan = ErasureScan(path: fixture.folder.file("db"))
        #expect(Set(try scan.find(own.all).map(\.identifier)).count == own.all.count, "found nothing")
        let before = try await fixture.store.timeline(of: first)

        let receipt = try await fixture.own.erase(Caller(driver: first), from: .at(start))
        #expect(try scan.find(own.all.dropLast(2)) == [])
        #expect(try scan.leftovers(ofReceipt: receipt.id) == [])
        let left = Set(try scan.find(common.all).map(\.identifier))
        #expect(left.count == common.all.count, "the other's are the other's")
        let pseudonym = try await fixture.store.read { db in
            try String.fetchOne(db, sql: "SELECT driver_id FROM driver WHERE driver_id LIKE 'erased-%'")
        }
        let after = try await fixture.store.timeline(of: DriverID(try #require(pseudonym)))
        #expect(after.map(\.verdict) == before.map(\.verdict))
        #expect(after.map(\.state) == before.map(\.state))

        // The deleted text is used again and gets a new row. Nothing refers to its old row.
        let back = DriverID("comes-back")
        _ = try await fixture.store.appended(
            .sample(.sample(.chargerTargeted, key: "k", charger: own.place, at: start), of: back, receivedAt: start))
        #expect(try await fixture.store.journey(of: back).targetChargerID == own.place)

        let last = try await fixture.own.erase(Caller(driver: second), from: .at(start))
        #expect(try scan.find(common.all) == [])
        #expect(try scan.leftovers(ofReceipt: last.id) == [])
        _ = try await fixture.own.erase(Caller(driver: back), from: .at(start))
        #expect(try scan.find(own.all) == [])
        for table in ["place_use", "event_kind_use"] { #expect(try await fixture.count(table) == 0, "\(table)") }
        await fixture.close()
    }

    @Test(arguments: [
        ("UPDATE place SET place_id = 'a place ' || id", "place.place_id"),
        (
            "UPDATE event_kind SET source = 'a source' WHERE source LIKE 'erased-%'",
            "event_kind.name, source or schema_version"
        ),
        ("UPDATE event_row SET occurred_at_text = '2027-01-15T08:00:00.0007349151Z' WHERE id = 2", "event.occurred_at"),
        ("UPDATE event_row SET sequence = 4915112345678 WHERE id = 2", "event.sequence"),
        ("INSERT INTO event_key SELECT max(place) / 2 + 7, 2 FROM event_key", "event_key.place"),
        ("INSERT INTO place_use SELECT driver.id, place.id FROM driver, place LIMIT 1", "place_use"),
        (
            "INSERT INTO event_kind_use SELECT driver.id, event_kind.id FROM driver, event_kind LIMIT 1",
            "event_kind_use"
        ),
    ])
    func `what a deletion would leave is found by its receipt`(_ change: String, _ name: String) async throws {
        let fixture = try await AccountFixture()
        try await store(Texts("own"), of: DriverID("first-driver"), in: fixture)
        let receipt = try await fixture.own.erase(Caller(driver: DriverID("first-driver")), from: .at(start))
        try await fixture.store.change { db in try db.execute(sql: change) }
        let found = try #require(try ErasureScan(path: fixture.folder.file("db")).leftovers(ofReceipt: receipt.id))
        #expect(found.contains(name), "\(found)")
        await fixture.close()
    }

    /// The phone number has no account yet when the test requests a code and guesses wrong. Both audit entries contain
    /// the client's address. The deletion of the later account must remove this address.
    @Test func `the lines of the audit about a number lose their address with the account`() async throws {
        let fixture = try await AccountFixture()
        let phone = "+4915155555555"
        let origin = RequestOrigin.at(start, address: "198.51.100.123")
        try await fixture.signIns.sendCode(to: phone, from: origin)
        _ = try? await fixture.signIns.signIn(phone: phone, code: Secret("wrong!"), from: origin)
        let code = fixture.phones.last(to: phone)
        let pair = try await fixture.signIns.signIn(phone: phone, code: Secret(code), from: origin)
        let other = "+4915155555556"
        try await fixture.signIns.sendCode(to: other, from: .at(start, address: "198.51.100.124"))
        _ = try await fixture.own.erase(fixture.caller(pair), from: origin)
        let scan = ErasureScan(path: fixture.folder.file("db"))
        #expect(try scan.find(["198.51.100.123"]) == [])
        #expect(try scan.find(["198.51.100.124"]) != [])
        let digests = try await fixture.store.read { db in
            try Int.fetchOne(db, sql: "SELECT count(*) FROM audit WHERE phone_digest IS NOT NULL")
        }
        #expect(digests == 1)
        await fixture.close()
    }

    @Test(arguments: [1, 7, 500])
    func `events stay, in their order and with their verdicts, and the journey can be read`(
        rowsPerPiece: Int
    ) async throws {
        let fixture = try await AccountFixture(
            pace: RefoldPace(rowsPerErasurePiece: rowsPerPiece, pauseFactor: 0))
        let driver = DriverID("external-driver")
        var random = SeededRandom(seed: 7)
        let events = SampleJourney.random(count: 200, prefix: "key", spanSeconds: 60, from: start, using: &random)
        for event in events { _ = try await fixture.store.appended(.sample(event, of: driver, receivedAt: start)) }
        let before = try await fixture.store.timeline(of: driver)
        _ = try await fixture.own.erase(Caller(driver: driver), from: .at(start))
        #expect(try await fixture.store.timeline(of: driver) == [])
        let name = try await fixture.store.read { db in try String.fetchOne(db, sql: "SELECT driver_id FROM driver") }
        let after = try await fixture.store.timeline(of: DriverID(try #require(name)))
        #expect(before.count > 100)
        #expect(after.map(\.verdict) == before.map(\.verdict))
        #expect(after.map(\.state) == before.map(\.state))
        // A diagnostic name is text from the client. Only this driver sent this name, so the deletion overwrites it.
        let names = before.map { entry in
            if case .diagnostic = entry.name { EventName.diagnostic("erased_diagnostic") } else { entry.name }
        }
        #expect(names.contains(.diagnostic("erased_diagnostic")))
        #expect(after.map(\.name) == names)
        await fixture.close()
    }

    /// The clock of a token's issuer may be a minute ahead. A token from before the deletion may therefore show an
    /// issue time of up to a minute after the deletion.
    @Test func `an external driver's tokens of up to a minute after are refused, later ones begin anew`() async throws {
        let fixture = try await AccountFixture()
        let caller = Caller(driver: DriverID("external"))
        let second = Double(start.millisecondsSinceEpoch / 1000)
        func isAdmitted(issuedAt: Double) async -> Bool {
            (try? await fixture.memory.admit(caller, issuedAt: issuedAt)) != nil
        }
        #expect(await isAdmitted(issuedAt: second))
        _ = try await fixture.own.erase(caller, from: .at(start))
        #expect(await !isAdmitted(issuedAt: second - 100))
        #expect(await !isAdmitted(issuedAt: second + 0.999))
        #expect(await !isAdmitted(issuedAt: second + 60.999))
        #expect(await isAdmitted(issuedAt: second + 61))
        await fixture.close()
        let restarted = try await AccountFixture(in: fixture.folder)
        await #expect(throws: TokenRefusal.revoked) { try await restarted.memory.admit(caller, issuedAt: second) }
        await restarted.close()
    }

    @Test func `what was under way does not bring the driver back`() async throws {
        let fixture = try await AccountFixture()
        let driver = DriverID("external")
        _ = try await fixture.own.erase(Caller(driver: driver), from: .at(start))
        let event = EventSubmission.sample(.chargerTargeted, key: "k", at: start)
        func append(_ event: EventSubmission, of driver: DriverID, at now: Moment) async -> Bool {
            (try? await fixture.store.appended(.sample(event, of: driver, receivedAt: now))) != nil
        }
        let soon = start.advanced(bySeconds: 59)
        await #expect(throws: StoreFailure.driverErased) {
            try await fixture.store.appended(.sample(event, of: driver, receivedAt: soon))
        }
        await #expect(throws: AccountFailure.unauthorized) {
            try await fixture.own.change(ProfileChange(name: .set("x")), of: Caller(driver: driver), from: .at(soon))
        }
        #expect(try await fixture.count("driver") == 0)
        // Other drivers' events in the same commits are stored.
        let taken = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<40 {
                group.addTask {
                    await append(event, of: number % 2 == 0 ? driver : DriverID("n\(number)"), at: soon)
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(taken == 20)
        #expect(await append(event, of: driver, at: start.advanced(bySeconds: 60)))
        await fixture.close()
    }

    @Test
    func `Apple's token goes to the queue, also one that arrives after the deletion, and is tried until delivered`()
        async throws
    {
        let fixture = try await AccountFixture()
        let driver = try await driverWithEverything(fixture, "someone")
        _ = try await fixture.own.erase(driver.caller, from: .at(start))
        let due = try #require(try await fixture.accounts.nextDue(at: start))
        #expect(due.sealedRefreshToken == Array("sealed apple refresh token".utf8))
        #expect(due.clientID == "app.dwell")
        #expect(due.subjectDigest == plainDigest("001.subject.someone"))
        #expect(due.attemptCount == 0)
        let later = start.advanced(bySeconds: 30)
        try await fixture.accounts.failed(due.id, tryAgainAt: later)
        #expect(try await fixture.accounts.nextDue(at: start) == nil)
        #expect(try await fixture.accounts.nextDue(at: later)?.attemptCount == 1)
        try await fixture.accounts.delivered(due.id, at: later)
        #expect(try await fixture.accounts.nextDue(at: later) == nil)
        await fixture.close()

        let slow = try await AccountFixture(
            in: fixture.folder,
            exchange: ScriptedExchange(meanwhile: {
                // The account is deleted during the request to Apple.
                let receipt = ErasureReceipt(id: "r", deletedAt: AccountFixture.start)
                let id = try? await fixtureDriver(in: fixture.folder)
                guard let id, let second = try? await AccountFixture(in: fixture.folder) else { return }
                try? await second.accounts.erase(
                    id, receipt: receipt, pseudonym: "erased-x", from: .at(AccountFixture.start))
                await second.close()
            }))
        _ = try await slow.signInWithApple("001.slow", code: "code")
        #expect(try await slow.accounts.nextDue(at: start)?.subjectDigest == plainDigest("001.slow"))
        #expect(try await slow.count("account") == 0)
        await slow.close()
    }

    @Test func `after the clock was set back, a revocation does not wait for the old time`() async throws {
        let fixture = try await AccountFixture()
        let driver = try await driverWithEverything(fixture, "someone")
        _ = try await fixture.own.erase(driver.caller, from: .at(start))
        let id = try #require(try await fixture.accounts.nextDue(at: start)).id
        try await fixture.accounts.failed(id, tryAgainAt: start.advanced(bySeconds: 3600))
        // The clock of another server is a minute behind.
        #expect(try await fixture.accounts.nextDue(at: start.advanced(bySeconds: -60)) == nil)
        #expect(try await fixture.accounts.nextDue(at: start.advanced(bySeconds: -61))?.id == id)
        await fixture.close()
    }

    @Test func `each app's token is revoked by itself`() async throws {
        let fixture = try await AccountFixture()
        for clientID in ["app.dwell", "app.dwell.web", "app.dwell"] {
            var identity = AppleIdentity.sample("001.a", nonce: UUID().uuidString)
            identity.clientID = clientID
            _ = try await fixture.signIns.signIn(
                identity, authorizationCode: Secret("code"), profile: FirstProfile(), from: .at(start))
        }
        let pair = try await fixture.signInWithApple("001.a")
        _ = try await fixture.own.erase(fixture.caller(pair), from: .at(start))
        var clientIDs: [String] = []
        while let due = try await fixture.accounts.nextDue(at: start) {
            clientIDs.append(due.clientID)
            try await fixture.accounts.delivered(due.id, at: start)
        }
        #expect(clientIDs == ["app.dwell", "app.dwell.web"])
        #expect(try await fixture.count("apple_refresh_token") == 0)
        await fixture.close()
    }

    @Test func `the same person may come again, as somebody new`() async throws {
        let fixture = try await AccountFixture()
        let first = try await fixture.signInWithApple("001.a")
        _ = try await fixture.own.erase(fixture.caller(first), from: .at(start))
        let second = try await fixture.signInWithApple("001.a")
        #expect(first.user.id != second.user.id)
        #expect(await fixture.refusal(of: first.accessToken) == .revoked)
        #expect(await fixture.refusal(of: second.accessToken) == nil)
        #expect(try await fixture.accounts.entries(of: first.user.id, limit: 10) == [])
        #expect(try await fixture.accounts.entries(of: second.user.id, limit: 10).map(\.action) == [.signInApple])
        await fixture.close()
    }

    // MARK: Apple's notifications

    @Test func `Apple's notices end, delete and note, once each`() async throws {
        let fixture = try await AccountFixture()
        func take(_ kind: AppleServerNotification.Kind, _ jti: String, subject: String = "001.a") async throws {
            try await fixture.own.take(
                AppleServerNotification(kind: kind, subject: subject, jti: jti, happenedAtSeconds: nil),
                from: .at(start))
        }
        func forwards() async throws -> Bool? {
            try await fixture.store.read { db in
                try Bool?.fetchOne(db, sql: "SELECT forwards_email FROM apple_identity") ?? nil
            }
        }
        let first = try await fixture.signInWithApple("001.a", code: "code")
        try await take(.emailDisabled, "1")
        #expect(try await forwards() == false)
        try await take(.emailEnabled, "2")
        try await take(.emailDisabled, "1")
        #expect(try await forwards() == true)
        try await take(.other, "3")
        try await take(.accountDeleted, "4", subject: "001.nobody")
        #expect(await fixture.refusal(of: first.accessToken) == nil)
        try await take(.consentRevoked, "5")
        #expect(await fixture.refusal(of: first.accessToken) == .revoked)
        let second = try await fixture.signInWithApple("001.a")
        #expect(second.user.id == first.user.id)
        try await take(.consentRevoked, "5")
        #expect(await fixture.refusal(of: second.accessToken) == nil)
        try await take(.accountDeleted, "6")
        #expect(await fixture.refusal(of: second.accessToken) == .revoked)
        #expect(try await fixture.count("account") == 0)
        #expect(try ErasureScan(path: fixture.folder.file("db")).find(["001.a", second.user.id.rawValue]) == [])
        await fixture.close()
    }

    // MARK: Export

    @Test func `the export has everything of the driver, and nothing of another`() async throws {
        let fixture = try await AccountFixture()
        let driver = try await driverWithEverything(fixture, "exporting")
        let other = try await driverWithEverything(fixture, "somebody-else")
        let bytes = try await fixture.own.export(of: driver.caller, from: .at(start)).json
        let text = String(decoding: bytes, as: UTF8.self)
        for trace in driver.traces { #expect(text.contains(trace), "\(trace)") }
        for trace in other.traces { #expect(!text.contains(trace), "\(trace)") }
        #expect(!text.contains(driver.pair.refreshToken.reveal()))
        let json = try JSONValue.parse(bytes)
        guard case .array(let events)? = json["events"] else {
            Issue.record("no events")
            return
        }
        #expect(events.count == 8)
        #expect(events.first?["metadata"]?["plate"] == .string("PLATE-exporting"))
        #expect(json["apple_identities"] != .array([]))
        let empty = try JSONValue.parse(
            try await fixture.own.export(of: Caller(driver: DriverID("x")), from: .at(start)).json)
        #expect(empty["events"] == .array([]))
        #expect(empty["user"]?["id"] == .string("x"))
        await fixture.close()
    }

    @Test func `a profile changes by what was said, and says what is wrong with it`() async throws {
        let fixture = try await AccountFixture()
        let caller = try await fixture.caller(
            fixture.signInWithApple(profile: FirstProfile(name: "Ada", email: "a@example.com")))
        func change(_ change: ProfileChange) async throws -> User {
            try await fixture.own.change(change, of: caller, from: .at(start))
        }
        #expect(try await change(ProfileChange(name: .set("Grace"))).email == "a@example.com")
        #expect(try await change(ProfileChange(email: .set(nil))).name == "Grace")
        #expect(try await fixture.own.user(of: caller).email == nil)
        for (name, email) in [("", "a"), ("a\u{0}", "a@b@c"), (String(repeating: "n", count: 201), "a b@c")] {
            await #expect {
                try await change(ProfileChange(name: .set(name), email: .set(email)))
            } throws: { error in
                guard case .invalid(let errors)? = error as? AccountFailure else { return false }
                return errors.map(\.pointer) == ["/name", "/email"]
            }
        }
        let external = Caller(driver: DriverID("external"), role: "merchant")
        #expect(try await fixture.own.user(of: external) == User(id: external.driver, role: "merchant"))
        let user = try await fixture.own.change(ProfileChange(name: .set("Ext")), of: external, from: .at(start))
        #expect(user.name == "Ext")
        await fixture.close()
    }
}

/// Returns the driver of the newest account.
private func fixtureDriver(in folder: ScratchFolder) async throws -> DriverID {
    let queue = try DatabaseQueue(path: folder.file("db"))
    return try await queue.read { db in
        DriverID(
            try String.fetchOne(
                db, sql: "SELECT driver_id FROM account JOIN driver ON driver.id = driver ORDER BY driver.id DESC")
                ?? "")
    }
}
