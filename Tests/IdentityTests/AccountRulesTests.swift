// Tests of the rules of accounts, without a store.

import Crypto
import Foundation
import JourneyModel
import Secrets
import Testing

@testable import Identity

struct AccountRulesTests {
    private let at = Moment(millisecondsSinceEpoch: 1_000_000)

    @Test(arguments: [
        (nil, 0, RefreshRule.rotate), (0, 0, .repeat), (0, 10_000, .repeat), (0, 10_001, .reuse), (0, 99_999, .reuse),
        (0, 100_000, .expired), (nil, 100_000, .expired), (nil, 99_999, .rotate),
        // The token was used 1 ms before it expired. The use may be repeated for ten seconds, even after the expiry.
        (99_999, 100_000, .repeat), (99_999, 109_999, .repeat), (99_999, 110_000, .expired),
        // In these cases, the token was spent after `now`. With 50 ms, a later request was handled first. With 10,001
        // ms, the clock was set back.
        (50, 0, .repeat), (10_001, 0, .reuse),
    ])
    func `a refresh token`(spentAfter: Int64?, presentedAfter: Int64, expected: RefreshRule) {
        let token = StoredRefreshToken(
            expiresAt: at.advanced(byMilliseconds: 100_000),
            spentAt: spentAfter.map { at.advanced(byMilliseconds: $0) })
        let now = at.advanced(byMilliseconds: presentedAfter)
        let unspent = StoredRefreshToken(expiresAt: at.advanced(byMilliseconds: 200_000), spentAt: nil)
        #expect(RefreshRule.judge(token, successor: unspent, at: now) == expected)
        // A repeat is accepted only while the successor is unspent. A spent successor shows that two parties use tokens
        // of this session.
        let spent = StoredRefreshToken(expiresAt: unspent.expiresAt, spentAt: at)
        #expect(
            RefreshRule.judge(token, successor: spent, at: now) == (expected == .repeat ? .reuse : expected))
        #expect(
            RefreshRule.judge(token, successor: nil, at: now) == (expected == .repeat ? .unrepeatable : expected))
    }

    @Test(arguments: [
        ("ada@example.org", true), ("ĉ@\u{1F3FB}", true), ("@\u{301}@b", false), ("a@b@c", false),
        ("a@@\u{301}b", false),
        ("@b", false), ("a@", false), ("a", false), ("a b@c", false), ("a@b\u{2028}c", false), ("a@ \u{301}b", false),
    ])
    func `an email address has one @, also before a combining character`(email: String, isAccepted: Bool) {
        #expect(AccountRules.acceptsEmail(email) == isAccepted)
    }

    @Test func `a code is right once all of it is, in time, and when a guess is allowed`() {
        let right = [UInt8](repeating: 7, count: 32)
        let code = StoredCode(digest: right, expiresAt: at.advanced(bySeconds: 600))
        func judge(
            _ stored: StoredCode?, _ guess: [UInt8], isAllowed: Bool = true, after seconds: Int = 0
        ) -> CodeRule {
            CodeRule.judge(
                stored.map { [$0] } ?? [], guess: guess, isAllowed: isAllowed, at: at.advanced(bySeconds: seconds))
        }
        #expect(judge(code, right) == .right)
        #expect(judge(code, right, isAllowed: false) == .tooManyGuesses)
        let newest = StoredCode(digest: [UInt8](repeating: 9, count: 32), expiresAt: at.advanced(bySeconds: 600))
        #expect(CodeRule.judge([newest, code], guess: right, isAllowed: true, at: at) == .right)
        #expect(judge(code, right, after: 600) == .expired)
        // A code may come from up to one minute in the future. Another server's clock may be ahead, or this server's
        // clock was set back.
        #expect(judge(code, right, after: -60) == .right && judge(code, right, after: -61) == .expired)
        #expect(judge(code, Array(right.dropLast()) + [8]) == .wrong)
        #expect(judge(code, []) == .wrong)
        // If no code is stored, the guess is compared with a digest of zeros. Even a guess that is this digest must be
        // wrong.
        #expect(judge(nil, [UInt8](repeating: 0, count: 32)) == .wrong)
        #expect(judge(nil, right) == .wrong)
    }

    @Test func `who may guess: the address that asked apart from everybody else`() {
        func allows(
            own: Int? = nil, ownOfNumber: Int = 0, others: Int = 0, othersInNetwork: Int = 0, network: Int = 0
        ) -> Bool {
            GuessRule.allows(
                GuessCounts(
                    own: own, ownOfNumber: ownOfNumber, others: others, othersInNetwork: othersInNetwork,
                    network: network))
        }
        #expect(allows(own: 4) && !allows(own: 5))
        // If an address has requested a code, guesses from other addresses do not count against it.
        #expect(allows(own: 4, others: 1000, othersInNetwork: 1000, network: 1000))
        // `ownOfNumber` counts the wrong guesses at a number's codes by all addresses that requested a code. From 25
        // on, each of these addresses has only one guess per code.
        #expect(allows(own: 4, ownOfNumber: 24) && !allows(own: 1, ownOfNumber: 25))
        #expect(allows(own: 0, ownOfNumber: 1000))
        #expect(allows() && allows(others: 29) && !allows(others: 30))
        #expect(allows(othersInNetwork: 4) && !allows(othersInNetwork: 5))
        #expect(allows(network: 99) && !allows(network: 100))
    }

    @Test(
        arguments: [
            ("192.0.2.1", "192.0.2.1", "192.0.2/24", nil), ("::ffff:192.0.2.1", "192.0.2.1", "192.0.2/24", nil),
            (
                "2001:db8:1:2:3:4:5:6", "20010db800010002/64", "20010db8000100/56", "20010db80001/48"
            ), ("unix", "unix", nil, nil), ("", "", nil, nil),
        ] as [(String, String, String?, String?)])
    func `the networks of an address`(address: String, narrow: String, network: String?, site: String?) {
        let networks = AddressNetworks(address)
        #expect(networks.address == narrow && networks.network == network && networks.site == site)
    }

    @Test func `when one more code may be sent`() {
        func seconds(_ ages: [Int64?]) -> Int64? {
            CodeSendLimits.retryAfterSeconds(ages.map { $0.map { at.advanced(byMilliseconds: -$0) } }, at: at)
        }
        #expect(seconds([nil, nil, nil]) == nil)
        #expect(seconds([0, nil, nil]) == 3600)
        #expect(seconds([3_599_999, nil, nil]) == 1)
        #expect(seconds([3_599_999, 1_000, nil]) == 3599)
        #expect(seconds([-5_000, nil, nil]) == 3600)
    }

    @Test(arguments: [
        ("+4915112345678", "+4915112345678"), ("004915112345678", "+4915112345678"),
        (" +1 (415) 555-26.71 ", "+14155552671"), ("+12345678", "+12345678"), ("+123456789012345", "+123456789012345"),
        ("+1234567", nil), ("+1234567890123456", nil), ("+0123456789", nil), ("00 0123456789", nil),
        ("0151123456", nil),
        ("15112345678", nil), ("", nil), ("+", nil), ("00", nil), ("++4915112345678", nil), ("+49/15112345678", nil),
        ("+49\u{0}15112345678", nil), ("+４９15112345678", nil), ("+4915112345678\n", nil),
        ("+" + String(repeating: " ", count: 70) + "4915112345678", nil),
    ])
    func `a phone number`(text: String, e164: String?) {
        #expect(PhoneNumber(text)?.e164 == e164)
    }

    @Test func `a phone number is not shown`() throws {
        let number = try #require(PhoneNumber("+4915112345678"))
        var dumped = ""
        dump(number, to: &dumped)
        #expect(!"\(number) \(String(reflecting: number)) \(dumped)".contains("4915"))
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "20010db800010002/64"),
        ("2001:0db8:1:2::", "20010db800010002/64"), ("unix", "unix"), ("", ""),
    ])
    func `which addresses are one`(address: String, name: String) {
        #expect(AddressGroup.name(of: address) == name)
    }

    @Test func `digests depend on their key, on their purpose and on all that they are of`() throws {
        let one = KeyedHashes(secret: SymmetricKey(data: Data(repeating: 1, count: 32)))
        let other = KeyedHashes(secret: SymmetricKey(data: Data(repeating: 2, count: 32)))
        let number = try #require(PhoneNumber("+4915112345678"))
        let neighbour = try #require(PhoneNumber("+4915112345679"))
        let digests = [
            one.phone(number), other.phone(number), one.phone(neighbour), one.code("123456", for: number),
            one.code("123456", for: neighbour), one.code("123457", for: number), one.driver(DriverID(number.e164)),
            one.address(number.e164),
        ]
        #expect(Set(digests).count == digests.count)
        #expect(digests.allSatisfy { $0.count == 32 })
        #expect(one.phone(number) == one.phone(number))
    }

    @Test func `an erasure settles for a minute, but not until a clock that was set back reaches its time`() {
        let erasedAt = Moment(millisecondsSinceEpoch: 1_770_091_506_000)
        for (milliseconds, isSettling) in [
            (-60_001, false), (-60_000, true), (0, true), (59_999, true), (60_000, false),
        ] as [(Int64, Bool)] {
            let now = erasedAt.advanced(byMilliseconds: milliseconds)
            #expect(AccountRules.isSettling(erasedAt: erasedAt, at: now) == isSettling, "\(milliseconds)")
        }
    }

    @Test func `one-time codes are six digits, any of them`() {
        var seen: [Set<Character>] = Array(repeating: [], count: 6)
        for _ in 0..<2000 {
            let code = OneTimeCode.random().reveal()
            #expect(code.utf8.count == 6)
            for (place, digit) in code.enumerated() { seen[place].insert(digit) }
        }
        // Every digit must occur at every position. A correct generator fails this test in about one of 10^90 runs.
        #expect(seen.allSatisfy { $0 == Set("0123456789") })
    }

    @Test(arguments: [
        ("DwellApp/7 (iPhone)", "DwellApp/7 (iPhone)"), ("a\u{0}b\nc", "abc"), ("", nil), ("\n", nil),
        (String(repeating: "x", count: 200), String(repeating: "x", count: 128)),
    ])
    func `what is kept of a User-Agent`(userAgent: String, name: String?) {
        #expect(AccountRules.clientName(userAgent) == name)
    }

    @Test func `identifiers and refresh tokens do not come twice`() {
        let ids = (0..<1000).map { _ in RandomID.text(prefix: "drv_") }
        #expect(Set(ids).count == 1000)
        #expect(ids.allSatisfy { $0.count == 30 && $0.hasPrefix("drv_") })
        let tokens = (0..<1000).map { _ in RefreshToken().text.reveal() }
        #expect(Set(tokens).count == 1000)
        #expect(tokens.allSatisfy { Base64URL.bytes(of: $0)?.count == 32 })
    }
}
