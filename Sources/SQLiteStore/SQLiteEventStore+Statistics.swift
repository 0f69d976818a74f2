// The ports of metrics and the operator page on SQLite. The functions are beside the tables that they read.

import Engine
import Identity
import Push
import SharedTables

extension SQLiteEventStore: DatabaseStatus, BackupHistory, EventStatistics, AccountStatistics, PushQueueStatistics,
    InstanceStore, SettingsHistoryStore
{}
