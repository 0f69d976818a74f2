// Free space on the disk.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

enum FreeSpace {
    /// Minimum number of free bytes: enough for the largest group of writes, and for what the checkpoint after it adds
    /// to the file.
    static let bytesMin = 1 << 20

    /// Returns the bytes that this process may still write on that file's disk; nil when the system does not report
    /// them.
    static func bytes(besideFile path: String) -> Int? {
        var disk = statvfs()
        guard statvfs(path, &disk) == 0 else { return nil }
        return Int(clamping: disk.f_bavail.multipliedReportingOverflow(by: disk.f_frsize).partialValue)
    }
}
