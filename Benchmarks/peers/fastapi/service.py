"""The two routes of the benchmark, written in the usual way with FastAPI, redis-py and SQLite. uvicorn runs two
processes of this service. Where there is a choice, the faster way is used: uvloop, httptools, hiredis and orjson;
verified tokens are cached; one Lua script checks the rate limit and detects repeats; the settings are encoded once;
there is no access log.

SQLite is called on the event loop, because a commit takes less time than switching to another thread and back."""

import contextlib
import datetime
import fcntl
import os
import sqlite3
import time

import jwt
import orjson
import redis.asyncio
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel, Field

LIMIT = int(os.environ.get("RATE_LIMIT_SESSION_EVENTS", 60))
WINDOW_MS = int(os.environ.get("RATE_LIMIT_WINDOW_SECONDS", 60)) * 1000
SECRET = os.environ["JWT_SECRET"]

# Checks in one step whether the event is a repeat and whether the driver has reached the rate limit (a sliding window
# log). Returns 0 if the event is admitted, 1 if it is already stored, 2 if the driver has reached the limit.
ADMISSION = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 2 end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
"""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS driver (driver_id TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS event (
    id INTEGER PRIMARY KEY,
    driver_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    name TEXT NOT NULL,
    session_id TEXT,
    charger_id TEXT,
    source TEXT,
    app_state TEXT,
    occurred_at_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    metadata TEXT,
    transition TEXT NOT NULL,
    UNIQUE (driver_id, event_id)
);
"""

SETTINGS = orjson.dumps({
    "chargerIntentRadius_m": 400, "chargerAnchorRadius_m": 30, "chargerDwellSeconds": 120,
    "merchantUnlockRadius_m": 40, "gracePeriodSeconds": 900, "hardTimeoutSeconds": 3600,
    "locationAccuracyThreshold_m": 50, "speedThresholdForDwell_mps": 1.5,
})
SETTINGS_FIELDS = {"ETag": '"2dc2c112dbf76568"', "Cache-Control": "private, max-age=86400"}

# (state, event, has a session) -> the next state. Events are applied in the order of arrival. Late events are not
# sorted by their time.
MOVES = {
    ("IDLE", "enteredChargerIntentZone", False): "NEAR_CHARGER",
    ("SESSION_ENDED", "enteredChargerIntentZone", False): "NEAR_CHARGER",
    ("NEAR_CHARGER", "exitedChargerIntentZone", False): "IDLE",
    ("NEAR_CHARGER", "anchorDwellComplete", False): "ANCHORED",
    ("ANCHORED", "exitedChargerAnchorZone", False): "NEAR_CHARGER",
    ("ANCHORED", "exclusiveActivatedByWeb", True): "SESSION_ACTIVE",
    ("SESSION_ACTIVE", "exitedChargerAnchorZone", True): "IN_TRANSIT",
    ("IN_TRANSIT", "enteredMerchantZone", True): "AT_MERCHANT",
    ("IN_TRANSIT", "gracePeriodExpired", True): "SESSION_ENDED",
    ("AT_MERCHANT", "visitVerifiedByWeb", True): "SESSION_ENDED",
    ("SESSION_ENDED", "reset", True): "IDLE",
}
MOVING = {event for _, event, _ in MOVES}


class Event(BaseModel):
    event_id: str = Field(min_length=1, max_length=128)
    session_id: str | None = Field(None, min_length=1, max_length=128)
    event: str
    occurred_at: datetime.datetime
    charger_id: str | None = None
    source: str = "ios_native"
    app_state: str | None = None
    metadata: dict | None = None


class Store:
    def __init__(self, path):
        self.database = sqlite3.connect(path, timeout=10, isolation_level=None)
        # A lock on a file makes the two workers take turns. SQLite's own wait for another process is worse: SQLite
        # sleeps, and it does not wait at all while a new file is switched to WAL mode.
        self.turn = open(f"{path}.turn", "w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        self.database.executescript(SCHEMA)
        fcntl.flock(self.turn, fcntl.LOCK_UN)
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("PRAGMA cache_size = -32768")

    def append(self, event, driver):
        """Stores the event in one transaction. Returns None if the event's key belongs to another event."""
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        try:
            return self.append_alone(event, driver)
        finally:
            fcntl.flock(self.turn, fcntl.LOCK_UN)

    def append_alone(self, event, driver):
        run = self.database.execute
        run("BEGIN IMMEDIATE")
        try:
            row = run("SELECT state FROM driver WHERE driver_id = ?", (driver,)).fetchone()
            state = row[0] if row else "IDLE"
            after = MOVES.get((state, event.event, event.session_id is not None))
            transition = "applied" if after else "rejected" if event.event in MOVING else "none"
            occurred_at_ms = int(event.occurred_at.timestamp() * 1000)
            added = run(
                "INSERT INTO event (driver_id, event_id, name, session_id, charger_id, source, app_state, "
                "occurred_at_ms, received_at_ms, metadata, transition) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (driver, event.event_id, event.event, event.session_id, event.charger_id, event.source,
                 event.app_state, occurred_at_ms, time.time_ns() // 1_000_000,
                 orjson.dumps(event.metadata).decode() if event.metadata else None, transition)).rowcount
            if added == 0:
                stored = run(
                    "SELECT name, occurred_at_ms, transition FROM event WHERE driver_id = ? AND event_id = ?",
                    (driver, event.event_id)).fetchone()
                run("COMMIT")
                same = stored[:2] == (event.event, occurred_at_ms)
                return ("already_processed", state, stored[2]) if same else None
            if after:
                run(
                    "INSERT INTO driver VALUES (?, ?) ON CONFLICT (driver_id) DO UPDATE SET state = excluded.state",
                    (driver, after))
            run("COMMIT")
            return "ok", after or state, transition
        except BaseException:
            if self.database.in_transaction:
                run("ROLLBACK")
            raise


@contextlib.asynccontextmanager
async def lifespan(service):
    connection = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])
    service.state.redis = connection
    service.state.admit = connection.register_script(ADMISSION)
    service.state.store = Store(os.environ["DATABASE_PATH"])
    yield
    await connection.aclose()


app = FastAPI(lifespan=lifespan, openapi_url=None)
verified = {}


async def driver_of(authorization: str = Header("")):
    known = verified.get(authorization)
    if known and known[1] > time.time():
        return known[0]
    try:
        claims = jwt.decode(authorization.removeprefix("Bearer "), SECRET, ["HS256"], issuer="dwell", audience="dwell")
    except jwt.InvalidTokenError:
        raise HTTPException(401) from None
    if len(verified) >= 10_000:
        verified.clear()
    verified[authorization] = (claims["sub"], claims["exp"])
    return claims["sub"]


@app.get("/native/config")
async def config(driver: str = Depends(driver_of)):
    return Response(SETTINGS, media_type="application/json", headers=SETTINGS_FIELDS)


@app.get("/healthz")
async def healthz():
    return Response(b"ok")


@app.post("/native/events")
async def post(event: Event, request: Request, driver: str = Depends(driver_of)):
    state = request.app.state
    known = f"stored:{{{driver}}}:{event.event_id}"
    if LIMIT:
        verdict = await state.admit([f"window:{{{driver}}}", known], [LIMIT, WINDOW_MS, event.event_id])
        if verdict == 2:
            raise HTTPException(429, headers={"Retry-After": "1"})
    answer = state.store.append(event, driver)
    if answer is None:
        raise HTTPException(422)
    status, standing, transition = answer
    if status == "ok":
        await state.redis.set(known, 1, ex=86400)
    body = {"status": status, "event_id": event.event_id, "session": {"state": standing, "transition": transition}}
    return Response(orjson.dumps(body), media_type="application/json")
