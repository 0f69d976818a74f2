// The permissions of what the process creates: databases with drivers' data, backups, keys and Unix sockets.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum FileModes {
    /// Limits the access to new files and sockets to their owner, whatever umask the process inherited. Existing files
    /// keep their permissions. Must be called before any thread is started and before any file is created.
    static func keepToOwner() {
        _ = umask(0o077)
    }
}
