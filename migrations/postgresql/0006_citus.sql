-- Distributes the tables of events over the servers of a Citus cluster, if its extension is in this database. On one
-- PostgreSQL nothing is done. docs/decisions/postgresql.md, section "Citus", says why.
--
-- A lane is in one shard, and the rows of a driver in one lane. session_owner has the lane of the session. The small
-- tables that are joined with them, and change rarely, are on every server. All other tables are only on the coordinator.

-- The start of the coordinator since which transaction numbers get this offset; only on Citus. A coordinator that has
-- crashed may give the last numbers once more (Events/EventPosition.swift).
ALTER TABLE event_position ADD COLUMN server text COLLATE "C";

DO $$
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NULL THEN RETURN; END IF;
    -- A transaction over several shards of one server uses one connection to it. Otherwise a later statement of the same
    -- transaction would be refused.
    EXECUTE format('ALTER DATABASE %I SET citus.multi_shard_modify_mode = sequential', current_database());
    -- Tables that this transaction has created or changed can be distributed over one connection to each server.
    PERFORM set_config('citus.multi_shard_modify_mode', 'sequential', true);
    ALTER TABLE settings_correction DROP CONSTRAINT settings_correction_settings_fkey;
    ALTER TABLE settings_correction DROP CONSTRAINT settings_correction_instead_of_fkey;
    PERFORM create_reference_table('settings_version');
    PERFORM create_reference_table('erasure');
    -- A batch sends its statements once for each shard, so there are few: four for each server.
    PERFORM create_distributed_table('driver', 'lane', shard_count => greatest(4, 4 * (
        SELECT count(*) FROM pg_dist_node WHERE noderole = 'primary' AND shouldhaveshards)::int));
    PERFORM create_distributed_table('event', 'lane', colocate_with => 'driver');
    PERFORM create_distributed_table('session', 'lane', colocate_with => 'driver');
    PERFORM create_distributed_table('session_owner', 'lane', colocate_with => 'driver');
    PERFORM create_distributed_table('journey_base', 'lane', colocate_with => 'driver');
END $$;
