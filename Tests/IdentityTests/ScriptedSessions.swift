// Scripted sign-in sessions, which a test revokes.

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

/// Sign-in sessions that need no lookup in the store. All are live until `endsWhileAsked` takes effect.
final class AdmittedSessions: SignInSessions {
    /// The caller of a token that has the claims of `payload` and the session `s-1`.
    let caller = Caller(driver: DriverID("driver-1"), signInSession: "s-1")
    private let state = Mutex((asked: 0, revocationEpoch: 0, endsNow: false, isLive: true))

    var asked: Int { state.withLock { $0.asked } }
    var revocationEpoch: Int? { state.withLock { $0.revocationEpoch } }

    /// Ends a session other than the one under test.
    func somethingEnds() { state.withLock { $0.revocationEpoch += 1 } }

    /// Makes the session end during the next `judge`: after `judge` has determined the result, and before it returns
    /// the result.
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
