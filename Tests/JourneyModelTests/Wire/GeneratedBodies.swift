// Generates valid and invalid bodies of events. Members may be missing, duplicated, wrong or unknown, and bytes may be
// changed. The order and the notation of the members vary.

import TestSupport

struct GeneratedBodies {
    var random: SeededRandom

    mutating func next() -> [UInt8] {
        var members: [(name: String, value: String)] = []
        for (name, good) in Self.good where !random.chance(1, in: required.contains(name) ? 60 : 3) {
            members.append((name, value(of: name, good)))
        }
        for _ in 0..<(random.chance(1, in: 3) ? Int.random(in: 1...22, using: &random) : 0) {
            members.append(
                (
                    ["x", "eventid", "Event", "event_iD", "", "\\u0061", "é"].randomPick(&random)
                        + "\(Int.random(in: 0...999, using: &random))", anyValue(2)
                ))
        }
        members.shuffle(using: &random)
        if random.chance(1, in: 25), let one = members.randomElement(using: &random) { members.append(one) }
        let texts = members.map { "\"\(escaped($0.name))\"\(space()):\(space())\($0.value)" }
        var body = Array(
            "\(space()){\(space())\(texts.joined(separator: "\(space()),\(space())"))\(space())}\(space())".utf8)
        if random.chance(1, in: 10) { change(&body) }
        return body
    }

    mutating func space() -> String {
        random.chance(1, in: 30) ? [" ", "\n", "\t\r", "  "].randomPick(&random) : ""
    }

    private let required = ["event", "event_id", "occurred_at"]

    private static let good: [(String, [String])] = [
        ("schema_version", ["1.0", "1.1", "1.12345678", "2.0", "1.", "1.x", "10", "1.123456789"]),
        ("event_id", ["7f3c9a52-1d2e-4b6f-8f52-6d6ab91f0c11", "e", "a b~", "\\\"q\\\"", "\\u0065", "\\\\", "é"]),
        ("idempotency_key", ["k", "7f3c9a52-1d2e-4b6f-8f52-6d6ab91f0c11", "\\u007f", "K", "\u{212A}"]),
        ("driver_id", ["drv_1", "ü", "\\u0000", "e\u{301}"]),
        ("session_id", ["s-5b1f7c0e", "exs_ä", "🙂", "s\\u0000", "e\u{301}", "a\u{7F}b", "\\ud83d\\ude42"]),
        ("charger_id", ["charger-017", "c", "\\t", "\u{85}", "a \\\"b\\\" c"]), ("merchant_id", ["m1", "ü\\u00fc"]),
        (
            "event",
            [
                "chargerTargeted", "enteredMerchantZone", "departed_charger", "exitedChargerAnchorZone", "anchor_lost",
                "visit_verified", "teleport_detected", "reset", "resets", "9lives", "a b", "charger\\u0054argeted",
            ]
        ),
        (
            "occurred_at",
            [
                "2027-01-15T08:00:00.120Z", "2026-11-20T09:02:10.5009+01:00", "2016-12-31T23:59:60Z", "yesterday",
                "2026-02-30T08:02:10Z", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z",
                "2027-01-15T08:00:00\\u005a",
            ]
        ),
        (
            "timestamp",
            ["2027-01-15T08:00:00.420Z", "2027-01-15", "2027-01-15T08:00:00.\(String(repeating: "4", count: 50))Z"]
        ),
        ("source", ["ios_native", "android_native", "server", "\\u0073erver", "\\r"]),
        ("app_state", ["background", "foreground", "asleep", "fore\\u0067round"]), ("sequence", ["#"]),
        ("metadata", ["{}"]),
    ]

    private mutating func value(of name: String, _ texts: [String]) -> String {
        if random.chance(1, in: 150) { return anyValue(1) }
        switch name {
        case "sequence":
            return random.chance(1, in: 4) ? number() : String(UInt64.random(in: 0..<1 << 63, using: &random))
        case "metadata": return object(2)
        default:
            if random.chance(1, in: 60) {
                let length = [0, 7, 8, 9, 64, 65, 127, 128, 129].randomPick(&random)
                return "\"\(String(repeating: ["x", "ä", "\\u0041"].randomPick(&random), count: length))\""
            }
            return "\"\(random.chance(14, in: 15) ? texts[0] : texts.randomPick(&random))\""
        }
    }

    private mutating func object(_ depth: Int) -> String {
        if random.chance(1, in: 60) {
            return "{\"a\":\"\(String(repeating: "x", count: 8184 + Int.random(in: -1...1, using: &random)))\"}"
        }
        let count = random.chance(1, in: 20) ? 30 : Int.random(in: 0...5, using: &random)
        let members = (0..<count).map { index in
            let name = ["accuracy_m", "speed", "a", "B", "é", "\\n", ""].randomPick(&random)
            return "\(space())\"\(name)\(random.chance(1, in: 60) ? 0 : index)\"\(space()):\(anyValue(depth - 1))"
        }
        return "{\(members.joined(separator: ","))\(space())}"
    }

    private mutating func anyValue(_ depth: Int) -> String {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 7), using: &random) {
        case 0...2: number()
        case 3: ["null", "true", "false"].randomPick(&random)
        case 4:
            "\"\(["wifi", "Café 🙂 am Platz", "\\u00e9\\n", " two  words ", "\u{7F}\u{80}", "\\\\\\\""].randomPick(&random))\""
        case 5: "\"\(String(repeating: "y", count: Int.random(in: 0...40, using: &random)))\""
        case 6: random.chance(1, in: 60) ? deep : ["[]", "{}", "[ ]"].randomPick(&random)
        case 7: "[\((0..<3).map { _ in space() + anyValue(depth - 1) }.joined(separator: ","))]"
        default: object(depth)
        }
    }

    private let deep = String(repeating: "[", count: 70) + String(repeating: "]", count: 70)

    private mutating func number() -> String {
        let digits = { (random: inout SeededRandom) in
            String(
                (0..<Int.random(in: 1...(random.chance(1, in: 9) ? 24 : 3), using: &random)).map { _ in
                    "0001234567890".randomElement(using: &random) ?? "0"
                })
        }
        var text = random.chance(1, in: 5) ? "-" : ""
        let whole = String(digits(&random).drop { $0 == "0" })
        text += whole.isEmpty ? "0" : whole
        if random.chance(1, in: 3) { text += "." + digits(&random) }
        if random.chance(1, in: 5) { text += ["e", "E", "e+", "e-"].randomPick(&random) + digits(&random) }
        return text
    }

    /// Sometimes writes a first letter "e" as an escape.
    private mutating func escaped(_ name: String) -> String {
        guard random.chance(1, in: 40), name.utf8.first == UInt8(ascii: "e") else { return name }
        return "\\u0065" + name.dropFirst()
    }

    private mutating func change(_ body: inout [UInt8]) {
        let place = Int.random(in: body.indices, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: body.remove(at: place)
        case 1: body[place] = UInt8.random(in: 0...255, using: &random)
        case 2: body.insert(Array("\"\\{}[],:\u{0} 0".utf8).randomPick(&random), at: place)
        default: body.removeSubrange(place...)
        }
    }
}
