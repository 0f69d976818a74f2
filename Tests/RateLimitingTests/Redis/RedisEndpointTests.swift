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
        #expect(endpoint.servers == [address])
        #expect(endpoint.sentinel == nil)
        #expect(endpoint.username == username)
        #expect(endpoint.password == password)
        #expect(endpoint.database == database)
    }

    @Test func severalHostsAreNodesOfACluster() throws {
        let endpoint = try RedisEndpoint(parsing: "redis://u:a,b@10.0.0.1:7000,cache,[::1]:7002,[::2]/0")
        #expect(
            endpoint.servers == [
                .ip(host: "10.0.0.1", port: 7000), .ip(host: "cache", port: 6379), .ip(host: "::1", port: 7002),
                .ip(host: "::2", port: 6379),
            ])
        #expect(endpoint.username == "u" && endpoint.password == "a,b")
        #expect("\(endpoint)" == "10.0.0.1:7000, cache:6379, [::1]:7002, [::2]:6379")
    }

    @Test(
        arguments: [
            ("redis+sentinel://a:26379,b:7000/main", nil, nil, nil, 0),
            ("redis+sentinel://u:p%2Fq@a,b:7000/main/2", "u", "p/q", nil, 2),
            ("REDIS+SENTINEL://:pw@a,b:7000/main?db=3", nil, "pw", nil, 3),
            ("redis+sentinel://a,b:7000/main?sentinel_password=x%26y&db=1", nil, nil, "x&y", 1),
            ("redis+sentinel://a,b:7000/main/?sentinel_password=", nil, nil, nil, 0),
        ] as [(String, String?, String?, String?, Int)])
    func sentinelsAreAskedForTheNamedPrimary(
        url: String, username: String?, password: String?, sentinelPassword: String?, database: Int
    ) throws {
        let endpoint = try RedisEndpoint(parsing: url)
        #expect(endpoint.servers == [.ip(host: "a", port: 26379), .ip(host: "b", port: 7000)])
        #expect(endpoint.sentinel?.primaryName == "main")
        #expect(endpoint.sentinel?.password == sentinelPassword)
        #expect(endpoint.username == username)
        #expect(endpoint.password == password)
        #expect(endpoint.database == database)
    }

    @Test func secondSInTheSchemeMeansTLS() throws {
        for url in ["redis://a", "redis+sentinel://a/main", "unix:///redis.sock", "redis://a?ca=/ca.pem"] {
            #expect(try !RedisEndpoint(parsing: url).usesTLS)
        }
        for url in [
            "rediss://a", "REDISS://:pw@a:7000,b?ca=/ca.pem", "rediss+sentinel://a/main",
            "rediss://a/3?ca=%2Fca%20file.pem&cert=/cert.pem&key=/key.pem",
        ] {
            let endpoint = try RedisEndpoint(parsing: url)
            #expect(endpoint.usesTLS && "\(endpoint)".contains("TLS"))
        }
    }

    @Test(
        arguments: [
            ("", .noScheme), ("localhost:6379", .noScheme), ("http://localhost", .unknownScheme),
            ("rediss://:s3cret@", .malformedHost), ("rediss://cache?cert=%2Fcert", .malformedCertificates),
            ("rediss://cache?key=/key", .malformedCertificates), ("rediss://cache?ca=%zz", .malformedCertificates),
            ("rediss+unix:///redis.sock", .unknownScheme), ("redis://", .malformedHost),
            ("redis://:6379", .malformedHost),
            ("redis://:s3cret@", .malformedHost), ("redis://[::1", .malformedHost), ("redis://[::1]x", .malformedHost),
            ("redis://a b", .malformedHost), ("redis://cache:0", .malformedPort),
            ("redis://cache:65536", .malformedPort),
            ("redis://cache:s3cret", .malformedPort), ("redis://cache:99999999999999999999", .malformedPort),
            ("redis://cache/x", .malformedDatabase), ("redis://cache/-1", .malformedDatabase),
            ("redis://cache/10000", .malformedDatabase), ("redis://u:%zz@cache", .malformedCredentials),
            ("redis://u:%ff@cache", .malformedCredentials), ("redis://u:%4", .malformedPort),
            ("redis://u:@cache", .malformedCredentials), ("redis://u:s3cret#x@cache", .fragment),
            ("redis://a,", .malformedHost), ("redis://,a", .malformedHost), ("redis://a,:7000", .malformedHost),
            ("redis://a:7000,b:x", .malformedPort), ("redis://a,b/1", .databaseOfCluster),
            ("redis://a,b?db=1", .databaseOfCluster), ("redis://u:s3cret@a,b/1", .databaseOfCluster),
            ("redis://" + [String](repeating: "a", count: 65).joined(separator: ","), .malformedHost),
            ("redis+sentinel://a", .noPrimaryName), ("redis+sentinel://a/", .noPrimaryName),
            ("redis+sentinel://a/b%20c", .noPrimaryName), ("redis+sentinel:///name", .malformedHost),
            ("redis+sentinel://a/name/x", .malformedDatabase),
            ("redis+sentinel://a/name?sentinel_password=s3cret%z", .malformedCredentials),
            ("rediss+sentinel://:s3cret@a", .noPrimaryName),
            ("unix://", .noPath), ("unix:///", .noPath), ("redis+unix://relative.sock", .noPath),
        ] as [(String, RedisEndpointError)])
    func refusesWithAReason(url: String, expected: RedisEndpointError) {
        #expect(throws: expected) { try RedisEndpoint(parsing: url) }
        #expect(!expected.description.contains("s3cret"))
    }

    @Test func noTextOfItHoldsThePassword() throws {
        for url in [
            "redis://user:s3cret@cache/1", "redis://user:s3cret@a,b", "redis+sentinel://user:s3cret@a,b/main",
            "redis+sentinel://a,b/main?sentinel_password=s3cret",
        ] {
            let endpoint = try RedisEndpoint(parsing: url)
            var dumped = ""
            dump(endpoint, to: &dumped)
            for text in ["\(endpoint)", String(reflecting: endpoint), "\([endpoint])", dumped] {
                #expect(!text.contains("s3cret"))
            }
        }
    }
}
