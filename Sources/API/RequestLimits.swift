/// The maximum length of a body in bytes, for routes with a maximum other than `Route.defaultBodyBytesMax`. A maximum
/// applies both before and after decompression (contract, section 3, "Limits").
enum RequestLimits {
    static let batchBytesMax = 1024 * 1024
    /// The maximum on the sign-in routes. Even a body with the longest tokens has fewer bytes.
    static let signInBytesMax = 16 * 1024
}
