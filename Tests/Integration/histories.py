"""Checks whether a history of one driver's requests is linearizable. A history is linearizable if some order of the
requests explains all answers. In this order, each request takes effect between its begin and its end.

The model folds the events in the order of their times, as the contract does. The order of their arrival does not affect
the state.

The model has only events that occur before a session, because no state before a session has a deadline. No two events
may have the same time."""

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

# An attempt to post an event, or to read the state. `event` is the event's index in the driver's list, or None for a
# read. An attempt without an answer has an infinite `end`, and its `state` and `transition` are None.
Attempt = collections.namedtuple("Attempt", "begin end event state transition is_repeat", defaults=(False,))


def fold(names, stored):
    """Folds the events whose bits are set in `stored`. Bit 0 is the event with the earliest time. Returns the final
    state, and a dictionary from each event's index to its transition."""
    state, verdicts = "IDLE", {}
    for index, name in enumerate(names):
        if stored >> index & 1:
            after = TRANSITIONS.get((state, name))
            state, verdicts[index] = after or state, "applied" if after else "rejected"
    return state, verdicts


class Model:
    def __init__(self, names):
        self.names = names
        self.known = {}

    def __call__(self, stored):
        if stored not in self.known:
            self.known[stored] = fold(self.names, stored)
        return self.known[stored]


def is_linearizable(names, attempts):
    """`names` has the names of the driver's events, in the order of the events' times.

    An event takes effect at most once, and never before its first attempt begins. An attempt without an answer may take
    effect at any later time, or never.

    The state in an answer includes the effect of the attempt's own event. The answer calls the event a repeat if and
    only if an earlier attempt stored the event."""
    model = Model(names)
    attempts = sorted(needed(attempts), key=lambda attempt: attempt.begin)
    answered = sum(1 << index for index, attempt in enumerate(attempts) if attempt.end != math.inf)
    # Each state of the search is a pair of bit sets: the attempts that have taken effect, and the events that are
    # stored.
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
    """Returns all answered attempts, and the first unanswered attempt of each event. Later unanswered attempts do not
    matter: whenever one of them could take effect, the first one could do so too."""
    first = {}
    for attempt in attempts:
        if attempt.end == math.inf and attempt.begin < first.get(attempt.event, math.inf):
            first[attempt.event] = attempt.begin
    return [attempt for attempt in attempts if attempt.end != math.inf or attempt.begin == first[attempt.event]]


def possible(attempts, done):
    """Returns the indexes of the attempts that may take effect next. An attempt is open if it has not taken effect. An
    open attempt may be next if no other open attempt ends before it begins."""
    first_end = min((attempt.end for index, attempt in enumerate(attempts) if not done >> index & 1), default=None)
    return [
        index for index, attempt in enumerate(attempts) if not done >> index & 1 and attempt.begin <= first_end]


def without_effect(attempts, done, stored, model):
    """Adds to `done` all reads and repeats that may be next and whose answers fit `stored`. They leave `stored`
    unchanged, so the search may always take them first and need not try other orders."""
    while True:
        more = sum(
            1 << index for index in possible(attempts, done)
            if attempts[index].end != math.inf and effect(attempts[index], stored, model) == stored)
        if not more:
            return done
        done |= more


def effect(attempt, stored, model):
    """Returns the set of stored events after the attempt. Returns None if the attempt's answer contradicts this set."""
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
    """Follows the definition directly and tries every order, so it is usable only for a few attempts. The tests compare
    `is_linearizable` with it."""
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
    """Returns the names and attempts of a short history of a correct server. In some histories, one answer or the time
    of one attempt is changed, which may make the history wrong."""
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
