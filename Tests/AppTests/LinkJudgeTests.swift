// Tests what `dwell check-config --links` reports about every kind of response. The expected documents are texts in
// this file; the server's code does not create them.

import API
import Foundation
import Outbound
import Testing

@testable import App

@Suite struct LinkJudgeTests {
    private static let play = LinkConfigurationTests.fingerprint("AA")
    private static let upload = LinkConfigurationTests.fingerprint("BB")
    private static let page = PublicPage(bytes: Array("<p>P</p>".utf8), mediaType: "text/html; charset=utf-8")
    private static let judge = LinkJudge(
        apps: AppLinks(
            appIDs: ["ABCDE12345.a.b"],
            paths: [
                AppLinks.Path(pattern: "/open/web/*", isExcluded: true),
                AppLinks.Path(pattern: "/open/*", isExcluded: false),
            ],
            androidApps: [AppLinks.AndroidApp(packageName: "a.b", fingerprints: [play, upload])]),
        pages: [.privacy: page])

    private static let components = #"[{"/":"/open/web/*","exclude":true},{"/":"/open/*"}]"#
    private static func association(_ details: String) -> String { #"{"applinks":{"details":[\#(details)]}}"# }
    private static let good = association(#"{"appIDs":["ABCDE12345.a.b"],"components":\#(components)}"#)

    private static func statements(_ fingerprints: [String], package: String = "a.b", more: String = "") -> String {
        let list = fingerprints.map { "\"\($0)\"" }.joined(separator: ",")
        return #"[{"relation":["delegate_permission/common.handle_all_urls"],"target":{"namespace":"android_app","#
            + #""package_name":"\#(package)","sha256_cert_fingerprints":[\#(list)]}}\#(more)]"#
    }

    private static func findings(
        _ path: String, _ body: String, type: String? = "application/json", status: Int = 200, judge: LinkJudge = judge
    ) -> [String] {
        judge.findings(path, .response(status: status, contentType: type, body: Array(body.utf8))).map(\.description)
    }

    private static func apple(_ body: String) -> [String] { findings(AppLinks.applePath, body) }
    private static func android(_ body: String) -> [String] { findings(AppLinks.androidPath, body) }

    @Test func whatTheSettingsSayIsGood() {
        let apple = "ok /.well-known/apple-app-site-association: \(Self.good.utf8.count) bytes, as the settings say"
        #expect(Self.apple(Self.good) == [apple])
        #expect(Self.findings(AppLinks.applePath, Self.good, type: "Application/JSON; charset=utf-8") == [apple])
        let body = Self.statements([Self.upload.lowercased(), Self.play])
        #expect(
            Self.android(body)
                == ["ok /.well-known/assetlinks.json: \(body.utf8.count) bytes, as the settings say"])
        #expect(
            Self.findings("/privacy", "<p>P</p>", type: "text/html; charset=utf-8")
                == ["ok /privacy: 8 bytes, the configured file"])
    }

    /// To Apple, `appID` means the same as `appIDs` with one id. A comment or `"exclude": false` changes nothing.
    @Test func anotherSpellingOfTheSameIsGood() {
        let same = Self.association(
            #"{"appID":"ABCDE12345.a.b","components":[{"/":"/open/web/*","exclude":true,"comment":"c"},"#
                + #"{"/":"/open/*","exclude":false}]}"#)
        #expect(Self.apple(same).allSatisfy { $0.hasPrefix("ok ") })
    }

    @Test(arguments: [
        (
            association(#"{"appIDs":["ABCDE12345.a.c"],"components":\#(components)}"#),
            "ABCDE12345.a.b of LINK_APPS is missing"
        ),
        (
            association(#"{"appIDs":["ABCDE12345.a.b","ZZZZZ12345.x"],"components":\#(components)}"#),
            "ZZZZZ12345.x is not in LINK_APPS"
        ),
        (association(#"{"appIDs":["ABCDE12345.a.b"],"components":[{"/":"/open/*"}]}"#), "other paths than LINK_PATHS"),
        (
            association(
                #"{"appIDs":["ABCDE12345.a.b"],"components":[{"/":"/open/*"},{"/":"/open/web/*","exclude":true}]}"#),
            "other paths than LINK_PATHS"
        ),
        (
            association(
                #"{"appIDs":["ABCDE12345.a.b"],"components":[{"/":"/open/web/*","exclude":true},{"/":"/open/*","?":{"a":"b"}}]}"#
            ),
            "other paths than LINK_PATHS"
        ),
        (association(#"{"appIDs":["ABCDE12345.a.b"],"paths":["/open/*"]}"#), "appIDs with paths"),
        ("<html>", "not JSON"), ("", "not JSON"), ("{}", "not JSON with applinks.details"),
        (String(good.dropLast()), "not JSON"),
    ])
    func aWrongDocumentForApple(body: String, text: String) {
        let findings = Self.apple(body)
        #expect(findings.contains { $0.hasPrefix("FAILED ") && $0.contains(text) }, "\(findings)")
        #expect(!findings.contains { $0.hasPrefix("ok ") })
    }

    @Test(arguments: [
        (statements([play]), "lacks the fingerprint \(upload)"),
        (statements([upload]), "lacks the fingerprint \(play)"),
        (statements([play, upload, LinkConfigurationTests.fingerprint("CC")]), "which is not in ANDROID_APPS"),
        (statements([play, upload], package: "a.c"), "a.b of ANDROID_APPS is missing"),
        (statements([play, upload], package: "a.c"), "a.c is not in ANDROID_APPS"),
        (
            statements([play, upload]).replacing("handle_all_urls", with: "get_login_creds"),
            "a.b of ANDROID_APPS is missing"
        ),
        (statements([play, upload]).replacing("android_app", with: "web"), "a.b of ANDROID_APPS is missing"),
        ("{}", "not JSON with a list"), ("[1]", "not JSON with a list"), ("nonsense", "not JSON with a list"),
    ])
    func aWrongDocumentForGoogle(body: String, text: String) {
        let findings = Self.android(body)
        #expect(findings.contains { $0.hasPrefix("FAILED ") && $0.contains(text) }, "\(findings)")
        #expect(!findings.contains { $0.hasPrefix("ok ") })
    }

    @Test func oneFingerprintIsWorthAWarning() {
        let judge = LinkJudge(
            apps: AppLinks(
                androidApps: [AppLinks.AndroidApp(packageName: "a.b", fingerprints: [Self.play])]), pages: [:])
        let findings = Self.findings(AppLinks.androidPath, Self.statements([Self.play]), judge: judge)
        #expect(findings.map { $0.prefix { $0 != " " } } == ["warning", "ok"], "\(findings)")
    }

    @Test(arguments: [AppLinks.applePath, AppLinks.androidPath, "/privacy"])
    func neitherAnotherStatusNorAFailureIsGood(path: String) {
        for status in [201, 204, 206, 304, 403, 404, 500, 503] {
            #expect(
                Self.findings(path, Self.good, status: status) == ["FAILED \(path): status \(status); it must be 200"])
        }
        let bytes = path == "/privacy" ? 262_144 : 131_072
        for (failure, text) in [
            (OutgoingFailure.redirected, "a redirect; neither Apple nor Google follows one for these documents"),
            (.notTrusted, "the certificate is not trusted for this host"), (.timedOut, "no response within 10 s"),
            (.answerTooLong, "more than \(bytes) bytes"), (.unreachable, "no connection with TLS"),
        ] {
            #expect(Self.judge.findings(path, .failed(failure)).map(\.description) == ["FAILED \(path): \(text)"])
        }
        #expect(Self.judge.bytesMax(path) == bytes)
    }

    @Test(arguments: [
        nil, "", "text/plain", "text/html; charset=utf-8", "application/octet-stream", "application/jsonx",
    ])
    func anotherContentTypeIsNotGood(type: String?) {
        for (path, body) in [(AppLinks.applePath, Self.good), (AppLinks.androidPath, Self.statements([Self.play]))] {
            let findings = Self.findings(path, body, type: type)
            #expect(findings.count == 1 && findings[0].hasPrefix("FAILED \(path): the content type is "))
        }
    }

    @Test func withoutASettingThereMustBeNoDocument() {
        let judge = LinkJudge(apps: AppLinks(), pages: [:])
        #expect(judge.fetchedPaths == [AppLinks.applePath, AppLinks.androidPath])
        for (path, name) in [(AppLinks.applePath, "LINK_APPS"), (AppLinks.androidPath, "ANDROID_APPS")] {
            #expect(
                Self.findings(path, "{}", status: 404, judge: judge)
                    == ["ok \(path): status 404, and \(name) is not set"])
            #expect(
                Self.findings(path, "{}", judge: judge) == [
                    "FAILED \(path): the host has this document although \(name) is not set; does a hosting service add "
                        + "its own?"
                ])
            #expect(judge.findings(path, .failed(.notTrusted)).allSatisfy { $0.judgement == .failure })
        }
    }

    @Test func aPageIsTheConfiguredFile() {
        #expect(
            Self.findings("/privacy", "<p>Q</p>", type: "text/html")
                == ["FAILED /privacy: not the content of the configured file; after a change, reload the server"])
        #expect(
            Self.findings("/privacy", "<p>P</p>", type: "text/plain")
                == ["FAILED /privacy: the content type is text/plain; text/html is configured"])
        #expect(Self.judge.fetchedPaths == [AppLinks.applePath, AppLinks.androidPath, "/privacy"])
    }

    /// Text that a server sends must not control the terminal.
    @Test func controlCharactersAreEscaped() {
        let findings = Self.apple(
            Self.association(#"{"appIDs":["ABCDE12345.a.b","\u001b[2J"],"components":\#(Self.components)}"#))
        #expect(findings.count == 1 && !findings[0].contains("\u{1b}"), "\(findings)")
    }

    @Test(arguments: [
        ("https://go.example.org", true), ("https://go.example.org/", true), ("HTTPS://go.example.org:8443", true),
        ("http://go.example.org", false), ("http://127.0.0.1", false), ("https://go.example.org/a", false),
        ("https://go.example.org?a", false), ("https://go.example.org#a", false), ("https://u@go.example.org", false),
        ("https://", false), ("go.example.org", false),
    ])
    func origins(text: String, isOne: Bool) {
        #expect((LinkOrigin(text) != nil) == isOne)
        #expect(LinkOrigin(text)?.hasOtherPort ?? false == text.hasSuffix(":8443"))
    }
}
