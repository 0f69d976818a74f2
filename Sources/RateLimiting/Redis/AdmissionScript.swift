// A Lua script that makes the decision of contract, section 4, with Redis's own clock. This file also encodes the
// script's arguments and parses its reply. The script implements the algorithm of `LocalRateLimiter`; the tests compare
// the two call by call.

enum AdmissionScript {
    /// KEYS: the driver's window, and the idempotency keys of the driver's stored events. Both are sorted sets. The
    /// members are idempotency keys, and the scores are times in milliseconds.
    ///
    /// While the driver's slot moves to another node of a cluster, a node may lack one of the two sets. The node then
    /// rejects a call that names both sets. The call is repeated without the second key.
    ///
    /// ARGV: the limit, the window's length in milliseconds, the idempotency key, the number of the call.
    ///
    /// Returns: the decision (0 admitted, 1 known, 2 refused), the remaining quota, the milliseconds until the reset,
    /// Redis's time, the number of the call.
    ///
    /// The number of the call shows whether a reply belongs to this call.
    ///
    /// A charge made at t leaves the window at t + window. Two special cases:
    /// - After a failover to a machine whose clock is behind, all charges may be more than one window in the future.
    ///   The script deletes such charges, so that clients need not wait until they expire.
    /// - After the limit was lowered or after `charge`, the window may hold more charges than the limit. A new charge
    ///   fits only when the window again holds fewer charges than the limit.
    ///
    /// Every call from Lua takes Redis about a microsecond, so the script makes few calls. Charges are counted and
    /// removed by time only if the oldest has expired or if there are more charges than the limit.
    ///
    /// In all other cases, ZCARD counts the charges. If the window has room, the ZADD of the charge also reports
    /// whether the key was already in the set.
    ///
    /// A Redis without free memory rejects only the first write of a script. The first write should therefore be the
    /// charge: if Redis rejects it, the script ends without a charge.
    ///
    /// Only one write can come before the charge: the deletion of charges in the future.
    static let source = """
        local limit, window, key = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local count = redis.call('ZCARD', KEYS[1])
        local oldest = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
        local since
        local first = oldest
        if oldest and (oldest <= now - window or count > limit) then
          since = string.format('%.0f', now - window)
          count = redis.call('ZCOUNT', KEYS[1], '(' .. since, '+inf')
          local place = math.max(count - limit, 0)
          first = tonumber(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
          oldest = place == 0 and first or tonumber(
            redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', place, 1)[2])
        end
        if first and first - now > window then
          redis.call('DEL', KEYS[1])
          count, oldest = 0, nil
        end
        local verdict
        if KEYS[2] and redis.call('ZSCORE', KEYS[2], key) then
          verdict = 1
        elseif not since and count < limit then
          verdict = 1 - redis.call('ZADD', KEYS[1], 'NX', now, key)
        else
          local charged = redis.call('ZSCORE', KEYS[1], key)
          if charged and tonumber(charged) > now - window then
            verdict = 1
          elseif count >= limit then
            verdict = 2
          else
            verdict = 0
            redis.call('ZADD', KEYS[1], now, key)
            redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', since)
          end
        end
        if verdict == 0 then
          redis.call('PEXPIRE', KEYS[1], ARGV[2])
          count, oldest = count + 1, math.min(oldest or now, now)
        end
        local reset = oldest and math.max(oldest + window - now, 0) or 0
        return {verdict, math.max(limit - count, 0), reset, now, tonumber(ARGV[4])}
        """

    /// Number of words after EVAL <source> or EVALSHA <digest>.
    static let argumentCount = 7

    /// Adds the script's arguments for a claim to the current command.
    ///
    /// - Parameters:
    ///   - number: the call's number. It must be below 2^53, so that Lua represents it exactly.
    ///   - namesStoredKeys: whether to pass the key of the set of stored events. If it is false, the call has one
    ///     argument less, and charges a repeat whose idempotency key is only in that set.
    static func addArguments(
        for claim: AdmissionClaim, number: Int64, limits: RateLimits, namesStoredKeys: Bool = true,
        to commands: inout RedisCommands
    ) {
        commands.add(namesStoredKeys ? "2" : "1")
        commands.add(RedisKeys.window(of: claim))
        if namesStoredKeys { commands.add(RedisKeys.stored(claim)) }
        commands.add(String(limits.limit(of: claim.limitClass)))
        commands.add(String(limits.windowMilliseconds))
        commands.add(claim.idempotencyKey)
        commands.add(String(number))
    }

    /// Returns the command that charges the claim, even beyond the limit. Such commands are rare, so each contains the
    /// source of the script.
    static func forceCharge(_ claim: AdmissionClaim, _ limits: RateLimits) -> RedisCommands {
        RedisCommands(
            "EVAL",
            """
            local time = redis.call('TIME')
            redis.call('ZADD', KEYS[1], 'NX', time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
            if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
            """,
            "1", RedisKeys.window(of: claim), claim.afterwards.idempotencyKey, String(limits.windowMilliseconds))
    }

    /// The maximum number of idempotency keys of stored events that are kept for each driver. A phone repeats far fewer
    /// events.
    private static let storedMax = 1000

    /// Returns the command that keeps the idempotency key of a stored event for `seconds`, and removes expired keys.
    /// Such commands are rare, so each contains the source of the script.
    static func recordStored(_ claim: AdmissionClaim, forSeconds seconds: Int) -> RedisCommands {
        RedisCommands(
            "EVAL",
            """
            local time = redis.call('TIME')
            local now = time[1] * 1000 + math.floor(time[2] / 1000)
            redis.call('ZADD', KEYS[1], now, ARGV[1])
            redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2] * 1000))
            redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
            redis.call('EXPIRE', KEYS[1], ARGV[2])
            """,
            "1", RedisKeys.stored(claim), claim.idempotencyKey, String(seconds), String(storedMax))
    }

    /// Returns the command that adds `times` charges. The window may then hold up to `RateLimits.overdraftMax` charges
    /// beyond its limit. Those charges get times in the future, so that they expire one by one at the permitted rate.
    ///
    /// The script returns the remaining quota after the charges, and the milliseconds until the reset
    /// (`quotaAfterCharge`).
    static func charge(_ claim: AdmissionClaim, times: Int, _ limits: RateLimits) -> RedisCommands {
        RedisCommands(
            "EVAL",
            """
            local limit, window, times = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
            local time = redis.call('TIME')
            local now = time[1] * 1000 + math.floor(time[2] / 1000)
            local since = string.format('%.0f', now - window)
            redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', since)
            local count = redis.call('ZCARD', KEYS[1])
            local at = now
            for number = 0, math.min(times, limit + tonumber(ARGV[4]) - count) - 1 do
              at = now + math.floor(math.max(count + number + 1 - limit, 0) * window / limit)
              redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', at), '\\0' .. number .. '\\0' .. ARGV[5])
            end
            local expiry = at - now + window
            if redis.call('PTTL', KEYS[1]) < expiry then
              redis.call('PEXPIRE', KEYS[1], string.format('%.0f', expiry))
            end
            count = redis.call('ZCARD', KEYS[1])
            local place = math.max(count - limit, 0)
            local oldest = tonumber(redis.call('ZRANGE', KEYS[1], place, place, 'WITHSCORES')[2]) or now
            return {math.max(limit - count, 0), math.max(oldest + window - now, 0)}
            """,
            "1", RedisKeys.window(of: claim), String(limits.limit(of: claim.limitClass)),
            String(limits.windowMilliseconds), String(times), String(RateLimits.overdraftMax), claim.idempotencyKey)
    }

    /// Parses a reply to the command that `charge` returns. Returns nil if the reply is an error, or if the script
    /// cannot have returned it.
    static func quotaAfterCharge(
        _ reply: RedisReply?, _ limitClass: RateLimitClass, _ limits: RateLimits
    ) -> Quota? {
        guard case .array(let elements)? = reply, elements.count == 2, case .integer(let remaining) = elements[0],
            case .integer(let reset) = elements[1]
        else { return nil }
        return quota(remaining: remaining, resetMilliseconds: reset, limitClass, limits)
    }

    struct Answer: Hashable, Sendable {
        var decision: AdmissionDecision
        /// The time of the decision on Redis's clock, in milliseconds since 1970.
        var decidedAt: Int64
    }

    /// Parses a reply of the script. Returns nil if the script cannot have returned this reply to the call `number`.
    static func answer(
        _ reply: RedisReply, to number: Int64, _ limitClass: RateLimitClass, _ limits: RateLimits
    ) -> Answer? {
        guard case .array(let elements) = reply, elements.count == 5, elements[4] == .integer(number),
            case .integer(let verdictNumber) = elements[0], case .integer(let remaining) = elements[1],
            case .integer(let reset) = elements[2], case .integer(let decidedAt) = elements[3],
            let verdict = verdict(verdictNumber)
        else { return nil }
        return quota(remaining: remaining, resetMilliseconds: reset, limitClass, limits).map {
            Answer(decision: AdmissionDecision(verdict: verdict, quota: $0), decidedAt: decidedAt)
        }
    }

    /// The largest `resetMilliseconds` that a script can compute. It results from the longest window, a limit of 1 and
    /// the largest overdraft.
    ///
    /// The bound does not depend on this process's limits, because a process with other limits may have made the
    /// charges.
    private static let resetMillisecondsMax = Int64(RateLimits.overdraftMax + 3) * 366 * 86_400_000

    /// Creates the quota from the numbers in a reply. Returns nil if a script cannot have computed these numbers.
    private static func quota(
        remaining: Int64, resetMilliseconds reset: Int64, _ limitClass: RateLimitClass, _ limits: RateLimits
    ) -> Quota? {
        let limit = limits.limit(of: limitClass)
        guard (0...Int64(max(limit, 0))).contains(remaining), (0...resetMillisecondsMax).contains(reset) else {
            return nil
        }
        return Quota(
            limit: limit, windowSeconds: limits.windowSeconds, remaining: Int(remaining), resetMilliseconds: reset)
    }

    private static func verdict(_ number: Int64) -> AdmissionDecision.Verdict? {
        switch number {
        case 0: .admitted
        case 1: .known
        case 2: .refused
        default: nil
        }
    }
}
