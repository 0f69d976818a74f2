// The grammar of RFC 8259 as a state machine, for JSONTextTarget. UTF-8, repeated names and surrogates are checked
// elsewhere.

struct JSONGrammar {
    private enum State: Equatable {
        case value, firstElement, firstName, name, colon, afterValue
        case string, escape
        case hex(left: Int)
        case minus, zero, integer, point, fraction, exponent, exponentSign, exponentDigits
        case literal(rest: ArraySlice<UInt8>)
    }

    private var state = State.value
    /// The brackets that are open.
    private var open: [UInt8] = []
    private var isName = false
    /// The maximum number of brackets that were open at the same time.
    private(set) var depth = 0
    private(set) var isJSON = true

    init(_ text: [UInt8]) {
        for byte in text where isJSON { isJSON = step(byte) }
        // Add a space, because the end of a number is recognized only at the character after it.
        isJSON = isJSON && step(0x20) && open.isEmpty && state == .afterValue
    }

    private mutating func step(_ byte: UInt8) -> Bool {
        switch state {
        case .string, .escape, .hex: stringByte(byte)
        case .minus, .zero, .integer, .point, .fraction, .exponent, .exponentSign, .exponentDigits: numberByte(byte)
        case .literal(let rest): literalByte(byte, rest)
        default: isSpace(byte) || structureByte(byte)
        }
    }

    private mutating func structureByte(_ byte: UInt8) -> Bool {
        switch (state, byte) {
        case (.firstElement, UInt8(ascii: "]")), (.firstName, UInt8(ascii: "}")): return close(byte)
        case (.value, _), (.firstElement, _): return valueByte(byte)
        case (.firstName, UInt8(ascii: "\"")), (.name, UInt8(ascii: "\"")):
            isName = true
            state = .string
        case (.colon, UInt8(ascii: ":")): state = .value
        case (.afterValue, UInt8(ascii: ",")) where !open.isEmpty:
            state = open.last == UInt8(ascii: "{") ? .name : .value
        case (.afterValue, UInt8(ascii: "]")), (.afterValue, UInt8(ascii: "}")): return close(byte)
        default: return false
        }
        return true
    }

    private mutating func valueByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            open.append(byte)
            depth = max(depth, open.count)
            state = byte == UInt8(ascii: "{") ? .firstName : .firstElement
        case UInt8(ascii: "\""):
            isName = false
            state = .string
        case UInt8(ascii: "t"): state = .literal(rest: Array("rue".utf8)[...])
        case UInt8(ascii: "f"): state = .literal(rest: Array("alse".utf8)[...])
        case UInt8(ascii: "n"): state = .literal(rest: Array("ull".utf8)[...])
        case UInt8(ascii: "-"): state = .minus
        case UInt8(ascii: "0"): state = .zero
        case UInt8(ascii: "1")...UInt8(ascii: "9"): state = .integer
        default: return false
        }
        return true
    }

    private mutating func close(_ byte: UInt8) -> Bool {
        state = .afterValue
        return open.popLast() == (byte == UInt8(ascii: "]") ? UInt8(ascii: "[") : UInt8(ascii: "{"))
    }

    private mutating func literalByte(_ byte: UInt8, _ rest: ArraySlice<UInt8>) -> Bool {
        state = rest.count == 1 ? .afterValue : .literal(rest: rest.dropFirst())
        return rest.first == byte
    }

    private mutating func stringByte(_ byte: UInt8) -> Bool {
        switch (state, byte) {
        case (.string, UInt8(ascii: "\"")): state = isName ? .colon : .afterValue
        case (.string, UInt8(ascii: "\\")): state = .escape
        case (.string, _): return byte >= 0x20
        case (.escape, UInt8(ascii: "u")): state = .hex(left: 4)
        case (.escape, _):
            state = .string
            return Array("\"\\/bfnrt".utf8).contains(byte)
        case (.hex(let left), _):
            state = left == 1 ? .string : .hex(left: left - 1)
            return byte < 0x80 && Character(Unicode.Scalar(byte)).isHexDigit
        default: return false
        }
        return true
    }

    private mutating func numberByte(_ byte: UInt8) -> Bool {
        let isDigit = (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        switch (state, byte) {
        case (.minus, UInt8(ascii: "0")): state = .zero
        case (.minus, _) where isDigit: state = .integer
        case (.integer, _) where isDigit: break
        case (.zero, UInt8(ascii: ".")), (.integer, UInt8(ascii: ".")): state = .point
        case (.point, _) where isDigit, (.fraction, _) where isDigit: state = .fraction
        case (.zero, UInt8(ascii: "e")), (.integer, UInt8(ascii: "e")), (.fraction, UInt8(ascii: "e")),
            (.zero, UInt8(ascii: "E")), (.integer, UInt8(ascii: "E")), (.fraction, UInt8(ascii: "E")):
            state = .exponent
        case (.exponent, UInt8(ascii: "+")), (.exponent, UInt8(ascii: "-")): state = .exponentSign
        case (.exponent, _) where isDigit, (.exponentSign, _) where isDigit, (.exponentDigits, _) where isDigit:
            state = .exponentDigits
        case (.zero, _), (.integer, _), (.fraction, _), (.exponentDigits, _):
            state = .afterValue
            return step(byte)
        default: return false
        }
        return true
    }

    private func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}
