// Tests that an event's digest never changes. The server stores the digest with the idempotency key and recognizes
// repeats by it. A release with another digest would answer 422 to the repeat of a stored event.

import Engine
import JourneyModel
import Testing

@testable import SQLiteStore

@Suite struct CanonicalDigestTests {
    struct Pinned: Sendable {
        var body: String
        var headers = EventHeaders()
        /// The SHA-256 digest that all releases up to now have stored.
        var digest: String
    }

    @Test("Digests are what they always were", arguments: pinned)
    func digest(_ pinned: Pinned) throws {
        let submission = try EventSubmission.decode(
            Array(pinned.body.utf8), route: .native, headers: pinned.headers)
        let digits = PreparedAppend.digest(of: submission).flatMap { byte in
            [byte >> 4, byte & 0xF].map { String($0, radix: 16) }
        }
        #expect(digits.joined() == pinned.digest)
    }

    static let pinned: [Pinned] = [
        Pinned(
            body: #"""
                {"event":"chargerTargeted","event_id":"e1","occurred_at":"2026-11-20T08:02:10Z"}
                """#,
            digest: "955cb4ededdd34e56528ab77844ae67a90cd26b59c47ed17696ff8e509de212a"),
        Pinned(
            body: #"""
                {"schema_version":"1.0","event_id":"7f3c9a52-1d2e-4b6f-8f52-6d6ab91f0c11",\#
                "session_id":"s-5b1f7c0e","event":"enteredMerchantZone",\#
                "occurred_at":"2027-01-15T08:00:00.120Z","timestamp":"2027-01-15T08:00:00.420Z",\#
                "source":"ios_native","app_state":"background","charger_id":"charger-017",\#
                "metadata":{"accuracy_m":12.5,"speed_mps":0.4}}
                """#,
            digest: "3affead1af71365de69ff284e27fb5318ecfed49bcc0e009e108b426d896e8ca"),
        Pinned(
            body: #"""
                {"metadata":{"b":[1,2.50,0,-3e2,0.001],"a":{"y":"é","x":null}},"event":"charger_targeted",\#
                "idempotency_key":"k","occurred_at":"2026-11-20T09:02:10.5+01:00"}
                """#,
            digest: "619e6308d04e860f19a8faf8ccc4e678718d76429f128786621f7c55c54e8a4c"),
        Pinned(
            body: #"""
                {"event":"departed_charger","session_id":"exs_ä","event_id":"e 1~","idempotency_key":"\u006b",\#
                "merchant_id":"m\u00fc\ud83d\ude42","occurred_at":"2026-11-20T08:02:10Z",\#
                "sequence":9223372036854775807}
                """#,
            digest: "2c052d9523a68f8efbd5ce7a7286103e8150ac0db092babc62abe20ee380e143"),
        Pinned(
            body: #"""
                {"event":"anchor_lost","occurred_at":"2026-11-20T08:02:10.999999Z","app_state":"foreground",\#
                "source":"android_native","sequence":0}
                """#,
            headers: EventHeaders(idempotencyKey: "header-key", sentAt: "2026-11-20T08:02:11Z"),
            digest: "f0b414959f898df8436412055e8e5b5968ea295b021de369d05367b4348116ee"),
        Pinned(
            body: #"""
                {"event":"teleport_detected","event_id":"e","occurred_at":"1969-12-31T23:59:59.999Z",\#
                "metadata":{}}
                """#,
            headers: EventHeaders(idempotencyKey: #""quoted""#),
            digest: "ea1c5bb263a169a27e3517d2b3a2798be778cf5e95176aa94ec553434819415f"),
        Pinned(
            body: #"""
                {"event":"exitedChargerAnchorZone","event_id":"e","occurred_at":"0000-01-01T00:00:00Z",\#
                "sequence":4.1e1,"metadata":{"":"\"\\\/\b\f\n\r\t\u0000\u001f\u007f"}}
                """#,
            digest: "ac82774e0fc3fc6dbd72c3757041aceff0e0d9d12e0c2afafba1059c012ac8c2"),
        Pinned(
            body: #"""
                {"event":"exitedChargerAnchorZone","session_id":"s","event_id":"e",\#
                "occurred_at":"9999-12-31T23:59:59Z","schema_version":"1.12","metadata":{"z":true,"y":false,\#
                "x":null,"ab":1,"a":2,"B":[],"é":{},"e\u0301":[[{"k":[]}]]}}
                """#,
            digest: "63f2d1c9359cb7630a38c7dc1e5faef176a26b961cd95be8aaeb47725f5d0a7b"),
        Pinned(
            body: #"""
                {"event":"reset","session_id":"s","event_id":"e","occurred_at":"2016-12-31T23:59:60Z",\#
                "metadata":{"n":[0,-0,0.0,-0.0e5,1,-1,10,100,1e0,1E+2,12.50e1,-12.50e-1,0.10,123.456e3,\#
                9007199254740993,0e99999999999,1e99999999999999999999,1e-0000000001,1e999999999,1e+9999999999,\#
                123456789012345678901234567890]}}
                """#,
            digest: "8bc33ad8be654106fb535b1468e7cec29997c272d7866eb660aa22ab3d836f5c"),
        Pinned(
            body: #"""
                {"event":"sessionRestored","session_id":"a \"quoted\" \\ session","event_id":"\"\\",\#
                "occurred_at":"2026-11-20T08:02:10Z","charger_id":null,"metadata":null,"unknown":{"deep":[1,2,\#
                {"x":"y"}]},"app_state":null}
                """#,
            digest: "26fca98a95ea07f4d3009682193391633b9f5de090d61cfbe7c6366f47087f57"),
        Pinned(
            body: #"""
                {"event":"visit_verified","session_id":"s","event_id":"e","occurred_at":"2026-11-20T08:02:10Z",\#
                "metadata":{"wifi":"Café am Platz 🙂","note":" spaces kept ","list":[ 1 , 2.0 , "x" ],\#
                "sub":{ "b":1,"a":{ "d":1,"c":2 } } } }
                """#,
            digest: "733135c02f095aef7a23896ecfaaaa00b8331bb84725927258ebd9436f00a346"),
        Pinned(
            body: #"""
                {"event":"webRequestedEnd","session_id":"s","event_id":"e",\#
                "occurred_at":"2026-11-20T08:02:10Z","metadata":{"k17":17,"k16":16,"k15":15,"k14":14,"k13":13,\#
                "k12":12,"k11":11,"k10":10,"k09":9,"k08":8,"k07":7,"k06":6,"k05":5,"k04":4,"k03":3,"k02":2,\#
                "k01":1,"k00":0}}
                """#,
            digest: "ec1e7fda08f8502c1c6aae3520035da622790f234cbf81ec603ff128c8385969"),
    ]
}
