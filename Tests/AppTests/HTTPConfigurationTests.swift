// The settings of the HTTP server: their defaults, and how proxies are written down. The edges of their ranges are
// tested with all others, from the declarations.

import Testing

@testable import App

@Suite struct HTTPConfigurationTests {
    @Test func withoutAnythingSetClientsAreWaitedForAsLongAsTheDocumentSays() throws {
        let http = try #require(report().configuration).http
        #expect(http.patience.headerTimeoutSeconds == 10)
        #expect(http.patience.bodyTimeoutSeconds == 20 && http.patience.bodyBytesPerSecondMin == 500)
        #expect(http.patience.idleTimeoutSeconds == 75 && http.patience.writeStallTimeoutSeconds == 30)
        #expect(http.connectionsPerAddressMax == 0)
        #expect(http.outputBufferBytes == 64 << 10 && http.bufferedBytesMax == 256 << 20)
        #expect(try variable("TRUSTED_PROXIES", in: report()).shown == "nobody")
    }

    @Test(
        arguments: [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1", "127.0.0.1/32"),
            (" FD00::/8 , 10.1.2.3,unix", "fd00::/8,10.1.2.3/32,unix"),
        ])
    func proxiesAreNumbersAndNetworks(text: String, shown: String) throws {
        let report = report(["TRUSTED_PROXIES": text])
        #expect(report.problems.isEmpty)
        #expect(try variable("TRUSTED_PROXIES", in: report).shown == shown)
    }

    @Test(arguments: [
        "10.0.0.0/33", "proxy.example", ",", "10.0.0.1,", "10.0.0.1 10.0.0.2", "10.0.0.0/8/8", "UNIX", " ",
    ])
    func whatIsNoNetworkStopsTheStart(text: String) {
        #expect(report(["TRUSTED_PROXIES": text]).problems.map(\.variable) == ["TRUSTED_PROXIES"])
    }
}
