// Permissions of the files that the process creates: databases with drivers' data, backups, keys, the socket.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum FileModes {
    /// Makes files and sockets created from now on accessible to their owner only, whatever umask the process
    /// inherited. Existing files keep their mode. Call it before any thread is started and any file is created.
    static func keepToOwner() {
        _ = umask(0o077)
    }
}
