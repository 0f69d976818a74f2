/// The maximum lengths of bodies in bytes. Each applies both before and after decompression (contract, section 3,
/// "Limits").
enum RequestLimits {
    static let eventBytesMax = 64 * 1024
    static let batchBytesMax = 1024 * 1024
    /// The maximum for a purchase. A signed transaction with its renewal info has about 13 kB, mostly certificates.
    static let purchaseBytesMax = 64 * 1024
    /// The maximum for an App Store notification, which has about 20 kB.
    static let storeNotificationBytesMax = 64 * 1024
}
