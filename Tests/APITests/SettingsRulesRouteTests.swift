// Tests of GET /native/config with rules, and of the settings version in GET /native/session.

import Engine
import HTTP1
import HTTPServer
import JourneyModel
import TestSupport
import Testing

@testable import API

struct SettingsRulesRouteTests {
    private static let file = """
        {
          "flags": {"newMap": false},
          "rules": [
            {"name": "site", "reason": "r", "chargers": ["c 7"], "settings": {"gracePeriodSeconds": 600}},
            {"name": "new-app", "reason": "r", "app_version_min": "7.2", "settings": {"gracePeriodSeconds": 700},
             "flags": {"newMap": true}},
            {"name": "later", "reason": "r", "from": "2026-11-16T20:30:00.500Z",
             "settings": {"gracePeriodSeconds": 800}}
          ]
        }
        """

    private func api(_ file: String? = file) throws -> ScriptedAPI {
        ScriptedAPI(rules: try file.map { try SettingsRules(reading: Array($0.utf8), base: Settings()) })
    }

    private func config(
        _ api: ScriptedAPI, _ query: String = "", _ fields: [(String, String)] = []
    ) async -> Response {
        await api.ask("/native/config" + query, fields: [("Authorization", "Bearer good")] + fields)
    }

    @Test func `without rules the response is as before`() async throws {
        for query in ["", "?charger_id=c-7", "?x=1&x=2"] {
            let response = await config(try api(nil), query, [("X-App-Version", "7.2")])
            #expect(response.status == .ok && response.fields.first("ETag") == "\"v1\"")
            #expect(response.text == String(decoding: Settings().wireJSON, as: UTF8.self))
            #expect(response.fields.first("Vary") == nil)
            #expect(response.fields.first("Cache-Control") == "private, max-age=86400")
        }
    }

    @Test func `charger and app version choose the settings and flags`() async throws {
        let api = try api()
        for (query, fields, grace, newMap) in [
            ("", [], 900, false), ("?charger_id=c%207", [], 600, false),
            ("?charger_id=c%208", [("X-App-Version", "7.2")], 700, true),
            ("?charger_id=c%207", [("X-App-Version", "7.2")], 600, true),
            ("", [("X-App-Version", "7.1.9")], 900, false),
            ("", [("X-App-Version", "7.2-beta")], 900, false),
            ("", [("X-App-Version", "7.2"), ("X-App-Version", "7.2")], 900, false),
        ] as [(String, [(String, String)], Int, Bool)] {
            let response = await config(api, query, fields)
            #expect(response.status == .ok && response.fields.first("Vary") == "X-App-Version")
            #expect(response.text.contains(#""gracePeriodSeconds":\#(grace),"#), "\(query) \(fields): \(response.text)")
            #expect(
                response.text.hasSuffix(#","flags":{"newMap":\#(newMap)}}"#), "\(query) \(fields): \(response.text)")
            let tag = try #require(response.fields.first("ETag"))
            #expect(tag.hasPrefix("\"" + Settings(gracePeriodSeconds: grace).version + "-"))
            let again = await config(api, query, fields + [("If-None-Match", tag)])
            #expect(again.status == .notModified && again.fields.first("ETag") == tag)
            #expect(again.fields.first("Vary") == "X-App-Version")
        }
    }

    @Test(arguments: [#""percent": 10,"#, #""drivers": ["d"],"#])
    func `a rule for some drivers separates the copies of two drivers on one phone`(condition: String) async throws {
        let rule = #"{"name": "a", "reason": "r", \#(condition) "settings": {"gracePeriodSeconds": 600}}"#
        let version = #"{"name": "b", "reason": "r", "app_version_min": "7", "settings": {"gracePeriodSeconds": 700}}"#
        for (rules, vary) in [([rule], "Authorization"), ([rule, version], "Authorization, X-App-Version")] {
            let api = try api(#"{"rules": [\#(rules.joined(separator: ","))]}"#)
            let response = await config(api)
            #expect(response.status == .ok && response.fields.values("Vary") == [vary])
            let tag = try #require(response.fields.first("ETag"))
            let again = await config(api, "", [("If-None-Match", tag)])
            #expect(again.status == .notModified && again.fields.values("Vary") == [vary])
        }
    }

    @Test func `a copy is fresh until the next rule begins, at most a day`() async throws {
        let api = try api()
        #expect(await config(api).fields.first("Cache-Control") == "private, max-age=1801")
        api.clock.advance(byMilliseconds: 1_800_499)
        let last = await config(api)
        #expect(last.fields.first("Cache-Control") == "private, max-age=1" && last.text.contains(":900,"))
        api.clock.advance(byMilliseconds: 1)
        let first = await config(api)
        #expect(first.fields.first("Cache-Control") == "private, max-age=86400" && first.text.contains(":800,"))
    }

    @Test(arguments: [
        "?charger_id=", "?charger_id", "?charger_id=a&charger_id=a", "?charger_id=%ff",
        "?charger_id=" + String(repeating: "x", count: 129),
    ])
    func `a charger that is no id is named in the problem`(query: String) async throws {
        for file in [nil, Self.file] {
            let response = await config(try api(file), query)
            #expect(response.status == .badRequest && response.text.contains(#""pointer":"/charger_id""#))
        }
    }

    @Test func `the session shows the version of the driver's settings at its target charger`() async throws {
        let api = try api()
        for (charger, fields, grace) in [
            (nil, [], 900), ("c 7", [], 600), ("c 8", [("X-App-Version", "8")], 700),
        ] as [(String?, [(String, String)], Int)] {
            api.journeys.stub(Journey(state: .nearCharger, targetChargerID: charger))
            let response = await api.ask("/native/session", fields: [("Authorization", "Bearer good")] + fields)
            let version = Settings(gracePeriodSeconds: grace).version
            #expect(response.text.contains(#""settings_version":"\#(version)""#), "\(response.text)")
        }
    }

    @Test func `the operator sees the rules and their version`() async throws {
        var texts: [String] = []
        for api in [try api(), try api(nil)] {
            let fields = [("Authorization", "Bearer \(ScriptedAPI.operatorToken)")]
            texts.append(await api.ask("/ops/settings", fields: fields).text)
        }
        #expect(texts[0].contains(#""rules":[{"name":"site","reason":"r","chargers":1,"#), "\(texts[0])")
        #expect(texts[0].contains(#""rules_version":""#) && !texts[1].contains("rules"))
    }
}
