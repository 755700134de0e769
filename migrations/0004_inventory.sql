-- Stock: what a warehouse holds of a SKU, what is promised of it, and every change of both.

-- The hottest row of the system. Its counters are the sum of its ledger; `sequence` counts the
-- ledger's lines, and the events' of this position, so both follow commit order without a hole.
CREATE TABLE stock_position (
    tenant_id uuid NOT NULL,
    sku_id uuid NOT NULL,
    warehouse_id uuid NOT NULL,
    position_id uuid NOT NULL,
    -- The SKU's, so that a movement need not read the SKU.
    decimals smallint NOT NULL,
    on_hand numeric(18, 6) NOT NULL DEFAULT 0,
    on_order numeric(18, 6) NOT NULL DEFAULT 0,
    allocated numeric(18, 6) NOT NULL DEFAULT 0,
    reserved numeric(18, 6) NOT NULL DEFAULT 0,
    overcommit_limit numeric(18, 6) NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, sku_id, warehouse_id),
    CONSTRAINT stock_position_id_unique UNIQUE (tenant_id, position_id),
    FOREIGN KEY (tenant_id, sku_id, decimals) REFERENCES sku (tenant_id, sku_id, decimals),
    FOREIGN KEY (tenant_id, warehouse_id) REFERENCES warehouse (tenant_id, warehouse_id),
    CONSTRAINT stock_position_on_hand_min CHECK (on_hand >= 0),
    CONSTRAINT stock_position_on_order_min CHECK (on_order >= 0),
    CONSTRAINT stock_position_allocated_min CHECK (allocated >= 0),
    CONSTRAINT stock_position_reserved_min CHECK (reserved >= 0),
    CONSTRAINT stock_position_overcommit_min CHECK (overcommit_limit >= 0),
    -- GUARD(no_oversell): the last one; if a rule or a lock is wrong, the write fails instead of overselling.
    CONSTRAINT stock_position_no_oversell
        CHECK (allocated + reserved <= on_hand + on_order + overcommit_limit)
) WITH (fillfactor = 60);  -- room for the next version on the same page: no index is touched
SELECT tenant_wall('stock_position');
GRANT SELECT, INSERT,
    UPDATE (on_hand, on_order, allocated, reserved, overcommit_limit, sequence)
    ON stock_position TO tallyhold_server;

-- Append-only by privilege: the server may insert and read, nobody may change.
CREATE TABLE stock_ledger (
    tenant_id uuid NOT NULL,
    position_id uuid NOT NULL,
    sequence bigint NOT NULL,
    kind text NOT NULL,
    on_hand numeric(18, 6) NOT NULL,
    on_order numeric(18, 6) NOT NULL,
    allocated numeric(18, 6) NOT NULL,
    reserved numeric(18, 6) NOT NULL,
    promise_id uuid,
    source text,
    reason text,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, position_id, sequence, at),
    CONSTRAINT stock_ledger_sequence_from_1 CHECK (sequence >= 1),
    CONSTRAINT stock_ledger_kind_known
        CHECK (kind IN ('receive', 'adjust', 'allocate', 'release', 'ship', 'return')),
    CONSTRAINT stock_ledger_not_empty
        CHECK (on_hand <> 0 OR on_order <> 0 OR allocated <> 0 OR reserved <> 0)
) PARTITION BY RANGE (at);
SELECT tenant_wall('stock_ledger');
GRANT SELECT, INSERT ON stock_ledger TO tallyhold_server;

-- What was promised to whom: the demand side's one row, whatever asked for it. No foreign key to its
-- position: each promise is inserted in the transaction that locks, changes and counts that position
-- (rows_expected), nobody may delete one, and `verify` looks; the key's trigger for every row was
-- half the cost of the insert.
CREATE TABLE promise (
    tenant_id uuid NOT NULL,
    promise_id uuid NOT NULL,
    sku_id uuid NOT NULL,
    warehouse_id uuid NOT NULL,
    quantity numeric(18, 6) NOT NULL,
    shipped numeric(18, 6) NOT NULL DEFAULT 0,
    released numeric(18, 6) NOT NULL DEFAULT 0,
    returned numeric(18, 6) NOT NULL DEFAULT 0,
    state text NOT NULL,
    source text,
    priority smallint NOT NULL,
    promised_for date,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, promise_id),
    CONSTRAINT promise_quantity_min CHECK (quantity > 0),
    CONSTRAINT promise_shipped_min CHECK (shipped >= 0),
    CONSTRAINT promise_released_min CHECK (released >= 0),
    CONSTRAINT promise_within CHECK (shipped + released <= quantity),
    CONSTRAINT promise_returned_within CHECK (returned BETWEEN 0 AND shipped),
    CONSTRAINT promise_state_known CHECK (state IN ('open', 'closed')),
    CONSTRAINT promise_state_true CHECK ((state = 'open') = (shipped + released < quantity))
) WITH (fillfactor = 80);
CREATE INDEX promise_by_position ON promise (tenant_id, sku_id, warehouse_id, promise_id);
SELECT tenant_wall('promise');
GRANT SELECT, INSERT, UPDATE (shipped, released, returned, state) ON promise TO tallyhold_server;

-- The business events already booked. A key may be forgotten after a day; a file may be imported again
-- after a year. Not partitioned: the uniqueness has to span all months.
CREATE TABLE stock_source (
    tenant_id uuid NOT NULL,
    source text NOT NULL,
    kind text NOT NULL,
    -- The promise it made or moved, else the position.
    record_id text NOT NULL,
    at timestamptz NOT NULL,
    -- GUARD(source_arbiter): two replicas that both found it free do not both book it.
    PRIMARY KEY (tenant_id, source)
);
SELECT tenant_wall('stock_source');
GRANT SELECT, INSERT ON stock_source TO tallyhold_server;

SELECT partition_ensure();
