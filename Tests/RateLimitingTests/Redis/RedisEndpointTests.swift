// Tests valid and invalid values of `REDIS_URL`. No message about a value contains its password.

import RateLimiting
import Sockets
import Testing

struct RedisEndpointTests {
    @Test(
        arguments: [
            ("redis://localhost", .ip(host: "localhost", port: 6379), nil, nil, 0),
            ("redis://127.0.0.1:7000/3", .ip(host: "127.0.0.1", port: 7000), nil, nil, 3),
            ("REDIS://cache/", .ip(host: "cache", port: 6379), nil, nil, 0),
            ("redis://[::1]:7000", .ip(host: "::1", port: 7000), nil, nil, 0),
            ("redis://[::1]", .ip(host: "::1", port: 6379), nil, nil, 0),
            ("redis://dwell:s3cret@cache:6379/0", .ip(host: "cache", port: 6379), "dwell", "s3cret", 0),
            ("redis://:s3cret@cache", .ip(host: "cache", port: 6379), nil, "s3cret", 0),
            ("redis://s3cret@cache", .ip(host: "cache", port: 6379), nil, "s3cret", 0),
            ("redis://u%40x:p%2Fq%25@cache", .ip(host: "cache", port: 6379), "u@x", "p/q%", 0),
            ("redis://u:a:b@c@cache", .ip(host: "cache", port: 6379), "u", "a:b@c", 0),
            ("redis://cache?db=4", .ip(host: "cache", port: 6379), nil, nil, 4),
            ("redis+unix:///run/redis.sock", .unix(path: "/run/redis.sock"), nil, nil, 0),
            ("unix:///run/redis.sock?db=2", .unix(path: "/run/redis.sock"), nil, nil, 2),
            ("redis+unix://:s3cret@/run/a%20b.sock", .unix(path: "/run/a b.sock"), nil, "s3cret", 0),
        ] as [(String, SocketAddress, String?, String?, Int)])
    func readsWhatIsWritten(
        url: String, address: SocketAddress, username: String?, password: String?, database: Int
    ) throws {
        let endpoint = try RedisEndpoint(parsing: url)
        #expect(endpoint.address == address)
        #expect(endpoint.username == username)
        #expect(endpoint.password == password)
        #expect(endpoint.database == database)
    }

    @Test(
        arguments: [
            ("", .noScheme), ("localhost:6379", .noScheme), ("http://localhost", .unknownScheme),
            ("rediss://:s3cret@cache", .tls), ("redis://", .malformedHost), ("redis://:6379", .malformedHost),
            ("redis://:s3cret@", .malformedHost), ("redis://[::1", .malformedHost), ("redis://[::1]x", .malformedHost),
            ("redis://a b", .malformedHost), ("redis://cache:0", .malformedPort),
            ("redis://cache:65536", .malformedPort),
            ("redis://cache:s3cret", .malformedPort), ("redis://cache:99999999999999999999", .malformedPort),
            ("redis://cache/x", .malformedDatabase), ("redis://cache/-1", .malformedDatabase),
            ("redis://cache/10000", .malformedDatabase), ("redis://u:%zz@cache", .malformedCredentials),
            ("redis://u:%ff@cache", .malformedCredentials), ("redis://u:%4", .malformedPort),
            ("redis://u:@cache", .malformedCredentials), ("redis://u:s3cret#x@cache", .fragment),
            ("unix://", .noPath), ("unix:///", .noPath), ("redis+unix://relative.sock", .noPath),
        ] as [(String, RedisEndpointError)])
    func refusesWithAReason(url: String, expected: RedisEndpointError) {
        #expect(throws: expected) { try RedisEndpoint(parsing: url) }
        #expect(!expected.description.contains("s3cret"))
    }

    @Test func noTextOfItHoldsThePassword() throws {
        let endpoint = try RedisEndpoint(parsing: "redis://user:s3cret@cache/1")
        var dumped = ""
        dump(endpoint, to: &dumped)
        for text in ["\(endpoint)", String(reflecting: endpoint), "\([endpoint])", dumped] {
            #expect(!text.contains("s3cret"))
        }
    }
}
