-- What is sold and where it lies.

-- `code_folded` is the code as people compare it (NFKC, case folded, spaces collapsed).
CREATE TABLE sku (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    sku_id uuid NOT NULL,
    code text NOT NULL,
    code_folded text NOT NULL,
    name text NOT NULL,
    unit text NOT NULL,
    -- Digits after the point a quantity of this SKU may have. Never changed: old lines would
    -- mean something else.
    decimals smallint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, sku_id),
    CONSTRAINT sku_code_unique UNIQUE (tenant_id, code_folded),
    -- What lets a copy of the decimals elsewhere be held true.
    CONSTRAINT sku_decimals_unique UNIQUE (tenant_id, sku_id, decimals),
    CONSTRAINT sku_decimals_0_to_6 CHECK (decimals BETWEEN 0 AND 6)
);
SELECT tenant_wall('sku');
GRANT SELECT, INSERT ON sku TO tallyhold_server;

CREATE TABLE warehouse (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    warehouse_id uuid NOT NULL,
    code text NOT NULL,
    code_folded text NOT NULL,
    name text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, warehouse_id),
    CONSTRAINT warehouse_code_unique UNIQUE (tenant_id, code_folded)
);
SELECT tenant_wall('warehouse');
GRANT SELECT, INSERT ON warehouse TO tallyhold_server;
