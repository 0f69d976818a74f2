"""Histories of one driver's requests, and the check that a history is linearizable: some order of the requests, in which
each takes effect at one moment between its begin and its end, explains every answer. The model is the contract's fold:
the state after a set of events does not depend on the order in which they arrived.

The model knows only the events before a session, because these have no deadlines. The events' times are distinct."""

import collections
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

# One attempt to post an event, or one read. `event` is an index in the driver's list of events, None for a read.
# `end` is infinite, and `state` and `transition` are None, if there was no answer.
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

    An event takes effect at most once, and not before its first attempt begins. An answered attempt sees its own event
    stored; it says that it repeats the event exactly if an earlier attempt stored it. An attempt without an answer may
    take effect later, or never."""
    model = Model(names)
    attempts = sorted(attempts, key=lambda attempt: attempt.begin)
    answered = sum(1 << index for index, attempt in enumerate(attempts) if attempt.end != math.inf)
    # A state of the search: the attempts that have taken effect, and the events that are stored.
    seen, open_states = set(), [(0, 0)]
    while open_states:
        done, stored = open_states.pop()
        if done & answered == answered:
            return True
        first_end = min(
            attempt.end for index, attempt in enumerate(attempts) if not done >> index & 1)
        for index, attempt in enumerate(attempts):
            if attempt.begin > first_end:
                break
            if done >> index & 1:
                continue
            after = effect(attempt, stored, model)
            if after is not None and (done | 1 << index, after) not in seen:
                seen.add((done | 1 << index, after))
                open_states.append((done | 1 << index, after))
    return False


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
