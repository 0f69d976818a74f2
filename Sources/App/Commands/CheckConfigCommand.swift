// `dwell check-config`: reads the settings in the same way as `dwell serve`, and prints them. With --links, it fetches
// the documents for app links from the public host, and compares them with the settings.

import ArgumentParser
import Foundation
import Outbound

struct CheckConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Show every setting with its value, source and range.",
        discussion: """
            Reads the settings as the server does, with the same options. Lists every problem and exits with status \
            1 if there is one. Secrets are shown as set or not set.

            With --links, fetches /.well-known/apple-app-site-association, /.well-known/assetlinks.json and the \
            configured pages from the public host, as Apple and Google do: https, no redirect, status 200, the right \
            content type, at most 128 KiB. Compares them with the settings, prints one line for each finding, and \
            exits with status 1 if one is FAILED.

            EXAMPLES
              dwell check-config
              dwell check-config --json | jq '.settings[] | select(.source != "default")'
              dwell check-config --example > .env
              dwell check-config --links https://go.example.org
            """)

    @OptionGroup var listenOptions: ListenOptions
    @OptionGroup var settingsOptions: SettingsOptions

    @Flag(help: "Print JSON instead of a table.")
    var json = false

    @Flag(help: "Print an environment file with every default instead, like ENV.example.")
    var example = false

    @Option(help: ArgumentHelp("Check the documents of this host instead: https://host.", valueName: "url"))
    var links: String?

    @Option(
        help: ArgumentHelp(
            "With --links: certificates in PEM to trust too, for a host that is not public yet.", valueName: "file"),
        completion: .file())
    var linksAuthority: String?

    func validate() throws {
        if [json, example, links != nil].filter({ $0 }).count > 1 {
            throw ValidationError("--json, --example and --links cannot be combined.")
        }
        if let links, LinkOrigin(links) == nil {
            throw ValidationError("--links must be an https URL without a path, such as https://go.example.org.")
        }
        if linksAuthority != nil, links == nil { throw ValidationError("--links-authority requires --links.") }
    }

    func run() async throws {
        if example { return print(EnvironmentExample.text, terminator: "") }
        let overrides = settingsOptions.overrides.merging(listenOptions.overrides) { $1 }
        let report = Configuration.report(from: ConfigurationInput(overrides: overrides))
        if let origin = links.flatMap(LinkOrigin.init) { return try await check(origin, report) }
        if json {
            print(try report.json())
        } else {
            print(report.table())
            for warning in report.warnings { writeToStandardError("warning: \(warning)\n") }
            for problem in report.problems { writeToStandardError("\(problem)\n") }
        }
        if !report.problems.isEmpty { throw ExitCode.failure }
    }

    private func check(_ origin: LinkOrigin, _ report: ConfigurationReport) async throws {
        guard let configuration = report.configuration else {
            for problem in report.problems { writeToStandardError("\(problem)\n") }
            throw ExitCode.failure
        }
        let judge = LinkJudge(apps: configuration.links.apps, pages: configuration.links.pages)
        let http = OutgoingHTTP()
        defer { http.close() }
        let findings = await LinkCheck(origin: origin, authorityFile: linksAuthority, judge: judge).run(http)
        for finding in findings { print("\(finding)") }
        if findings.contains(where: { $0.judgement == .failure }) { throw ExitCode.failure }
    }
}
