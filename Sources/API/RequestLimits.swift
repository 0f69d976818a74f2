/// The maximum lengths of bodies in bytes. Routes without a maximum here use `Route.defaultBodyBytesMax`. The maximum
/// applies both to the compressed and to the decompressed body (contract, section 3, "Limits").
enum RequestLimits {
    static let batchBytesMax = 1024 * 1024
    /// The maximum on the sign-in routes. Even a body with the longest tokens is shorter.
    static let signInBytesMax = 16 * 1024
}
