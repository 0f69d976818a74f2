// Reports output that could not be written, for example because the disk is full. `print` ignores errors, so a command
// that only calls `print` does not notice a failed write.

#if canImport(Glibc)
    // The C variable `stdout` is not annotated for concurrency. Reading it is safe, because it never changes here.
    @preconcurrency import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

enum StandardOutput {
    /// Writes the buffered output of `print`. Returns the reason if any output could not be written; nil if all output
    /// was written.
    static func failureToWrite() -> String? {
        errno = 0
        guard fflush(stdout) != 0 || ferror(stdout) != 0 else { return nil }
        return errno == 0 ? "an earlier write failed" : String(cString: strerror(errno))
    }
}
