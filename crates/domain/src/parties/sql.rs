//! Every statement of the parties slice.

use super::model::{Customer, CustomerFields, CustomerGroup, CustomerGroupFields, PaymentTerms, fold_tax_id};
use crate::natural_key;
use engine::{
    number::Numbers,
    sql::{Param, Row, Sql, Type, Write, param},
    table::{Change, Table},
};
use kernel::{
    id::{CustomerGroupId, CustomerId},
    money::Amount,
    text::fold,
};
use rust_decimal::Decimal;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::str::FromStr;
use uuid::Uuid;

natural_key!(CustomerNames "customer_name": "name_folded" of "customer", to "customer_id" CustomerId);
natural_key!(CustomerTaxIds "customer_tax_id": "tax_id_folded" of "customer", to "customer_id" CustomerId);
natural_key!(CustomerGroupNames "customer_group_name": "name_folded" of "customer_group", to "customer_group_id" CustomerGroupId);

const CHECKED: &str = "what is stored was checked";

fn text<T: FromStr>(row: &Row, column: &str) -> T {
    text_if_any(row, column).expect(CHECKED)
}

fn text_if_any<T: FromStr>(row: &Row, column: &str) -> Option<T> {
    row.get::<_, Option<&str>>(column).map(|text| text.parse().ok().expect(CHECKED))
}

fn list<T: DeserializeOwned>(row: &Row, column: &str) -> Vec<T> {
    serde_json::from_value(row.get::<_, Value>(column)).expect(CHECKED)
}

fn column<T, R>(changes: &[&Change<'_, R>], f: impl Fn(&R::Row) -> T) -> Vec<T>
where
    R: Table,
{
    changes.iter().map(|change| f(change.after)).collect()
}

pub struct CustomerGroups;

const CUSTOMER_GROUP_LOAD: Sql = Sql::new(
    "customer_group_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.customer_group_id, t.version, t.name, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS customer_group_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM customer_group AS r
        WHERE r.tenant_id = $1
            AND r.customer_group_id = k.customer_group_id
        OFFSET 0) AS t",
);

const CUSTOMER_GROUP_INSERT: Sql = Sql::new(
    "customer_group_insert",
    &[Type::UUID_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TIMESTAMPTZ_ARRAY],
    "
    INSERT INTO customer_group (tenant_id, customer_group_id, version, name, name_folded, created_at)
    SELECT $1, k.customer_group_id, k.version, k.name, k.name_folded, k.created_at
    FROM (
        SELECT unnest($2::uuid[]) AS customer_group_id, unnest($3::int8[]) AS version, unnest($4::text[]) AS name,
            unnest($5::text[]) AS name_folded, unnest($6::timestamptz[]) AS created_at) AS k
    ORDER BY k.name_folded",
);

const CUSTOMER_GROUP_UPDATE: Sql = Sql::new(
    "customer_group_update",
    &[Type::UUID_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
    "
    WITH stored AS (
        UPDATE customer_group AS t
        SET version = k.version,
            name = k.name,
            name_folded = k.name_folded
        FROM (
            SELECT unnest($2::uuid[]) AS customer_group_id, unnest($3::int8[]) AS version, unnest($4::text[]) AS name,
                unnest($5::text[]) AS name_folded) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM customer_group AS r
            WHERE r.tenant_id = $1
                AND r.customer_group_id = k.customer_group_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

impl Table for CustomerGroups {
    type Key = CustomerGroupId;
    type Row = CustomerGroup;
    const NAME: &'static str = "customer_group";
    const LOAD: Sql = CUSTOMER_GROUP_LOAD;

    fn keys(keys: &[CustomerGroupId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (CustomerGroupId, CustomerGroup) {
        (row.get::<_, Uuid>("customer_group_id").into(), read_customer_group(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let params = |of: &[&Change<'_, Self>]| -> Vec<Param> {
            vec![
                param(of.iter().map(|change| change.key.uuid()).collect::<Vec<_>>()),
                param(column(of, |group| group.version)),
                param(column(of, |group| group.fields.name.to_string())),
                param(column(of, |group| fold(&group.fields.name))),
            ]
        };
        let mut writes = Vec::new();
        if !new.is_empty() {
            let mut params = params(&new);
            params.push(param(column(&new, |group| group.created_at)));
            writes.push(Write { sql: CUSTOMER_GROUP_INSERT, params });
        }
        if !changed.is_empty() {
            writes.push(Write { sql: CUSTOMER_GROUP_UPDATE, params: params(&changed) });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![CUSTOMER_GROUP_INSERT, CUSTOMER_GROUP_UPDATE]
    }
}

pub(super) fn read_customer_group(row: &Row) -> CustomerGroup {
    CustomerGroup {
        version: row.get("version"),
        fields: CustomerGroupFields { name: text(row, "name") },
        created_at: row.get("created_at"),
    }
}

pub struct Customers;

const CUSTOMER_LOAD: Sql = Sql::new(
    "customer_load",
    &[Type::UUID_ARRAY],
    "
    SELECT t.customer_id, t.version, t.name, t.tax_id, t.customer_group_id, t.currency, t.payment_terms_days,
        t.credit_limit, t.email, t.phone, t.blocked, t.addresses, t.sales_areas, t.created_at
    FROM (SELECT unnest($2::uuid[]) AS customer_id) AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM customer AS r
        WHERE r.tenant_id = $1
            AND r.customer_id = k.customer_id
        OFFSET 0) AS t",
);

const CUSTOMER_INSERT: Sql = Sql::new(
    "customer_insert",
    &[
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ],
    "
    INSERT INTO customer (tenant_id, customer_id, version, name, name_folded, tax_id, tax_id_folded, customer_group_id,
        currency, payment_terms_days, credit_limit, email, phone, blocked, addresses, sales_areas, created_at)
    SELECT $1, k.customer_id, k.version, k.name, k.name_folded, k.tax_id, k.tax_id_folded, k.customer_group_id,
        k.currency, k.payment_terms_days, k.credit_limit, k.email, k.phone, k.blocked, k.addresses, k.sales_areas,
        k.created_at
    FROM (
        SELECT unnest($2::uuid[]) AS customer_id, unnest($3::int8[]) AS version, unnest($4::text[]) AS name,
            unnest($5::text[]) AS name_folded, unnest($6::text[]) AS tax_id, unnest($7::text[]) AS tax_id_folded,
            unnest($8::uuid[]) AS customer_group_id, unnest($9::text[]) AS currency,
            unnest($10::int2[]) AS payment_terms_days, unnest($11::numeric[]) AS credit_limit,
            unnest($12::text[]) AS email, unnest($13::text[]) AS phone, unnest($14::bool[]) AS blocked,
            unnest($15::text[])::json AS addresses, unnest($16::text[])::json AS sales_areas,
            unnest($17::timestamptz[]) AS created_at) AS k
    ORDER BY k.name_folded",
);

const CUSTOMER_UPDATE: Sql = Sql::new(
    "customer_update",
    &[
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT2_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
    "
    WITH stored AS (
        UPDATE customer AS t
        SET version = k.version,
            name = k.name,
            name_folded = k.name_folded,
            tax_id = k.tax_id,
            tax_id_folded = k.tax_id_folded,
            customer_group_id = k.customer_group_id,
            currency = k.currency,
            payment_terms_days = k.payment_terms_days,
            credit_limit = k.credit_limit,
            email = k.email,
            phone = k.phone,
            blocked = k.blocked,
            addresses = k.addresses,
            sales_areas = k.sales_areas
        FROM (
            SELECT unnest($2::uuid[]) AS customer_id, unnest($3::int8[]) AS version, unnest($4::text[]) AS name,
                unnest($5::text[]) AS name_folded, unnest($6::text[]) AS tax_id, unnest($7::text[]) AS tax_id_folded,
                unnest($8::uuid[]) AS customer_group_id, unnest($9::text[]) AS currency,
                unnest($10::int2[]) AS payment_terms_days, unnest($11::numeric[]) AS credit_limit,
                unnest($12::text[]) AS email, unnest($13::text[]) AS phone, unnest($14::bool[]) AS blocked,
                unnest($15::text[])::json AS addresses, unnest($16::text[])::json AS sales_areas) AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid
            FROM customer AS r
            WHERE r.tenant_id = $1
                AND r.customer_id = k.customer_id
            OFFSET 0) AS found
        WHERE t.tenant_id = $1
            AND t.ctid = found.ctid
        RETURNING 1)
    SELECT rows_expected(count(*), cardinality($2))
    FROM stored",
);

fn json(list: &impl serde::Serialize) -> String {
    serde_json::to_string(list).expect("plain texts are JSON")
}

impl Table for Customers {
    type Key = CustomerId;
    type Row = Customer;
    const NAME: &'static str = "customer";
    const LOAD: Sql = CUSTOMER_LOAD;

    fn keys(keys: &[CustomerId]) -> Vec<Param> {
        vec![param(keys.iter().map(|id| id.uuid()).collect::<Vec<_>>())]
    }
    fn read(row: &Row) -> (CustomerId, Customer) {
        (row.get::<_, Uuid>("customer_id").into(), read_customer(row))
    }
    fn store(changes: &[Change<'_, Self>], _: &Numbers) -> Vec<Write> {
        let (new, changed): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.before.is_none());
        let params = |of: &[&Change<'_, Self>]| -> Vec<Param> {
            vec![
                param(of.iter().map(|change| change.key.uuid()).collect::<Vec<_>>()),
                param(column(of, |c| c.version)),
                param(column(of, |c| c.fields.name.to_string())),
                param(column(of, |c| fold(&c.fields.name))),
                param(column(of, |c| c.fields.tax_id.as_deref().map(str::to_owned))),
                param(column(of, |c| c.fields.tax_id.as_deref().map(fold_tax_id))),
                param(column(of, |c| c.fields.customer_group_id.map(|id| id.uuid()))),
                param(column(of, |c| c.fields.currency.code())),
                param(column(of, |c| c.fields.payment_terms_days.days())),
                param(column(of, |c| c.fields.credit_limit.map(Amount::decimal))),
                param(column(of, |c| c.fields.email.as_deref().map(str::to_owned))),
                param(column(of, |c| c.fields.phone.as_deref().map(str::to_owned))),
                param(column(of, |c| c.fields.blocked)),
                param(column(of, |c| json(&c.fields.addresses))),
                param(column(of, |c| json(&c.fields.sales_areas))),
            ]
        };
        let mut writes = Vec::new();
        if !new.is_empty() {
            let mut params = params(&new);
            params.push(param(column(&new, |c| c.created_at)));
            writes.push(Write { sql: CUSTOMER_INSERT, params });
        }
        if !changed.is_empty() {
            writes.push(Write { sql: CUSTOMER_UPDATE, params: params(&changed) });
        }
        writes
    }
    fn statements() -> Vec<Sql> {
        vec![CUSTOMER_INSERT, CUSTOMER_UPDATE]
    }
}

pub(super) fn read_customer(row: &Row) -> Customer {
    let limit: Option<Decimal> = row.get("credit_limit");
    let fields = CustomerFields {
        name: text(row, "name"),
        tax_id: text_if_any(row, "tax_id"),
        customer_group_id: row.get::<_, Option<Uuid>>("customer_group_id").map(Into::into),
        currency: text(row, "currency"),
        payment_terms_days: PaymentTerms::new(row.get("payment_terms_days")).expect(CHECKED),
        credit_limit: limit.map(|limit| Amount::new(limit).expect(CHECKED)),
        email: text_if_any(row, "email"),
        phone: text_if_any(row, "phone"),
        blocked: row.get("blocked"),
        addresses: list(row, "addresses"),
        sales_areas: list(row, "sales_areas"),
    };
    Customer { version: row.get("version"), fields, created_at: row.get("created_at") }
}

pub const CUSTOMER_LIST: Sql = Sql::new(
    "customer_list",
    &[Type::UUID, Type::TEXT, Type::TEXT, Type::INT8],
    "
    SELECT t.customer_id, t.version, t.name, t.tax_id, t.customer_group_id, t.currency, t.payment_terms_days,
        t.credit_limit, t.email, t.phone, t.blocked, t.addresses, t.sales_areas, t.created_at
    FROM customer AS t
    WHERE t.tenant_id = $1
        AND t.customer_id > $2
        AND ($3::text IS NULL OR t.name_folded = $3)
        AND ($4::text IS NULL OR t.tax_id_folded = $4)
    ORDER BY t.customer_id
    LIMIT $5",
);

pub const CUSTOMER_FIND: Sql = Sql::new(
    "customer_find",
    &[Type::UUID],
    "
    SELECT t.customer_id, t.version, t.name, t.tax_id, t.customer_group_id, t.currency, t.payment_terms_days,
        t.credit_limit, t.email, t.phone, t.blocked, t.addresses, t.sales_areas, t.created_at
    FROM customer AS t
    WHERE t.tenant_id = $1
        AND t.customer_id = $2",
);

pub const CUSTOMER_GROUP_LIST: Sql = Sql::new(
    "customer_group_list",
    &[Type::UUID, Type::TEXT, Type::INT8],
    "
    SELECT t.customer_group_id, t.version, t.name, t.created_at
    FROM customer_group AS t
    WHERE t.tenant_id = $1
        AND t.customer_group_id > $2
        AND ($3::text IS NULL OR t.name_folded = $3)
    ORDER BY t.customer_group_id
    LIMIT $4",
);

pub const CUSTOMER_GROUP_FIND: Sql = Sql::new(
    "customer_group_find",
    &[Type::UUID],
    "
    SELECT t.customer_group_id, t.version, t.name, t.created_at
    FROM customer_group AS t
    WHERE t.tenant_id = $1
        AND t.customer_group_id = $2",
);

/// The queries above, for the test that prepares every statement.
pub const QUERIES: &[Sql] = &[CUSTOMER_LIST, CUSTOMER_FIND, CUSTOMER_GROUP_LIST, CUSTOMER_GROUP_FIND];
