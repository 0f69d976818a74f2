// Tests with Apple's current certificates for App Store data, from the x5c header of real signed data. They pass all
// checks against the pinned root. Data that Apple did not sign is rejected even with these certificates.

import Crypto
import Foundation
import Identity
import JourneyModel
import Testing

@testable import Purchases

@Suite struct AppleChainTests {
    /// The certificate "Prod ECC Mac App Store and iTunes Store Receipt Signing", valid from 2025-09-19 19:44:51 to
    /// 2027-10-13 17:47:23.
    private static let leaf = """
        MIIEMTCCA7agAwIBAgIQR8KHzdn554Z/UoradNx9tzAKBggqhkjOPQQDAzB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVy
        IFJlbGF0aW9ucyBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVT
        MB4XDTI1MDkxOTE5NDQ1MVoXDTI3MTAxMzE3NDcyM1owgZIxQDA+BgNVBAMMN1Byb2QgRUNDIE1hYyBBcHAgU3RvcmUgYW5kIGlUdW5lcyBT
        dG9yZSBSZWNlaXB0IFNpZ25pbmcxLDAqBgNVBAsMI0FwcGxlIFdvcmxkd2lkZSBEZXZlbG9wZXIgUmVsYXRpb25zMRMwEQYDVQQKDApBcHBs
        ZSBJbmMuMQswCQYDVQQGEwJVUzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNnVvhcv7iT+7Ex5tBMBgrQspHzIsXRi0Yxfek7lv8wEmj/b
        HiWtNwJqc2BoHzsQiEjP7KFIIKg4Y8y0/nynuAmjggIIMIICBDAMBgNVHRMBAf8EAjAAMB8GA1UdIwQYMBaAFD8vlCNR01DJmig97bB85c+l
        kGKZMHAGCCsGAQUFBwEBBGQwYjAtBggrBgEFBQcwAoYhaHR0cDovL2NlcnRzLmFwcGxlLmNvbS93d2RyZzYuZGVyMDEGCCsGAQUFBzABhiVo
        dHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLXd3ZHJnNjAyMIIBHgYDVR0gBIIBFTCCAREwggENBgoqhkiG92NkBQYBMIH+MIHDBggrBgEF
        BQcCAjCBtgyBs1JlbGlhbmNlIG9uIHRoaXMgY2VydGlmaWNhdGUgYnkgYW55IHBhcnR5IGFzc3VtZXMgYWNjZXB0YW5jZSBvZiB0aGUgdGhl
        biBhcHBsaWNhYmxlIHN0YW5kYXJkIHRlcm1zIGFuZCBjb25kaXRpb25zIG9mIHVzZSwgY2VydGlmaWNhdGUgcG9saWN5IGFuZCBjZXJ0aWZp
        Y2F0aW9uIHByYWN0aWNlIHN0YXRlbWVudHMuMDYGCCsGAQUFBwIBFipodHRwOi8vd3d3LmFwcGxlLmNvbS9jZXJ0aWZpY2F0ZWF1dGhvcml0
        eS8wHQYDVR0OBBYEFIFioG4wMMVA1ku9zJmGNPAVn3eqMA4GA1UdDwEB/wQEAwIHgDAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNp
        ADBmAjEA+qXnREC7hXIWVLsLxznjRpIzPf7VHz9V/CTm8+LJlrQepnmcPvGLNcX6XPnlcgLAAjEA5IjNZKgg5pQ79knF4IbTXdKv8vutIDMX
        DmjPVT3dGvFtsGRwXOywR2kZCdSrfeot
        """

    /// The certificate "Apple Worldwide Developer Relations Certification Authority", G6, valid until 2036-03-19.
    private static let intermediate = """
        MIIDFjCCApygAwIBAgIUIsGhRwp0c2nvU4YSycafPTjzbNcwCgYIKoZIzj0EAwMwZzEbMBkGA1UEAwwSQXBwbGUgUm9vdCBDQSAtIEczMSYw
        JAYDVQQLDB1BcHBsZSBDZXJ0aWZpY2F0aW9uIEF1dGhvcml0eTETMBEGA1UECgwKQXBwbGUgSW5jLjELMAkGA1UEBhMCVVMwHhcNMjEwMzE3
        MjAzNzEwWhcNMzYwMzE5MDAwMDAwWjB1MUQwQgYDVQQDDDtBcHBsZSBXb3JsZHdpZGUgRGV2ZWxvcGVyIFJlbGF0aW9ucyBDZXJ0aWZpY2F0
        aW9uIEF1dGhvcml0eTELMAkGA1UECwwCRzYxEzARBgNVBAoMCkFwcGxlIEluYy4xCzAJBgNVBAYTAlVTMHYwEAYHKoZIzj0CAQYFK4EEACID
        YgAEbsQKC94PrlWmZXnXgtxzdVJL8T0SGYngDRGpngn3N6PT8JMEb7FDi4bBmPhCnZ3/sq6PF/cGcKXWsL5vOteRhyJ45x3ASP7cOB+aao90
        fcpxSv/EZFbniAbNgZGhIhpIo4H6MIH3MBIGA1UdEwEB/wQIMAYBAf8CAQAwHwYDVR0jBBgwFoAUu7DeoVgziJqkipnevr3rr9rLJKswRgYI
        KwYBBQUHAQEEOjA4MDYGCCsGAQUFBzABhipodHRwOi8vb2NzcC5hcHBsZS5jb20vb2NzcDAzLWFwcGxlcm9vdGNhZzMwNwYDVR0fBDAwLjAs
        oCqgKIYmaHR0cDovL2NybC5hcHBsZS5jb20vYXBwbGVyb290Y2FnMy5jcmwwHQYDVR0OBBYEFD8vlCNR01DJmig97bB85c+lkGKZMA4GA1Ud
        DwEB/wQEAwIBBjAQBgoqhkiG92NkBgIBBAIFADAKBggqhkjOPQQDAwNoADBlAjBAXhSq5IyKogMCPtw490BaB677CaEGJXufQB/EqZGd6CSj
        iCtOnuMTbXVXmxxcxfkCMQDTSPxarZXvNrkxU3TkUMI33yzvFVVRT4wxWJC994OsdcZ4+RGNsYDyR5gmdr0nDGg=
        """

    private static let chain: [[UInt8]] =
        [leaf, intermediate].compactMap { Data(base64Encoded: $0, options: .ignoreUnknownCharacters).map { Array($0) } }
        + [AppleRootCertificate.g3]

    private static let leafBegins = Moment(millisecondsSinceEpoch: 1_758_311_091_000)
    private static let leafEnds = Moment(millisecondsSinceEpoch: 1_823_449_643_000)

    @Test("Apple's chain is accepted from the first to the last second of the leaf's validity")
    func accepted() async throws {
        for time in [Self.leafBegins, start, Self.leafEnds] {
            let key = try await CertificateChain().leafKey(of: Self.chain, at: time)
            #expect(
                key.rawRepresentation.base64EncodedString()
                    == "2dW+Fy/uJP7sTHm0EwGCtCykfMixdGLRjF96TuW/zASaP9seJa03AmpzYGgfOxCISM/soUggqDhjzLT+fKe4CQ==")
        }
        for time in [Self.leafBegins.advanced(byMilliseconds: -1), Self.leafEnds.advanced(bySeconds: 1)] {
            await #expect(throws: PurchaseRefusal.expiredCertificate) {
                try await CertificateChain().leafKey(of: Self.chain, at: time)
            }
        }
    }

    @Test("A JWS with Apple's chain and another key's signature is rejected for its signature")
    func forged() async throws {
        let stranger = try TestAuthority()
        let token = try stranger.token(transactionClaims(), chain: Self.chain)
        let verifier = AppStoreVerifier(apps: [AppStoreApp(bundleID: TestAuthority.appleBundleID, appleID: nil)])
        await #expect(throws: PurchaseRefusal.wrongSignature) { try await verifier.transaction(token, now: start) }
    }

    @Test("Apple's leaf or intermediate with one bit of any byte changed is rejected")
    func bits() async {
        for index in 0..<2 {
            for byte in Self.chain[index].indices {
                var chain = Self.chain
                chain[index][byte] ^= 1 << UInt8(byte % 8)
                await #expect(throws: PurchaseRefusal.self) {
                    try await CertificateChain().leafKey(of: chain, at: start)
                }
            }
        }
    }
}
