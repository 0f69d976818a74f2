// Tests the rules for LINK_APPS, LINK_PATHS, ANDROID_APPS and the files of the public pages: the allowed values, and
// the errors, which name the variable.

import API
import Foundation
import Testing

@testable import App

@Suite struct LinkConfigurationTests {
    static let first = fingerprint("AB")
    static let second = fingerprint("0f")

    static func fingerprint(_ pair: String) -> String {
        Array(repeating: pair, count: 32).joined(separator: ":")
    }

    private func links(_ environment: [String: String]) throws -> AppLinks {
        try #require(report(environment).configuration).links.apps
    }

    @Test func withoutAnySettingThereIsNothing() throws {
        let configuration = try #require(report().configuration)
        #expect(configuration.links.apps == AppLinks() && configuration.links.pages.isEmpty)
    }

    @Test func theListsAreRead() throws {
        let links = try links([
            "LINK_APPS": "ABCDE12345.com.example.app, ABCDE12345.com.example.app-beta",
            "LINK_PATHS": "!/open/web/*,/open/*,/c/%C3%A9*",
            "ANDROID_APPS":
                "com.example.app:\(Self.first),com.example.beta:\(Self.first),com.example.app:\(Self.second)",
        ])
        #expect(links.appIDs == ["ABCDE12345.com.example.app", "ABCDE12345.com.example.app-beta"])
        #expect(links.paths.map(\.pattern) == ["/open/web/*", "/open/*", "/c/%C3%A9*"])
        #expect(links.paths.map(\.isExcluded) == [true, false, false])
        #expect(
            links.androidApps == [
                AppLinks.AndroidApp(
                    packageName: "com.example.app", fingerprints: [Self.first, Self.second.uppercased()]),
                AppLinks.AndroidApp(packageName: "com.example.beta", fingerprints: [Self.first]),
            ])
    }

    /// The values that `dwell check-config` prints can be copied into an environment file.
    @Test func whatIsShownIsReadAgain() throws {
        let values = [
            "LINK_APPS": "ABCDE12345.a.b,ABCDE12345.a.c", "LINK_PATHS": "!/a/*,/b*",
            "ANDROID_APPS": "a.b:\(Self.first)",
        ]
        let told = report(values)
        for (name, value) in values { #expect(try variable(name, in: told).shown == value) }
    }

    @Test(arguments: [
        ("LINK_APPS", "com.example.app"), ("LINK_APPS", "abcde12345.com.example.app"), ("LINK_APPS", "ABCDE12345"),
        ("LINK_APPS", "ABCDE12345."), ("LINK_APPS", "ABCDE12345.a b"), ("LINK_APPS", "ABCDE12345.a,"),
        ("LINK_APPS", "ABCDE12345.a,ABCDE12345.a"), ("LINK_APPS", "ABCDE1234.com.example.app"),
        ("LINK_PATHS", "open/*"), ("LINK_PATHS", "/open?id=*"), ("LINK_PATHS", "/open#x"), ("LINK_PATHS", "!/open/*"),
        ("LINK_PATHS", "/a b"), ("LINK_PATHS", "/a,!/a"), ("LINK_PATHS", "/ä"), ("LINK_PATHS", "/\""),
        ("ANDROID_APPS", "com.example.app"), ("ANDROID_APPS", "app:" + first), ("ANDROID_APPS", "a.1b:" + first),
        ("ANDROID_APPS", "a..b:" + first), ("ANDROID_APPS", "a.b:" + first.dropLast(3)),
        ("ANDROID_APPS", "a.b:" + first + ":AB"), ("ANDROID_APPS", "a.b:" + fingerprint("GG")),
        ("ANDROID_APPS", "a.b:\(first),a.b:\(first.lowercased())"),
    ])
    func aWrongListIsRefusedByName(name: String, text: String) {
        let problems = report([name: text]).problems
        #expect(problems.map(\.variable) == [name], "\(problems)")
        #expect(problems.allSatisfy { $0.description.contains("allowed is 1 to ") })
    }

    @Test func noListIsLongerThanItsBound() {
        let apps = (0..<33).map { "ABCDE12345.a\($0)" }
        let paths = (0..<65).map { "/\($0)" }
        let android = (0..<33).map { "a.b\($0):\(Self.first)" }
        for (name, items) in [("LINK_APPS", apps), ("LINK_PATHS", paths), ("ANDROID_APPS", android)] {
            let isWrong = { (text: String) in report([name: text]).problems.contains { $0.description.contains("=") } }
            #expect(isWrong(items.joined(separator: ",")), "\(name)")
            #expect(!isWrong(items.dropLast().joined(separator: ",")), "\(name)")
        }
        #expect(
            report(["LINK_APPS": apps[0], "LINK_PATHS": "/" + String(repeating: "a", count: 511)]).problems.isEmpty)
        #expect(
            !report(["LINK_APPS": apps[0], "LINK_PATHS": "/" + String(repeating: "a", count: 512)]).problems.isEmpty)
    }

    @Test func appsAndPathsAreSetTogether() {
        #expect(report(["LINK_APPS": "ABCDE12345.a"]).problems.map(\.variable) == ["LINK_PATHS"])
        #expect(report(["LINK_PATHS": "/a"]).problems.map(\.variable) == ["LINK_APPS"])
    }

    @Test func pagesAreReadFromTheirFiles() throws {
        try withFiles(["p.html": "<p>é</p>", "t.md": "# Terms\n", "s.txt": "Write to us.\r\n"]) { folder in
            let files = [
                "PRIVACY_FILE": folder + "/p.html", "TERMS_FILE": folder + "/t.md", "SUPPORT_FILE": folder + "/s.txt",
            ]
            let pages = try #require(report(files).configuration).links.pages
            #expect(pages[.privacy] == PublicPage(bytes: Array("<p>é</p>".utf8), mediaType: "text/html; charset=utf-8"))
            #expect(pages[.terms] == PublicPage(bytes: Array("# Terms\n".utf8), mediaType: "text/plain; charset=utf-8"))
            #expect(pages[.support]?.bytes == Array("Write to us.\r\n".utf8))
        }
    }

    @Test(arguments: ["PRIVACY_FILE", "TERMS_FILE", "SUPPORT_FILE"])
    func aFileThatCannotBeAPageIsRefusedByName(name: String) throws {
        let long = String(repeating: "x", count: PublicPage.bytesMax + 1)
        let files = ["empty.html": "", "long.txt": long, "most.txt": String(long.dropLast()), "page.pdf": "x"]
        try withFiles(files) { folder in
            try Data([0xFF, 0xFE]).write(to: URL(filePath: folder + "/bytes.html"))
            for (file, reason) in [
                ("empty.html", "it is empty"), ("long.txt", "it has more than 262144 bytes"),
                ("page.pdf", ".html, .htm, .md or .txt file"),
                ("bytes.html", "it is not UTF-8 text"), ("missing.html", "No such file or directory"),
            ] {
                let problems = report([name: folder + "/" + file]).problems
                #expect(problems.map(\.variable) == [name], "\(file)")
                #expect(problems.allSatisfy { $0.description.contains(reason) }, "\(problems)")
            }
            #expect(report([name: folder + "/most.txt"]).problems.isEmpty)
        }
    }
}
