/// The maximum length of a body, before and after decompression (contract, section 3, "Limits").
enum RequestLimits {
    static let eventBytesMax = 64 * 1024
    static let batchBytesMax = 1024 * 1024
    /// A signed transaction with its renewal has about 13 kB, most of it certificates.
    static let purchaseBytesMax = 64 * 1024
    /// A notification has about 20 kB.
    static let storeNotificationBytesMax = 64 * 1024
}
