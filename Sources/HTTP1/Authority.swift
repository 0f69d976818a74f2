// Parses a host and port (RFC 9110 section 7.2). Only the syntax is checked, not whether this server serves the host.
//
// ```
// Host     = uri-host [ ":" port ]
// uri-host = IP-literal / IPv4address / reg-name      (RFC 3986 section 3.2.2; every IPv4address is a reg-name)
// port     = *DIGIT
// ```
//
// An empty uri-host is rejected, because an http URI must have a host (RFC 9110 section 4.2.1). IPvFuture is rejected,
// because it is not in use. Userinfo is rejected, because its "@" could hide the real host (section 4.2.4).

enum Authority {
    static func isValid(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        guard let hostEnd = endOfHost(bytes, range), hostEnd > range.lowerBound else { return false }
        return hostEnd == range.upperBound
            || bytes[hostEnd] == UInt8(ascii: ":") && isPort(bytes, (hostEnd + 1)..<range.upperBound)
    }

    /// Returns the index after the uri-host at the beginning of the range; nil if the uri-host is malformed.
    private static func endOfHost(_ bytes: [UInt8], _ range: Range<Int>) -> Int? {
        if let first = range.first, bytes[first] == UInt8(ascii: "[") {
            guard let bracket = Grammar.firstIndex(of: UInt8(ascii: "]"), bytes, range),
                isIPv6Address(bytes, (first + 1)..<bracket)
            else { return nil }
            return bracket + 1
        }
        var index = range.lowerBound
        while index < range.upperBound {
            if Grammar.registeredNameBytes.contains(bytes[index]) {
                index += 1
            } else if PercentEncoding.byte(bytes, at: index, before: range.upperBound) != nil {
                index += 3
            } else {
                break
            }
        }
        return index
    }

    private static func isPort(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        guard range.count <= 5 else { return false }
        var port = 0
        for index in range {
            guard Grammar.isDigit(bytes[index]) else { return false }
            port = port * 10 + Int(bytes[index] - UInt8(ascii: "0"))
        }
        return port <= 65_535
    }

    /// Returns whether the range is an IPv6 address: eight groups of one to four HEXDIG, separated by colons. "::" may
    /// replace one series of zero groups. The last two groups may be written as an IPv4 address.
    private static func isIPv6Address(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        let colon = UInt8(ascii: ":")
        var groups = 0
        var elided = false
        var index = range.lowerBound
        if range.count >= 2, bytes[index] == colon, bytes[index + 1] == colon {
            elided = true
            index += 2
        }
        while index < range.upperBound {
            let end = Grammar.firstIndex(of: colon, bytes, index..<range.upperBound) ?? range.upperBound
            let isLast = end == range.upperBound
            if isLast, isIPv4Address(bytes, index..<end) {
                groups += 2
                break
            }
            guard (1...4).contains(end - index), bytes[index..<end].allSatisfy({ Grammar.hexValue($0) != nil })
            else { return false }
            groups += 1
            guard groups <= 8 else { return false }
            index = end + 1
            if isLast { break }
            guard index < range.upperBound else { return false }
            if bytes[index] == colon {
                guard !elided else { return false }
                elided = true
                index += 1
            }
        }
        return elided ? groups <= 7 : groups == 8
    }

    /// Returns whether the range is `IPv4address = dec-octet "." dec-octet "." dec-octet "." dec-octet`, without
    /// leading zeros.
    private static func isIPv4Address(_ bytes: [UInt8], _ range: Range<Int>) -> Bool {
        let octets = bytes[range].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return octets.count == 4
            && octets.allSatisfy { octet in
                guard (1...3).contains(octet.count), octet.allSatisfy(Grammar.isDigit) else { return false }
                let value = octet.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
                return value <= 255 && (octet.count == 1 || octet.first != UInt8(ascii: "0"))
            }
    }
}
