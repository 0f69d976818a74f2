// Tests which Authorization fields contain a bearer token.

import HTTP1
import Testing

@testable import API

struct BearerTokenTests {
    @Test(arguments: [("Bearer abc.def-_~+/==", "abc.def-_~+/=="), ("bearer x", "x"), ("BEARER   x", "x")])
    func reads(_ value: String, _ token: String) {
        #expect(BearerToken.read(from: Fields([("Authorization", value)])) == token)
    }

    @Test(arguments: ["", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer a\u{e9}", "Bearer a,b", "abc"])
    func refuses(_ value: String) {
        #expect(BearerToken.read(from: Fields([("Authorization", value)])) == nil)
    }

    /// `candidate` finds every token that `read` accepts. It does not check a token's characters, so it also finds
    /// tokens that `read` rejects.
    @Test(arguments: [("Bearer abc.def-_~+/==", "abc.def-_~+/=="), ("bearer x", "x"), ("Bearer a b", "a b")])
    func findsACandidate(_ value: String, _ token: String) {
        let found = Array(value.utf8).withUnsafeBytes { BearerToken.candidate(in: $0).map { Array($0) } }
        #expect(found == Array(token.utf8))
    }

    @Test(arguments: ["", "Bearer", "Bearer ", "Basic abc", "Beare abc"])
    func findsNoCandidate(_ value: String) {
        #expect(Array(value.utf8).withUnsafeBytes { BearerToken.candidate(in: $0) == nil })
    }

    @Test func twoCredentialsAreNone() {
        #expect(BearerToken.read(from: Fields([("Authorization", "Bearer a"), ("Authorization", "Bearer a")])) == nil)
    }
}
