/// The maximum lengths of bodies in bytes, for routes that do not use `Route.defaultBodyBytesMax`. A body must not
/// exceed its maximum before or after decompression (contract, section 3, "Limits").
enum RequestLimits {
    static let batchBytesMax = 1024 * 1024
    /// The maximum on the sign-in routes. Even a body with the longest tokens is shorter.
    static let signInBytesMax = 16 * 1024
}
