// The variables of access tokens and refresh tokens, and the key that encrypts tokens in the database.

import Secrets

extension Variables {
    static let jwtSecret = Variable<Secret<String>?>.secret(
        "JWT_SECRET", .tokens, allowed: "at least 32 bytes",
        "Signs access tokens with HS256. If neither JWT_SECRET nor JWT_PRIVATE_KEY_FILE is set, the server generates "
            + "a key beside its database, which is not allowed with APP_ENV=production or DATABASE_URL.",
        parse: { $0.utf8.count >= 32 ? Secret($0) : nil })

    static let jwtPrivateKeyFile = Variable<String?>.text(
        "JWT_PRIVATE_KEY_FILE", .tokens, allowed: "the path of a P-256 private key in PEM format",
        "Signs access tokens with ES256 instead of HS256."
    ) { isPath($0) }

    static let jwtIssuer = Variable<String>.text(
        "JWT_ISSUER", .tokens, default: "dwell", allowed: "1 to 256 printable ASCII characters",
        "Required iss of every access token."
    ) { isName($0) }

    static let jwtAudience = Variable<String>.text(
        "JWT_AUDIENCE", .tokens, default: "dwell", allowed: "1 to 256 printable ASCII characters",
        "Required aud of every access token."
    ) { isName($0) }

    static let jwtTrustExternal = Variable<Bool>.boolean(
        "JWT_TRUST_EXTERNAL", .tokens, default: true,
        "Accept tokens without a sign-in session (sid). Such tokens come from `dwell token` and from other services.")

    static let accessTokenTTLSeconds = Variable<Int>.integer(
        "ACCESS_TOKEN_TTL_SECONDS", .tokens, default: 3600, in: 1...2_592_000, "Lifetime of an access token.")

    static let v1AccessTokenTTLSeconds = Variable<Int>.integer(
        "V1_ACCESS_TOKEN_TTL_SECONDS", .tokens, default: 86_400, in: 1...2_592_000,
        "Lifetime of an access token from /v1/auth. Shipped v1 apps cannot renew their token during a visit.")

    static let refreshTokenTTLDays = Variable<Int>.integer(
        "REFRESH_TOKEN_TTL_DAYS", .tokens, default: 60, in: 1...3650,
        "Lifetime of a refresh token. Each use returns a new token.")

    static let legacyTokenTTLDays = Variable<Int>.integer(
        "LEGACY_TOKEN_TTL_DAYS", .tokens, default: 30, in: 1...3650,
        "Lifetime of the single token of /api/auth. The token can be renewed for 30 more days after it expires.")

    static let dataKey = Variable<Secret<[UInt8]>?>.secret(
        "DATA_KEY", .tokens, allowed: "32 bytes, as 64 hexadecimal digits or in base64 (openssl rand -base64 32)",
        "Encrypts Apple's refresh tokens in the database (AES-GCM). Required with APPLE_PRIVATE_KEY_FILE.",
        parse: { DataKey.bytes($0).map { Secret($0) } })

    static let tokens: [any Declaration] = [
        jwtSecret, jwtPrivateKeyFile, jwtIssuer, jwtAudience, jwtTrustExternal, accessTokenTTLSeconds,
        v1AccessTokenTTLSeconds, refreshTokenTTLDays, legacyTokenTTLDays, dataKey,
    ]
}
