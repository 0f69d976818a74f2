// Free space on the disk.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

enum FreeSpace {
    /// Minimum number of free bytes. It is enough for the largest group of writes, and for the growth of the database
    /// file at the next checkpoint.
    static let bytesMin = 1 << 20

    /// Returns the number of bytes that this process may still write on the disk of the file at `path`. Returns nil if
    /// the system does not report it.
    static func bytes(besideFile path: String) -> Int? {
        var disk = statvfs()
        guard statvfs(path, &disk) == 0 else { return nil }
        return Int(clamping: disk.f_bavail.multipliedReportingOverflow(by: disk.f_frsize).partialValue)
    }
}
