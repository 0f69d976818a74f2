// Tests of the HTTP server's settings. ConfigurationTests tests the limits of the ranges.

import Testing

@testable import App

@Suite struct HTTPConfigurationTests {
    @Test func withoutAnythingSetClientsAreWaitedForAsLongAsTheDocumentSays() throws {
        let http = try #require(report().configuration).http
        #expect(http.timeouts.headerTimeoutSeconds == 10)
        #expect(http.timeouts.bodyTimeoutSeconds == 20 && http.timeouts.bodyBytesPerSecondMin == 500)
        #expect(http.timeouts.idleTimeoutSeconds == 75 && http.timeouts.writeStallTimeoutSeconds == 30)
        #expect(http.connectionsPerAddressMax == 0)
        #expect(http.outputBufferBytes == 64 << 10 && http.bufferedBytesMax == 256 << 20)
        #expect(try variable("TRUSTED_PROXIES", in: report()).shown == "none")
    }

    @Test(arguments: [
        ("::1", ["::1"]), ("127.0.0.1,::1", ["127.0.0.1", "::1"]),
        (" localhost , 10.0.0.1", ["localhost", "10.0.0.1"]), ("0.0.0.0,::1", ["0.0.0.0", "::1"]),
    ])
    func hostsAreAList(text: String, hosts: [String]) throws {
        #expect(try #require(report(["HTTP_HOST": text]).configuration).http.hosts == hosts)
    }

    /// Some of these lists are invalid because one address includes another, as 0.0.0.0 includes every IPv4 address.
    /// The server cannot bind both addresses to the same port.
    @Test(arguments: [
        ",", "::1,", "a b", "::1,::1", " ", "", "0.0.0.0,::", "::,127.0.0.1", "::,localhost", "127.0.0.1,0.0.0.0",
    ])
    func whatIsNoListOfHostsStopsTheStart(text: String) {
        #expect(report(["HTTP_HOST": text]).problems.map(\.variable) == ["HTTP_HOST"])
    }

    @Test func withoutTCPThereMustBeAUnixSocket() throws {
        let report = report(["HTTP_HOST": "", "HTTP_UNIX_SOCKET": "/run/dwell.sock"])
        let http = try #require(report.configuration).http
        #expect(http.hosts.isEmpty && http.unixSocketPath == "/run/dwell.sock")
        #expect(try variable("HTTP_HOST", in: report).shown == "none")
    }

    @Test(arguments: [
        (["LISTEN_PID": "7", "LISTEN_FDS": "2"], [3, 4]), (["LISTEN_PID": "8", "LISTEN_FDS": "2"], []),
        (["LISTEN_FDS": "1"], []), (["LISTEN_PID": "7"], []), (["LISTEN_PID": "7", "LISTEN_FDS": "0"], []),
        (["LISTEN_PID": "7", "LISTEN_FDS": "65"], []), (["LISTEN_PID": "7", "LISTEN_FDS": "x"], []),
    ])
    func socketsAreHandedOverToTheProcessThatIsNamed(environment: [String: String], descriptors: [Int32]) {
        #expect(InheritedSockets.descriptors(environment, processID: 7) == descriptors)
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
        "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/",
        "proxy.example", ",", "10.0.0.1,", "10.0.0.1 10.0.0.2", "10.0.0.0/8/8", "UNIX", " ",
    ])
    func whatIsNoNetworkStopsTheStart(text: String) {
        #expect(report(["TRUSTED_PROXIES": text]).problems.map(\.variable) == ["TRUSTED_PROXIES"])
    }
}
