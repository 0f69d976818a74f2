// The names of the keys in Redis. All keys of a driver have the same hash tag, `{driver}`, and are therefore in the
// same slot of a cluster (redis.io/docs/reference/cluster-spec, "Hash tags").

import JourneyModel

enum RedisKeys {
    /// Returns the key of a sorted set: the charges of one driver in one class.
    static func window(of claim: AdmissionClaim) -> String {
        "dwell:{\(tag(claim.driver))}:\(claim.limitClass.rawValue)"
    }

    /// Returns the key of a sorted set: the idempotency keys of the driver's stored events.
    static func stored(_ claim: AdmissionClaim) -> String { stored(claim.driver) }

    private static func stored(_ driver: DriverID) -> String { "dwell:{\(tag(driver))}:stored" }

    /// Returns every key that names the driver.
    static func all(of driver: DriverID) -> [String] {
        RateLimitClass.ofDrivers.map { limitClass in
            window(of: AdmissionClaim(driver: driver, limitClass: limitClass, idempotencyKey: ""))
        } + [stored(driver)]
    }

    /// Returns the slot of all keys of the driver.
    static func slot(of driver: DriverID) -> Int { RedisSlots.slot(ofTag: tag(driver).utf8) }

    /// Returns the prefix of the keys that a probe writes in a cluster. The probed node must have the slot of `tag`.
    static func probe(tag: String) -> String { "dwell:{\(tag)}" }

    /// Returns a hash tag whose slot satisfies `contains`; nil if none is found. The search starts at a random number,
    /// because a fixed slot might be moving to another node.
    static func probeTag(whereSlot contains: (Int) -> Bool) -> String? {
        let start = Int.random(in: 0..<RedisSlots.count)
        // The loop tries 16 times as many tags as there are slots. Even if only one slot is wanted, all tags miss this
        // slot with a probability of only e^-16.
        for number in start..<start + 16 * RedisSlots.count {
            let tag = "%probe\(number)"
            if contains(RedisSlots.slot(ofTag: tag.utf8)) { return tag }
        }
        return nil
    }

    /// The prefix of the keys that probes write. Its hash tag puts the keys of a probe into one slot. No driver has the
    /// tag `%probe`, because a percent sign in a driver's id is encoded.
    static let probe = "dwell:{%probe}"

    /// Returns the hash tag: the driver's id with all bytes percent-encoded except letters, digits, ".", "_" and "-".
    /// An unencoded brace in the tag could put the driver's keys into different slots.
    private static func tag(_ driver: DriverID) -> String {
        if driver.rawValue.utf8.allSatisfy(isPlain) { return driver.rawValue }
        return driver.rawValue.utf8.reduce(into: "") { tag, byte in
            if isPlain(byte) {
                tag.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                tag += (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
            }
        }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default:
            false
        }
    }
}
