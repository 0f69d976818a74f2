// Tests of stored verification codes on both databases (contract, section 3, "Verification codes").

import Engine
import JourneyModel
import Secrets
import TestSupport
import Testing

@testable import Identity
@testable import SharedTables

struct SessionCodeTests {
    private static let driver = DriverID("driver")
    private static let start = AccountFixture.start

    private static func at(_ seconds: Int) -> Moment { start.advanced(bySeconds: seconds) }

    private static func codes(_ fixture: AccountFixture) -> SessionCodes {
        SessionCodes(store: fixture.accounts, digest: fixture.digests.sessionCode)
    }

    /// Activates the driver's session at 20 s. A service sends the events, and its clock is `ahead` seconds ahead. The
    /// events have sequences, so an event without a sequence comes before them if its millisecond is equal.
    private static func activate(
        _ session: String, _ fixture: AccountFixture, of driver: DriverID = SessionCodeTests.driver,
        aheadBy ahead: Int = 0
    ) async throws {
        let events: [(EventName, Int, String?)] = [
            (.enteredChargerIntentZone, 0, nil), (.anchorDwellComplete, 10, nil),
            (.exclusiveActivatedByWeb, 20, session),
        ]
        for (name, seconds, session) in events {
            let event = EventSubmission.sample(
                name, key: "\(name.canonical)-\(session ?? "")", session: session, at: at(seconds),
                sequence: Int64(seconds))
            _ = try await fixture.store.appended(
                .sample(event, of: driver, receivedAt: at(seconds - ahead), sender: .service))
        }
    }

    private static func wrong(_ code: Secret<String>) -> Secret<String> {
        Secret(code.reveal() == "000000" ? "000001" : "000000")
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a code is issued for a session in progress, and expires with it`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let codes = Self.codes(fixture)
        #expect(try await codes.issue(forSession: "s", at: Self.at(0)).issue == .sessionNotFound)
        try await Self.activate("s", fixture)
        let (code, issue) = try await codes.issue(forSession: "s", at: Self.at(30))
        #expect(issue == .issued(expiresAt: Self.at(3620)))
        let late = try await codes.judge(code, ofSession: "s", of: Self.driver, from: .at(Self.at(3621)))
        #expect(late == .unavailable)
        #expect(try await codes.issue(forSession: "s", at: Self.at(3621)).issue == .sessionNotActive)
        let digest = try await fixture.accounts.read { db in
            try [UInt8].fetchOne(db, sql: "SELECT code_digest FROM session_code")
        }
        #expect(digest?.count == 32)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `five wrong codes, then no code, until a new one is issued`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let codes = Self.codes(fixture)
        try await Self.activate("s", fixture)
        let code = try await codes.issue(forSession: "s", at: Self.at(30)).code
        var verdicts: [SessionCodeRule?] = []
        for second in 31...36 {
            verdicts.append(
                try await codes.judge(Self.wrong(code), ofSession: "s", of: Self.driver, from: .at(Self.at(second))))
        }
        let expected: [SessionCodeRule?] = [
            .wrong(triesLeft: 4), .wrong(triesLeft: 3), .wrong(triesLeft: 2), .wrong(triesLeft: 1),
            .wrong(triesLeft: 0), .unavailable,
        ]
        #expect(verdicts == expected)
        #expect(try await codes.judge(code, ofSession: "s", of: Self.driver, from: .at(Self.at(37))) == .unavailable)
        let next = try await codes.issue(forSession: "s", at: Self.at(40)).code
        let right = try await codes.judge(next, ofSession: "s", of: Self.driver, from: .at(Self.at(41)))
        #expect(right == .right(acceptedAt: Self.at(41)))
        let again = try await codes.judge(next, ofSession: "s", of: Self.driver, from: .at(Self.at(50)))
        #expect(again == .right(acceptedAt: Self.at(41)))
        #expect(try await codes.issue(forSession: "s", at: Self.at(51)).issue == .sessionNotActive)
        let lines = try await fixture.accounts.entries(of: Self.driver, limit: 20).map {
            "\($0.action.rawValue) \($0.outcome.rawValue) \($0.reason ?? "")"
        }
        #expect(lines.count { $0 == "session_verified refused wrong_code" } == 5)
        #expect(lines.count { $0 == "session_code done by_service" } == 2)
        #expect(lines.first == "session_verified done ")
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a code is of one session and of one driver`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        let codes = Self.codes(fixture)
        try await Self.activate("s", fixture)
        try await Self.activate("t", fixture, of: DriverID("other"))
        let one = try await codes.issue(forSession: "s", at: Self.at(30)).code
        let other = try await codes.issue(forSession: "t", at: Self.at(30)).code
        #expect(try await codes.judge(other, ofSession: "t", of: Self.driver, from: .at(Self.at(31))) == nil)
        #expect(try await codes.judge(one, ofSession: "none", of: Self.driver, from: .at(Self.at(31))) == nil)
        if one.reveal() != other.reveal() {
            let verdict = try await codes.judge(other, ofSession: "s", of: Self.driver, from: .at(Self.at(31)))
            #expect(verdict == .wrong(triesLeft: 4))
        }
        let right = try await codes.judge(one, ofSession: "s", of: Self.driver, from: .at(Self.at(32)))
        #expect(right == .right(acceptedAt: Self.at(32)))
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a deletion removes the codes, and a day after its expiry a code goes with the next one`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let codes = Self.codes(fixture)
        try await Self.activate("s", fixture)
        try await Self.activate("t", fixture, of: DriverID("other"))
        _ = try await codes.issue(forSession: "s", at: Self.at(30))
        _ = try await codes.issue(forSession: "t", at: Self.at(30))
        _ = try await codes.issue(forSession: "none", at: Self.at(3620 + 86_399))
        #expect(try await fixture.count("session_code") == 2)
        _ = try await fixture.own.erase(Caller(driver: Self.driver), from: .at(Self.at(60)))
        #expect(try await fixture.count("session_code") == 1)
        _ = try await codes.issue(forSession: "none", at: Self.at(3620 + 86_400))
        #expect(try await fixture.count("session_code") == 0)
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `a right code ends a session as verified that a clock ahead of the server's began`(_ kind: DatabaseKind)
        async throws
    {
        let fixture = try await AccountFixture(kind)
        let codes = Self.codes(fixture)
        try await Self.activate("s", fixture, aheadBy: 180)
        let (code, issue) = try await codes.issue(forSession: "s", at: Self.at(-140))
        #expect(issue == .issued(expiresAt: Self.at(3620)))
        let activated = Self.at(20)
        let verified = activated.advanced(byMilliseconds: 1)
        let right = try await codes.judge(code, ofSession: "s", of: Self.driver, from: .at(Self.at(-100)))
        #expect(right == .right(acceptedAt: verified))
        func request(receivedAt: Moment) -> AppendRequest {
            .sample(
                .verification(ofSession: "s", at: verified), of: Self.driver, receivedAt: receivedAt, sender: .service)
        }
        guard case .stored(let event) = try await fixture.store.appended(request(receivedAt: Self.at(-100))) else {
            Issue.record("not stored")
            return
        }
        #expect(event.verdict.transition == .applied)
        #expect(event.journey.endedBy == .verified)
        let again = try await codes.judge(code, ofSession: "s", of: Self.driver, from: .at(Self.at(60)))
        #expect(again == .right(acceptedAt: verified))
        let repeated = try await fixture.store.appended(request(receivedAt: Self.at(60)))
        #expect(repeated == .replayed(event))
        await fixture.close()
    }

    @Test(arguments: DatabaseKind.allCases)
    func `the verification is stored once, at the time of the right code`(_ kind: DatabaseKind) async throws {
        let fixture = try await AccountFixture(kind)
        try await Self.activate("s", fixture)
        let request = AppendRequest.sample(
            .verification(ofSession: "s", at: Self.at(40)), of: Self.driver, receivedAt: Self.at(45), sender: .service)
        guard case .stored(let event) = try await fixture.store.appended(request) else {
            Issue.record("not stored")
            return
        }
        #expect(event.journey.endedBy == .verified)
        let later = AppendRequest.sample(
            .verification(ofSession: "s", at: Self.at(40)), of: Self.driver, receivedAt: Self.at(90), sender: .service)
        guard case .replayed = try await fixture.store.appended(later) else {
            Issue.record("stored twice")
            return
        }
        await fixture.close()
    }
}
