import Testing

@testable import JourneyModel

struct WholeNumberTests {
    @Test(arguments: [
        ("41", 41), ("41.0", 41), ("4.1e1", 41), ("0.41E+2", 41), ("4100e-2", 41), ("-7.0", -7), ("0.0", 0),
        ("-0", 0), ("0e99999999999999999999", 0), ("9007199254740993.0", 9_007_199_254_740_993),
        ("9223372036854775807.0", .max), ("922337203685477580.7e1", .max), ("-9223372036854775808.00", .min),
        ("1e18", 1_000_000_000_000_000_000), ("1e00000000001", 10), ("4.1E+0000000000001", 41),
        ("4100e-0000000000002", 41), ("7e0000000000000", 7),
    ])
    func `what is whole is read exactly`(_ text: String, _ number: Int64) {
        #expect(WholeNumber.read(text) == number)
    }

    @Test
    func `a number longer than the parser takes is not taken apart`() {
        #expect(WholeNumber.read("1" + String(repeating: "0", count: 1 << 20)) == nil)
        #expect(WholeNumber.read("0." + String(repeating: "0", count: 1 << 20)) == nil)
    }

    @Test
    func `of a number that is too long its readers are handed one digit`() throws {
        let text = Array("1".utf8) + [UInt8](repeating: UInt8(ascii: "0"), count: 1 << 20)
        try text.withUnsafeBufferPointer { text throws in
            var parser = JSONParser(text)
            let number = try parser.numberText()
            #expect(number.count == 1)
            #expect(parser.offset == text.count)
            #expect(parser.refusal == JSONError(.numberTooLong, offset: 0))
        }
    }

    @Test(arguments: [
        "0.5", "1e-400", "41.000000000000000000000000001", "9223372036854775808.0", "1e19", "1e400", "12e-1",
        "1e99999999999999999999", "1e-99999999999999999999", "-9223372036854775809.0", "1e00000000099",
        "1e-00000000001", "1e00099999999999999999",
    ])
    func `what has a fraction or is too large is none`(_ text: String) {
        #expect(WholeNumber.read(text) == nil)
    }
}
