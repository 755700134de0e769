//! Every statement of the catalog slice.

use super::model::{Sku, Warehouse};
use crate::natural_key;
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use kernel::id::{SkuId, WarehouseId};
use uuid::Uuid;

pub struct Skus;

const SKU_LOAD: Sql = Sql::new(
    "sku_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.sku_id, t.code, t.code_folded, t.name, t.unit, t.decimals, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS sku_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM sku AS r
        WHERE r.tenant_id = $1
            AND r.sku_id = k.sku_id
        OFFSET 0) AS t",
);

const SKU_STORE: Sql = Sql::new(
    "sku_store",
    &[
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO sku (tenant_id, sku_id, code, code_folded, name, unit, decimals, created_at)
    SELECT $1, k.sku_id, k.code, k.code_folded, k.name, k.unit, k.decimals, k.created_at
    FROM (
        SELECT unnest($2::uuid[]) AS sku_id, unnest($3::text[]) AS code, unnest($4::text[]) AS code_folded,
            unnest($5::text[]) AS name, unnest($6::text[]) AS unit, unnest($7::int2[]) AS decimals,
            unnest($8::timestamptz[]) AS created_at) AS k
    ORDER BY k.code_folded",
);

impl Table for Skus {
    type Key = SkuId;
    type Row = Sku;
    const NAME: &'static str = "sku";
    const LOCKED: bool = false;
    const LOAD: Sql = SKU_LOAD;

    fn keys(keys: &[SkuId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (SkuId, Sku) {
        (row.get::<_, Uuid>("sku_id").into(), read_sku(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let text = |f: fn(&Sku) -> &str| changes.iter().map(|c| f(c.after).to_owned()).collect::<Vec<_>>();
        vec![Write {
            sql: SKU_STORE,
            params: vec![
                param(changes.iter().map(|c| c.key.uuid()).collect::<Vec<_>>()),
                param(text(|sku| &sku.code)),
                param(text(|sku| &sku.code_folded)),
                param(text(|sku| &sku.name)),
                param(text(|sku| &sku.unit)),
                param(changes.iter().map(|c| i16::from(c.after.decimals)).collect::<Vec<_>>()),
                param(changes.iter().map(|c| c.after.created_at).collect::<Vec<_>>()),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![SKU_STORE]
    }
}

pub(super) fn read_sku(row: &Row) -> Sku {
    let decimals: i16 = row.get("decimals");
    Sku {
        code: row.get("code"),
        code_folded: row.get("code_folded"),
        name: row.get("name"),
        unit: row.get("unit"),
        decimals: decimals.try_into().expect("sku_decimals_0_to_6"),
        created_at: row.get("created_at"),
    }
}

natural_key!(SkuCodes "sku_code": "code_folded" of "sku", to "sku_id" SkuId);

pub struct Warehouses;

const WAREHOUSE_LOAD: Sql = Sql::new(
    "warehouse_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.warehouse_id, t.code, t.code_folded, t.name, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS warehouse_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM warehouse AS r
        WHERE r.tenant_id = $1
            AND r.warehouse_id = k.warehouse_id
        OFFSET 0) AS t",
);

const WAREHOUSE_STORE: Sql = Sql::new(
    "warehouse_store",
    &[Type::UUID_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TIMESTAMPTZ_ARRAY],
    "
    INSERT INTO warehouse (tenant_id, warehouse_id, code, code_folded, name, created_at)
    SELECT $1, k.warehouse_id, k.code, k.code_folded, k.name, k.created_at
    FROM (
        SELECT unnest($2::uuid[]) AS warehouse_id, unnest($3::text[]) AS code, unnest($4::text[]) AS code_folded,
            unnest($5::text[]) AS name, unnest($6::timestamptz[]) AS created_at) AS k
    ORDER BY k.code_folded",
);

impl Table for Warehouses {
    type Key = WarehouseId;
    type Row = Warehouse;
    const NAME: &'static str = "warehouse";
    const LOCKED: bool = false;
    const LOAD: Sql = WAREHOUSE_LOAD;

    fn keys(keys: &[WarehouseId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (WarehouseId, Warehouse) {
        (row.get::<_, Uuid>("warehouse_id").into(), read_warehouse(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let text = |f: fn(&Warehouse) -> &str| changes.iter().map(|c| f(c.after).to_owned()).collect::<Vec<_>>();
        vec![Write {
            sql: WAREHOUSE_STORE,
            params: vec![
                param(changes.iter().map(|c| c.key.uuid()).collect::<Vec<_>>()),
                param(text(|warehouse| &warehouse.code)),
                param(text(|warehouse| &warehouse.code_folded)),
                param(text(|warehouse| &warehouse.name)),
                param(changes.iter().map(|c| c.after.created_at).collect::<Vec<_>>()),
            ],
        }]
    }
    fn statements() -> Vec<Sql> {
        vec![WAREHOUSE_STORE]
    }
}

pub(super) fn read_warehouse(row: &Row) -> Warehouse {
    Warehouse {
        code: row.get("code"),
        code_folded: row.get("code_folded"),
        name: row.get("name"),
        created_at: row.get("created_at"),
    }
}

natural_key!(WarehouseCodes "warehouse_code": "code_folded" of "warehouse", to "warehouse_id" WarehouseId);

pub const SKU_LIST: Sql = Sql::new(
    "sku_list",
    &[Type::UUID, Type::TEXT, Type::INT8],
    "
    SELECT t.sku_id, t.code, t.code_folded, t.name, t.unit, t.decimals, t.created_at
    FROM sku AS t
    WHERE t.tenant_id = $1
        AND t.sku_id > $2
        AND ($3::text IS NULL OR t.code_folded = $3)
    ORDER BY t.sku_id
    LIMIT $4",
);

pub const SKU_FIND: Sql = Sql::new(
    "sku_find",
    &[Type::UUID],
    "
    SELECT t.sku_id, t.code, t.code_folded, t.name, t.unit, t.decimals, t.created_at
    FROM sku AS t
    WHERE t.tenant_id = $1
        AND t.sku_id = $2",
);

/// The SKUs of these folded codes: an import asks before it makes the ones that are missing.
pub const SKU_BY_CODE: Sql = Sql::new(
    "sku_by_code",
    &[Type::TEXT_ARRAY],
    "
    SELECT t.sku_id, t.code_folded
    FROM sku AS t
    WHERE t.tenant_id = $1
        AND t.code_folded = ANY($2)",
);

pub const WAREHOUSE_LIST: Sql = Sql::new(
    "warehouse_list",
    &[Type::UUID, Type::TEXT, Type::INT8],
    "
    SELECT t.warehouse_id, t.code, t.code_folded, t.name, t.created_at
    FROM warehouse AS t
    WHERE t.tenant_id = $1
        AND t.warehouse_id > $2
        AND ($3::text IS NULL OR t.code_folded = $3)
    ORDER BY t.warehouse_id
    LIMIT $4",
);

pub const WAREHOUSE_FIND: Sql = Sql::new(
    "warehouse_find",
    &[Type::UUID],
    "
    SELECT t.warehouse_id, t.code, t.code_folded, t.name, t.created_at
    FROM warehouse AS t
    WHERE t.tenant_id = $1
        AND t.warehouse_id = $2",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] = &[SKU_LIST, SKU_FIND, SKU_BY_CODE, WAREHOUSE_LIST, WAREHOUSE_FIND];
