package import HTTP1
package import Sockets

/// Every bound of the server, each with its reason. Limits on a single message are in HTTP1's `Limits`.
package struct ServerConfiguration: Sendable {
    /// Where to listen, at least one; all of them serve the same routes.
    package var addresses: [SocketAddress]
    /// Number of event loops when the server makes its own; at least 1.
    package var loops = 2
    /// Maximum of open connections over all addresses; one more gets 503.
    package var connectionsMax = 10_000
    /// Maximum of open connections from one address; 0 is off, which is right behind a proxy.
    package var connectionsPerAddressMax = 0
    /// Connections that the kernel queues until they are accepted, per listener.
    package var backlog = 4096
    /// Limits of HTTP/1.1 messages.
    package var limits = Limits()
    /// Which proxies' forwarding field is trusted, and which field it is.
    package var trustedProxies = TrustedProxies()
    /// The web pages that may call from a browser; nil: only those of the server's own origin.
    package var crossOrigin: CrossOrigin?

    /// From the first byte of a request to the end of its head. A phone's head is one packet; nginx waits 60 s,
    /// Apache's mod_reqtimeout 20 s. Exceeded: 408 or 503.
    package var headTimeoutMilliseconds = 10_000
    /// Time for a body, in addition to the time that its bytes need at `bodyBytesPerSecondMin`. Exceeded: 503, for GET 408.
    package var bodyTimeoutMilliseconds = 20_000
    /// Upper limit of that sum: a megabyte at 6 KB a second.
    package var bodyTimeMaxMilliseconds = 180_000
    /// The slowest rate that extends the time for a body; mod_reqtimeout's number.
    package var bodyBytesPerSecondMin = 500
    /// Between requests, and before the first. Longer than the 60 s after which common proxies give up an idle
    /// connection, so that they close first and no request is lost in a race.
    package var idleTimeoutMilliseconds = 75_000
    /// A client that takes nothing of its response for this long is disconnected.
    package var writeStallMilliseconds = 30_000
    /// After a response that ends the connection, the client has this long, and this many bytes, to finish sending and
    /// to read it: closing with unread bytes would reset the connection and could lose the response (RFC 9112 section
    /// 9.6).
    package var lingerMilliseconds = 5_000
    package var lingerBytesMax = 32 << 20
    /// While draining, an idle connection may still send one request for this long.
    package var drainIdleMilliseconds = 1_000
    /// Responses to pipelined requests are collected up to this size, then written before more is parsed.
    package var outputBytesMax = 64 << 10
    /// Memory for bodies, incomplete requests and unread responses, over all connections. The first 8 KiB of each
    /// connection are not counted. One client with a valid credential may use a sixteenth of it. A request that does
    /// not fit gets 503; a client that does not read its response when no memory is left is disconnected. A quarter of
    /// a small server's memory.
    package var bufferedBytesMax = 256 << 20

    package init(addresses: [SocketAddress]) {
        self.addresses = addresses
    }
}
