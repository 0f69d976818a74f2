// The memory of tokens that were verified: digest of the token to who it is. Bounded, in two generations: what is
// used stays, what is not goes with the older generation, and no single call has more to do than any other. It
// does not know the time; the caller compares the expiry.

import Crypto
import Synchronization

/// SHA-256 of a token's bytes. Tokens themselves are not kept: memory that leaks holds no credentials.
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

    /// Any eight bytes of a SHA-256 are as good as all for a table.
    func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}

struct VerifiedToken: Sendable {
    var caller: Caller
    /// `iat`, in seconds since 1970.
    var issuedAt: Double
    /// `exp`, in seconds since 1970.
    var expiry: Double
}

/// A verified token in memory. An object, so that finding one costs one reference.
final class RememberedToken: Sendable {
    let token: VerifiedToken
    /// The last count of `SignInSessions.endings` before it was admitted; -1 for never.
    private let admittedAt = Atomic<Int>(-1)

    init(_ token: VerifiedToken) {
        self.token = token
    }

    /// Whether it was admitted when so much had ended: then nothing that it depends on has ended since.
    func wasAdmitted(at revocationEpoch: Int) -> Bool {
        admittedAt.load(ordering: .relaxed) == revocationEpoch
    }

    /// `revocationEpoch`: read before it was asked whether it may be used.
    func isAdmitted(at revocationEpoch: Int) {
        admittedAt.store(revocationEpoch, ordering: .relaxed)
    }
}

final class VerifiedTokenCache: Sendable {
    private let tokens: Mutex<TwoGenerationCache<TokenDigest, RememberedToken>>

    /// Remembers between half of `countMax` and `countMax` tokens, the ones used last.
    init(countMax: Int) {
        tokens = Mutex(TwoGenerationCache(countMax: countMax))
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

    /// How many are remembered now.
    var count: Int { tokens.withLock { $0.count } }
}
