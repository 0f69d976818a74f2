// Free space on the disk.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

enum FreeSpace {
    /// The largest group of writes, plus what the checkpoint after it adds to the file.
    static let bytesMin = 1 << 20

    /// Bytes that this process may still write on the disk of that file; nil when the system does not say.
    static func bytes(besideFile path: String) -> Int? {
        var disk = statvfs()
        guard statvfs(path, &disk) == 0 else { return nil }
        return Int(clamping: disk.f_bavail.multipliedReportingOverflow(by: disk.f_frsize).partialValue)
    }
}
