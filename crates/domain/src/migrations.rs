//! The schema, one idea a file. Applied in this order by `engine::postgres::migrate`.

use engine::postgres::Migration;

macro_rules! migrations {
    ($($version:literal $name:literal $file:literal;)*) => {
        pub const MIGRATIONS: &[Migration] = &[$((
            concat!("V", $version, "__", $name),
            include_str!(concat!("../../../migrations/", $file)),
        ),)*];
        /// The version this program needs.
        pub const SCHEMA_VERSION: i32 = {
            let versions = [$($version,)*];
            versions[versions.len() - 1]
        };
    };
}

migrations! {
    1 "tenancy" "0001_tenancy.sql";
    2 "engine" "0002_engine.sql";
    3 "catalog" "0003_catalog.sql";
    4 "inventory" "0004_inventory.sql";
    5 "parties" "0005_parties.sql";
}
