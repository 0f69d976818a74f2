// Tests the requests to Apple's token and revoke endpoints, and the result of every kind of response.

import Foundation
import Identity
import Secrets
import Testing

@testable import Outbound

@Suite(.timeLimit(.minutes(1))) struct AppleTokenEndpointTests {
    // MARK: Exchanging

    private func exchanged(_ behaviour: Behaviour) async throws -> AppleCodeExchangeOutcome? {
        var outcome: AppleCodeExchangeOutcome?
        try await LoopbackServer.with(.always(behaviour)) { _, url, http in
            outcome = try await endpoint(http, url).exchange(Secret("a code"), of: identity)
        }
        return outcome
    }

    @Test func aCodeBecomesASealedToken() async throws {
        guard case .sealed(let sealed) = try await exchanged(.answer(200, tokenAnswer(of: subject))) else {
            Issue.record("nothing was sealed")
            return
        }
        #expect(seal.open(sealed, of: owner)?.reveal() == "apple-refresh-token")
    }

    @Test func whatIsAsked() async throws {
        try await LoopbackServer.with(.always(.answer(200, "{}"))) { server, url, http in
            _ = try await endpoint(http, url).exchange(Secret("c/o+d e&f=g%ü"), of: identity)
            let request = try #require(server.requests.first)
            #expect(request.field("Content-Type") == "application/x-www-form-urlencoded")
            let form = request.form
            #expect(form.keys.sorted() == ["client_id", "client_secret", "code", "grant_type"])
            #expect(form["client_id"] == "org.example.chargers")
            #expect(form["code"] == "c/o+d e&f=g%ü")
            #expect(form["grant_type"] == "authorization_code")
            #expect(form["client_secret"]?.split(separator: ".").count == 3)
        }
    }

    @Test(arguments: [
        (Behaviour.answer(200, tokenAnswer(of: "somebody else")), "other_subject"),
        (.answer(200, "{}"), "malformed_answer"), (.answer(200, "<html>"), "malformed_answer"),
        (.answer(200, tokenAnswer(of: subject, refreshToken: "")), "malformed_answer"),
        (.endless, "malformed_answer"), (.answer(400, #"{"error":"invalid_grant"}"#), "refused"),
        (.answer(500), "unreachable"), (.answer(302, fields: "Location: /elsewhere\r\n"), "unreachable"),
        (.text(""), "unreachable"),
    ])
    func whatGoesWrongIsAWord(behaviour: Behaviour, reason: String) async throws {
        #expect(try await exchanged(behaviour) == .failed(reason: reason))
    }

    // MARK: Revoking

    private func revocation(ofRow digest: [UInt8] = owner) throws -> AppleRevocation {
        let sealed = try #require(seal.seal(Secret("apple-refresh-token"), of: owner))
        return AppleRevocation(
            id: 1, clientID: "org.example.chargers.watch", sealedRefreshToken: sealed, subjectDigest: digest,
            attemptCount: 0)
    }

    @Test func whatIsAskedToBeRevoked() async throws {
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let revoked = try await endpoint(http, url).revoke(revocation())
            #expect(revoked == .done)
            let form = try #require(server.requests.first).form
            #expect(form.keys.sorted() == ["client_id", "client_secret", "token", "token_type_hint"])
            #expect(form["client_id"] == "org.example.chargers.watch")
            #expect(form["token"] == "apple-refresh-token")
            #expect(form["token_type_hint"] == "refresh_token")
        }
    }

    @Test(arguments: [
        (Behaviour.answer(200), AppleTokenEndpoint.Revoked.done),
        (.answer(400, #"{"error":"invalid_grant"}"#), .unknownToken),
        (.answer(400, #"{"error":"invalid_token"}"#), .unknownToken),
        (.answer(400, #"{"error":"invalid_client"}"#), .failed(reason: "status_400")),
        (.answer(400, "<html>"), .failed(reason: "status_400")), (.answer(401), .failed(reason: "status_401")),
        (.answer(204), .failed(reason: "status_204")), (.answer(503), .failed(reason: "status_503")),
        (.answer(307, fields: "Location: /elsewhere\r\n"), .failed(reason: "redirected")),
        (.text(""), .failed(reason: "unreachable")),
    ])
    func whatAnAnswerMeans(behaviour: Behaviour, outcome: AppleTokenEndpoint.Revoked) async throws {
        try await LoopbackServer.with(.always(behaviour)) { _, url, http in
            let revoked = try await endpoint(http, url).revoke(revocation())
            #expect(revoked == outcome)
        }
    }

    @Test func aTokenOfAnotherRowIsNotSent() async throws {
        try await LoopbackServer.with(.always(.answer(200))) { server, url, http in
            let moved = try revocation(ofRow: [UInt8](repeating: 0, count: 32))
            let revoked = try await endpoint(http, url).revoke(moved)
            #expect(revoked == .failed(reason: "sealed_with_another_DATA_KEY"))
            #expect(server.requests.isEmpty)
        }
    }
}

@Suite struct FormBodyTests {
    @Test(arguments: [
        ("plain-._*09azAZ", "plain-._*09azAZ"), ("a b", "a%20b"), ("+&=%/", "%2B%26%3D%25%2F"), ("ü", "%C3%BC"),
        ("", ""),
    ])
    func encoding(value: String, text: String) {
        #expect(FormBody.text([("a", value), (value, "b")]) == "a=\(text)&\(text)=b")
    }
}
