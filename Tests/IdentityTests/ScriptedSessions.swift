// Sign-in sessions that a test revokes, and seeded randomness.

import JourneyModel
import Synchronization

@testable import Identity

final class ScriptedSessions: SignInSessions {
    private let state: Mutex<(live: Set<String>, asked: Int)>

    init(live: Set<String>) { state = Mutex((live, 0)) }

    func revoke(_ sid: String) { _ = state.withLock { $0.live.remove(sid) } }
    var asked: Int { state.withLock { $0.asked } }

    func admit(_ caller: Caller, issuedAt: Double) async throws(TokenRefusal) {
        let isLive = state.withLock { state in
            state.asked += 1
            return caller.signInSession.map { state.live.contains($0) } ?? true
        }
        guard isLive else { throw .revoked }
    }
}

/// SplitMix64.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}
