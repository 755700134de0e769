//! Natural keys in use: looked into to tell a taken one from a free one.
//!
//! Nothing is stored here: the record's own row carries the key, under its unique constraint, which
//! is the arbiter. The slot only lets later commands of a batch see what an earlier one took.

/// A table of the working set that goes from a folded natural key to the id of its record.
#[macro_export]
macro_rules! natural_key {
    ($(#[$doc:meta])* $Keys:ident $name:literal: $column:literal of $table:literal, to $id:literal $Id:ty) => {
        $(#[$doc])*
        pub struct $Keys;

        impl engine::table::Table for $Keys {
            type Key = String;
            type Row = $Id;
            const NAME: &'static str = $name;
            const LOCKED: bool = false;
            const LOAD: engine::sql::Sql = engine::sql::Sql::new(
                concat!($name, "_load"),
                &[engine::sql::Type::TEXT_ARRAY],
                concat!(
                    "
    SELECT t.", $column, ", t.", $id, "
    FROM (SELECT unnest($2::text[]) AS ", $column, ") AS k
    CROSS JOIN LATERAL (
        SELECT *
        FROM ", $table, " AS r
        WHERE r.tenant_id = $1
            AND r.", $column, " = k.", $column, "
        OFFSET 0) AS t"
                ),
            );

            fn keys(keys: &[String]) -> Vec<engine::sql::Param> {
                vec![engine::sql::param(keys.to_vec())]
            }
            fn read(row: &engine::sql::Row) -> (String, $Id) {
                (row.get($column), row.get::<_, uuid::Uuid>($id).into())
            }
            fn store(_: &[engine::table::Change<'_, Self>], _: &engine::number::Numbers) -> Vec<engine::sql::Write> {
                Vec::new()
            }
            fn statements() -> Vec<engine::sql::Sql> {
                Vec::new()
            }
        }
    };
}
