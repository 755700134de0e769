-- Whom the company deals with.

CREATE TABLE customer_group (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    customer_group_id uuid NOT NULL,
    version bigint NOT NULL,
    name text NOT NULL,
    name_folded text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, customer_group_id),
    CONSTRAINT customer_group_name_unique UNIQUE (tenant_id, name_folded),
    CONSTRAINT customer_group_version_from_1 CHECK (version >= 1)
);
SELECT tenant_wall('customer_group');
GRANT SELECT, INSERT, UPDATE (version, name, name_folded) ON customer_group TO tallyhold_server;

-- `name_folded` and `tax_id_folded` are what people and offices would call the same.
CREATE TABLE customer (
    tenant_id uuid NOT NULL REFERENCES tenant (tenant_id),
    customer_id uuid NOT NULL,
    version bigint NOT NULL,
    name text NOT NULL,
    name_folded text NOT NULL,
    tax_id text,
    tax_id_folded text,
    customer_group_id uuid,
    currency text NOT NULL,
    payment_terms_days smallint NOT NULL,
    credit_limit numeric(19, 4),
    email text,
    phone text,
    blocked boolean NOT NULL,
    addresses json NOT NULL,
    sales_areas json NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, customer_id),
    FOREIGN KEY (tenant_id, customer_group_id) REFERENCES customer_group (tenant_id, customer_group_id),
    -- GUARD(customer_name): two users make the same customer at once; the second is told of the first.
    CONSTRAINT customer_name_unique UNIQUE (tenant_id, name_folded),
    -- GUARD(customer_tax_id): the same, under another name.
    CONSTRAINT customer_tax_id_unique UNIQUE (tenant_id, tax_id_folded),
    CONSTRAINT customer_tax_id_both CHECK ((tax_id IS NULL) = (tax_id_folded IS NULL)),
    CONSTRAINT customer_version_from_1 CHECK (version >= 1),
    CONSTRAINT customer_currency_form CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT customer_payment_terms_0_to_365 CHECK (payment_terms_days BETWEEN 0 AND 365),
    CONSTRAINT customer_credit_limit_min CHECK (credit_limit >= 0)
);
SELECT tenant_wall('customer');
GRANT SELECT, INSERT,
    UPDATE (version, name, name_folded, tax_id, tax_id_folded, customer_group_id, currency, payment_terms_days,
        credit_limit, email, phone, blocked, addresses, sales_areas)
    ON customer TO tallyhold_server;
