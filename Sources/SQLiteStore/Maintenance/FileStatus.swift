// The metadata of a file, read without opening the file.

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

struct FileStatus {
    var inode: UInt64
    var bytes: Int
    var mode: mode_t
    var modifiedNanoseconds: Int

    init(_ path: String) throws(MaintenanceRefusal) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw MaintenanceRefusal(errnoAt: path) }
        inode = UInt64(status.st_ino)
        bytes = Int(status.st_size)
        mode = status.st_mode & 0o7777
        #if canImport(Darwin)
            let modified = status.st_mtimespec
        #else
            let modified = status.st_mtim
        #endif
        modifiedNanoseconds = Int(modified.tv_sec) &* 1_000_000_000 &+ Int(modified.tv_nsec)
    }
}
