// The objects that all connections of a server share, and the function to which the module Sockets passes each new
// connection.

internal import HTTP1
internal import Logging
internal import Sockets

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

struct ServerContext: Sendable {
    let configuration: ServerConfiguration
    let router: Router
    let middleware: MiddlewareList
    let logger: Logger
    let bufferBudget: BufferBudget
    /// The clocks of the loops, each at its loop's index.
    let clocks: [LoopClock]

    /// Serves a connection, on the connection's loop. `rejection` is the limit that the connection exceeds; nil if the
    /// connection exceeds no limit.
    func serve(_ connection: Connection, _ rejection: RejectedConnection?, whenOver: @escaping @Sendable () -> Void) {
        let http = HTTP1Connection(connection, self, whenOver: whenOver)
        if rejection == nil { http.serve() } else { http.reject() }
    }
}

/// The wall clock of one loop. It needs no lock, because each loop uses only the clock at its own index.
final class LoopClock: @unchecked Sendable {
    private var date = HTTPDate()

    /// The current time in whole milliseconds since 1970.
    static var nowMilliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) &* 1000 &+ Int64(time.tv_nsec / 1_000_000)
    }

    func dateText(_ milliseconds: Int64) -> String {
        date.text(milliseconds)
    }
}
