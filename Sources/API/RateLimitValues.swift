// The values of the RateLimit and RateLimit-Policy fields (IETF draft-ietf-httpapi-ratelimit-headers). Each value is a
// structured-field list with one member per limit. A limit that is turned off has no member.

import Engine
import HTTP1
import RateLimiting

enum RateLimitValues {
    /// Returns the policies of the limits in `classes`, for example `"session";q=60;w=60, "presession";q=30;w=60`.
    static func policy(_ limits: RateLimits, for classes: [RateLimitClass] = RateLimitClass.ofEvents) -> String? {
        list(
            classes.compactMap { limitClass in
                let limit = limits.limit(of: limitClass)
                guard limit > 0 else { return nil }
                return "\"\(limitClass.rawValue)\";q=\(limit);w=\(limits.windowSeconds)"
            })
    }

    /// Returns the policy of one limit; nil if it is off.
    static func policy(_ limitClass: RateLimitClass, _ quota: Quota) -> String? {
        quota.limit > 0 ? "\"\(limitClass.rawValue)\";q=\(quota.limit);w=\(quota.windowSeconds)" : nil
    }

    /// Returns the sender's quota after this event, for example `"session";r=59;t=60`. `r` is the number of events that
    /// the sender may still send. `t` is the time until `r` grows, in seconds, rounded up.
    static func rateLimit(_ ingested: Ingested) -> String? {
        ingested.quota.limit > 0 ? member(ingested.limitClass, ingested.quota) : nil
    }

    /// For each limit, returns the sender's quota after the last event of the batch that counts towards this limit.
    static func rateLimit(_ events: [Ingested]) -> String? {
        rateLimit(
            (RateLimitClass.ofEvents + [.serviceEvents]).compactMap { limitClass in
                events.last { $0.limitClass == limitClass }.map { (limitClass, $0.quota) }
            })
    }

    static func rateLimit(_ quotas: [(limitClass: RateLimitClass, quota: Quota)]) -> String? {
        list(
            quotas.compactMap { limitClass, quota in
                guard quota.limit > 0 else { return nil }
                return member(limitClass, quota)
            })
    }

    private static func member(_ limitClass: RateLimitClass, _ quota: Quota) -> String {
        var text = "\""
        text.reserveCapacity(40)
        text += limitClass.rawValue
        text += "\";r="
        text += String(quota.remaining)
        text += ";t="
        text += String(seconds(quota.resetMilliseconds))
        return text
    }

    /// Returns the `Retry-After` value of a refused event or request: whole seconds, rounded up, from 1 to 3600
    /// (contract, section 5).
    static func retryAfterSeconds(_ quota: Quota) -> Int {
        min(max(seconds(quota.resetMilliseconds), 1), 3600)
    }

    private static func seconds(_ milliseconds: Int64) -> Int {
        Int((max(milliseconds, 0) + 999) / 1000)
    }

    private static func list(_ members: [String]) -> String? {
        members.isEmpty ? nil : members.joined(separator: ", ")
    }
}
