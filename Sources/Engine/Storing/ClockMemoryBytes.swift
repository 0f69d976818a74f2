// The format of the column `clock_memory`. This column and `last_correction_ms` together store a driver's
// `ClockMemory`. Both are in the driver's row, because every event reads and writes that row anyway.

package import JourneyModel

/// The first byte is 1 if the phone's clock was right for at least one event, otherwise 0. For each unconfirmed skew
/// (`LoneSkew`), 17 bytes follow:
///
/// - the skew in milliseconds, 8 bytes, little-endian
/// - the receive time in milliseconds, 8 bytes, little-endian
/// - the number of events with this skew (`count`), one byte
extension ClockMemory {
    private static let loneSkewBytes = 17

    /// Decodes the column. If the bytes are not in this format, the memory is empty. The server then still accepts
    /// events, but their times may stay uncorrected.
    package init(lastCorrectionMilliseconds: Int64?, bytes: [UInt8]) {
        self.init(lastCorrectionMilliseconds: lastCorrectionMilliseconds)
        let (count, rest) = (bytes.count - 1).quotientAndRemainder(dividingBy: Self.loneSkewBytes)
        guard let head = bytes.first, head <= 1, rest == 0, count <= Self.loneSkewsMax else { return }
        sawRightClock = head == 1
        loneSkews = (0..<count).map { index in
            let start = 1 + index * Self.loneSkewBytes
            return LoneSkew(
                skewMilliseconds: Self.integer(bytes[start..<(start + 8)]),
                receivedAt: Moment(millisecondsSinceEpoch: Self.integer(bytes[(start + 8)..<(start + 16)])),
                count: bytes[start + 16])
        }
    }

    package var bytes: [UInt8] {
        var bytes: [UInt8] = [sawRightClock ? 1 : 0]
        for lone in loneSkews {
            Self.append(lone.skewMilliseconds, to: &bytes)
            Self.append(lone.receivedAt.millisecondsSinceEpoch, to: &bytes)
            bytes.append(lone.count)
        }
        return bytes
    }

    private static func integer(_ bytes: ArraySlice<UInt8>) -> Int64 {
        Int64(bitPattern: bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }

    private static func append(_ integer: Int64, to bytes: inout [UInt8]) {
        let value = UInt64(bitPattern: integer)
        for shift in stride(from: UInt64(0), to: 64, by: 8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }
}
