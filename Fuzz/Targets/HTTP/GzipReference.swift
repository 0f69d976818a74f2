// A slow and simple decoder of gzip (RFC 1952) and deflate (RFC 1951), for comparison with zlib.

struct GzipReference {
    enum End { case whole, malformed, tooLong }

    private struct Stop: Error { var end: End }

    private(set) var output: [UInt8] = []
    private(set) var end = End.whole
    private let input: [UInt8]
    private let bytesMax: Int
    /// The position in the input, in bits.
    private var position = 0
    private var memberStart = 0

    init(_ input: [UInt8], bytesMax: Int) {
        self.input = input
        self.bytesMax = bytesMax
        do throws(Stop) {
            repeat { try readMember() } while position < input.count * 8
        } catch {
            end = error.end
        }
    }

    // MARK: RFC 1952

    private mutating func readMember() throws(Stop) {
        let start = position / 8
        memberStart = output.count
        guard try byte() == 0x1F, try byte() == 0x8B, try byte() == 8 else { throw Stop(end: .malformed) }
        let flags = try byte()
        if flags & 0xE0 != 0 { throw Stop(end: .malformed) }
        for _ in 0..<6 { _ = try byte() }
        if flags & 4 != 0 {
            let length = Int(try byte()) | Int(try byte()) << 8
            for _ in 0..<length { _ = try byte() }
        }
        if flags & 8 != 0 { while try byte() != 0 {} }
        if flags & 16 != 0 { while try byte() != 0 {} }
        if flags & 2 != 0 {
            let sum = Self.checksum(input[start..<position / 8])
            guard UInt32(try byte()) | UInt32(try byte()) << 8 == sum & 0xFFFF else { throw Stop(end: .malformed) }
        }
        while try !readBlock() {}
        position = (position + 7) / 8 * 8
        let content = output[memberStart...]
        for expected in [Self.checksum(content), UInt32(truncatingIfNeeded: content.count)] {
            var found: UInt32 = 0
            for place in 0..<4 { found |= UInt32(try byte()) << UInt32(place * 8) }
            guard found == expected else { throw Stop(end: .malformed) }
        }
    }

    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var sum: UInt32 = 0xFFFF_FFFF
        for byte in bytes {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xEDB8_8320 }
        }
        return ~sum
    }

    // MARK: RFC 1951

    /// Reads one block. Returns true after the last block.
    private mutating func readBlock() throws(Stop) -> Bool {
        let isLast = try bits(1) == 1
        switch try bits(2) {
        case 0:
            position = (position + 7) / 8 * 8
            let length = try bits(16)
            guard try bits(16) == length ^ 0xFFFF else { throw Stop(end: .malformed) }
            for _ in 0..<length { try put(try byte()) }
        case 1:
            let literals = [(144, 8), (112, 9), (24, 7), (8, 8)].flatMap { Array(repeating: $1, count: $0) }
            try readCoded(Code(literals), Code(Array(repeating: 5, count: 30)))
        case 2: try readDynamic()
        default: throw Stop(end: .malformed)
        }
        return isLast
    }

    private mutating func readDynamic() throws(Stop) {
        let literalCount = try bits(5) + 257
        let distanceCount = try bits(5) + 1
        let lengthCount = try bits(4) + 4
        guard literalCount <= 286, distanceCount <= 30 else { throw Stop(end: .malformed) }
        var lengths = [Int](repeating: 0, count: 19)
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
        for symbol in order[..<lengthCount] { lengths[symbol] = try bits(3) }
        let lengthCode = Code(lengths)
        guard lengthCode.left == 0 else { throw Stop(end: .malformed) }
        var all: [Int] = []
        while all.count < literalCount + distanceCount {
            switch try symbol(lengthCode) {
            case 16:
                guard let last = all.last else { throw Stop(end: .malformed) }
                all += Array(repeating: last, count: try bits(2) + 3)
            case 17: all += Array(repeating: 0, count: try bits(3) + 3)
            case 18: all += Array(repeating: 0, count: try bits(7) + 11)
            case let length: all.append(length)
            }
        }
        guard all.count == literalCount + distanceCount, all[256] > 0 else { throw Stop(end: .malformed) }
        let codes = [Code(Array(all[..<literalCount])), Code(Array(all[literalCount...]))]
        // Section 3.2.7: a code with only one symbol uses one bit, and one value of this bit stays unused. The distance
        // code may have no symbol at all.
        guard codes.allSatisfy({ $0.left == 0 || $0.lengthMax <= 1 && $0.left > 0 }) else {
            throw Stop(end: .malformed)
        }
        try readCoded(codes[0], codes[1])
    }

    private mutating func readCoded(_ literals: Code, _ distances: Code) throws(Stop) {
        while true {
            let value = try symbol(literals)
            if value == 256 { return }
            if value < 256 {
                try put(UInt8(value))
                continue
            }
            guard value < 286 else { throw Stop(end: .malformed) }
            let length = try Self.lengthBase[value - 257] + bits(Self.lengthExtra[value - 257])
            let place = try symbol(distances)
            guard place < 30 else { throw Stop(end: .malformed) }
            let extra = place < 4 ? 0 : place / 2 - 1
            let base = place < 4 ? place + 1 : (2 + place % 2) << extra + 1
            let distance = try base + bits(extra)
            guard distance <= output.count - memberStart else { throw Stop(end: .malformed) }
            for _ in 0..<length { try put(output[output.count - distance]) }
        }
    }

    private static let lengthBase = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227,
        258,
    ]
    private static let lengthExtra = [
        0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
    ]

    /// A canonical Huffman code (section 3.2.2).
    private struct Code {
        /// The symbol for each code. The key is the code's length shifted left by 16, combined with the code's bits.
        /// The first bit of the code is the most significant one.
        var symbols: [Int: Int] = [:]
        /// The number of codes of `lengthMax` bits that belong to no symbol. Negative if the symbols' lengths require
        /// more codes than exist.
        var left = 0
        var lengthMax = 0

        init(_ lengths: [Int]) {
            var code = 0
            lengthMax = lengths.max() ?? 0
            for length in stride(from: 1, through: lengthMax, by: 1) {
                code <<= 1
                for symbol in lengths.indices where lengths[symbol] == length {
                    symbols[length << 16 | code] = symbol
                    code += 1
                }
                left = (1 << length) - code
                if left < 0 { return }
            }
            if lengthMax == 0 { left = 1 }
        }
    }

    private mutating func symbol(_ code: Code) throws(Stop) -> Int {
        var value = 0
        for length in stride(from: 1, through: code.lengthMax, by: 1) {
            value = try value << 1 | bits(1)
            if let symbol = code.symbols[length << 16 | value] { return symbol }
        }
        throw Stop(end: .malformed)
    }

    // MARK: Bits and bytes

    private mutating func bits(_ count: Int) throws(Stop) -> Int {
        guard position + count <= input.count * 8 else { throw Stop(end: .malformed) }
        var value = 0
        for place in 0..<count {
            value |= (Int(input[position / 8]) >> (position % 8) & 1) << place
            position += 1
        }
        return value
    }

    private mutating func byte() throws(Stop) -> UInt8 {
        UInt8(truncatingIfNeeded: try bits(8))
    }

    private mutating func put(_ byte: UInt8) throws(Stop) {
        guard output.count < bytesMax else { throw Stop(end: .tooLong) }
        output.append(byte)
    }
}
