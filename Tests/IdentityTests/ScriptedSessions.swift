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
