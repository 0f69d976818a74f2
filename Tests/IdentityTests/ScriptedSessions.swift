// Sign-in sessions that a test revokes, and seeded randomness.

import JourneyModel
import Synchronization

@testable import Identity

final class ScriptedSessions: SignInSessions {
    private let state: Mutex<(live: Set<String>, asked: Int)>

    init(live: Set<String>) { state = Mutex((live, 0)) }

    func revoke(_ sid: String) { _ = state.withLock { $0.live.remove(sid) } }
    var asked: Int { state.withLock { $0.asked } }

    func judge(_ caller: Caller, issuedAt: Double) -> SignInVerdict {
        .needsLookup { [self] () async throws(TokenRefusal) in
            let isLive = state.withLock { state in
                state.asked += 1
                return caller.signInSession.map { state.live.contains($0) } ?? true
            }
            guard isLive else { throw .revoked }
        }
    }
}

/// Sessions that all live until `endsWhileAsked`, known without waiting.
final class AdmittedSessions: SignInSessions {
    /// Of the tokens that `payload` makes with the session `s-1`.
    let caller = Caller(driver: DriverID("driver-1"), signInSession: "s-1")
    private let state = Mutex((asked: 0, revocationEpoch: 0, endsNow: false, isLive: true))

    var asked: Int { state.withLock { $0.asked } }
    var revocationEpoch: Int? { state.withLock { $0.revocationEpoch } }

    /// A session other than the requested ones.
    func somethingEnds() { state.withLock { $0.revocationEpoch += 1 } }

    /// After its answer was made and before it is heard.
    func endsWhileAsked() { state.withLock { $0.endsNow = true } }

    func judge(_ caller: Caller, issuedAt: Double) -> SignInVerdict {
        let isLive = state.withLock { state in
            state.asked += 1
            defer {
                if state.endsNow {
                    state.isLive = false
                    state.revocationEpoch += 1
                }
            }
            return state.isLive
        }
        return isLive ? .admitted : .refused(.revoked)
    }
}
