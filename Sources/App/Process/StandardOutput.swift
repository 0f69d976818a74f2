// Reports output that could not be written, for example because the disk is full. `print` ignores errors, so a command
// that only calls `print` does not notice them.

#if canImport(Glibc)
    // The variable stdout of C is not annotated for concurrency. It never changes here.
    @preconcurrency import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum StandardOutput {
    /// Writes what `print` has buffered. Returns nil if everything printed so far was written, otherwise the reason.
    static func failureToWrite() -> String? {
        errno = 0
        guard fflush(stdout) != 0 || ferror(stdout) != 0 else { return nil }
        return errno == 0 ? "an earlier write failed" : String(cString: strerror(errno))
    }
}
