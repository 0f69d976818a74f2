// Tests of the files that a `rediss://` URL names. The encryption itself is tested with a real Redis, in
// Tests/Integration/redis_cluster.py.

import Foundation
import Testing

@testable import RateLimiting

struct RedisTLSTests {
    @Test func replacedFilesAreReadAgain() throws {
        let path = NSTemporaryDirectory() + "dwell-ca-\(UInt32.random(in: .min ... .max)).pem"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let tls = RedisTLS(ca: path, certificate: nil, key: nil)
        func write(_ text: String) throws { try text.write(toFile: path, atomically: true, encoding: .utf8) }

        try write(Self.certificate)
        _ = try tls.session(host: "localhost")
        try write("no certificate")
        #expect(throws: RedisFailure.certificateFiles) { _ = try tls.session(host: "localhost") }
        try FileManager.default.removeItem(atPath: path)
        #expect(throws: RedisFailure.certificateFiles) { _ = try tls.session(host: "localhost") }
        try write(Self.certificate)
        _ = try tls.session(host: "localhost")
    }

    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBcDCCARWgAwIBAgIUF92hPoACU0RCA7OLV8wKJ1YS61cwCgYIKoZIzj0EAwIw
        DDEKMAgGA1UEAwwBYTAgFw0yNjExMjgwMjE2NDdaGA8yMTI2MTEwNDAyMTY0N1ow
        DDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFaNEGZ9KaBq
        G+MIo2hciQiiUDpC70VfE5lTCpATb5BvBiRc9BQpQz1t7C9M/HklaCYf9UYOT4g8
        q3BkD2kFw32jUzBRMB0GA1UdDgQWBBRBJHd+5JRoGB3u+J1zXFApCzfR4zAfBgNV
        HSMEGDAWgBRBJHd+5JRoGB3u+J1zXFApCzfR4zAPBgNVHRMBAf8EBTADAQH/MAoG
        CCqGSM49BAMCA0kAMEYCIQCb1IoqSemd1L5Dyv98O8aI/umiMnuDfx8KZpV8O+LB
        +QIhAJ+OpbTrEQWoA8LAhMWU+dqse6pmpnpdFJgJVsSwQT4q
        -----END CERTIFICATE-----
        """
}
