// Tests that an encrypted field can be decrypted only with its key and for its owner.

import Secrets
import Testing

@testable import Identity

@Suite struct FieldEncryptionTests {
    private let seal = FieldEncryption(dataKey: Secret([UInt8](repeating: 7, count: 32)))
    private let owner: [UInt8] = plainDigest("001234.abc.0987")

    @Test func whatIsSealedOpens() throws {
        for text in ["", "r.a.token", String(repeating: "x", count: 4096)] {
            let sealed = try #require(seal.seal(Secret(text), of: owner))
            #expect(seal.open(sealed, of: owner)?.reveal() == text)
        }
    }

    @Test func eachSealIsAnotherAndShowsNothing() throws {
        let one = try #require(seal.seal(Secret("apple-refresh-token"), of: owner))
        let other = try #require(seal.seal(Secret("apple-refresh-token"), of: owner))
        #expect(one != other)
        #expect(!String(decoding: one, as: UTF8.self).contains("refresh"))
    }

    @Test func anotherOwnerOrAnotherKeyOpensNothing() throws {
        let sealed = try #require(seal.seal(Secret("token"), of: owner))
        #expect(seal.open(sealed, of: plainDigest("somebody else")) == nil)
        #expect(seal.open(sealed, of: []) == nil)
        #expect(FieldEncryption(dataKey: Secret([UInt8](repeating: 8, count: 32))).open(sealed, of: owner) == nil)
    }

    @Test func everyChangedByteIsNoticed() throws {
        let sealed = try #require(seal.seal(Secret("token"), of: owner))
        for place in sealed.indices {
            var changed = sealed
            changed[place] ^= 1
            #expect(seal.open(changed, of: owner) == nil, "place \(place)")
        }
        for count in 0..<sealed.count { #expect(seal.open(Array(sealed.prefix(count)), of: owner) == nil) }
    }
}
