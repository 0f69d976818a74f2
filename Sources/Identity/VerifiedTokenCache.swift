// A cache that maps the digest of each verified token to the token's claims. TwoGenerationCache limits the number of
// tokens, and keeps those that were used recently. The cache has no clock, so the caller checks the expiry.

import Caching
import Crypto
import Synchronization

/// SHA-256 of a token's bytes. Tokens themselves are not stored, so that leaked memory contains no credentials.
struct TokenDigest: Hashable, Sendable {
    private let words: (UInt64, UInt64, UInt64, UInt64)

    init(of token: UnsafeRawBufferPointer) {
        let digest = SHA256.hash(data: token)
        words = digest.withUnsafeBytes { bytes in
            (
                bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
                bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self)
            )
        }
    }

    init(of token: String) {
        var token = token
        self = token.withUTF8 { TokenDigest(of: UnsafeRawBufferPointer($0)) }
    }

    static func == (one: TokenDigest, other: TokenDigest) -> Bool { one.words == other.words }

    /// Eight bytes of a SHA-256 suffice for a hash table.
    func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}

struct VerifiedToken: Sendable {
    var caller: Caller
    /// `iat`, in seconds since 1970.
    var issuedAt: Double
    /// `exp`, in seconds since 1970.
    var expiry: Double
}

/// A cached token. It is a class, so that a look-up only retains an object and copies nothing else.
final class RememberedToken: Sendable {
    let token: VerifiedToken
    /// The revocation epoch (`SignInSessions.revocationEpoch`) that was read before the last successful check of the
    /// token's sign-in session. -1 if no check succeeded.
    private let admittedAt = Atomic<Int>(-1)

    init(_ token: VerifiedToken) {
        self.token = token
    }

    /// Returns whether the token's session passed a check in this epoch. A check is valid for one epoch, because a new
    /// epoch begins at every revocation that this process applies.
    func wasAdmitted(at revocationEpoch: Int) -> Bool {
        admittedAt.load(ordering: .relaxed) == revocationEpoch
    }

    /// Records that the token passed the check of its session. `revocationEpoch` is the epoch that was read before the
    /// check.
    func isAdmitted(at revocationEpoch: Int) {
        admittedAt.store(revocationEpoch, ordering: .relaxed)
    }
}

final class VerifiedTokenCache: Sendable {
    private let tokens: Mutex<TwoGenerationCache<TokenDigest, RememberedToken>>

    /// Creates a cache of at most `countMax` tokens. It always keeps the `countMax / 2` most recently used tokens.
    init(countMax: Int) {
        tokens = Mutex(TwoGenerationCache(generationCountMax: countMax / 2))
    }

    func find(_ digest: TokenDigest) -> RememberedToken? {
        tokens.withLock { $0.find(digest) }
    }

    func remember(_ digest: TokenDigest, _ token: VerifiedToken) {
        let remembered = RememberedToken(token)
        tokens.withLock { $0.insert(remembered, for: digest) }
    }

    func forget(_ digest: TokenDigest) {
        tokens.withLock { $0.remove(digest) }
    }

    var count: Int { tokens.withLock { $0.count } }
}
