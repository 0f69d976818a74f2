// Raises the limit on open descriptors, because each connection uses one. Systems usually start programs with a soft
// limit of only 1024, because select(2) does not support more. A program may raise its soft limit up to its hard limit.

import Logging
import StructuredLogging

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum DescriptorLimit {
    /// The number of descriptors for everything except connections of clients: the database, Redis, outgoing requests,
    /// listeners, and the standard streams.
    ///
    /// Some of these descriptors must always be free: on Linux, Dispatch opens files in /proc to read the state of its
    /// threads, and ends the process if no descriptor is free.
    private static let otherDescriptors: UInt64 = 512

    /// Raises the soft limit so that it suffices for `connectionsMax` connections and the rest of the process. The new
    /// limit does not exceed the hard limit.
    ///
    /// Returns the number of connections that the new limit permits, at most `connectionsMax`. Logs a warning if this
    /// number is lower than `connectionsMax`.
    static func raise(forConnections connectionsMax: Int, _ logger: Logger) -> Int {
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        let needed = UInt64(max(0, connectionsMax)) + otherDescriptors
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < needed else { return connectionsMax }
        limit.rlim_cur = min(rlim_t(needed), limit.rlim_max)
        let raised = setrlimit(resource, &limit)
        if raised != 0 { _ = getrlimit(resource, &limit) }
        let permitted = connections(permittedBy: UInt64(limit.rlim_cur), atMost: connectionsMax)
        if permitted < connectionsMax {
            logger.warning(
                "open file limit too low for MAX_CONNECTIONS; fewer connections are served",
                metadata: [
                    "limit": .number(limit.rlim_cur), "needed": .number(needed), "connections": .number(permitted),
                ])
        }
        return permitted
    }

    /// Returns how many connections this number of descriptors permits, at most `connectionsMax`. If there are fewer
    /// than 1024 descriptors, half of them are for connections.
    static func connections(permittedBy descriptors: UInt64, atMost connectionsMax: Int) -> Int {
        let permitted = descriptors - min(otherDescriptors, descriptors / 2)
        return max(1, min(connectionsMax, Int(clamping: permitted)))
    }
}
