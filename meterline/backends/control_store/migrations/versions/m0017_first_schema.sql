-- The tables of the control store, as the first release makes them. What they mean is said in the
-- modules of `tables/`. This file never changes: a later change is a migration of its own.
-- PostgreSQL gets BYTEA for BLOB; all else is the same on both databases.

CREATE TABLE catalogue_version (
    one INTEGER NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_catalogue_version PRIMARY KEY (one),
    CONSTRAINT ck_catalogue_version_single_row CHECK (one = 1)
);

CREATE TABLE meters (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    "key" TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    labels TEXT NOT NULL,
    from_settings BOOLEAN NOT NULL,
    created_version BIGINT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    deleted_at_ms BIGINT,
    CONSTRAINT pk_meters PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_meters_live_key ON meters (namespace, "key") WHERE deleted_at_ms IS NULL;

CREATE TABLE logs (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    CONSTRAINT pk_logs PRIMARY KEY (number),
    CONSTRAINT uq_logs_id UNIQUE (id)
);

CREATE TABLE seals (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    slice BIGINT NOT NULL,
    offset_end BIGINT NOT NULL,
    events BIGINT NOT NULL,
    catalogue BIGINT NOT NULL,
    append_ms BIGINT NOT NULL,
    digest BLOB,
    rejects BIGINT DEFAULT 0 NOT NULL,
    tallies BIGINT DEFAULT 0 NOT NULL,
    members BIGINT DEFAULT 0 NOT NULL,
    rejected BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT pk_seals PRIMARY KEY (log, partition, slice)
);
CREATE INDEX ix_seals_log_catalogue ON seals (log, catalogue);

CREATE TABLE fill_marks (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    revision BIGINT NOT NULL,
    slice BIGINT NOT NULL,
    CONSTRAINT pk_fill_marks PRIMARY KEY (log, partition, revision, slice)
);

CREATE TABLE completeness (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    catalogue BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    CONSTRAINT pk_completeness PRIMARY KEY (log, partition, catalogue)
);

CREATE TABLE flushed (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    catalogue BIGINT NOT NULL,
    offset_end BIGINT NOT NULL,
    CONSTRAINT pk_flushed PRIMARY KEY (log, partition, catalogue)
);

CREATE TABLE usage_store (
    one INTEGER NOT NULL,
    id TEXT NOT NULL,
    CONSTRAINT pk_usage_store PRIMARY KEY (one),
    CONSTRAINT ck_usage_store_single_row CHECK (one = 1)
);

CREATE TABLE keys_version (
    one INTEGER NOT NULL,
    version BIGINT NOT NULL,
    CONSTRAINT pk_keys_version PRIMARY KEY (one),
    CONSTRAINT ck_keys_version_single_row CHECK (one = 1)
);

CREATE TABLE api_keys (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    "plan" TEXT,
    created_at_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at_ms BIGINT,
    revoked_at_ms BIGINT,
    secret_hash BLOB NOT NULL,
    previous_hash BLOB,
    previous_until_ms BIGINT,
    rotated_at_ms BIGINT,
    last_used_at_ms BIGINT,
    version BIGINT NOT NULL,
    CONSTRAINT pk_api_keys PRIMARY KEY (id)
);
CREATE INDEX ix_api_keys_namespace ON api_keys (namespace, id);
CREATE INDEX ix_api_keys_version ON api_keys (version, id);

CREATE TABLE changes (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    author TEXT NOT NULL,
    action TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    name TEXT NOT NULL,
    detail TEXT NOT NULL,
    members TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_changes PRIMARY KEY (id)
);
CREATE INDEX ix_changes_subject_id ON changes (namespace, subject_id, at_ms, id);
CREATE INDEX ix_changes_at_ms ON changes (namespace, at_ms, id);

CREATE TABLE redrives (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    record_offset BIGINT NOT NULL,
    place INTEGER NOT NULL,
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    append_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    namespace TEXT NOT NULL,
    author TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    note TEXT NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    payload_check BLOB NOT NULL,
    event BLOB,
    CONSTRAINT pk_redrives PRIMARY KEY (log, partition, record_offset, place)
);
CREATE INDEX ix_redrives_state ON redrives (owner, state, append_ms, log, partition, record_offset, place);

CREATE TABLE replays (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    report_id TEXT,
    run_id TEXT,
    subject TEXT,
    from_min_ms BIGINT,
    to_max_ms BIGINT,
    failed_since_ms BIGINT,
    decided_max_ms BIGINT,
    per_second INTEGER NOT NULL,
    created_at_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    counted BIGINT NOT NULL,
    replayed BIGINT NOT NULL,
    in_flight BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    ended_at_ms BIGINT,
    due_at_ms BIGINT,
    after_decided_at_ms BIGINT,
    after_run_id TEXT,
    after_number INTEGER,
    CONSTRAINT pk_replays PRIMARY KEY (id)
);
CREATE INDEX ix_replays_namespace ON replays (namespace, id);
CREATE INDEX ix_replays_due ON replays (due_at_ms) WHERE due_at_ms IS NOT NULL;

CREATE TABLE report_endpoints (
    namespace TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    last_success_at_ms BIGINT,
    failing_since_ms BIGINT,
    last_failure_at_ms BIGINT,
    outages INTEGER NOT NULL,
    places INTEGER,
    probe_at_ms BIGINT,
    reason TEXT NOT NULL,
    faults INTEGER DEFAULT 0 NOT NULL,
    alarms INTEGER DEFAULT 0 NOT NULL,
    probes INTEGER DEFAULT 0 NOT NULL,
    CONSTRAINT pk_report_endpoints PRIMARY KEY (namespace, endpoint)
);

CREATE TABLE late_looks (
    log INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    begun_end BIGINT NOT NULL,
    looked_end BIGINT NOT NULL,
    CONSTRAINT pk_late_looks PRIMARY KEY (log, partition)
);

CREATE TABLE subjects (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    "key" TEXT NOT NULL,
    display_name TEXT,
    metadata TEXT,
    current_period_start_ms BIGINT,
    current_period_end_ms BIGINT,
    stripe_customer_id TEXT,
    created_at_ms BIGINT NOT NULL,
    updated_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_subjects PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_subjects_key ON subjects (namespace, "key");

CREATE TABLE meter_revisions (
    revision BIGINT NOT NULL,
    meter_id TEXT NOT NULL,
    aggregation TEXT NOT NULL,
    event_type TEXT NOT NULL,
    value_property TEXT,
    dimensions TEXT NOT NULL,
    events_from_ms BIGINT,
    state TEXT DEFAULT 'in_force' NOT NULL,
    made_at_ms BIGINT DEFAULT 0 NOT NULL,
    effective_from_ms BIGINT,
    before_revision BIGINT,
    switched_at_ms BIGINT,
    ended_at_ms BIGINT,
    left_at_ms BIGINT,
    CONSTRAINT pk_meter_revisions PRIMARY KEY (revision),
    CONSTRAINT fk_meter_revisions_meter_id FOREIGN KEY(meter_id) REFERENCES meters (id)
);
CREATE UNIQUE INDEX uq_meter_revisions_in_force ON meter_revisions (meter_id)
    WHERE state = 'in_force';
CREATE UNIQUE INDEX uq_meter_revisions_filling ON meter_revisions (meter_id) WHERE state = 'filling';
CREATE INDEX ix_meter_revisions_meter_id ON meter_revisions (meter_id);

CREATE TABLE reports (
    id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    slug TEXT NOT NULL,
    meter_id TEXT NOT NULL,
    interval TEXT NOT NULL,
    start_at_ms BIGINT NOT NULL,
    group_by TEXT NOT NULL,
    filter TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    signing_secret_sealed BLOB NOT NULL,
    user_info_sealed BLOB,
    state TEXT NOT NULL,
    state_reason TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    deleted_at_ms BIGINT,
    next_end_ms BIGINT NOT NULL,
    sequence_next BIGINT NOT NULL,
    updated_at_ms BIGINT DEFAULT 0 NOT NULL,
    takeover_interval TEXT,
    takeover_start_at_ms BIGINT,
    takeover_at_ms BIGINT,
    revisions TEXT DEFAULT 'record' NOT NULL,
    headers_sealed BLOB,
    header_names TEXT DEFAULT '[]' NOT NULL,
    grace_ms BIGINT,
    skip_until_ms BIGINT,
    CONSTRAINT pk_reports PRIMARY KEY (id),
    CONSTRAINT fk_reports_meter_id FOREIGN KEY(meter_id) REFERENCES meters (id)
);
CREATE UNIQUE INDEX uq_reports_live_slug ON reports (namespace, slug) WHERE deleted_at_ms IS NULL;
CREATE INDEX ix_reports_next_end_ms ON reports (next_end_ms) WHERE deleted_at_ms IS NULL;
CREATE INDEX ix_reports_meter_id ON reports (meter_id);

CREATE TABLE report_secrets (
    report_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    secret_sealed BLOB NOT NULL,
    signs_until_ms BIGINT NOT NULL,
    CONSTRAINT pk_report_secrets PRIMARY KEY (report_id, number),
    CONSTRAINT fk_report_secrets_report_id FOREIGN KEY(report_id) REFERENCES reports (id)
);

CREATE TABLE report_last_errors (
    report_id TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    CONSTRAINT pk_report_last_errors PRIMARY KEY (report_id),
    CONSTRAINT fk_report_last_errors_report_id FOREIGN KEY(report_id) REFERENCES reports (id)
);

CREATE TABLE report_runs (
    id TEXT NOT NULL,
    report_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    from_ms BIGINT NOT NULL,
    to_ms BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    "trigger" TEXT NOT NULL,
    asked_at_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    supersedes TEXT,
    lease_holder TEXT,
    lease_until_ms BIGINT,
    meter_revision BIGINT,
    decided_at_ms BIGINT,
    ended_at_ms BIGINT,
    delivered INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    deliveries INTEGER,
    entries INTEGER,
    filtered_out INTEGER,
    total TEXT,
    total_filtered_out TEXT,
    complete_until_ms BIGINT,
    digest TEXT,
    sequence_first BIGINT,
    group_by TEXT,
    filter TEXT,
    counted TEXT,
    corrections INTEGER,
    corrections_digest TEXT,
    bytes_removed_to INTEGER,
    CONSTRAINT pk_report_runs PRIMARY KEY (id),
    CONSTRAINT uq_report_runs_window UNIQUE (report_id, from_ms, to_ms, revision),
    CONSTRAINT fk_report_runs_report_id FOREIGN KEY(report_id) REFERENCES reports (id)
);
CREATE INDEX ix_report_runs_window_end ON report_runs (report_id, to_ms);
CREATE INDEX ix_report_runs_long ON report_runs (report_id, from_ms)
    WHERE to_ms - from_ms > 86400000;
CREATE INDEX ix_report_runs_delivering ON report_runs (report_id, decided_at_ms)
    WHERE state = 'delivering';
CREATE INDEX ix_report_runs_decided_of_report ON report_runs (report_id, decided_at_ms, id);
CREATE INDEX ix_report_runs_undecided ON report_runs (report_id, "trigger", to_ms)
    WHERE state IN ('scheduled', 'waiting', 'materializing');
CREATE INDEX ix_report_runs_state ON report_runs (report_id, state, to_ms);
CREATE INDEX ix_report_runs_with_bytes ON report_runs (decided_at_ms)
    WHERE state IN ('succeeded', 'partly_failed', 'failed') AND deliveries > 0 AND (bytes_removed_to IS NULL OR bytes_removed_to < deliveries);
CREATE INDEX ix_report_runs_decided ON report_runs (namespace, decided_at_ms, id);

CREATE TABLE late_windows (
    report_id TEXT NOT NULL,
    from_ms BIGINT NOT NULL,
    to_ms BIGINT NOT NULL,
    due_at_ms BIGINT,
    revised_at_ms BIGINT NOT NULL,
    CONSTRAINT pk_late_windows PRIMARY KEY (report_id, from_ms, to_ms),
    CONSTRAINT fk_late_windows_report_id FOREIGN KEY(report_id) REFERENCES reports (id)
);
CREATE INDEX ix_late_windows_due ON late_windows (due_at_ms) WHERE due_at_ms IS NOT NULL;

CREATE TABLE report_bodies (
    run_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    number INTEGER NOT NULL,
    delivery_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    digest BLOB NOT NULL,
    usage_digest BLOB NOT NULL,
    supersedes TEXT,
    body BLOB NOT NULL,
    failure TEXT,
    CONSTRAINT pk_report_bodies PRIMARY KEY (run_id, holder, number),
    CONSTRAINT fk_report_bodies_run_id FOREIGN KEY(run_id) REFERENCES report_runs (id)
);

CREATE TABLE report_deliveries (
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    report_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    subject TEXT NOT NULL,
    number INTEGER NOT NULL,
    sequence BIGINT NOT NULL,
    revision INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_at_ms BIGINT,
    created_at_ms BIGINT NOT NULL,
    ended_at_ms BIGINT,
    digest BLOB NOT NULL,
    usage_digest BLOB NOT NULL,
    supersedes TEXT,
    attempts_before INTEGER DEFAULT 0 NOT NULL,
    replayed_at_ms BIGINT,
    failure TEXT,
    CONSTRAINT pk_report_deliveries PRIMARY KEY (id),
    CONSTRAINT uq_report_deliveries_number UNIQUE (run_id, number),
    CONSTRAINT uq_report_deliveries_sequence UNIQUE (report_id, sequence),
    CONSTRAINT fk_report_deliveries_run_id FOREIGN KEY(run_id) REFERENCES report_runs (id),
    CONSTRAINT fk_report_deliveries_report_id FOREIGN KEY(report_id) REFERENCES reports (id)
);
CREATE INDEX ix_report_deliveries_due ON report_deliveries (report_id, state, due_at_ms, id)
    WHERE due_at_ms IS NOT NULL;
CREATE INDEX ix_report_deliveries_supersedes ON report_deliveries (supersedes)
    WHERE supersedes IS NOT NULL;
CREATE INDEX ix_report_deliveries_subject ON report_deliveries (run_id, subject);

CREATE TABLE run_corrections (
    run_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    number INTEGER NOT NULL,
    subject TEXT NOT NULL,
    groups TEXT NOT NULL,
    old_value TEXT,
    new_value TEXT,
    cause TEXT NOT NULL,
    replaces TEXT,
    replaced_digest BLOB,
    CONSTRAINT pk_run_corrections PRIMARY KEY (run_id, holder, number),
    CONSTRAINT fk_run_corrections_run_id FOREIGN KEY(run_id) REFERENCES report_runs (id)
);

CREATE TABLE report_attempts (
    delivery_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    started_at_ms BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    duration_ms BIGINT NOT NULL,
    status INTEGER,
    reason TEXT NOT NULL,
    answer BLOB NOT NULL,
    next_attempt_at_ms BIGINT,
    endpoint TEXT DEFAULT '' NOT NULL,
    CONSTRAINT pk_report_attempts PRIMARY KEY (delivery_id, number),
    CONSTRAINT fk_report_attempts_delivery_id FOREIGN KEY(delivery_id) REFERENCES report_deliveries (id)
);

-- Versions start at 0.

INSERT INTO catalogue_version (one, version) VALUES (1, 0);
INSERT INTO keys_version (one, version) VALUES (1, 0);
