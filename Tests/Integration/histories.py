"""Histories of one driver's requests, and the check that a history is linearizable. In such a history, every answer is
right for at least one order of the requests. In this order, each request takes effect at one moment between its begin
and its end.

The model is the contract's fold: the state does not depend on the order in which the events arrived.

The model knows only the events before a session, because these have no deadlines. The events' times are distinct."""

import collections
import itertools
import math

# The transitions of the contract, section 1, for these events.
TRANSITIONS = {
    ("IDLE", "enteredChargerIntentZone"): "NEAR_CHARGER",
    ("NEAR_CHARGER", "exitedChargerIntentZone"): "IDLE",
    ("NEAR_CHARGER", "anchorDwellComplete"): "ANCHORED",
    ("ANCHORED", "exitedChargerAnchorZone"): "NEAR_CHARGER",
    ("ANCHORED", "exitedChargerIntentZone"): "IDLE",
}
NAMES = sorted({name for _, name in TRANSITIONS})

# An attempt to post an event, or to read the state. `event` is the index of the event in the driver's list, or None for
# a read. If there was no answer, `end` is infinite, and `state` and `transition` are None.
Attempt = collections.namedtuple("Attempt", "begin end event state transition is_repeat", defaults=(False,))


def fold(names, stored):
    """Returns the state, and the transition of each event as a dictionary, after the events of the bit set `stored`.
    Bit 0 is the event that is first in time."""
    state, verdicts = "IDLE", {}
    for index, name in enumerate(names):
        if stored >> index & 1:
            after = TRANSITIONS.get((state, name))
            state, verdicts[index] = after or state, "applied" if after else "rejected"
    return state, verdicts


class Model:
    """The fold of one driver's events, remembered for each set of stored events."""

    def __init__(self, names):
        self.names = names
        self.known = {}

    def __call__(self, stored):
        if stored not in self.known:
            self.known[stored] = fold(self.names, stored)
        return self.known[stored]


def is_linearizable(names, attempts):
    """`names` are those of the driver's events in the order of their times.

    An event takes effect at most once, and not before its first attempt begins. An attempt without an answer may take
    effect later, or never.

    An answered attempt sees its own event stored. Its answer says that it is a repeat if and only if an earlier attempt
    stored the event."""
    model = Model(names)
    attempts = sorted(needed(attempts), key=lambda attempt: attempt.begin)
    answered = sum(1 << index for index, attempt in enumerate(attempts) if attempt.end != math.inf)
    # A state of the search: the attempts that have taken effect, and the events that are stored.
    seen, open_states = set(), [(0, 0)]
    while open_states:
        done, stored = open_states.pop()
        done = without_effect(attempts, done, stored, model)
        if done & answered == answered:
            return True
        for index in possible(attempts, done):
            after = effect(attempts[index], stored, model)
            if after is not None and after != stored and (done | 1 << index, after) not in seen:
                seen.add((done | 1 << index, after))
                open_states.append((done | 1 << index, after))
    return False


def needed(attempts):
    """Returns the attempts without the redundant ones. Of the unanswered attempts of an event, only the first matters,
    because it may take effect whenever a later one may."""
    first = {}
    for attempt in attempts:
        if attempt.end == math.inf and attempt.begin < first.get(attempt.event, math.inf):
            first[attempt.event] = attempt.begin
    return [attempt for attempt in attempts if attempt.end != math.inf or attempt.begin == first[attempt.event]]


def possible(attempts, done):
    """Returns the indexes of the attempts that may take effect next. The candidates are all attempts that have not
    taken effect. A candidate may be next if it begins before the first of the candidates has ended."""
    first_end = min((attempt.end for index, attempt in enumerate(attempts) if not done >> index & 1), default=None)
    return [
        index for index, attempt in enumerate(attempts) if not done >> index & 1 and attempt.begin <= first_end]


def without_effect(attempts, done, stored, model):
    """Returns `done` together with those reads and repeats whose answers agree with `stored`. They do not change
    `stored`, so if any order explains the remaining attempts, an order that begins with them does too. The search need
    not try another one."""
    while True:
        more = sum(
            1 << index for index in possible(attempts, done)
            if attempts[index].end != math.inf and effect(attempts[index], stored, model) == stored)
        if not more:
            return done
        done |= more


def effect(attempt, stored, model):
    """Returns the events that are stored after the attempt took effect; None if it cannot take effect now."""
    after = stored if attempt.event is None else stored | 1 << attempt.event
    if attempt.end == math.inf:
        return after
    if attempt.event is not None and attempt.is_repeat != (after == stored):
        return None
    state, verdicts = model(after)
    if attempt.state != state or attempt.event is not None and attempt.transition != verdicts[attempt.event]:
        return None
    return after


def is_linearizable_by_trying(names, attempts):
    """Makes the same check by trying every order, for a few attempts only. Follows the definition directly, so that the
    search can be compared with it."""
    model = Model(names)

    def explains(order):
        stored = 0
        for position, attempt in enumerate(order):
            if any(later.end < attempt.begin for later in order[position + 1:]):
                return False
            stored = effect(attempt, stored, model)
            if stored is None:
                return False
        return True

    answered = [attempt for attempt in attempts if attempt.end != math.inf]
    unanswered = [attempt for attempt in attempts if attempt.end == math.inf]
    return any(
        explains(order) for count in range(len(unanswered) + 1)
        for some in itertools.combinations(unanswered, count) for order in itertools.permutations(answered + list(some)))


def random_history(chance):
    """Returns the names and attempts of a short history. A correct server would produce this history, but one answer or
    the time of one attempt may have been changed."""
    names = [chance.choice(NAMES) for _ in range(3)]
    model, stored, attempts = Model(names), 0, []
    for moment in range(chance.randint(2, 5)):
        event = chance.choice([None, 0, 1, 2])
        begin, end = moment - chance.random() * 2, moment + chance.random() * 2
        was_stored = event is not None and stored >> event & 1
        if chance.random() < 0.25 and event is not None:
            stored |= chance.getrandbits(1) << event
            attempts.append(Attempt(begin, math.inf, event, None, None))
            continue
        stored |= 0 if event is None else 1 << event
        state, verdicts = model(stored)
        attempts.append(Attempt(begin, end, event, state, verdicts.get(event), bool(was_stored)))
    if chance.random() < 0.6:
        changed = chance.randrange(len(attempts))
        if attempts[changed].end != math.inf:
            attempts[changed] = attempts[changed]._replace(**chance.choice([
                {"state": chance.choice(["IDLE", "NEAR_CHARGER", "ANCHORED"])}, {"is_repeat": chance.random() < 0.5},
                {"begin": attempts[changed].begin + 2, "end": attempts[changed].end + 2}]))
    return names, attempts
