-- B3: a whole allocation as one function call, which is one transaction. The position is taken by
-- one conditional update, so that nothing but the lock itself waits.
CREATE FUNCTION bench_allocate(
    of_tenant uuid, of_sku uuid, of_warehouse uuid, units numeric, call_key text, call_print bytea,
    new_call uuid, new_promise uuid, new_event uuid, correlation text)
RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
    p record;
    said bytea;
    now_at timestamptz;
    ats text;
BEGIN
    PERFORM set_config('tallyhold.tenant_id', of_tenant::text, true);
    SELECT a.body INTO said FROM answer AS a WHERE a.tenant_id = of_tenant AND a.key = call_key;
    IF FOUND THEN
        RETURN said;
    END IF;
    UPDATE stock_position AS t
    SET allocated = t.allocated + units, sequence = t.sequence + 1
    WHERE t.tenant_id = of_tenant
        AND t.sku_id = of_sku
        AND t.warehouse_id = of_warehouse
        AND t.allocated + t.reserved + units <= t.on_hand + t.on_order + t.overcommit_limit
    RETURNING t.position_id, t.sequence, t.on_hand, t.on_order, t.allocated, t.reserved INTO p;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'too little stock';
    END IF;
    now_at := clock_timestamp();
    ats := trim_scale(p.on_hand + p.on_order - p.allocated - p.reserved)::text;
    INSERT INTO stock_ledger (tenant_id, position_id, sequence, kind, on_hand, on_order, allocated, reserved,
        promise_id, at)
    VALUES (of_tenant, p.position_id, p.sequence, 'allocate', 0, 0, units, 0, new_promise, now_at);
    INSERT INTO promise (tenant_id, promise_id, sku_id, warehouse_id, quantity, state, priority, created_at)
    VALUES (of_tenant, new_promise, of_sku, of_warehouse, units, 'open', 0, now_at);
    INSERT INTO event (tenant_id, event_id, kind, aggregate, aggregate_id, sequence, schema_version, data,
        correlation_id, at)
    VALUES (of_tenant, new_event, 'inventory.stock_allocated', 'stock_position', p.position_id, p.sequence, 1,
        json_build_object(
            'position_id', 'pos_' || replace(p.position_id::text, '-', ''),
            'sku_id', 'sku_' || replace(of_sku::text, '-', ''),
            'warehouse_id', 'whs_' || replace(of_warehouse::text, '-', ''),
            'quantity', trim_scale(units)::text,
            'promise_id', 'prm_' || replace(new_promise::text, '-', ''),
            'on_hand', trim_scale(p.on_hand)::text,
            'on_order', trim_scale(p.on_order)::text,
            'allocated', trim_scale(p.allocated)::text,
            'reserved', trim_scale(p.reserved)::text,
            'ats_after', ats),
        correlation, now_at);
    INSERT INTO audit (tenant_id, call_id, actor, command, outcome, key, correlation_id, remote, at)
    VALUES (of_tenant, new_call, 'bench', 'inventory.allocate', 'done', call_key, correlation, '127.0.0.1', now_at);
    said := convert_to(json_build_object('lines', json_build_array(json_build_object(
            'promise_id', 'prm_' || replace(new_promise::text, '-', ''),
            'position_id', 'pos_' || replace(p.position_id::text, '-', ''),
            'sku_id', 'sku_' || replace(of_sku::text, '-', ''),
            'warehouse_id', 'whs_' || replace(of_warehouse::text, '-', ''),
            'quantity', trim_scale(units)::text,
            'ats_after', ats)))::text, 'UTF8');
    INSERT INTO answer (tenant_id, key, fingerprint, command, status, content_type, sealed, body, at)
    VALUES (of_tenant, call_key, call_print, 'inventory.allocate', 200, 'application/json', false, said, now_at);
    RETURN said;
END
$$;
GRANT EXECUTE ON FUNCTION bench_allocate TO tallyhold_server;
