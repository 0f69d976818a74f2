// The permissions of the files that the process creates: databases with drivers' data, backups, keys, and the socket.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum FileModes {
    /// Makes files and sockets that are created from now on accessible only to their owner, whatever umask the process
    /// inherited. Existing files keep their permissions. Must be called before any thread is started and before any
    /// file is created.
    static func keepToOwner() {
        _ = umask(0o077)
    }
}
