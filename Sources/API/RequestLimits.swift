/// The maximum length of a body, before and after decompression (contract, section 3, "Limits").
enum RequestLimits {
    static let eventBytesMax = 64 * 1024
    static let batchBytesMax = 1024 * 1024
    /// The limit for a purchase: a signed transaction with its renewal has about 13 kB, mostly certificates.
    static let purchaseBytesMax = 64 * 1024
    /// The limit for an App Store notification, which has about 20 kB.
    static let storeNotificationBytesMax = 64 * 1024
}
