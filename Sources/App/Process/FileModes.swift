// Permissions of the files that the process creates: databases with drivers' data, backups, keys, the socket.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum FileModes {
    /// From here on files and sockets are accessible to their owner only, whatever umask the process was started
    /// with. Existing files keep their mode. Called before any thread is started and any file is created.
    static func keepToOwner() {
        _ = umask(0o077)
    }
}
