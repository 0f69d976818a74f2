// Tests how the server finds the client's address behind proxies. The setting `field` says whether the proxy writes
// X-Forwarded-For or Forwarded (RFC 7239). The server reads only that field.
//
// The server reads the field from right to left. It believes an entry only if it trusts the host that wrote the entry,
// so entries that the client forged have no effect.

import Testing

@testable import HTTP1
@testable import HTTPServer

@Suite struct TrustedProxiesTests {
    @Test(
        arguments: [
            // No proxy is trusted, so the field is ignored.
            ([], "10.0.0.1", "1.2.3.4", "10.0.0.1"),
            (["10.0.0.0/8"], "10.0.0.1", "1.2.3.4", "1.2.3.4"),
            (["10.0.0.0/8"], "11.0.0.1", "1.2.3.4", "11.0.0.1"),
            // The client itself wrote the leftmost entry, which is not believed.
            (["10.0.0.0/8"], "10.9.9.9", "6.6.6.6, 1.2.3.4", "1.2.3.4"),
            (["10.0.0.0/8"], "10.9.9.9", "6.6.6.6, 1.2.3.4, 10.1.1.1", "1.2.3.4"),
            (["10.0.0.0/8"], "10.9.9.9", "garbage", "10.9.9.9"),
            (["10.0.0.0/8"], "10.9.9.9", "", "10.9.9.9"),
            (["10.0.0.0/8"], "10.9.9.9", "1.2.3.4, garbage, 10.1.1.1", "10.1.1.1"),
            // RFC 9110 section 5.6.1: empty list elements are skipped.
            (["10.0.0.0/8"], "10.9.9.9", ",1.2.3.4 , ,", "1.2.3.4"),
            // All addresses are trusted proxies: the client is the leftmost one.
            (["10.0.0.0/8"], "10.9.9.9", "10.1.1.1, 10.2.2.2", "10.1.1.1"),
            (["10.1.2.3/31"], "10.1.2.2", "1.2.3.4", "1.2.3.4"),
            (["10.1.2.3/31"], "10.1.2.4", "1.2.3.4", "10.1.2.4"),
            (["0.0.0.0/0"], "9.9.9.9", "1.2.3.4", "1.2.3.4"),
            (["fd00::/8"], "fd12::1", "2001:DB8::1", "2001:db8::1"),
            (["127.0.0.1"], "127.0.0.1", "::ffff:9.8.7.6", "9.8.7.6"),
            // Some proxies write the client's port, too.
            (["127.0.0.1"], "127.0.0.1", "9.8.7.6:54321", "9.8.7.6"),
            (["127.0.0.1"], "127.0.0.1", "[2001:db8::1]:54321", "2001:db8::1"),
            // In Swift, the colon and the combining mark after it are one Character. The server must nevertheless find
            // the colon and cut off the port.
            (["127.0.0.1"], "127.0.0.1", "9.8.7.6:\u{319}x", "9.8.7.6"),
            (["127.0.0.1"], "127.0.0.1", "[2001:db8::1]:\u{319}x", "2001:db8::1"),
            (["unix"], "", "1.2.3.4", "1.2.3.4"),
            (["127.0.0.1"], "", "1.2.3.4", ""),
        ] as [([String], String, String, String)])
    func `X-Forwarded-For`(trusted: [String], peer: String, field: String, expected: String) throws {
        let proxies = try #require(TrustedProxies(trusted))
        #expect(proxies.clientAddress(peer: peer, Fields([("X-Forwarded-For", field)])).text == expected)
    }

    /// The first cases are the examples of RFC 7239 (sections 4, 6 and 7.1), sent by a proxy at 127.0.0.1.
    @Test(
        arguments: [
            ("for=\"_gazonk\"", "127.0.0.1"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
            ("for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown", "127.0.0.1"),
            ("for=192.0.2.43, for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17"),
            ("proto=https; FOR = 1.2.3.4", "127.0.0.1"),
            ("proto=https;host=\"a,b;for=6.6.6.6\"; for=\"1.2.3.4:80\"", "1.2.3.4"),
            ("for=6.6.6.6, for=1.2.3.4, for=127.0.0.1", "1.2.3.4"),
            ("for=[2001:db8::1]:_port", "2001:db8::1"),
            ("for=1.2.3.4,", "1.2.3.4"),
            (", ;for=1.2.3.4", "1.2.3.4"),
            ("for=\"1.2\\.3.4\"", "1.2.3.4"),
            // The nearest proxy wrote no `for` parameter.
            ("for=1.2.3.4, by=10.0.0.1", "127.0.0.1"),
            // In a malformed field, the entry of the proxy cannot be separated from the entries of the client. The
            // server then believes no entry, and uses the proxy's address as the client's.
            ("for=\"1.2.3.4", "127.0.0.1"),
            ("for=\"6.6.6.6, for=1.2.3.4", "127.0.0.1"),
            ("for=", "127.0.0.1"),
            ("for", "127.0.0.1"),
            ("for=1.2.3.4 for=6.6.6.6", "127.0.0.1"),
            ("for=1.2.3.4;;=", "127.0.0.1"),
            ("for=\"1.2.3.4\\", "127.0.0.1"),
            ("", "127.0.0.1"),
        ] as [(String, String)])
    func forwarded(field: String, expected: String) throws {
        var proxies = try #require(TrustedProxies(["127.0.0.1"]))
        proxies.field = .forwarded
        #expect(proxies.clientAddress(peer: "127.0.0.1", Fields([("Forwarded", field)])).text == expected)
        #expect(TrustedProxies().clientAddress(peer: "127.0.0.1", Fields([("Forwarded", field)])).text == "127.0.0.1")
    }

    @Test func `a line of its own is not swallowed by what a client wrote in the line before`() throws {
        var proxies = try #require(TrustedProxies(["127.0.0.1"]))
        proxies.field = .forwarded
        let fields = Fields([("Forwarded", "for=\"6.6.6.6"), ("Forwarded", "for=1.2.3.4")])
        #expect(proxies.clientAddress(peer: "127.0.0.1", fields).text == "1.2.3.4")
    }

    @Test(arguments: ["for=6.6.6.6", "garbage", "for=1.2.3.4", "", "for=\"", "6.6.6.6"])
    func `the field that the proxy does not write is never read`(other: String) throws {
        var proxies = try #require(TrustedProxies(["127.0.0.1"]))
        func client(_ forwarded: String?, _ xForwardedFor: String?) -> ClientAddress {
            proxies.clientAddress(
                peer: "127.0.0.1",
                Fields(
                    [("Forwarded", forwarded), ("X-Forwarded-For", xForwardedFor)].compactMap { name, value in
                        value.map { (name, $0) }
                    }))
        }
        #expect(client(other, "1.2.3.4") == ClientAddress(text: "1.2.3.4"))
        #expect(client(other, nil) == ClientAddress(text: "127.0.0.1", gap: .absent))
        proxies.field = .forwarded
        #expect(client("for=1.2.3.4", other) == ClientAddress(text: "1.2.3.4"))
        #expect(client(nil, other) == ClientAddress(text: "127.0.0.1", gap: .absent))
    }

    @Test func `a trusted proxy that does not say who its client is can be told from one that does`() throws {
        let proxies = try #require(TrustedProxies(["10.0.0.0/8"]))
        func client(_ peer: String, _ value: String) -> ClientAddress {
            proxies.clientAddress(peer: peer, Fields([("X-Forwarded-For", value)]))
        }
        #expect(client("10.0.0.1", "1.2.3.4") == ClientAddress(text: "1.2.3.4"))
        #expect(client("10.0.0.1", "garbage") == ClientAddress(text: "10.0.0.1", gap: .unreadable))
        #expect(client("10.0.0.1", "1.2.3.4, unknown, 10.0.0.2") == ClientAddress(text: "10.0.0.2", gap: .unreadable))
        #expect(client("10.0.0.1", " , ") == ClientAddress(text: "10.0.0.1", gap: .absent))
        #expect(client("10.0.0.1", "10.0.0.2") == ClientAddress(text: "10.0.0.2"))
        #expect(client("192.0.2.1", "garbage") == ClientAddress(text: "192.0.2.1"))
    }

    @Test(arguments: ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8/8", "proxy.example", "fd00::/129", "10.0.0.0/"])
    func `what is no network is refused`(text: String) {
        #expect(TrustedProxies([text]) == nil)
    }

    @Test func `a list is shown in one form`() throws {
        let proxies = try #require(TrustedProxies(["unix", "10.0.0.0/8", "FD00::/8", "127.0.0.1"]))
        #expect(proxies.description == "10.0.0.0/8,fd00::/8,127.0.0.1/32,unix")
        #expect(TrustedProxies().description == "")
    }
}
