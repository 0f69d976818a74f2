// Tests of the phone's copy of the settings. The phone fetches it and confirms it with an ETag. An unusable response
// never replaces it.

import JourneyClient
import JourneyModel
import Testing

struct SettingsFetchTests {
    private let settings = Settings(chargerAnchorRadiusMeters: 42.5, gracePeriodSeconds: 600)

    private func answer(_ json: String, status: Int = 200) -> HTTPExchange.Outcome {
        .answer(status, json, fields: [HTTPExchange.Field("etag", "\"v1\"")])
    }

    private var json: String { String(decoding: settings.wireJSON, as: UTF8.self) }

    @Test("the first request asks without, a later one with the ETag of the copy")
    func request() {
        let first = SettingsFetch.request(copy: nil, accessToken: "abc")
        #expect(first.method == "GET")
        #expect(first.path == "/native/config")
        #expect(first.fields == [HTTPExchange.Field("Authorization", "Bearer abc")])
        let copy = SettingsCopy(settings: settings, etag: "\"v1\"", confirmedAt: .at(0))
        let later = SettingsFetch.request(copy: copy, accessToken: "abc")
        #expect(later.fields.last == HTTPExchange.Field("If-None-Match", "\"v1\""))
        let charger = SettingsFetch.request(copy: nil, accessToken: "abc", chargerID: "c 7/\u{E9}~")
        #expect(charger.path == "/native/config?charger_id=c%207%2F%C3%A9~")
    }

    @Test("flags are read, and values of other types are left out")
    func flags() {
        let body = json.dropLast() + #","flags":{"newMap":true,"banner":"Hi","x":1,"y":null}}"#
        let result = SettingsFetch.result(of: answer(String(body)), copy: nil, at: .at(0))
        guard case .current(let copy) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(copy.flags == ["newMap": .bool(true), "banner": .text("Hi")] && copy.settings == settings)
    }

    @Test("a copy is good for max-age, at most a day")
    func maxAge() {
        for (field, seconds) in [
            ("private, max-age=1801", 1801), ("max-age=0", 0), ("private, max-age=90000", 86_400), ("private", 86_400),
            ("max-age=x", 86_400),
        ] {
            let outcome = HTTPExchange.Outcome.answer(200, json, fields: [HTTPExchange.Field("cache-control", field)])
            guard case .current(let copy) = SettingsFetch.result(of: outcome, copy: nil, at: .at(0)) else {
                Issue.record("\(field)")
                continue
            }
            #expect(copy.freshSeconds == seconds && copy.isStale(at: .at(Double(seconds))), "\(field)")
            #expect(seconds == 0 || !copy.isStale(at: .at(Double(seconds - 1))), "\(field)")
        }
    }

    @Test("200 is a new copy, 304 the old one confirmed")
    func current() {
        let fetched = SettingsCopy(settings: settings, etag: "\"v1\"", confirmedAt: .at(10))
        #expect(SettingsFetch.result(of: answer(json), copy: nil, at: .at(10)) == .current(fetched))
        var confirmed = fetched
        confirmed.confirmedAt = .at(500)
        #expect(SettingsFetch.result(of: answer("", status: 304), copy: fetched, at: .at(500)) == .current(confirmed))
        #expect(SettingsFetch.result(of: answer("", status: 304), copy: nil, at: .at(500)) == .unavailable)
    }

    @Test("401, or 403 by this server, asks for a token; every other answer leaves the copy in force")
    func others() {
        for outcome in [HTTPExchange.Outcome.problem(.unauthorized), .problem(.forbidden), .answer(401, "<html>")] {
            #expect(SettingsFetch.result(of: outcome, copy: nil, at: .at(0)) == .refreshToken)
        }
        for outcome in [
            HTTPExchange.Outcome.noResponse, .problem(.rateLimited), .answer(502, "<html>"), .answer(403, "<html>"),
            .answer(403, "{}"), .answer(302),
        ] {
            #expect(SettingsFetch.result(of: outcome, copy: nil, at: .at(0)) == .unavailable)
        }
    }

    @Test("settings that are missing a member, out of range or at odds with each other are refused")
    func unusable() {
        let broken = [
            ("\"chargerDwellSeconds\":120", "\"x\":1"), (":120", ":\"120\""), (":120", ":0"), (":120", ":601"),
            (":120", ":1.5"), (":400", ":-1"), (":400", ":1e9999"), (":400", ":42"), (":600", ":3601"),
            (":3600", ":599"),
        ]
        for (old, new) in broken {
            let result = SettingsFetch.result(of: answer(json.replacing(old, with: new)), copy: nil, at: .at(0))
            #expect(result == .unavailable, "\(old) as \(new)")
        }
    }

    @Test("a copy is good for a day, and no good when the clock was set back before it")
    func stale() {
        let copy = SettingsCopy(settings: settings, etag: nil, confirmedAt: .at(0))
        #expect(!copy.isStale(at: .at(86_399)))
        #expect(copy.isStale(at: .at(86_400)))
        #expect(copy.isStale(at: .at(-1)))
    }
}
