// Tests of the routes for signing in, accounts and devices.

import HTTP1
import HTTPServer
import Identity
import JourneyModel
import PrometheusExport
import StructuredLogging
import Synchronization
import Testing

@testable import API

@Suite struct AccountRouteTests {
    let api = ScriptedAPI(limits: .off)

    // MARK: Bodies

    @Test(arguments: [
        ("POST", "/auth/apple", "{}", "/identity_token /nonce"),
        (
            "POST", "/auth/apple", #"{"identity_token":1,"nonce":"","email":[],"name":{},"role":true}"#,
            "/identity_token /nonce /name /email /role"
        ),
        (
            "POST", "/auth/apple", #"{"identity_token":"good","nonce":null,"authorization_code":7}"#,
            "/nonce /authorization_code"
        ),
        ("POST", "/auth/otp/start", "{}", "/phone"),
        ("POST", "/auth/otp/start", #"{"phone":4915112345678}"#, "/phone"),
        ("POST", "/auth/otp/start", #"{"phone":"0151 1234567"}"#, "/phone"),
        ("POST", "/auth/otp/start", #"{"phone":"+49151123456789012"}"#, "/phone"),
        ("POST", "/auth/otp/verify", "{}", "/phone /code"),
        ("POST", "/auth/otp/verify", #"{"phone":"x","code":"12345"}"#, "/phone /code"),
        ("POST", "/auth/otp/verify", #"{"phone":"+491511234567","code":123456}"#, "/code"),
        ("POST", "/auth/otp/verify", "{\"phone\":\"+491511234567\",\"code\":\"١٢٣٤٥٦\"}", "/code"),
        ("POST", "/auth/refresh", "{}", "/refresh_token"),
        ("POST", "/auth/refresh", #"{"refresh_token":null}"#, "/refresh_token"),
        ("POST", "/auth/refresh", "[]", ""),
        ("POST", "/auth/logout", #"{"refresh_token":1}"#, "/refresh_token"),
        ("POST", "/auth/logout?all=yes", "", "/all"),
        ("POST", "/auth/logout?all=true&all=true", "", "/all"),
        ("PATCH", "/auth/me", #"{"name":1,"email":false}"#, "/name /email"),
        ("PUT", "/auth/me", #"{"name":1,"email":false}"#, "/name /email"),
        ("PUT", "/auth/me", "[]", ""),
        ("PUT", "/api/drivers/profile", #"{"name":1,"email":false}"#, "/name /email"),
        ("POST", "/v1/auth/otp/start", "{}", "/phone"),
        ("POST", "/v1/auth/otp/verify", "{}", "/phone /code"),
        ("POST", "/v1/auth/refresh", "{}", "/refresh_token"),
        ("POST", "/api/auth/send-code", #"{"phoneNumber":"x"}"#, "/phoneNumber"),
        ("POST", "/api/auth/send-code", #"{"phone":"x"}"#, "/phone"),
        ("POST", "/api/auth/send-code", "{}", "/phoneNumber"),
        ("POST", "/api/auth/verify-code", #"{"phoneNumber":null}"#, "/phoneNumber /code"),
        ("POST", "/api/auth/verify-code", #"{"phoneNumber":7,"code":"1"}"#, "/phoneNumber /code"),
        ("POST", "/api/push/register-token", "{}", "/token"),
        (
            "POST", "/api/push/register-token", #"{"token":"a b","platform":"i OS","environment":"live"}"#,
            "/token /platform /environment"
        ),
        ("DELETE", "/auth/me", "", "/confirm"),
        ("DELETE", "/auth/me", "{}", "/confirm"),
        ("DELETE", "/auth/me", #"{"confirm":"true"}"#, "/confirm"),
        ("DELETE", "/auth/me", #"{"confirm":false}"#, "/confirm"),
        ("PUT", "/native/devices/t", "{}", "/platform /environment"),
        (
            "PUT", "/native/devices/t", #"{"platform":"i OS","environment":"live","app_version":""}"#,
            "/platform /environment /app_version"
        ),
        ("PUT", "/native/devices/a b", "{}", "/token"),
        (
            "PUT", "/native/devices/t",
            #"{"platform":"ios","environment":"sandbox","locale":"d","notifications":[],"live_activity_token":"xy"}"#,
            "/locale /notifications /live_activity_token"
        ),
        (
            "PUT", "/native/devices/t",
            #"{"platform":"android","environment":"sandbox","notifications":{"quiet":1}}"#, "/notifications/quiet"
        ),
        ("POST", "/apple/notifications", "{}", "/payload"),
    ])
    func everythingWrongIsToldAtOnce(method: String, target: String, body: String, pointers: String) async {
        let answer = await api.send(method, target, body)
        #expect(answer.status == .badRequest)
        #expect(answer.text.contains(#""code":"validation_failed""#))
        let told = answer.text.matches(of: /"pointer":"([^"]*)"/).map { String($0.1) }
        #expect(told == pointers.split(separator: " ", omittingEmptySubsequences: false).map(String.init))
        #expect(api.signIn.asked.isEmpty)
    }

    @Test func brokenJSONAndOtherMediaTypesAreRefused() async {
        #expect(await api.send("POST", "/auth/refresh", "{").text.contains("malformed_json"))
        #expect(await api.send("POST", "/auth/refresh", "{}", type: "text/plain").status == .unsupportedMediaType)
        #expect(await api.send("POST", "/auth/refresh", "", type: nil).status == .unsupportedMediaType)
    }

    // MARK: Data passed to the services

    @Test func appleGetsTheCodeAndTheProfile() async {
        let answer = await api.send(
            "POST", "/auth/apple",
            #"{"identity_token":"good","nonce":"n","authorization_code":"c","name":"Ada","email":null,"x":1}"#)
        #expect(answer.status == .ok)
        #expect(
            answer.text
                == #"{"access_token":"access","refresh_token":"refresh","token_type":"bearer","expires_in":3600,"#
                + #""user":{"id":"driver","name":"Ada","email":null,"phone":"+491511234567","role":"driver"}}"#)
        #expect(api.signIn.asked == ["apple subject c Ada"])
    }

    @Test func aRefusedIdentityTokenIsAuditedAndNotTold() async {
        let answer = await api.send("POST", "/auth/apple", #"{"identity_token":"x","nonce":"n"}"#)
        #expect(answer.status == .unauthorized)
        #expect(!answer.text.contains("ignature"))
        #expect(api.signIn.asked == ["refused wrong_signature"])
    }

    @Test func aV1AppSignsInAndRenewsAsOne() async {
        let code = #"{"phone":"+491511234567","code":"123456"}"#
        #expect(
            await api.send("POST", "/v1/auth/otp/start", #"{"phone":"+491511234567"}"#).text == #"{"otp_sent":true}"#)
        #expect(await api.send("POST", "/v1/auth/otp/verify", code).text.hasPrefix(#"{"access_token":"access""#))
        #expect(await api.send("POST", "/v1/auth/refresh", #"{"refresh_token":"good"}"#).status == .ok)
        #expect(await api.send("POST", "/auth/otp/verify", code).status == .ok)
        #expect(
            api.signIn.asked == [
                "send +491511234567 192.0.2.1", "verify +491511234567 v1", "refresh v1", "verify +491511234567",
            ])
    }

    @Test(arguments: ["phone", "phoneNumber"]) func aSingleTokenIsHadForACode(member: String) async {
        let user =
            #""user":{"id":"driver","name":"Ada","email":null,"phoneNumber":"+491511234567","role":"driver"}"#
        let sent = await api.send("POST", "/api/auth/send-code", #"{"\#(member)":"+491511234567"}"#)
        #expect(sent.text == #"{"success":true,"otp_sent":true}"#)
        let verified = await api.send(
            "POST", "/api/auth/verify-code", #"{"\#(member)":"+491511234567","code":"123456"}"#)
        #expect(verified.text == #"{"success":true,"token":"single",\#(user)}"#)
        let refused = await api.send(
            "POST", "/api/auth/verify-code", #"{"\#(member)":"+491511234567","code":"000000"}"#)
        #expect(refused.status == .unauthorized && refused.text.contains(#""success":false"#))
        for method in ["GET", "PUT"] {
            let profile = await api.send(method, "/api/drivers/profile", #"{"name":"Ada","vehicle":{"make":"x"}}"#)
            #expect(profile.text == #"{"success":true,\#(user)}"#)
        }
        #expect(
            api.signIn.asked.suffix(2) == [
                "user", "change \(ProfileChange.Member.set("Ada")) \(ProfileChange.Member.keep)",
            ])
    }

    @Test func putReplacesTheProfileAndPatchDoesNot() async {
        let (ada, none) = (ProfileChange.Member.set("Ada"), ProfileChange.Member.set(nil))
        _ = await api.send("PATCH", "/auth/me", #"{"name":"Ada"}"#)
        _ = await api.send("PUT", "/auth/me", #"{"name":"Ada"}"#)
        _ = await api.send("PUT", "/auth/me", "{}")
        #expect(
            api.signIn.asked == [
                "change \(ada) \(ProfileChange.Member.keep)", "change \(ada) \(none)", "change \(none) \(none)",
            ])
    }

    @Test func aPushTokenInTheBodyIsADevice() async {
        let answer = await api.send(
            "POST", "/api/push/register-token", #"{"token":"abc:1","platform":"iOS","deviceId":"x"}"#)
        #expect(answer.status == .ok && answer.text == #"{"success":true}"#)
        _ = await api.send("POST", "/api/push/register-token", #"{"token":"t","app_version":"2"}"#)
        #expect(api.signIn.asked == ["put abc:1 ios -", "put t ios 2"])
    }

    @Test(
        arguments: [
            "/native/background-ping", "/v1/native/background-ping", "/v1/charging-sessions/background-ping",
        ])
    func aBackgroundPingIsCountedWhateverItSays(path: String) async {
        for body in [#"{"lat":52.5,"lng":13.4}"#, "", "no JSON"] {
            #expect(await api.send("POST", path, body).status == .noContent)
        }
        #expect(await api.send("POST", path, "", token: "bad").status == .unauthorized)
        #expect(api.metrics.text().contains("dwell_background_pings_total 3"))
    }

    @Test(arguments: ["/auth/apple", "/api/auth/apple"]) func noKeySetIs503(path: String) async {
        let answer = await api.send("POST", path, #"{"identity_token":"unknown","nonce":"n"}"#)
        #expect(answer.status == .serviceUnavailable && answer.fields.first("Retry-After") == "7")
        #expect(answer.text.contains("upstream_unavailable"))
    }

    @Test func aCodeIsSentToWhateverNumber() async {
        let answer = await api.send("POST", "/auth/otp/start", #"{"phone":"0049 151-1234567"}"#)
        #expect(answer.text == #"{"otp_sent":true}"#)
        #expect(api.signIn.asked == ["send 0049 151-1234567 192.0.2.1"])
    }

    @Test func signingOut() async {
        #expect(await api.send("POST", "/auth/logout", "", type: nil).status == .noContent)
        #expect(await api.send("POST", "/auth/logout?all=true", "", type: nil).status == .noContent)
        #expect(await api.send("POST", "/auth/logout?all=false", #"{"refresh_token":"r"}"#).status == .noContent)
        #expect(api.signIn.asked == ["sign out -", "sign out everywhere", "sign out r"])
    }

    @Test func absentKeepsAndNullTakesAway() async {
        _ = await api.send("PATCH", "/auth/me", #"{"name":null}"#)
        _ = await api.send("PATCH", "/auth/me", #"{"email":"a@b"}"#)
        #expect(
            api.signIn.asked == [
                "change \(ProfileChange.Member.set(nil)) \(ProfileChange.Member.keep)",
                "change \(ProfileChange.Member.keep) \(ProfileChange.Member.set("a@b"))",
            ])
    }

    @Test func sessionsSayWhichOneIsTheCallers() async {
        let answer = await api.send("GET", "/auth/sessions", "", type: nil)
        #expect(
            answer.text
                == #"{"sessions":[{"id":"sid_1","method":"otp","client_name":null,"#
                + #""created_at":"2027-01-15T08:00:00.000Z","last_used_at":"2027-01-15T08:00:00.001Z","current":false}]}"#
        )
        #expect(await api.send("DELETE", "/auth/sessions/sid_9", "", type: nil).status == .noContent)
        #expect(api.signIn.asked == ["sessions", "end sid_9"])
    }

    @Test func deletionAnswersWithAReceipt() async {
        let answer = await api.send("DELETE", "/auth/me", #"{"confirm":true}"#)
        #expect(
            answer.text == #"{"deleted":true,"receipt":"rcp_1","deleted_at":"2027-01-15T08:00:00.000Z"}"#)
        #expect(api.signIn.asked == ["erase driver"])
    }

    @Test func devicesAreNewOrNot() async {
        let body = #"{"platform":"ios","environment":"production","app_version":"1.2"}"#
        #expect(await api.send("PUT", "/native/devices/a:b_c-d.e", body).status == .created)
        api.signIn.stub(deviceIsNew: false)
        let again = await api.send("PUT", "/native/devices/t", #"{"platform":"ios","environment":"sandbox"}"#)
        #expect(again.status == .ok && again.text.contains(#""app_version":null"#))
        #expect(await api.send("DELETE", "/native/devices/t", "", type: nil).status == .noContent)
        #expect(api.signIn.asked == ["put a:b_c-d.e ios 1.2", "put t ios -", "remove t"])
    }

    @Test func aDeviceHasALanguageAndPreferences() async {
        let defaults =
            #""notifications":{"quiet":false,"session_active":true,"at_merchant":true,"#
            + #""grace_ending":true,"session_expired":true}"#
        let plain = await api.send("PUT", "/native/devices/t", #"{"platform":"ios","environment":"sandbox"}"#)
        #expect(plain.text.contains(#""locale":null,\#(defaults),"live_activity":false"#))
        let chosen = await api.send(
            "PUT", "/native/devices/t",
            #"{"platform":"ios","environment":"sandbox","locale":"de-AT","live_activity_token":"aB01","#
                + #""notifications":{"quiet":true,"at_merchant":false,"more":1}}"#)
        #expect(chosen.status == .created && !chosen.text.contains("aB01"))
        #expect(chosen.text.contains(#""locale":"de-AT""#) && chosen.text.contains(#""live_activity":true"#))
        #expect(
            chosen.text.contains(#"{"quiet":true,"session_active":true,"at_merchant":false,"grace_ending":true,"#))
    }

    @Test func theExportIsADocument() async {
        let answer = await api.send("GET", "/auth/me/export", "", type: nil)
        #expect(answer.text == #"{"driver":{}}"# && answer.fields.first("Content-Type") == "application/json")
    }

    @Test func aLongExportIsChargedAsReadsByItsLength() async throws {
        let api = ScriptedAPI()
        api.signIn.exportPieces.store(5, ordering: .relaxed)
        let answer = await api.send("GET", "/auth/me/export", "", type: nil)
        guard case .stream(let produce) = answer.body else {
            Issue.record("not streamed")
            return
        }
        try await produce(Discarding())
        // The export has four pieces of 256 KiB and one shorter piece. Each full 64 KiB costs one read, so the export
        // costs 16 reads. The request below costs one read, so 583 of 600 are left.
        let read = await api.send("GET", "/native/session", "", type: nil)
        #expect(read.fields.first("RateLimit")?.hasPrefix("\"reads\";r=583;") == true)
    }

    private struct Discarding: ResponseBodyWriter {
        func write(_ bytes: [UInt8]) async throws {}

        func whenClientEndsSending(_ body: @escaping @Sendable () -> Void) {}
    }

    // MARK: Failures of the services

    @Test(arguments: [
        (AccountFailure.unauthorized, 401, "unauthorized"), (.limited(retryAfterSeconds: 9000), 429, "rate_limited"),
        (.limited(retryAfterSeconds: 12), 429, "rate_limited"),
        (.exportUnderWay(retryAfterSeconds: 10), 429, "rate_limited"), (.notFound, 404, "not_found"),
        (.invalid([FieldError(pointer: "/email", detail: "is odd")]), 400, "validation_failed"),
        (.unavailable("disk full"), 503, "store_unavailable"), (.unknown("disk gone"), 500, "internal_error"),
    ])
    func everyFailureHasItsProblem(failure: AccountFailure, status: Int, code: String) async {
        api.signIn.fail(with: failure)
        for (method, path, body) in [
            ("POST", "/auth/otp/start", #"{"phone":"+491511234567"}"#),
            ("POST", "/auth/refresh", #"{"refresh_token":"good"}"#),
            ("PATCH", "/auth/me", "{}"), ("DELETE", "/auth/me", #"{"confirm":true}"#),
            ("DELETE", "/auth/sessions/x", ""), ("GET", "/auth/me/export", ""),
            ("POST", "/api/auth/apple", #"{"identity_token":"good","nonce":"n"}"#),
            ("PUT", "/native/devices/t", #"{"platform":"ios","environment":"production"}"#),
        ] {
            let answer = await api.send(method, path, body)
            #expect(answer.status.code == status && answer.text.contains("\"code\":\"\(code)\""), "\(method) \(path)")
            #expect(!answer.text.contains("disk"))
            #expect(answer.fields.first("WWW-Authenticate") == (status == 401 ? "Bearer realm=\"dwell\"" : nil))
            if case .limited(let seconds) = failure {
                #expect(answer.fields.first("Retry-After") == String(min(seconds, 3600)))
            }
        }
    }

    @Test func readingNeverSaysThatSomethingMayBeDone() async {
        api.signIn.fail(with: .unknown("disk gone"))
        for path in ["/auth/me", "/auth/sessions", "/api/auth/me"] {
            #expect(await api.send("GET", path, "", type: nil).status == .serviceUnavailable)
        }
    }

    @Test func everyRefusedCredentialHasOneAnswer() async {
        let bad = [
            ("/auth/apple", #"{"identity_token":"x","nonce":"n"}"#), ("/auth/refresh", #"{"refresh_token":"x"}"#),
            ("/auth/refresh", #"{"refresh_token":""}"#),
            ("/auth/otp/verify", #"{"phone":"+491511234567","code":"000000"}"#),
            ("/apple/notifications", #"{"payload":"x"}"#),
        ]
        var texts: Set<String> = []
        for (path, body) in bad { texts.insert(await api.send("POST", path, body).text) }
        #expect(texts.count == 1)
    }

    // MARK: Shipped clients

    @Test func theFormsOfShippedClients() async {
        let user = #""user":{"id":"driver","name":"Ada","email":null,"phoneNumber":"+491511234567","role":"driver"}"#
        let signedIn = await api.send(
            "POST", "/api/auth/apple",
            #"{"identity_token":"good","nonce":"n","userIdentifier":"somebody","email":"","name":"","role":"driver"}"#)
        #expect(signedIn.text == #"{"success":true,"token":"single","# + user + "}")
        #expect(
            await api.send("POST", "/api/auth/refresh", "", type: nil).text == #"{"success":true,"token":"single"}"#)
        #expect(await api.send("POST", "/api/auth/validate", "", type: nil).text == #"{"success":true,"# + user + "}")
        #expect(await api.send("GET", "/api/auth/me", "", type: nil).text == #"{"success":true,"# + user + "}")
        #expect(
            await api.send("DELETE", "/api/auth/me", "", type: nil).text
                == #"{"success":true,"deleted":true,"receipt":"rcp_1","deleted_at":"2027-01-15T08:00:00.000Z"}"#)
    }

    @Test func aUserIdentifierSignsNobodyIn() async {
        let answer = await api.send(
            "POST", "/api/auth/apple", #"{"userIdentifier":"somebody","email":"a@b","identity_token":"x","nonce":"n"}"#)
        #expect(answer.status == .unauthorized && answer.text.hasPrefix(#"{"success":false,"#))
        let without = await api.send("POST", "/api/auth/apple", #"{"userIdentifier":"somebody"}"#)
        #expect(without.status == .badRequest && without.text.hasPrefix(#"{"success":false,"#))
    }

    // MARK: A server that sends no codes

    @Test(
        arguments: ["/auth/otp/start", "/v1/auth/otp/start", "/api/auth/send-code"],
        [#"{"phone":"+491511234567"}"#, "{}", "{"])
    func withoutDeliveryNoCodeIsAskedFor(path: String, body: String) async {
        let quiet = ScriptedAPI(limits: .off, sendsCodes: false)
        let answer = await quiet.send("POST", path, body)
        #expect(answer.status == .notFound && quiet.signIn.asked.isEmpty)
    }
}
