// Tests of the command line: its parsing, and the output and exit status of the built binary.

import ArgumentParser
import Engine
import Foundation
import Identity
import JourneyModel
import SQLiteStore
import Testing

@testable import App

@Suite struct CommandTests {
    // MARK: Parsing

    @Test func serveTakesAddressAndFiles() throws {
        let plain = try #require(try Dwell.parseAsRoot(["serve"]) as? ServeCommand)
        #expect(plain.listenOptions.overrides.isEmpty && plain.settingsOptions.overrides.isEmpty)
        let arguments = ["serve", "--host", "::1", "--port", "0", "--database", "/tmp/x", "--env-file", "e"]
        let serve = try #require(try Dwell.parseAsRoot(arguments) as? ServeCommand)
        #expect(serve.listenOptions.overrides == ["HTTP_HOST": "::1", "HTTP_PORT": "0"])
        #expect(
            serve.settingsOptions.overrides == [
                "DATABASE_PATH": "/tmp/x", "DATABASE_URL": "", "DATABASE_URL_FILE": "", "ENV_FILE": "e",
            ])
    }

    private static func correction(_ arguments: String...) -> [String] {
        ["refold", "--settings", "current", "--since", "2026-01-01T00:00:00Z"] + arguments
    }

    @Test(arguments: [
        ["token"], ["token", "--driver", ""], ["token", "--driver", "a\nb"], ["token", "--driver", "d", "--ttl", "0"],
        ["token", "--driver", "d", "--ttl", "-1"], ["token", "--driver", "d", "--role", ""],
        ["token", "--driver", "d", "--role", "opps"], ["simulate", "--scenario", "happy"],
        ["token", "--driver", "d", "--ttl", "99999999999999999999"], ["serve", "--port", "x"], ["nonsense"],
        ["audit"], ["audit", "--driver", "d", "--limit", "0"], ["audit", "--driver", "d", "--limit", "10001"],
        ["verify-erased"], ["verify-erased", "--driver", "abc"], ["verify-erased", "--phone", "0151 1234567"],
        ["driver", "find"], ["driver", "find", "--id", "a", "--email", "b"], ["driver", "erase"],
        ["driver", "find", "--phone", "0151 1234567"], ["driver", "sign-out"], ["driver", "repeat-erasures"],
        ["driver", "erasures", "--since", "yesterday"], ["simulate", "--clean", "--drivers", "2"],
        ["check-config", "--json", "--example"], ["healthcheck", "--url", "ftp://x"], ["healthcheck", "--url", ""],
        ["healthcheck", "--url", "https://127.0.0.1"], ["healthcheck", "--url", "http://u@127.0.0.1"],
        ["check-config", "--links", "http://127.0.0.1"], ["check-config", "--links", "https://h/path"],
        ["check-config", "--links", "go.example.org"], ["check-config", "--links", "https://h", "--json"],
        ["push-test"], ["push-test", "--token", "ab", "--environment", "test"],
        ["push-test", "--token", "ab", "--kind", "live-activity"], ["push-test", "--token", "ab", "--count", "0"],
        ["push-test", "--token", "ab", "--google", "--kind", "live-activity", "--payload", "p.json"],
        ["check-config", "--links-authority", "a.pem"], ["check-config", "--links", "https://u@h"],
        ["config", "preview"], ["config", "preview", "--driver", ""],
        ["config", "preview", "--driver", "d", "--at", "now"],
        ["config", "preview", "--driver", "d", "--app-version", "7-beta"],
        ["refold", "--settings", "current"], ["refold", "--since", "yesterday"], ["refold", "--by", "Ann"],
        ["refold", "--until", "2026-01-02T00:00:00Z"], ["refold", "--instead-of", "v"], ["refold", "--reason", "r"],
        Self.correction("--by", "Ann"), Self.correction("--reason", "r"), Self.correction("--by", "", "--reason", "r"),
        Self.correction("--by", "Ann", "--reason", "two\nlines"),
        Self.correction("--until", "2025-12-31T00:00:00Z", "--dry-run"),
        Self.correction("--until", "9999-12-31T00:00:00Z", "--dry-run"),
        ["config", "try"], ["config", "try", "f", "--since", "a week"], ["config", "try", "f", "--since", "0 days"],
        ["config", "try", "f", "--since", "-1 days"],
    ])
    func wrongUsageIs64(arguments: [String]) {
        let error = #expect(throws: (any Error).self) { try Dwell.parseAsRoot(arguments) }
        #expect(error.map { Dwell.exitCode(for: $0).rawValue } == 64)
    }

    // MARK: Refold

    @Test func refoldText() {
        var counts = RefoldCounts()
        (counts.drivers, counts.events, counts.sessionsFolded) = (2, 9, 4)
        counts.add(RefoldChange(from: "grace", to: "verified"), sessionID: "a")
        counts.add(RefoldChange(from: "grace", to: "verified"), sessionID: "b")
        counts.add(RefoldChange(from: "IN_TRANSIT", to: "grace"), sessionID: "c\u{1B}[2J")
        #expect(
            RefoldText.lines(of: counts, isDryRun: true, refolding: 1) == [
                "dry run, no changes made: 2 drivers, 9 events folded",
                "0 verdicts differ, 0 drivers are in another state, 0 expiries were missing",
                "1 driver left out: a refold is in progress", "sessions:", "  2  grace -> verified  (a, b)",
                "  1  IN_TRANSIT -> grace  (c\\u{1B}[2J)",
            ])
    }

    @Test func timeSpans() {
        let now = Moment(millisecondsSinceEpoch: 1_000_000_000_000)
        #expect(ConfigTryCommand.start("7 days", now: now) == now.advanced(bySeconds: -7 * 86_400))
        #expect(ConfigTryCommand.start("1 hour", now: now) == now.advanced(bySeconds: -3600))
        #expect(ConfigTryCommand.start("2001-09-09T01:46:40Z", now: now) == now)
    }

    @Test func settingsToTry() throws {
        let configured = Settings(gracePeriodSeconds: 300, hardTimeoutSeconds: 600)
        #expect(
            try ConfigTryCommand.durations(in: "# longer\nNATIVE_GRACE_PERIOD_SECONDS=600\n", configured)
                == TrialDurations(gracePeriodSeconds: 600, hardTimeoutSeconds: nil))
        #expect(
            try ConfigTryCommand.durations(in: "export NATIVE_HARD_TIMEOUT_SECONDS='7200'", configured)
                == TrialDurations(gracePeriodSeconds: nil, hardTimeoutSeconds: 7200))
        for text in [
            "", "NATIVE_CHARGER_DWELL_SECONDS=60", "NATIVE_GRACE_PERIOD_SECONDS=601", "NATIVE_GRACE_PERIOD_SECONDS=1h",
        ] {
            #expect(throws: ConfigTryCommand.UnusableSettings.self) {
                try ConfigTryCommand.durations(in: text, configured)
            }
        }
    }

    // MARK: Healthcheck

    @Test(arguments: [
        ("http://127.0.0.1:9000", "127.0.0.1:9000", "/healthz"), ("http://h/readyz?x=%20", "h:80", "/readyz?x=%20"),
        ("http://[::1]:1/", "[::1]:1", "/"), ("HTTP://h", "h:80", "/healthz"),
    ])
    func healthURLs(url: String, address: String, path: String) throws {
        let question = try #require(HealthRequest(url: url))
        #expect("\(question.address)" == address && question.path == path)
    }

    @Test(arguments: [
        ("0.0.0.0", "127.0.0.1:8080"), ("::", "[::1]:8080"), ("10.0.0.1", "10.0.0.1:8080"),
        ("::1, 10.0.0.1", "[::1]:8080"), ("", "unix:/run/dwell.sock"),
    ])
    func aServerThatListensEverywhereIsAskedHere(hosts: String, address: String) throws {
        let settings = ["HTTP_HOST": hosts, "HTTP_UNIX_SOCKET": "/run/dwell.sock"]
        let http = try #require(report(settings).configuration).http
        #expect("\(HealthRequest(http: http).address)" == address)
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\n", 200), ("HTTP/1.1 503 \r\n", 503), ("HTTP/1.0 200 OK", nil), ("HTTP/1.1 200", nil),
        ("HTTP/1.1 20x OK", nil), ("", nil), ("SSH-2.0-x", nil), ("HTTP/1.1 2000 ", nil),
    ])
    func statusLines(line: String, code: Int?) {
        #expect(HealthRequest.statusCode(of: Array(line.utf8)) == code)
    }

    // MARK: The binary

    @Test func versionAndHelp() throws {
        #expect(try dwell(["--version"]) == Ending(status: 0, output: version + "\n", errors: ""))
        let help = try dwell(["--help"])
        #expect(help.status == 0 && help.output.contains("check-config") && help.output.contains("EXAMPLES"))
        #expect(try dwell(["--nonsense"]).status == 64)
        #expect(try dwell([]) == help)
    }

    @Test func listeningSocketsAreFoundInTheKernelsTable() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
               0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0
               1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 20 4 30 10 -1
               2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0
            """
        #expect(PortHolder.inodes(in: table, port: 8080) == ["4711"])
        #expect(PortHolder.inodes(in: table, port: 80) == ["4713"])
        #expect(PortHolder.inodes(in: "", port: 80) == [])
    }

    @Test func badSettingsEndWith78AndALineEach() throws {
        for command in [["serve"], ["token", "--driver", "d"], ["migrate"]] {
            let ending = try dwell(command, ["HTTP_PORT": "x", "LOG_LEVEL": "y"])
            #expect(ending.status == 78 && ending.output.isEmpty, "\(command)")
            #expect(ending.errors.split(separator: "\n").count == 2)
        }
    }

    @Test func checkConfigEndsWith1AndTellsEverything() throws {
        let good = try dwell(["check-config"])
        #expect(good.status == 0 && good.errors.isEmpty)
        #expect(good.output.split(separator: "\n").count == Variables.all.count + 1)
        let bad = try dwell(["check-config"], ["HTTP_PORT": "x", "JWT_SECRET": "short-hunter2"])
        #expect(bad.status == 1 && bad.errors.split(separator: "\n").count == 2)
        #expect(!bad.output.contains("hunter2") && !bad.errors.contains("hunter2"))
        let json = try dwell(["check-config", "--json"], ["HTTP_PORT": "x"])
        #expect(json.status == 1)
        let document = try JSONSerialization.jsonObject(with: Data(json.output.utf8)) as? [String: Any]
        #expect(document?["ok"] as? Bool == false)
        #expect((document?["problems"] as? [Any])?.count == 1)
        #expect((document?["settings"] as? [Any])?.count == Variables.all.count)
        #expect(try dwell(["check-config", "--example"]).output == EnvironmentExample.text)
    }

    @Test func tokenPrintsATokenAndNothingElse() throws {
        try withFiles([:]) { folder in
            let database = folder + "/var/dwell.sqlite3"
            let keyFile = database + ".jwt-key"
            // The command must not create a missing key. The server would not have that key, and would reject every
            // token signed with it.
            let none = try dwell(["token", "--driver", "jonas", "--database", database])
            #expect(none.status == 78 && none.output.isEmpty && none.errors.contains(keyFile))
            #expect(!FileManager.default.fileExists(atPath: keyFile))
            _ = try LocalKeyFile(path: keyFile).loadOrCreate()
            let first = try dwell(["token", "--driver", "jonas", "--database", database])
            #expect(first.status == 0 && first.errors.isEmpty)
            #expect(first.output.split(separator: ".").count == 3 && first.output.filter(\.isNewline).count == 1)
            let production = ["APP_ENV": "production"]
            #expect(try dwell(["token", "--driver", "jonas", "--database", database], production).status == 78)
            let secret = production.merging(["JWT_SECRET": ConfigurationTests.secret]) { $1 }
            #expect(try dwell(["token", "--sub", "jonas", "--ttl", "60"], secret).status == 0)
        }
    }

    @Test func healthcheckOfNobodyIs1() throws {
        let ending = try dwell(["healthcheck", "--url", "http://127.0.0.1:1"])
        #expect(ending.status == 1 && !ending.errors.isEmpty && ending.output.isEmpty)
    }

    struct Ending: Equatable {
        var status: Int32
        var output: String
        var errors: String
    }

    /// Runs the built binary in an empty directory, with only the given environment variables.
    func dwell(_ arguments: [String], _ environment: [String: String] = [:]) throws -> Ending {
        try withFiles([:]) { folder in
            let process = Process()
            process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
                .deletingLastPathComponent().appending(path: "dwell")
            process.arguments = arguments
            process.environment = environment
            process.currentDirectoryURL = URL(filePath: folder)
            // The output goes to files instead of pipes, so that no reader is needed while the process runs.
            let files = try ["out", "err"].map { name in
                let path = folder + "/" + name
                #expect(FileManager.default.createFile(atPath: path, contents: nil))
                return try #require(FileHandle(forWritingAtPath: path))
            }
            process.standardOutput = files[0]
            process.standardError = files[1]
            try process.run()
            process.waitUntilExit()
            let texts = try ["out", "err"].map { try String(contentsOfFile: folder + "/" + $0, encoding: .utf8) }
            return Ending(status: process.terminationStatus, output: texts[0], errors: texts[1])
        }
    }
}
