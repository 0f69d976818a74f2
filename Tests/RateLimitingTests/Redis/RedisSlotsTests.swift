// Tests the slots of a Redis Cluster: the slot of a key, the reply to CLUSTER SLOTS, and redirects. Also tests the
// reply to HELLO and the replies of sentinels.

import JourneyModel
import Logging
import Sockets
import Synchronization
import TestSupport
import Testing

@testable import RateLimiting

struct RedisSlotsTests {
    /// The first value is the test vector of the cluster specification.
    @Test func checksumIsThatOfTheSpecification() {
        #expect(RedisSlots.crc16("123456789".utf8) == 0x31C3)
        #expect(RedisSlots.crc16("".utf8) == 0)
    }

    @Test(
        arguments: [
            ("foo", 12182), ("bar", 5061), ("", 0), ("123456789", 12739), ("somekey", 11058),
            // Only the first hash tag of a key decides its slot. If the first tag is empty, the whole key decides. The
            // expected slots are the output of Redis's CLUSTER KEYSLOT.
            ("foo{hash_tag}", 2515), ("{hash_tag}bar", 2515), ("a{hash_tag}{other}", 2515),
            ("foo{}{bar}", 8363), ("foo{{bar}}zap", 4015), ("foo{bar}{zap}", 5061),
        ] as [(String, Int)])
    func slotIsThatOfRedis(key: String, slot: Int) {
        #expect(RedisSlots.slot(ofKey: key) == slot)
    }

    @Test func keyWithoutATagIsHashedAsAWhole() {
        for key in ["{bar", "}bar{", "bar}", "{}bar", "bar{}"] {
            #expect(RedisSlots.slot(ofKey: key) == RedisSlots.slot(ofTag: key.utf8))
        }
    }

    @Test(arguments: ["ann", "}{", "{a}", "ü", "192.0.2.7"]) func everyKeyOfADriverIsInTheDriversSlot(driver: String) {
        for key in RedisKeys.all(of: DriverID(driver)) {
            #expect(RedisSlots.slot(ofKey: key) == RedisKeys.slot(of: DriverID(driver)))
        }
    }

    @Test func probeGoesToASlotOfItsNode() {
        for slots in [0...16383, 5461...10922, 7...7] {
            let tag = RedisKeys.probeTag { slots.contains($0) }
            #expect(tag.map { slots.contains(RedisSlots.slot(ofKey: RedisKeys.probe(tag: $0) + ":x")) } == true)
        }
        #expect(RedisKeys.probeTag { _ in false } == nil)
    }

    // MARK: - CLUSTER SLOTS

    private static func range(_ first: Int64, _ last: Int64, _ host: RedisReply, _ port: Int64) -> RedisReply {
        .array([.integer(first), .integer(last), node(host, port), node(.string("10.0.0.9"), 7009)])
    }

    private static func node(_ host: RedisReply, _ port: Int64) -> RedisReply {
        .array([host, .integer(port), .string("id"), .array([])])
    }

    @Test func slotsBelongToTheFirstNodeOfTheirRange() throws {
        let reply = RedisReply.array([
            Self.range(0, 99, .string("10.0.0.1"), 7000), Self.range(200, 299, .string("redis.example"), 7000),
            Self.range(100, 199, .string("10.0.0.1"), 7000), Self.range(300, 16383, .string("::1"), 7002),
        ])
        let map = try #require(RedisSlotMap(reply, askedHost: "asked"))
        #expect(map.primaries.count == 3)
        #expect(map.owner(of: 0) == .ip(host: "10.0.0.1", port: 7000))
        #expect(map.owner(of: 150) == .ip(host: "10.0.0.1", port: 7000))
        #expect(map.owner(of: 200) == .ip(host: "redis.example", port: 7000))
        #expect(map.owner(of: 16383) == .ip(host: "::1", port: 7002))
    }

    @Test func nodeWithoutAHostHasTheHostThatWasAsked() throws {
        let reply = RedisReply.array([Self.range(0, 1, .null, 7000), Self.range(2, 3, .string(""), 7001)])
        let map = try #require(RedisSlotMap(reply, askedHost: "asked"))
        #expect(map.owner(of: 0) == .ip(host: "asked", port: 7000))
        #expect(map.owner(of: 2) == .ip(host: "asked", port: 7001))
        #expect(map.owner(of: 4) == nil)
    }

    @Test func nodeWithoutItsHostNameHasItsAddress() throws {
        let node = RedisReply.array([
            .string("?"), .integer(7000), .string("id"), .array([.string("ip"), .string("10.0.0.1")]),
        ])
        let reply = RedisReply.array([
            .array([.integer(0), .integer(1), node]), Self.range(2, 3, .string("?"), 7001),
        ])
        let map = try #require(RedisSlotMap(reply, askedHost: "asked"))
        #expect(map.owner(of: 0) == .ip(host: "10.0.0.1", port: 7000))
        #expect(map.owner(of: 2) == nil)
    }

    @Test(
        arguments: [
            .null, .status("OK"), .integer(1), .array([.null]), .array([.array([])]),
            .array([.array([.integer(0), .integer(1)])]),
            .array([.array([.integer(0), .integer(1), .array([])])]),
            .array([range(-1, 1, .string("h"), 1)]), .array([range(0, 16384, .string("h"), 1)]),
            .array([range(5, 4, .string("h"), 1)]), .array([range(0, .max, .string("h"), 1)]),
            .array([range(0, 1, .string("h"), 0)]), .array([range(0, 1, .string("h"), 65536)]),
            .array([range(0, 1, .string("h h"), 1)]), .array([range(0, 1, .string("h\r\n"), 1)]),
            .array([range(0, 1, .string(String(repeating: "h", count: 256)), 1)]),
            .array([range(0, 1, .integer(1), 1)]),
            .array([range(0, 5, .string("h"), 1), range(5, 9, .string("h"), 2)]),
        ] as [RedisReply])
    func otherReplyIsRefused(reply: RedisReply) {
        #expect(RedisSlotMap(reply, askedHost: "asked") == nil)
    }

    @Test func moreNodesThanAClusterHasAreRefused() {
        let ranges = (0...Int64(RedisSlotMap.primariesMax)).map { Self.range($0, $0, .string("h"), 7000 + $0) }
        #expect(RedisSlotMap(.array(ranges), askedHost: "asked") == nil)
        #expect(RedisSlotMap(.array(ranges.dropLast()), askedHost: "asked") != nil)
    }

    @Test func longReplyIsReadOnlyWhereItIsExpected() throws {
        let text = "*1000\r\n" + String(repeating: ":1\r\n", count: 1000)
        let replies = try Array(text.utf8).withUnsafeBytes { try RedisReplyReader(.slots).feed($0) }
        #expect(replies == [.array([RedisReply](repeating: .integer(1), count: 1000))])
        let tooLong = Array("*16385\r\n".utf8)
        #expect(throws: RedisProtocolError.self) {
            try tooLong.withUnsafeBytes { try RedisReplyReader(.slots).feed($0) }
        }
    }

    // MARK: - Redirects

    @Test(
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", .moved(slot: 3999, to: .ip(host: "127.0.0.1", port: 6381))),
            ("MOVED 0 redis.example:1", .moved(slot: 0, to: .ip(host: "redis.example", port: 1))),
            ("MOVED 16383 ::1:6381", .moved(slot: 16383, to: .ip(host: "::1", port: 6381))),
            ("MOVED 1 :6381", .moved(slot: 1, to: .ip(host: "asked", port: 6381))),
            ("MOVED 1 ?:6381", .moved(slot: 1, to: nil)),
            ("ASK 3999 127.0.0.1:6381", .ask(.ip(host: "127.0.0.1", port: 6381))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
        ] as [(String, RedisRedirect)])
    func redirectIsRead(text: String, redirect: RedisRedirect) {
        #expect(RedisRedirect(errorText: text, askedHost: "asked") == redirect)
        #expect(RedisReply.error(text).isRedirect)
    }

    @Test(arguments: [
        "", "MOVED", "MOVED 1", "MOVED 1 ", "MOVED 1 host", "MOVED 1 host:", "MOVED 1 host:0", "MOVED 1 host:65536",
        "MOVED 16384 host:1", "MOVED -1 host:1", "MOVED x host:1", "MOVED 1 ho/st:1", "MOVED 1 host:1 more",
        "MOVED 99999999999999999999 host:1", "MOVED  host:1", "ASK 1 ?:1", "ASK 1 a@b:1", "ASKING", "moved 1 host:1",
        "ERR MOVED 1 host:1", "CLUSTERDOWN Hash slot not served", "LOADING Redis is loading the dataset in memory",
    ]) func otherErrorIsNoRedirect(text: String) {
        #expect(RedisRedirect(errorText: text, askedHost: "asked") == nil)
    }

    /// Replaces, removes or duplicates bytes of a valid redirect. If the result is still accepted, it must have a valid
    /// slot, host and port.
    @Test func mutatedRedirectIsReadOrRefused() throws {
        var random = SeededRandom(seed: 11)
        var acceptedCount = 0
        for _ in 0..<20_000 {
            var bytes = Array("MOVED 3999 127.0.0.1:6381".utf8)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = Int.random(in: bytes.indices, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = Array(" :?/@\r\n059aZ".utf8).randomElement(using: &random) ?? 0
                case 1: bytes.remove(at: place)
                default: bytes.insert(bytes[place], at: place)
                }
            }
            let text = String(decoding: bytes, as: UTF8.self)
            guard case .moved(let slot, .ip(let host, let port)?) = RedisRedirect(errorText: text, askedHost: "a")
            else { continue }
            acceptedCount += 1
            #expect((0...16383).contains(slot) && (1...65535).contains(port) && !host.isEmpty, "\(text)")
            #expect(!host.contains(where: { " /@\r\n?".contains($0) }), "\(text)")
        }
        #expect((1000..<20_000).contains(acceptedCount))
    }

    /// The node's last slot moves away, so every probe gets a redirect, which counts as a failure. The breaker must
    /// open again. If it stayed half-open, no link would probe the node again.
    @Test(arguments: ["MOVED", "ASK", "TRYAGAIN"]) func redirectedProbeHasFailed(word: String) {
        let time = Mutex<Int64>(0)
        let refreshCount = Mutex(0)
        let counts = RedisCounts()
        let health = RedisHealth(
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, counts: counts,
            now: { time.withLock { $0 } }, slotsMayHaveMoved: { refreshCount.withLock { $0 += 1 } })
        for _ in 0..<3 { health.recordFailure(.timedOut) }
        health.recordFailure(.errorReply(word))
        #expect(health.state == .open)
        for _ in 0..<2 {
            time.withLock { $0 += CircuitBreaker.Limits().delayMillisecondsMax }
            guard case .now = health.claimReconnect() else {
                Issue.record("no link may probe the node")
                return
            }
            #expect(health.state == .halfOpen)
            health.recordFailure(.errorReply(word))
            #expect(health.state == .open)
        }
        #expect(refreshCount.withLock { $0 } == 6, "the slots are fetched again")
        #expect(counts.errorReplies.load(ordering: .relaxed) == 0)
        time.withLock { $0 += CircuitBreaker.Limits().delayMillisecondsMax }
        guard case .now = health.claimReconnect() else {
            Issue.record("no link may probe the node")
            return
        }
        health.recordProbeSuccess()
        #expect(health.permitsRequests)
    }

    @Test(arguments: ["MOVED", "ASK", "TRYAGAIN"]) func redirectedRequestsLeaveTheBreakerClosed(word: String) {
        let health = RedisHealth(
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, counts: RedisCounts(), now: { 0 },
            slotsMayHaveMoved: {})
        for _ in 0..<10 { health.recordFailure(.errorReply(word)) }
        #expect(health.state == .closed)
    }

    // MARK: - HELLO and sentinels

    @Test func serverSaysWhatItIs() {
        let hello: [RedisReply] = [
            .string("server"), .string("redis"), .string("proto"), .integer(2), .string("mode"), .string("cluster"),
            .string("role"), .string("replica"), .string("modules"), .array([]),
        ]
        let identity = RedisIdentity(.array(hello))
        #expect(identity.mode == "cluster" && identity.isReplica)
        for reply in [.error("ERR unknown command"), .null, .array([]), .array([.string("mode")])] as [RedisReply] {
            #expect(RedisIdentity(reply).mode == nil && !RedisIdentity(reply).isReplica)
        }
    }

    @Test func sentinelNamesThePrimary() throws {
        let reply = RedisReply.array([.string("10.0.0.1"), .string("6379")])
        #expect(try RedisSentinels.address(reply) == .ip(host: "10.0.0.1", port: 6379))
        #expect(throws: RedisFailure.unknownPrimary) { try RedisSentinels.address(.null) }
    }

    @Test(
        arguments: [
            .array([]), .string("10.0.0.1"), .array([.string("10.0.0.1")]), .array([.string(""), .string("1")]),
            .array([.string("h"), .string("0")]), .array([.string("h"), .string("65536")]),
            .array([.string("h"), .integer(1)]), .array([.string("a b"), .string("1")]),
            .array([.string("h"), .string("-1")]), .array([.string("h"), .string("")]),
        ] as [RedisReply])
    func otherReplyOfASentinelIsRefused(reply: RedisReply) {
        #expect(throws: RedisFailure.unexpectedReply) { try RedisSentinels.address(reply) }
    }

    /// The first sentinel is cut off from the others, so it still names a primary that is down. After the connection to
    /// this primary fails, the other sentinel must be asked.
    @Test func anotherSentinelIsAskedAfterAPrimaryThatCannotBeUsed() async throws {
        let loops = try EventLoopGroup(count: 1)
        let anyPort = SocketAddress.ip(host: "127.0.0.1", port: 0)
        // No server listens on these two ports.
        let cutOff = try await ListenerGroup.listen(on: anyPort, loops: loops, handler: ScriptedSentinel(port: 1))
        let other = try await ListenerGroup.listen(on: anyPort, loops: loops, handler: ScriptedSentinel(port: 2))
        let endpoint = try RedisEndpoint(parsing: "redis+sentinel://\(cutOff.address),\(other.address)/name")
        let sentinels = RedisSentinels(endpoint, try #require(endpoint.sentinel))
        await #expect(throws: RedisFailure.connection) {
            _ = try await RedisSource.sentinels(sentinels).open(
                endpoint, on: loops.loops[0], timeoutMilliseconds: 1000)
        }
        let named = try await sentinels.primary(on: loops.loops[0])
        #expect(named.address == .ip(host: "127.0.0.1", port: 2))
        for group in [cutOff, other] { await group.drain(until: .now) }
        await loops.shutdown()
    }
}

/// Names 127.0.0.1 and a port as the primary, whatever is asked.
private struct ScriptedSentinel: ConnectionHandler {
    let port: Int

    func serve(_ connection: Connection) async {
        guard let asked = try? await connection.read(until: .inSeconds(5)), !asked.isEmpty else { return }
        try? await connection.write(Array("*2\r\n$9\r\n127.0.0.1\r\n$1\r\n\(port)\r\n".utf8))
        _ = try? await connection.read(until: .inSeconds(5))
    }
}
