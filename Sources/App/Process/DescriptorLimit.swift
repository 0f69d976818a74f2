// The number of descriptors that the process may open. Each connection uses one descriptor. Systems start programs with
// a low soft limit (1024, because of select(2)). A program may raise its soft limit up to its hard limit.

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
    private static let otherDescriptors: rlim_t = 256

    /// Raises the soft limit to the number of descriptors that `connectionsMax` connections and the rest of the process
    /// need. Does nothing if the limit is already that high. If the hard limit is lower than that number, raises the
    /// soft limit to the hard limit and logs a warning.
    static func raise(forConnections connectionsMax: Int, _ logger: Logger) {
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        let needed = rlim_t(max(0, connectionsMax)) + otherDescriptors
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0, limit.rlim_cur < needed else { return }
        limit.rlim_cur = min(needed, limit.rlim_max)
        let raised = setrlimit(resource, &limit)
        if raised != 0 { _ = getrlimit(resource, &limit) }
        if limit.rlim_cur < needed {
            logger.warning(
                "open file limit too low for MAX_CONNECTIONS; excess connections wait to be accepted",
                metadata: ["limit": .number(limit.rlim_cur), "needed": .number(needed)])
        }
    }
}
