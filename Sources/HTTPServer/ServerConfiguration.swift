package import HTTP1
package import Sockets

/// The settings and limits of the server, each with its reason. HTTP1's `Limits` contains the limits on a single
/// message.
package struct ServerConfiguration: Sendable {
    /// The addresses to listen on, at least one. All of them serve the same routes.
    package var addresses: [SocketAddress]
    /// The number of event loops, at least 1. Used only if the server makes its own loops.
    package var loops = 2
    /// The maximum number of open connections over all addresses. A connection above this number gets 503.
    package var connectionsMax = 10_000
    /// The maximum number of open connections from one address. 0 means no limit. Use 0 behind a proxy, because all
    /// connections then have the proxy's address.
    package var connectionsPerAddressMax = 0
    /// The maximum number of connections that the kernel queues per listener until they are accepted.
    package var backlog = 4096
    /// Limits of HTTP/1.1 messages.
    package var limits = Limits()
    /// The proxies whose forwarding field is trusted, and the name of that field.
    package var trustedProxies = TrustedProxies()
    /// The web pages that may call the server from a browser. If nil, only pages of the server's own origin may call
    /// it.
    package var crossOrigin: CrossOrigin?

    /// The maximum time from the first byte of a request to the end of its head. A slower request gets 503, or 408 if
    /// its method is safe. The head of a phone's request fits into one packet.
    package var headTimeoutMilliseconds = 10_000
    /// The time that a body may take. Received bytes extend this time (`bodyBytesPerSecondMin`). A request whose body
    /// takes longer gets 503, or 408 if its method is safe.
    package var bodyTimeoutMilliseconds = 20_000
    /// The maximum time that a body may take, with all extensions for received bytes (`bodyBytesPerSecondMin`). A
    /// megabyte at 6 KB a second takes about this long.
    package var bodyTimeMaxMilliseconds = 180_000
    /// The number of received bytes that extend the time for a body by one second: 500, as in Apache's mod_reqtimeout.
    package var bodyBytesPerSecondMin = 500
    /// The time that a connection may be idle between requests or before the first request. It is longer than the 60 s
    /// after which common proxies close an idle connection, so the proxy closes first. If the server closed first, it
    /// could lose a request that the proxy was just sending.
    package var idleTimeoutMilliseconds = 75_000
    /// A client that takes no byte of its response for this time is disconnected.
    package var writeStallMilliseconds = 30_000
    /// How long the server still reads and discards input after a response that ends the connection. It reads at most
    /// `lingerBytesMax` bytes. Closing a socket with unread input would reset the connection, and the client could lose
    /// the response (RFC 9112 section 9.6).
    package var lingerMilliseconds = 5_000
    package var lingerBytesMax = 32 << 20
    /// How long an idle connection stays open while the server drains. In this time, its client can send one more
    /// request.
    package var drainIdleMilliseconds = 1_000
    /// The responses to pipelined requests are collected and written together. When the collected responses are larger
    /// than this number of bytes, they are written before the next request is parsed.
    package var outputBytesMax = 64 << 10
    /// The maximum memory for bodies, incomplete requests and unread responses of all connections together. The default
    /// is a quarter of a small server's memory. A request that does not fit gets 503.
    ///
    /// The output buffer of a connection is counted only if it exceeds 8 KiB. The same rule applies to the input buffer
    /// together with the fields of the request.
    ///
    /// A client with a valid credential may use a sixteenth of this memory, or 2 MiB if that is more. The clients
    /// without a valid credential at one address share the same amount.
    ///
    /// Unread responses may use half of the memory. Beyond that, the clients that have read nothing for the longest
    /// time are disconnected.
    package var bufferedBytesMax = 256 << 20

    package init(addresses: [SocketAddress]) {
        self.addresses = addresses
    }
}
