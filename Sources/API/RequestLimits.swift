/// The maximum length of a body, before and after decompression (contract, section 3, "Limits").
enum RequestLimits {
    static let eventBytesMax = 64 * 1024
    static let batchBytesMax = 1024 * 1024
}
