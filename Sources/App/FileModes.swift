// Who may open what the process makes: databases with drivers in them, backups, keys, the socket.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum FileModes {
    /// From here on files and sockets are made for their owner alone, whatever umask the process was started with. What
    /// is there already keeps its mode. Called before any thread is started and any file is made.
    static func keepToOwner() {
        _ = umask(0o077)
    }
}
