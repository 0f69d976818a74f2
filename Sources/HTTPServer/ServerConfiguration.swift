package import HTTP1
package import Sockets

/// The settings and limits of the server, each with its reason. Limits on a single message are in HTTP1's `Limits`.
package struct ServerConfiguration: Sendable {
    /// The addresses to listen on, at least one. All of them serve the same routes.
    package var addresses: [SocketAddress]
    /// The number of event loops, at least 1. Used only if the server makes its own loops.
    package var loops = 2
    /// The maximum number of open connections over all addresses. A further connection gets 503.
    package var connectionsMax = 10_000
    /// The maximum number of open connections from one address. 0 means no limit, which is right behind a proxy,
    /// because all connections then have the proxy's address.
    package var connectionsPerAddressMax = 0
    /// The maximum number of connections per listener that the kernel queues until they are accepted.
    package var backlog = 4096
    /// Limits of HTTP/1.1 messages.
    package var limits = Limits()
    /// The proxies whose forwarding field is trusted, and the name of that field.
    package var trustedProxies = TrustedProxies()
    /// The web pages that may call the server from a browser. If nil, only pages of the server's own origin may.
    package var crossOrigin: CrossOrigin?

    /// The time from the first byte of a request to the end of its head. A phone's head is one packet. nginx waits 60
    /// s, Apache's mod_reqtimeout 20 s. A request that exceeds it gets 503, or 408 if its method is safe.
    package var headTimeoutMilliseconds = 10_000
    /// The time for a body, in addition to the time that its bytes need at `bodyBytesPerSecondMin`. A request that
    /// exceeds it gets 503, or 408 if its method is safe.
    package var bodyTimeoutMilliseconds = 20_000
    /// The maximum time for a body, including the time for its bytes: enough for a megabyte at 6 KB a second.
    package var bodyTimeMaxMilliseconds = 180_000
    /// The rate at which received bytes extend the time for a body: every 500 bytes extend it by one second, as in
    /// mod_reqtimeout.
    package var bodyBytesPerSecondMin = 500
    /// The idle time between requests, and before the first request. It is longer than the 60 s after which common
    /// proxies close an idle connection, so that the proxy closes first and no request is lost in a race.
    package var idleTimeoutMilliseconds = 75_000
    /// The time after which a client that takes nothing of its response is disconnected.
    package var writeStallMilliseconds = 30_000
    /// The time that the client has, after a response that ends the connection, to finish sending and to read the
    /// response. In that time it may send at most `lingerBytesMax` bytes. Closing the connection while received bytes
    /// are unread would reset the connection and could lose the response (RFC 9112 section 9.6).
    package var lingerMilliseconds = 5_000
    package var lingerBytesMax = 32 << 20
    /// The time for which an idle connection may still send one request while the server drains.
    package var drainIdleMilliseconds = 1_000
    /// The size up to which responses to pipelined requests are collected. Larger output is written before the next
    /// request is parsed.
    package var outputBytesMax = 64 << 10
    /// The memory for bodies, incomplete requests and unread responses, over all connections: a quarter of a small
    /// server's memory. Input and output buffers of up to 8 KiB are not counted. A client with a valid credential may
    /// use a sixteenth of this memory. A request that does not fit gets 503. A client that does not read its response
    /// when no memory is left is disconnected.
    package var bufferedBytesMax = 256 << 20

    package init(addresses: [SocketAddress]) {
        self.addresses = addresses
    }
}
